# ---
# jupyter:
#   readme: {short: 'transfers', asks: 'what does a copy to the GPU cost?', before: '01'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 02 · What does a copy to the GPU cost?
#
# Somebody timed a simple function on a CPU and on a GPU, and found the CPU faster. A GPU has its own memory: data must be copied
# there, and the result back. **Is the GPU slow here, or the copies?**
#
# You will be able to:
#
# - estimate how long a copy takes
# - calculate when a GPU pays despite its copies
# - rewrite a program to make fewer copies
#
# Know before: [01](01_async_timing.ipynb)'s *launch* and *synchronisation*.

# %% tags=["setup", "question"]
import numpy as np

from brrr_course import check, claims, compare, explore, factory, guess, timeline

factory(detail="link")

# %% [markdown] tags=["guess"]
# ## Guess: how long does a copy to the GPU take?
#
# A link joins the CPU's memory and the GPU's; in most machines it is [[PCIe]]. Your array is in the CPU's ordinary memory.

# %% tags=["guess"]
g = guess("To copy 67 MB (2²⁶ bytes) to the GPU takes ...", unit="s")

# %% [markdown] tags=["run"]
# The figure shows the [[bandwidth]]: bytes per second when one copy follows the other. *Link limit* is what the
# link's datasheet promises.

# %% tags=["run"]
there = ["up pageable", "up pinned", "down pageable", "down pinned", "both pinned", "device"]
explore(
    "transfers", at={"nbytes": 2**26}, lines=there, show="rate", unlock=g, title="How many bytes arrive per second?"
)

# %% tags=["compare"]
compare(g, "transfers", ["up pageable", "up pinned", "device"], nbytes=2**26)

# %% [markdown] tags=["explain"]
# <details><summary>What measured it</summary>
#
# ```python
# import torch.utils.benchmark
# source, target = torch.ones(2**26, dtype=torch.uint8), torch.ones(2**26, dtype=torch.uint8, device="cuda")
# for x in (source, source.pin_memory()):
#     copy = torch.utils.benchmark.Timer("target.copy_(x, non_blocking=True)", globals=globals())
#     print(copy.blocked_autorange())
# ```
#
# </details>
#
# Three things decide how many bytes arrive per second:
#
# - **How much goes at once.** A copy costs a fixed time before its first byte moves. A small copy consists of little else.
# - **Which memory the data are in.** The GPU's copy engine reads only memory that the operating system may not move:
#   [[pinned memory]]. Ordinary memory is [[pageable memory|pageable]]. The driver first copies it, piece by piece, into a pinned buffer
#   of its own, and the caller waits.
# - **Which way it goes.** A copy within the GPU's own memory has far more bandwidth than one over the link.
#
# **Does pinning pay?** The table shows what it saves: here three quarters of a copy's time. But pinning itself costs time, and pays
# <!-- so transfers: at(nbytes=67108864); 1 - period('h2d-pinned') / period('h2d-pageable') is 0.74 to 0.78 -->
# back after (time to pin) / (time saved per copy) copies. So pin a buffer once and use it often; `x.pin_memory().to("cuda")` pins anew.
#
# **What does `non_blocking=True` do?** It frees only the host, and only if the host's memory is pinned. Kernels behind the copy
# in the same [[stream]] still wait for it. To copy while the GPU computes takes a second stream (lesson 02b).
# <!-- by what copy_(non_blocking=True) does -->

# %% [markdown] tags=["guess"]
# ## Guess: who has the result first?
#
# ```python
# y = x.to("cuda")                 # 2²⁴ random numbers
# y = sin(sin(sin(sin(y))))        # work that the GPU is very good at
# y = y.cpu()
# ```
#
# For comparison, the CPU runs only the second line. *Into an existing array*: the result goes into an array that was written before.
# *Pinned*: both arrays are pinned, and used again.

# %% tags=["guess"]
lines = {
    "the CPU": "cpu",
    "the GPU, into a new array": "with transfers",
    "the GPU, into an existing array": "kept",
    "the GPU, pinned": "pinned",
}
w = guess("Which has the result first?", options=list(lines))

# %% tags=["run"]
sines = ["cpu", "with transfers", "kept", "pinned", "without transfers"]
first = {"with transfers": "cpu", "cpu": "pinned"}
explore(
    "nested_sine",
    at={"elements": 2**24},
    lines=sines,
    versus=first,
    unlock=w,
    title="Does it pay to send the data to the GPU?",
)

