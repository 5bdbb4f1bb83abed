# ---
# jupyter:
#   readme: {short: 'caches', asks: 'when does memory keep up? For engineers', before: '04'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 04b · When does memory keep up?
#
# For engineers. The datasheet gives one [[DRAM bandwidth]]. One kernel reaches a hundredth of it, the next runs above
# it, and both only read memory. **What decides?**

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, explore, factory, guess, reachable

factory("memory", detail="sm")

# %% [markdown] tags=["guess"]
# ## Guess: one block, or one for each multiprocessor
#
# A GPU consists of many processors, its [[multiprocessor|multiprocessors (SMs)]]. A kernel is a number of
# [[thread block|thread blocks]]; each runs on one multiprocessor, 32 threads at a time as a [[warp]].
#
# Here each block of 256 threads reads 256 KiB of its own, and each thread waits for its number before it asks for the next
# one. An H200 spreads 132 such blocks over its 132 multiprocessors.

# %% tags=["guess"]
g = guess("132 blocks, which read 132 times as many bytes, take ... times as long as one", unit="x")

# %% [markdown] tags=["run"]
# Along x the blocks, upwards bytes a second. Each line is one way to write the kernel: how many loads a thread has in flight
# before it waits. Dashed: what [[Little's law]] says, with the latency of one block as measured on an H200.

# %% tags=["run"]
at = reachable("occupancy", blocks=132)
lines = ["one load", "two loads", "four loads", "eight loads"]
explore("occupancy", at=at, lines=lines, show="rate", unlock=g)

# %% tags=["compare"]
compare(g, "occupancy", lines, blocks=(1, 132))

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** 132 blocks, hardly more time: who waits for what? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# A load takes hundreds of nanoseconds to come back: its [[latency]]. One block asks for a little, waits, asks again. It is
# [[latency-bound]], and the other multiprocessors have nothing to do: they can serve more blocks in the same time.
#
# **Little's law**: bytes in flight = bandwidth × latency. More bytes are in flight with more warps on a multiprocessor
# ([[occupancy]]), or with more loads in each thread. Either can keep the memory busy; full occupancy alone may not, if each thread
# waits for every load. From some number of bytes on, the memory itself is the limit: [[memory-bound]].
#
# **Where the lines dent.** A multiprocessor holds eight of these blocks. One block more than all of them hold has to wait for
# a place, and then runs alone: a [[wave]] of its own.
#
# So a time that is *flat with size* has three usual causes: [[host overhead]], an under-filled GPU, or a skinny
# product (lesson 07). A CUDA Graph removes the first and not the second.
#
# </details>

# %% [markdown] tags=["guess"]
# ## Guess: one number in eight
#
# ```python
# x[::8].sum()       # x: 2^28 float32, far more than any cache holds
# ```
#
# An eighth of the numbers is read, and nothing else.

# %% tags=["guess"]
s = guess("Reading one float in eight takes ... times as long as reading all", unit="x")

# %% [markdown] tags=["run"]
# Now upwards *useful* bytes a second, those of numbers that somebody asked for. The second slider moves the first number:
# 1 is `x[1:]`.

# %% tags=["run"]
there = reachable("strides", stride=8, offset=[0], numbers=2**28)
ways = ["read", "write", "write whole", "copy"]
explore("strides", at=there, lines=ways, show="rate", sliders=["stride", "offset"], unlock=s)

# %% tags=["compare"]
compare(s, "strides", ["read", "copy", "write"], **{**there, "stride": (1, 8)})

# %% [markdown] tags=["explain"]
# Memory moves whole **sectors** of 32 bytes: eight floats. If the threads of a warp ask for neighbours, eight of them share
# each sector: [[coalesced access]]. With a stride of eight each thread needs a sector of its own, and seven eighths of the
# bytes are thrown away.
#
# The grey dots say what follows if single sectors move; dashes in the line's colour, if the memory hands out two at once. At
# wide strides they part. Which ones does the measurement follow?
#
# **Writes** can cost twice. It may be error correction, for which a sector written in part is read first, changed, and written
# back; nothing here tests that, and it depends on the GPU.
#
# **[[Misaligned access]].** Set the stride to 1 and the first number to 1. Reads hardly care: the sector that two warps share is
# still in the cache for the second. For writes each warp begins and ends inside a sector. In *warps begin with a sector* the
# first warp leaves a few threads idle, and all others are aligned.

# %% [markdown] tags=["explore"]
# ## Explore: what a cache changes
#
# All multiprocessors share the [[L2]] cache. A kernel goes over its working set again and again. Small sets stay in L2; behind
# the cliff lies the memory, with the datasheet's line. *One torch operator* shows what a program sees: on small sets the
# kernel's start and end take longer than its bytes; where a set is large and still fits, an operator that uses what the one
# before has left in L2 is faster than the datasheet's memory.

# %% tags=["explore"]
near = reachable("working_set", nbytes=3 * 2**22)
explore("working_set", at=near, lines=["copy", "read", "torch copy"], show="rate")

# %% [markdown] tags=["your-turn"]
# ## Your turn: how many loads in flight?
#
# A memory delivers 4.8 TB/s, and a load takes 400 ns. *Calculate* the bytes that must be in flight. The GPU has 132
# multiprocessors with up to 2048 threads each. How many loads of 4 bytes must each thread have in flight (a whole number)?
# Then look which line of the first figure reaches the bandwidth.

# %% tags=["your-turn", "exercise:04b-little", "calculates"]
check("04b-little", bytes_in_flight=..., loads=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: let neighbours read neighbours
#
# A warp of 32 threads reads 512 floats in 16 steps. `place(thread, step)` says which one a thread reads in which step.
# Each thread has a stretch of its own: natural on a CPU, where each core has its own cache, and expensive here. Mend it so
# that every number is still read once, with as few sectors as can be. Then write `place=place`.


# %% tags=["your-turn", "exercise:04b-mend", "makes"]
def place(thread, step):
    return thread * 16 + step


check("04b-mend", place=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# No source said these: they are this course's own sentences, judged on your source. Live, measure the points first.

# %% tags=["claims"]
claims("04b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - Bandwidth needs bytes in flight, as many as bandwidth times latency: they come from warps, or from loads in each thread.
# - Memory moves sectors of 32 bytes, so let neighbouring threads use neighbouring numbers from an aligned start.
# - What the next operator needs soon is cheaper while it still lies in L2.
#
# Terms: [[multiprocessor]], [[thread block]], [[warp]], [[latency-bound]], [[Little's law]], [[occupancy]], [[coalesced access]],
# [[misaligned access]], [[L2]].

# %% [markdown] tags=["work"]
# ## At work
#
# Which share of the bandwidth does it reach? Bytes that must move, over time. Why not more, says Nsight Compute:
# `ncu --section Occupancy --section MemoryWorkloadAnalysis`.
#
# ```python
# import torch
# x, y = torch.randn(2**28, device="cuda"), torch.empty(2**28, device="cuda")
# start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
# y.copy_(x), start.record()
# for _ in range(20):
#     y.copy_(x)
# end.record(), torch.cuda.synchronize()
# print(20 * 2 * x.nbytes / (start.elapsed_time(end) * 1e-3) / 1e12, "TB/s")
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [05 · What does fusion save?](05_fusion.ipynb) moves fewer bytes in the first place.
#
# Back: [04 · How much arithmetic is free?](04_memory_bound.ipynb)
