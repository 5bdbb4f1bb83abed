# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown] tags=["question"]
# # 00 · Start here
#
# **A GPU is built to do a lot of arithmetic at once. Is it faster than a CPU at everything?**
#
# Five minutes. Click into a cell and press Shift+Enter to run it, one after the other. You cannot break anything: this
# is your own copy.

# %% tags=["setup"]
from brrr import check, claims, compare, doctor, explore, factory, guess

# %% tags=["question"]
factory()

# %% [markdown] tags=["question"]
# The picture of this course. The GPU is a **factory** (compute). Its goods lie in a **warehouse** (memory). Your program
# is the office: for each operation it writes an **order on paper** (overhead) and puts it into a tray, the **queue**.
# The factory takes the orders from there, one after the other, while the office writes on.
#
# So three things can hold you up: the factory, the way to the warehouse, or the paper. Most lessons ask: which is it?

# %% [markdown] tags=["setup"]
# ## What is here
#
# The doctor says what this computer has, and which lessons therefore measure live. Nothing below needs a GPU.

# %% tags=["setup"]
doctor()

# %% [markdown] tags=["setup"]
# Every figure and every table carries a **badge**:
#
# | badge | where the numbers come from |
# | --- | --- |
# | RECORDED | measured before, on the machine it names; nothing between two points is invented |
# | LIVE | measured on this computer, now |
# | LIVE, CPU QUEUE | measured on this computer, on a toy accelerator: a second thread that plays the GPU |
# | PREDICTED | calculated, not measured; drawn dashed |

# %% [markdown] tags=["guess"]
# ## Guess first
#
# Every experiment here starts covered. Commit yourself before you look: a wrong guess teaches more than a right one.

# %% tags=["guess"]
g = guess("To multiply two very small matrices, who takes less time?", options=["the CPU", "the GPU"])

# %% [markdown] tags=["run"]
# Your guess uncovers the experiment. If the badge says LIVE, press *Measure all points* first.

# %% tags=["run"]
explore("matmul", at={"size": 1}, lines=["cpu", "synchronized"], unlock=g)

# %% tags=["compare"]
compare(g, "matmul", {"the CPU": "cpu", "the GPU": "synchronized"}, size=1)

# %% [markdown] tags=["explain"]
# At this size there is hardly any arithmetic to do. What you see is paper: write the order, hand it over, wait until the
# factory reports back. The CPU does its own work and has no order to write. (The toy accelerator is a CPU that works from
# a queue: it has the paper of a GPU, but not its factory.)

# %% [markdown] tags=["explore"]
# Now move the slider of the figure above to the right, with the mouse or the arrow keys, and read the line of text
# above the figure. Where do the lines cross, if they do? Lesson 01 asks you for the size.

# %% [markdown] tags=["your-turn"]
# ## Your turn
#
# The office needs 10 µs to write an order. The factory needs 2 µs to work one off, and does so while the office writes
# the next. From the first stroke of the pen to the end of the last of **100 orders**: how many microseconds?
#
# Replace the `...` by your number and run the cell. It marks itself; try as often as you like.

# %% tags=["your-turn", "exercise:00-orders"]
check("00-orders", microseconds=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# Each lesson ends like this: what was claimed, whether the measurements agree, and what follows for you. A claim *holds*,
# it *fails*, or it is *undecided* where the measurements are not sharp enough. *After the data* marks a sentence that was
# written when its measurements were there. Here are three from lessons ahead, on the course's recording.

# %% tags=["claims"]
claims("00", source="recorded:h200")

# %% [markdown] tags=["claims"]
# ## Words
#
# [[words: host, device, kernel, kernel launch, stream, asynchronous, synchronisation, latency, bandwidth, FLOP,
# arithmetic intensity, roofline, ridge point, regime, host-bound, warm-up, hot cache, cold cache, median, interval]]

# %% [markdown] tags=["claims"]
# Next: [01 · Why does the GPU's time look constant?](01_async_timing.ipynb)
