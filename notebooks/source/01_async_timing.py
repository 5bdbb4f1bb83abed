# ---
# jupyter:
#   readme: {short: 'async timing', asks: 'why does the GPU''s time look constant?', before: '00'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 01 · Why does the GPU's time look constant?
#
# Somebody timed matrix products on a GPU, from tiny to huge, with the clock of Python. The curve was almost flat: as if
# a thousand times the work took no longer. **What did that clock measure?**

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, drawing, explore, factory, guess, reachable

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
# Without a GPU, your CPU plays its part: a worker thread with a [[stream|queue]], with `submit(product, a, b)` in
# place of `a @ b`. Then run: one curve with the clock stopped as above, one with the clock stopped after `synchronize()`, which
# waits until the queue is empty. If the badge says LIVE, press *Measure all points*.

# %% tags=["guess"]
g = guess("For 2048 × 2048 matrices, this clock says ...", unit="s")

# %% tags=["run"]
explore("matmul", at={"size": 2048}, lines=["unsynchronized", "synchronized"], unlock=g)

# %% tags=["compare"]
compare(g, "matmul", ["unsynchronized", "synchronized"], size=2048)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Why does the first curve hardly rise? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# The call is [[asynchronous]]. `a @ b` does not multiply: it puts a [[kernel launch]] into the GPU's queue, its [[stream]], and
# returns. The first clock stops then, and issuing a large product takes no longer than issuing a small one.
#
# </details>
#
# The work has not gone away. Whoever needs the result next (`print(c)`, `c.cpu()`) waits for it ([[synchronisation]]), and is
# blamed for it. To time the work, wait twice: **before** the clock starts, so that nothing else is in the queue, and
# **before it stops**.
#
# Here is one call's life, to scale. `host_s` is what issuing it costs. `kernel_s` is the GPU's work. In a loop, a call comes out
# every `period_s`: the longer of the two sets the pace, the [[throughput]]. Who waits for a single result waits for `latency_s`, its
# [[latency]]: issue, start, work, and the report of its end. Move the slider: what changes when the work is large?

# %% tags=["explain"]
drawing("call-life", function="relu-64x1024")

# %% [markdown] tags=["guess"]
# ## Guess: which timer is closest?
#
# Timers that people use, on one small operation. The truth is `kernel_s`.
#
# - **no sync**: stops the clock when the call returns
# - **no [[warm-up]]**: times the very first call, and waits for its end
# - **sync each call**: warms up, waits after each call, takes the median
# - **[[event]] pair each call**: the same, but the GPU notes the time at a mark in front of the call and one behind it
# - **transfers included**: as *sync each call*, but copies the input to the GPU and the result back
#
# (The CPU queue has neither transfers nor these pairs; there, the other three count.)

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
# - *no sync*: of `host_s`;
# - *no warm-up*: of a first call, which loads kernels, makes libraries' handles and allocates. In the recording the ReLU was the very
#   first function of its process, and paid for most of that; the copies came later;
# - *sync each call*: of `latency_s`;
# - *event pair each call*: of the time from one event to the other. The GPU reaches the first event at once, then **waits for the
#   host to issue the call**; the pair holds that wait, the kernel's start, and the kernel;
# - *transfers included*: of a caller whose data are still in the CPU's memory.
#
# On small work *sync each call* and *event pair* nearly coincide, and both are far off. On large work, which come close?
#
# The remedy: many calls between *two* events, divided by their number. The wait and the pair are shared by all of them. It is right
# wherever the GPU, and not the host, sets the pace. `measure` also holds the queue until all is issued, and reads each kernel's own
# time from the profiler: see the course's docs/timer.md.

# %% [markdown] tags=["explore"]
# ## Explore: the whole story
#
# Now with the CPU beside it. From which size on is the GPU ahead, with the data copied there and back, and without? And look for the
# first call.

# %% tags=["explore"]
explore("matmul", at={"size": 1024}, lines=["cpu", "transfers", "synchronized", "first call"])

# %% [markdown] tags=["your-turn"]
# ## Your turn: read two events
#
# Around 100 calls of a kernel, behind a warm-up, two events are 460 µs apart. Around a single call they are 10.6 µs apart.
# *Calculate* what a call takes, and what the pair around the single call holds besides.

# %% tags=["your-turn", "exercise:01-events", "calculates"]
check("01-events", call_us=..., pair_us=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: build the timer
#
# `call()` puts work into a queue; its first call also sets things up. `event()` puts an event into the queue and returns it;
# `start.elapsed(end)` gives the seconds between two events, once the queue has reached them; `synchronize()` waits for that.
# Return the seconds of a call. It runs on the GPU if you have one, else on the CPU queue, live. Then write `timer=timer`.


# %% tags=["your-turn", "exercise:01-timer", "makes"]
def timer(call, synchronize, event):
    start = event()
    call()
    end = event()
    synchronize()
    return start.elapsed(end)


check("01-timer", timer=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# The story is from *GPU Performance: Parallel Processing vs Overhead* (2024), measured on an A100. Each sentence is judged
# on your source. Live, measure the points first.

# %% tags=["claims"]
claims("01")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - A call returns when its work is queued, so a clock without `synchronize()` times the host.
# - Warm up, then let many calls share two events.
# - Say which time you mean: issuing, working, one call of a loop, or waiting for one result.
#
# Terms: [[asynchronous]], [[kernel launch]], [[stream]], [[synchronisation]], [[event]], [[warm-up]].

# %% [markdown] tags=["work"]
# ## At work
#
# ```python
# import torch
# x = torch.randn(4096, 4096, device="cuda")
# start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
# x @ x, start.record()
# for _ in range(100):
#     x @ x
# end.record(), torch.cuda.synchronize()
# print(start.elapsed_time(end) / 100, "ms")
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [02 · What does a copy to the GPU cost?](02_transfers.ipynb) looks at the data's way to the GPU.
#
# Back: [00 · Start here](00_start_here.ipynb)
