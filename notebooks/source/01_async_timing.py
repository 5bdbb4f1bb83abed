# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 01 · Why does the GPU's time look constant?
#
# Somebody timed matrix products on a GPU, from tiny to huge, with the clock of Python. The curve was almost flat: as if
# a thousand times the work took no longer. **What did that clock measure?**

# %% tags=["setup"]
from statistics import median

from brrr import check, claims, compare, explore, factory, guess, reachable

# %% tags=["question"]
factory()

# %% [markdown] tags=["guess"]
# ## Guess: what does the clock say?
#
# ```python
# start = time.perf_counter()
# c = a @ b                     # 2048 × 2048, already in the GPU's memory
# seconds = time.perf_counter() - start
# ```
#
# Without a GPU, the toy accelerator plays its part: a queue with a worker thread on your CPU, with
# `submit(product, a, b)` in place of `a @ b`.

# %% tags=["guess"]
g = guess("For 2048 × 2048 matrices, this clock says ...", unit="s")

# %% [markdown] tags=["run"]
# ## Run
#
# Two curves: the clock stopped as above, and the clock stopped after `synchronize()`, which waits until the queue is
# empty. If the badge says LIVE, press *Measure all points*.

# %% tags=["run"]
explore("matmul", at={"size": 2048}, lines=["unsynchronized", "synchronized"], unlock=g)

# %% tags=["compare"]
compare(g, "matmul", ["unsynchronized", "synchronized"], size=2048)

# %% [markdown] tags=["explain"]
# `a @ b` does not multiply. It writes an **order**, puts it into the queue, and returns; the factory multiplies later.
# The first clock stops when the order is written, and the order for a large product is no longer than the one for a
# small product. So the curve is flat: it is the curve of the paper.
#
# The work has not gone away. Whoever needs the result next (`print(c)`, `c.cpu()`) waits for it, and is blamed for it.
#
# To time the work, the office must wait twice: **before** the clock starts, so that nobody else's orders are in the
# queue, and **before it stops**, so that its own are done.

# %% [markdown] tags=["guess"]
# ## Break the timer
#
# Waiting is not all. Here are timers that people use. One small operation, timed by each of them:
#
# - **no sync**: stops the clock when the call returns
# - **no warm-up**: times the very first call, and waits for its end
# - **sync each call**: warms up, waits after each call, takes the median
# - **event pair each call**: the same, but the GPU notes the time in front of the operation and behind it
# - **transfers included**: as *sync each call*, but sends the input to the GPU and fetches the result
#
# The truth is how long the device works on it. (The toy accelerator has no events and no transfers; there, the other
# three count.)

# %% tags=["guess"]
timers = ["no sync", "no warm-up", "sync each call", "event pair each call", "transfers included"]
r = guess("Put the timers in order, the one closest to the truth first.", ranking=timers)

# %% tags=["run"]
operators = ["relu-64x1024", "copy-1KB", "copy-1MB", "copy-32MB", "softmax-4096x4096"]
products = ["gemm-128", "gemm-512", "gemm-1024", "gemm-4096"]
on_the_queue = ["product-128", "product-512", "product-1000"]
chosen = {"function": operators + products + on_the_queue}
small = reachable("timers", function=["relu-64x1024", "product-128"], cache="hot")
explore("timers", at=small, lines=["measure", *timers], sliders=["function"], values=chosen, unlock=r)

# %% tags=["compare"]
compare(r, "timers", timers, truth="measure", **small)

# %% [markdown] tags=["explain"]
# Each timer is true of something else:
#
# - *no sync* is true of the **paper**: what issuing the order costs;
# - *no warm-up* is true of the **first day** of the factory: loading, compiling, allocating;
# - *sync each call* is true of the **caller who waits** for one result: paper, way, work and report;
# - *event pair each call* is true of the **factory gate**: from one note at the gate to the next, with the time in
#   between while the order was still on its way;
# - *transfers included* is true of a caller whose goods lie in **another warehouse**.
#
# Is any of them true of the factory alone? Read the last column for this small operation; then move the slider to
# larger work. Which timers come close there, and which never do?

# %% [markdown] tags=["explore"]
# ## Explore: the whole story
#
# Now with the CPU beside it. Look for three things: the size from which on the GPU is ahead, the first call, and the
# share of the total that goes into sending the data there and back.

# %% tags=["explore"]
explore("matmul", at={"size": 1024}, lines=["cpu", "transfers", "synchronized", "first call"])

# %% [markdown] tags=["your-turn"]
# ## Your turn: mend the timer
#
# `call()` puts work into a queue, `synchronize()` waits until the queue is empty, `clock()` tells the time in seconds.
# Mend the timer so that it is true of the work: it should wait, warm up, repeat, and return the median. It runs on the
# GPU if you have one, else on the CPU queue, live. Then write `timer=timer`.


# %% tags=["your-turn", "exercise:01-timer"]
def timer(call, synchronize, clock):
    start = clock()
    call()
    return clock() - start


check("01-timer", timer=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: where do the lines cross?
#
# From which matrix size on is the GPU faster than the CPU, and stays faster? Once with the data sent there and back,
# once with the data already there. Use the figure above, and its data table. (If it shows no GPU, choose the recording
# as its source.)

# %% tags=["your-turn", "exercise:01-crossover"]
check("01-crossover", with_transfers=..., without_transfers=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# The story is from *GPU Performance: Parallel Processing vs Overhead* (2024), measured on an A100. Each sentence is judged
# on your source. Live, measure the points first.

# %% tags=["claims"]
claims("01")
