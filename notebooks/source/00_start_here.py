# ---
# jupyter:
#   readme: {short: 'start here', asks: 'how do these notebooks work?', before: '–'}
#   brrr:
#     needs: []
# ---

# %% [markdown] tags=["question"]
# # 00 · Start here
#
# **A GPU is built to do a lot of arithmetic at once. Is it faster than a CPU at everything?**
#
# Ten minutes. Click into a cell and press Shift+Enter to run it, one after the other. You cannot break anything: this
# is your own copy.

# %% tags=["setup"]
from brrr import doctor
from brrr_course import check, claims, compare, explore, factory, guess

# %% tags=["question"]
factory()

# %% [markdown] tags=["question"]
# Your program runs on the [[host]], the computer with the CPU. The GPU is the [[device]]. For each operation the host issues a
# [[kernel]], a function that runs on the GPU: this [[kernel launch|launch]] only puts it at the end of a [[stream]], a queue. The GPU
# takes one kernel after the other from there, reads numbers from its memory, computes, and writes the results back. In grey,
# the picture compares the parts with an office, a factory and a warehouse; the course uses the real names.
#
# So four things can set the pace. Which one does is called the [[regime]], and most lessons ask for it:
#
# - **host overhead**: the host takes longer to issue a kernel than the GPU to run it;
# - **memory bandwidth**: the bytes take longer than the arithmetic;
# - **compute**: the arithmetic takes longer than the bytes;
# - **latency**: each step waits for the one before, and too little else is under way to fill the wait.

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
# | LIVE, CPU QUEUE | measured on this computer, on a CPU queue: a second thread that plays the GPU |
# | PREDICTED | calculated, not measured; drawn dashed |
#
# Point at a word with dots below it, as [[median]], and what it means appears. All of them stand in
# the course's docs/glossary.md.

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

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** At size 1 there is a single multiplication. What takes the GPU's time? Double-click here and write one
# sentence; Shift+Enter shows it.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# What you see is overhead: find the kernel, launch it, wait until the GPU reports back. The CPU has nothing to launch; it calls a
# function. (The CPU queue has the overhead of a GPU, but not its arithmetic.)
#
# </details>

# %% [markdown] tags=["explore"]
# Now move the slider of the figure above to the right, with the mouse or the arrow keys, and read the line of text
# above the figure. Where do the lines cross, if they do? At the left end the GPU's time is
# overhead, at the right end compute.

# %% [markdown] tags=["your-turn"]
# ## Your turn: a hundred kernels
#
# The host needs 10 µs to launch a kernel. The GPU needs 2 µs to run it, and runs it while the host launches the next.
# *Calculate*: from the start of the first launch to the end of the last of **100 kernels**, how many microseconds?
#
# Replace the `...` by your number and run the cell. It marks itself; try as often as you like.

# %% tags=["your-turn", "exercise:00-launches", "calculates"]
check("00-launches", microseconds=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: kernels of any length
#
# `finished` gets two lists: how long the host takes for each launch, and how long each kernel runs. It should return when the
# last kernel is done. It lets kernels run before they are launched. Mend it, then write `finished=finished`.


# %% tags=["your-turn", "exercise:00-queue", "makes"]
def finished(launches_us, kernels_us):
    launched = done = 0
    for number, launch in enumerate(launches_us):
        launched = launched + launch
        done = done + kernels_us[number]
    return done


check("00-queue", finished=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# Each lesson shows here what was claimed, whether the measurements agree, and what follows for you. A claim *holds*,
# it *fails*, or it is *undecided* where the measurements are not sharp enough. *After the data* marks a sentence that was
# written when its measurements were there. Here are three from lessons ahead, on the course's recording.

# %% tags=["claims"]
claims("00", source="recorded:h200")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - A call on the GPU is a kernel in a queue: the host issues it and goes on.
# - The slower of the two sets the pace, the host that launches or the GPU that runs.
# - On the GPU it is the bytes, the arithmetic, or the wait for the step before.
#
# Terms: [[host]], [[device]], [[kernel]], [[kernel launch]], [[stream]], [[regime]].

# %% [markdown] tags=["work"]
# ## At work
#
# Which GPU is there, and does PyTorch use it? `nvidia-smi` shows it in a terminal, and this in Python:
#
# ```python
# import torch
# device = "cuda" if torch.cuda.is_available() else "cpu"
# if device == "cuda":
#     print(torch.cuda.get_device_name(), torch.version.cuda)
# x = torch.randn(1024, 1024, device=device)
# print((x @ x).device, torch.__version__)
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [01 · Why does the GPU's time look constant?](01_async_timing.ipynb) measures that same product, and falls into a trap. The table
# *The lessons* in the README is the course's map: each lesson's question, its minutes, and what to read before.
