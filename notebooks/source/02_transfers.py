# ---
# jupyter:
#   readme: {short: 'transfers', asks: 'what does a copy to the GPU cost?', before: '01'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 02 · What does a copy to the GPU cost?
#
# Somebody timed a simple function on a CPU and on a GPU, with all that a user waits for, and found the CPU faster. A GPU has its
# own memory: data must be copied there, and the result back. **Is the GPU slow here, or the copies?**

# %% tags=["setup", "question"]
import numpy as np

from brrr_course import check, claims, compare, explore, factory, guess, timeline

factory(detail="link")

# %% [markdown] tags=["guess"]
# ## Guess: how long does a copy to the GPU take?
#
# Between the CPU's memory and the GPU's lies a link, in most machines [[PCIe]]. Your array is in ordinary memory.
#
# Without a GPU, the CPU queue plays its part: it copies from your memory to your memory, on a worker thread.

# %% tags=["guess"]
g = guess("To copy 67 MB (2^26 bytes) to the GPU takes ...", unit="s")

# %% [markdown] tags=["run"]
# The figure shows the [[bandwidth]]: bytes a second when copies follow each other. Dashed is the link's datasheet. If the
# badge says LIVE, press *Measure all points*.

# %% tags=["run"]
there = ["up pageable", "up pinned", "down pageable", "down pinned", "both pinned", "device"]
explore("transfers", at={"nbytes": 2**26}, lines=there, show="rate", unlock=g)

# %% tags=["compare"]
compare(g, "transfers", ["up pageable", "up pinned", "device"], nbytes=2**26)

# %% [markdown] tags=["explain"]
# Three things decide how many bytes arrive in a second:
#
# - **How much goes at once.** A copy costs a fixed time before its first byte moves. Small copies pay for that and for little
#   else.
# - **Which memory it comes from.** The GPU's copy engine reads only memory that the operating system may not move:
#   [[pinned memory]]. Ordinary memory is [[pageable memory|pageable]]: the driver first copies it, piece by piece, into a
#   pinned buffer of its own, and the caller waits. Pinning is slow: pin once and use the buffer again and again.
# - **Which way.** Compare with the GPU's own memory (*device*): the link is far narrower.

# %% [markdown] tags=["guess"]
# ## Guess: who has the result first?
#
# ```python
# y = x.to("cuda")                 # 2^24 random numbers
# y = sin(sin(sin(sin(y))))        # work that the GPU is very good at
# y = y.cpu()
# ```
#
# Against it, the CPU runs the second line alone. *Into memory that is kept*: the result is copied into an array that was
# written to before, instead of a new one. *Pinned*: both arrays are pinned, and kept.

# %% tags=["guess"]
options = ["the CPU", "the GPU, into a new array", "the GPU, into memory that is kept", "the GPU, pinned"]
w = guess("Which has the result first?", options=options)

# %% tags=["run"]
sines = ["cpu", "with transfers", "kept", "pinned", "without transfers"]
explore("nested_sine", at={"elements": 2**24}, lines=sines, unlock=w)

# %% tags=["compare"]
named = dict(zip(options, sines[:4], strict=True))
compare(w, "nested_sine", named, elements=2**24)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** `y.cpu()` makes a new array each time. Why can that take longer than all its bytes need on the link?
# Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# An operating system hands out a new array as a promise. Its pages are mapped, and filled with zeros, when they are first
# written: a *page fault* for each, while the copy waits. A kept array has its pages.
#
# So read the lines as steps. From *new array* to *kept* you save the page faults; from *kept* to *pinned* the driver's extra
# copy; from *pinned* to *without transfers* the link itself. At small sizes the steps are fixed costs, at large ones bytes. (The
# CPU queue computes on your CPU's cores: it shows what copies cost, and cannot win by work.)
#
# </details>
#
# A **timeline** shows what was busy when, with one new array and with one that is kept. The four sines are the thin stroke
# between the two copies. What would you make faster first?

# %% tags=["explain"]
timeline("nested_sine", variants=["gpu-transfers", "gpu-transfers-kept"], at={"elements": 2**24}, unlock=w)

# %% [markdown] tags=["explore"]
# ## Explore: the smallest copy
#
# How long does a *single* copy take, from the call until the bytes are there: its [[latency]]? Start with the smallest, and move
# the slider up. Until which size do more bytes cost nothing?

# %% tags=["explore"]
once = ["up pageable once", "up pinned once", "down pinned once"]
explore("transfers", at={"nbytes": 2**10}, lines=once)

# %% [markdown] tags=["your-turn"]
# ## Your turn: from how many sines on?
#
# A function computes not four sines of each number, but *k*, one after the other. *Calculate* from which *k* on the GPU is
# faster than the CPU, although the data are copied there and back (with a new array).
#
# Take three times from the data table of the figure with the sines, at the largest size where all three are measured: *CPU*,
# *GPU with transfers*, *GPU without transfers*. The transfers cost the same for every *k*. (If it shows no GPU, choose the
# recording as its source.)

# %% tags=["your-turn", "exercise:02-sines", "calculates"]
check("02-sines", sines=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: fewer transfers
#
# `process` gets a list of small arrays and returns their nested sines, each as an array. `gpu.send(array)` copies an array to the
# GPU's memory, `gpu.sin(numbers)` computes with what is there, `gpu.fetch(numbers)` copies it back. The results are right, but
# every step goes over the link. Use as few transfers as possible, then write `process=process`.


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
# ## What held
#
# The story is from *GPU Performance: Parallel Processing vs Overhead* (2024), measured on an A100. Each sentence is judged
# on your source. Live, measure the points first.

# %% tags=["claims"]
claims("02")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - A copy costs a fixed time and its bytes over the link's bandwidth, so send much at once, and seldom.
# - Pinned buffers that are kept save the driver's extra copy, and the page faults of new memory.
# - Data that stay on the GPU between two operations cost nothing to move.
#
# Terms: [[PCIe]], [[bandwidth]], [[pinned memory]], [[pageable memory]], [[latency]].

# %% [markdown] tags=["work"]
# ## At work
#
# Pin once, copy without waiting, wait once. A `DataLoader` does the first with `pin_memory=True`.
#
# ```python
# import torch
# x, y = torch.randn(2**24).pin_memory(), torch.empty(2**24).pin_memory()
# on_gpu = x.to("cuda", non_blocking=True)  # returns at once
# y.copy_(on_gpu.sin(), non_blocking=True)
# torch.cuda.synchronize()  # before anybody reads y
# print(y[:3])
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [03 · When does the GPU wait for the host?](03_overhead.ipynb) has its data on the GPU, and is still
# slow.
#
# Back: [01 · Why does the GPU's time look constant?](01_async_timing.ipynb)