# %% tags=["compare"]
compare(w, "nested_sine", lines, elements=2**24)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** `y.cpu()` makes a new array each time. Why can that cost more time than its bytes need on the link?
# Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# At first the operating system only promises the memory of a new array. It maps each page, and fills it with zeros, when the page is
# first written: a *page fault* per page, for which the copy waits. An existing array has its pages already.
#
# So the lines are steps: *an existing array* saves the page faults, *pinned* also the driver's extra copy, *without transfers* also
# the link.
#
# </details>
#
# A **timeline** shows what ran when: first with a new array, then with an existing one. (Its run is another than the
# figure's, and a copy's bar includes its waits.) Between the two copies are the four sines. What would you make faster first?
#
# <details><summary>Answer</summary>
#
# The copy back into a new array: it is by far the longest bar. Using an existing array shortens it.
#
# </details>

# %% tags=["explain"]
timeline("nested_sine", variants=["gpu-transfers", "gpu-transfers-kept"], at={"elements": 2**24}, unlock=w)

# %% [markdown] tags=["explore"]
# ## Explore: the smallest copy
#
# How long does a *single* copy take, from the call until the bytes are there: its [[latency]]? Compare with the smallest, the ring.
# Up to which size do more bytes cost almost nothing?
#
# <details><summary>Answer, for the recording</summary>
#
# Up to 2¹⁷ bytes a pinned copy takes at most a third longer than the smallest one: that is mostly fixed cost.
# <!-- so transfers: [max(latency(way, nbytes=most(131072))) / latency(way, nbytes=1024) for way in ('h2d-pinned',
# 'd2h-pinned')] < 4 / 3 -->
#
# </details>

# %% tags=["explore"]
once = ["up pinned once", "up pageable once", "down pinned once"]
explore(
    "transfers", at={"nbytes": 2**16}, lines=once, versus={"nbytes": 2**10}, title="How long does a small copy take?"
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: from how many sines on?
#
# A function computes not four sines of each number, but *k*, one after the other. *Calculate* from which *k* on the GPU is
# faster than the CPU, although the data are copied there and back (into a new array).
#
# *Details* below the figure with the sines has the three times that you need, at 2²⁴ elements: *CPU*, *GPU with transfers*,
# *GPU without transfers*. They are for four sines. The transfers cost the same for every *k*.

# %% tags=["your-turn", "exercise:02-sines", "calculates"]
check("02-sines", sines=...)

# %% [markdown] tags=["your-turn"]
# ## More: fewer transfers
#
# `process` gets a list of small arrays. It takes the sine of each four times, and returns a list of the results. `gpu.send(array)`
# copies an array to the GPU's memory, `gpu.sin(numbers)` computes with what is there, `gpu.fetch(numbers)` copies it back. The results
# are right, but every step goes over the link. Use as few transfers as possible, then write `process=process`.


# %% tags=["your-turn", "exercise:02-trips", "makes"]
def process(parts, gpu):
    results = []
    for part in parts:
        for _ in range(4):
            part = gpu.fetch(gpu.sin(gpu.send(part)))
        results.append(part)
    return results


check("02-trips", process=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# The story is from *GPU Performance: Parallel Processing vs Overhead* (2024), measured on an A100.

# %% tags=["claims"]
claims("02")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Copy at least 0.5 MB of pinned memory at once: on an H200, the fixed cost is over half of any smaller copy.
# <!-- so transfers: [max(latency(way, nbytes=most(262144))) / latency(way, nbytes=1024) for way in ('h2d-pinned',
# 'd2h-pinned')] < 2; [latency(way, nbytes=524288) / latency(way, nbytes=1024) for way in ('h2d-pinned', 'd2h-pinned')]
# is 2 to 2.1 -->
#
# - A copy costs a fixed time plus its bytes over the link's bandwidth.
# - Pinned buffers that you keep save the driver's extra copy and the page faults of new memory.
# - Data that stay on the GPU between two operations need no copy.
#
# Terms: [[PCIe]], [[bandwidth]], [[pinned memory]], [[pageable memory]], [[latency]].

# %% [markdown] tags=["work"]
# ## At work
#
# Pin once, copy without waiting, wait once.
#
# ```python
# import torch
# gpu = torch.cuda.is_available()  # without one nothing is pinned, and x is there already
# x, y = torch.randn(2**24, pin_memory=gpu), torch.empty(2**24, pin_memory=gpu)
# there = x.to("cuda" if gpu else "cpu", non_blocking=True)  # returns at once, because x is pinned
# y.copy_(there.sin(), non_blocking=True)
# if gpu:
#     torch.cuda.synchronize()  # before y is read
# print(y[:3])
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [03 · When does the GPU wait for the host?](03_overhead.ipynb) has its data on the GPU, and is still slow. Side road:
# [02b · Why do three streams not help?](02b_overlap.ipynb) copies and computes at the same time.
#
# Back: [01 · Why does the GPU's time look constant?](01_async_timing.ipynb)
