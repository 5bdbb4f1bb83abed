# ---
# jupyter:
#   readme: {short: 'caches', asks: 'when does memory keep up? For engineers', before: '04'}
#   brrr:
#     leaves: '04'
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 04b · When does memory keep up?
#
# Side road.
# Know before: [memory-bound kernels](04_memory_bound.ipynb).
#
# The datasheet gives one [[DRAM bandwidth]]. One kernel reaches less than a hundredth of it, the next runs above it. **What decides?**
#
# You will be able to:
#
# - calculate the loads in flight that fill memory
# - predict what reading one number in eight costs
# - let neighbouring threads read neighbouring numbers

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, explore, factory, guess

factory("memory", detail="sm")

# %% [markdown] tags=["guess"]
# ## Guess: one block, or one for each multiprocessor
#
# A GPU has many [[multiprocessor|multiprocessors (SMs)]], an H200 132 of them. A kernel consists of [[thread block|thread blocks]].
# Each runs on one multiprocessor, its threads in groups of 32, called [[warp|warps]].
#
# Here a block of 256 threads reads 256 KiB of its own, and each thread waits for its number before it asks for the next.

# %% tags=["guess"]
g = guess("132 blocks, which read 132 times as many bytes, take ... times as long as one", unit="x")

# %% [markdown] tags=["run"]
# The lines differ in the loads *in flight*: a thread asks for one, two, four or eight numbers at once, and then waits for them.
# Dotted and dash-dotted: [[Little's law]].

# %% tags=["run"]
lines = ["one load", "two loads", "four loads", "eight loads"]
asks = "How many blocks fill the GPU?"
explore("occupancy", at={"blocks": 132}, lines=lines, show="rate", unlock=g, versus={"blocks": 1}, title=asks)

# %% tags=["compare"]
compare(g, "occupancy", ["one load", "eight loads"], blocks=(1, 132))

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** 132 blocks, hardly more time: why? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# A load takes hundreds of nanoseconds: its [[latency]]. One block asks for a little, waits, and asks again: the GPU is
# [[under-filled]]. The other multiprocessors are idle, so more blocks run in the same time.
#
# **Little's law**: bytes in flight = bandwidth × latency. One block with one load per thread has 256 × 4 bytes in flight. More
# warps per multiprocessor ([[occupancy]]) or more loads per thread put more in flight, until the memory itself is the limit:
# [[memory-bound]].
#
# **Why do eight loads stay below the prediction?** It assumes the latency of one block with one load. A round of eight loads takes
# about two fifths longer than a round of one: a thread starts eight loads and adds eight numbers.
# <!-- so occupancy: at(blocks=1); 8 * busy('loads-8') / busy('loads-1') is 1.35 to 1.45 -->
#
# **The dents.** A multiprocessor holds eight of these small blocks. One block more than fits has to wait, and runs in a [[wave]] of its
# own.
#
# So a time that is *flat with size* has three usual causes: [[host overhead]], an under-filled GPU, or a matrix
# multiplication with few rows (lesson 07). A CUDA Graph removes only the first.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# from brrr.kernels.occupancy import prepared  # blocks of 256 threads, which read 256 numbers each
# words = torch.randint(2**31 - 1, (132, 256, 256), dtype=torch.int32, device="cuda")  # then (1, 256, 256)
# launch = prepared(words, torch.zeros(132 * 8, dtype=torch.int32, device="cuda"), 1)  # a load in flight
# with torch.profiler.profile() as seen:
#     torch.empty(2**28, device="cuda").zero_(), launch()  # 1 GB in between leaves the cache cold
# print(seen.key_averages().table(sort_by="device_time_total"))  # the row brrr_in_flight_1
# ```
#
# </details>

# %% [markdown] tags=["guess"]
# ## Guess: one number in eight
#
# ```python
# x[::8].sum()       # 2²⁸ float32: more than any cache holds
# ```

# %% tags=["guess"]
s = guess("Reading one float in eight takes ... times as long as reading all", unit="x")

# %% [markdown] tags=["run"]
# Shown are *useful* bytes per second: those that you asked for. *First number* moves the start: 1 is `x[1:]`.

# %% tags=["run"]
there = {"stride": 8, "offset": 0, "numbers": 2**28}
both = ["stride", "offset"]
one = {"stride": 1}
asks = "What do gaps between the elements cost?"
lines = ["read", "write"]
explore("strides", at=there, lines=lines, show="rate", sliders=both, unlock=s, versus=one, predict=True, title=asks)

# %% tags=["compare"]
compare(s, "strides", ["read", "write"], at=there, stride=(1, 8))

# %% [markdown] tags=["explain"]
# Memory moves whole [[sector|sectors]] of 32 bytes; four make a cache line. If the threads of a warp read neighbours, eight floats share
# a sector: [[coalesced access]]. With stride 8 each thread needs a sector of its own. Which share of the array moves?
#
# | stride | a float every | by sectors, 32 B (dotted) | by pairs, 64 B (thin dashes) | by lines, 128 B | measured time |
# | --- | --- | --- | --- | --- | --- |
# | 2 | 8 B | 1 | 1 | 1 | 1, as stride 1 |
# | 8 | 32 B | 1 | 1 | 1 | 1 |
# | 16 | 64 B | 1/2 | 1 | 1 | 1 |
# | 32 | 128 B | 1/4 | 1/2 | 1 | 0.6 |
# <!-- so strides: at(offset=0, numbers=268435456); [busy('read', stride=n) / busy('read', stride=1) for n in (2, 8,
# 16)] is 0.97 to 1.03; busy('read', stride=32) / busy('read', stride=1) is 0.58 to 0.62 -->
#
# Stride 16 shows that sectors move in pairs.
#
# **Writing** one number in two, four or eight takes over twice as long as writing each, as if a sector had to be read before a part of
# <!-- so strides: at(offset=0, numbers=268435456); busy('write', stride=[2, 4, 8]) > 2 * busy('write', stride=1) -->
# it is written.
#
# **[[Misaligned access]].** Set the stride to 1 and the first number to 1. Reads take as long as before: two warps share a sector, and
# the second finds it in the cache. Writes take twice as long: each warp begins and ends inside a sector.
# <!-- so strides: at(stride=1, numbers=268435456); busy('read', offset=1) / busy('read', offset=0) is 0.95 to 1.05;
# busy('write', offset=1) / busy('write', offset=0) is 1.9 to 2.1 -->

# %% [markdown] tags=["explore"]
# ## Explore: what a cache changes
#
# The multiprocessors share the [[L2]] cache. A *sustained* kernel goes over its working set again and again, *one torch operator* once.
# Where is the cliff, and when does one operator beat the datasheet's memory?
#
# <details><summary>Answer</summary>
#
# The cliff is just below 2²⁶ bytes. Smaller sets fit into L2, from which a kernel reads about twice as fast as from memory.
# <!-- so working_set: rate = bytes('sustained-read') / busy('sustained-read'); [rate[n] / rate[1073741824] for n in
# (8388608, 16777216, 33554432)] is 1.7 to 2.3 -->
# One operator on a small set mostly starts and ends. Around 2²⁵ bytes it beats the datasheet: the operator before has left the set in
# L2.
#
# </details>

# %% tags=["explore"]
near, memory = {"nbytes": 2**25}, {"nbytes": 2**30}
asks = "What fits in the cache?"
explore("working_set", at=near, lines=["copy", "read", "torch copy"], show="rate", versus=memory, title=asks)

# %% [markdown] tags=["your-turn"]
# ## Your turn: how many loads in flight?
#
# A memory delivers 4.8 TB/s, and a load takes 400 ns. *Calculate* the bytes that must be in flight. The GPU has 132 multiprocessors
# with 2048 threads each. How many loads of 4 bytes (a whole number) must a thread have in flight?

# %% tags=["your-turn", "exercise:04b-little", "calculates"]
check("04b-little", bytes_in_flight=..., loads=...)

# %% [markdown] tags=["your-turn"]
# ## More: let neighbours read neighbours
#
# A warp of 32 threads reads 512 floats in 16 steps. `place(thread, step)` says which float a thread reads. Here each thread has
# a stretch of its own. Fix it: read each float once, with as few sectors as possible. Then write `place=place`.


# %% tags=["your-turn", "exercise:04b-mend", "makes"]
def place(thread, step):
    return thread * 16 + step


check("04b-mend", place=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# The course's own sentences.

# %% tags=["claims"]
claims("04b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Keep 32 KiB of loads in flight on each multiprocessor (threads × loads × bytes): memory then delivers over four fifths of its bandwidth.
# <!-- so occupancy: four = bytes('loads-4') / busy('loads-4') / sheet('memory_bytes_per_s'); eight = bytes('loads-8') /
# busy('loads-8') / sheet('memory_bytes_per_s'); [eight[528], four[1056]] is 0.8 to 0.9; eight[264] < 0.72;
# four[528] < 0.72;
# 8 * 256 * 4 * 4 / 1024 is 32 to 32 -->
#
# - Full bandwidth needs bandwidth × latency bytes in flight, from many warps or from many loads per thread.
# - Memory moves whole sectors, so let neighbouring threads use neighbouring numbers from an aligned start.
# - What the next operator needs soon is cheaper while it is still in L2.
#
# Terms: [[multiprocessor]], [[thread block]], [[warp]], [[under-filled]], [[Little's law]], [[occupancy]], [[coalesced access]],
# [[misaligned access]], [[L2]].

# %% [markdown] tags=["work"]
# ## At work
#
# Measure the bandwidth. `ncu --section MemoryWorkloadAnalysis` tells why it is not more.
#
# ```python
# import torch
# from torch.utils.benchmark import Timer
# device = "cuda" if torch.cuda.is_available() else "cpu"
# x = torch.randn(2**26, device=device)
# y = torch.empty_like(x)
# seconds = Timer("y.copy_(x)", globals={"x": x, "y": y}).blocked_autorange().median
# print(2 * x.nbytes / seconds / 1e9, "GB/s")
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road, [05 · What does fusion save?](05_fusion.ipynb) moves fewer bytes.
#
# Back: [04 · How much arithmetic is free?](04_memory_bound.ipynb)
