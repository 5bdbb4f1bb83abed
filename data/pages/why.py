# %% [markdown]
# # Why is this GPU code slow?
#
# <p class="lead">Six short experiments, ten minutes. Guess first, then look, then move the slider.</p>
#
# A GPU is a second processor, for a lot of arithmetic at once. The one measured here, an NVIDIA H200, does more than 60 trillion
# calculations a second. Code often gets a small part of that: see why.
# <!-- so repeat: at(repeat=512, elements=67108864, dtype='float32'); flop('cuda-fma') / busy('cuda-fma') is 60e12 to
# 66e12 -->
#
# <div id="yours" hidden>
#
# **Do you have a GPU?** Nearly every laptop and phone has one. Let this page measure yours: in half a minute it stands
# beside the H200 in five figures. Nothing is sent anywhere.
#
# </div>

# %%
from brrr_course import compare, explore, guess, roofline_of

# %% [markdown]
# ## 1 · Can you trust the clock?
#
# Your program runs on the CPU and gives work to the GPU. How long does this work take?
#
# ```python
# start = time(); c = a @ b; seconds = time() - start
# ```
#
# `a @ b` multiplies two tables of numbers (matrices): a *matmul*. First they have 64 × 64 numbers, then 8192 × 8192: two million times as
# much work.
# <!-- so matmul: (8192 / 64) ** 3 is 2e6 to 2.2e6 -->

# %%
clock = guess("For 8192 × 8192 numbers, this clock shows ... times as many seconds as for 64 × 64", unit="x")

# %%
sizes = {"size": [2**k for k in range(6, 14)]}
clocks = ["unsynchronized", "synchronized"]
explore(
    "matmul",
    at={"size": 8192},
    values=sizes,
    lines=clocks,
    unlock=clock,
    versus={"size": 64, "synchronized": "unsynchronized"},
    title="What does the clock see?",
)

# %%
compare(clock, "matmul", clocks, size=(64, 8192))

# %% [markdown]
# <div class="after">
#
# - The call only puts the work into the GPU's queue, and comes back after about 10 µs, for small tables and large ones.
# <!-- so matmul: host('gpu', size=[64, 8192]) is 8e-6 to 12e-6 -->
# - The GPU was not done: for the large tables it needed 22 ms.
# <!-- so matmul: latency('gpu', size=8192) is 21.5e-3 to 22.5e-3 -->
# - It works through its queue in order: whatever waits next (`.item()`, `print`) pays for all that is still queued.
# - So **wait for the GPU before you stop the clock**: `torch.cuda.synchronize()` in PyTorch.
#
# </div>
#
# ## 2 · What does a launch cost?
#
# Each operation on the GPU is a small program, a *kernel*, which the CPU must start: a *launch*. This line launches 20 kernels, on
# 65536 numbers:
#
# ```python
# for _ in range(20): x = x * 1.001
# ```
#
# One can also record the 20 kernels once, and start them all with one launch: a *CUDA Graph*.

# %%
launches = guess("With one launch in place of 20, it is ... times as fast", unit="x")

# %%
explore(
    "run_ahead", at={"elements": 65536}, lines=["period", "graph"], unlock=launches, versus={"graph": "period"},
    title="Who waits for whom?",
)  # fmt: skip

# %%
compare(launches, "run_ahead", {"graph": "period"}, of="speed-up", elements=65536)

# %% [markdown]
# <div class="after">
#
# - A launch takes the CPU about 6 µs here (step 1's matmul about 10), the GPU's work on 65536 numbers less than 1 µs.
# <!-- so run_ahead: at(elements=65536); host('eager') / 20 is 5.8e-6 to 6.3e-6; busy('eager') / 20 < 1e-6 -->
# - A loop takes the longer of the two, launching or the GPU's work, not the sum.
# <!-- so run_ahead: at(elements=65536); period('eager') / host('eager') is 0.95 to 1.05 -->
# <!-- so run_ahead: at(elements=16777216); period('eager') / busy('eager') is 1 to 1.1; host('eager') < busy('eager') / 4 -->
# - Here the GPU waits for the CPU, and sixteen times as many numbers take hardly longer: *overhead*.
# <!-- so run_ahead: period('eager', elements=1048576) / period('eager', elements=65536) is 1 to 1.06 -->
# - So **launch less often**: fewer and larger operations, or a graph.
#
# </div>
#
# ## 3 · What does a long formula cost?
#
# With many numbers launches no longer count: steps 3 to 5 show the GPU's own times, without them. The GPU reads each number from its memory,
# calculates, and writes the result back.
#
# ```python
# y = relu(x)
# y = gelu(x)
# ```
#
# `relu` is simple: it puts a zero in place of each negative number. `gelu` is a long formula. Now `x` has 67 million numbers.

# %%
formula = guess("The long formula, gelu, takes ... times as long as relu", unit="x")

# %%
explore(
    "unary", at={"elements": 2**26, "dtype": "float32"}, lines=["gelu", "relu"], sliders=["elements"], unlock=formula,
    versus={"gelu": "relu"}, title="Does a longer formula take longer?",
)  # fmt: skip

# %%
compare(formula, "unary", {"relu": "gelu"}, of="speed-up", at={"elements": 2**26, "dtype": "float32"})

# %% [markdown]
# <div class="after">
#
# - Both move the same bytes: four in and four out for each number.
# - Memory time is bytes / bandwidth, arithmetic time is FLOP (calculations) / rate. Both run at once, so a kernel takes the longer of the
# two, not the sum: here the memory's, and the long formula costs no time.
# <!-- so unary: at(elements=67108864, dtype='float32'); busy('gelu') / busy('relu') is 0.98 to 1.02 -->
# - So **count the bytes**: with two bytes for each number, `relu` takes half the time.
# <!-- so unary: at(elements=67108864); busy('relu', dtype='bfloat16') / busy('relu', dtype='float32') is 0.49 to 0.52 -->
#
# </div>
#
# ## 4 · What do more steps cost?
#
# Now one kernel reads each of 17 million numbers once, does more and more steps with it, and writes it back. A step is one multiplication
# and one addition (2 FLOP), together an *FMA*:
#
# ```python
# for _ in range(steps): x = x * a + b
# ```

# %%
steps = guess("32 steps take ... times as long as 1 step", unit="x")

# %%
at, several = {"repeat": 32, "elements": 2**24, "dtype": "float32"}, [2**k for k in range(10)]
explore(
    "repeat", at=at, values={"repeat": several}, lines=["cuda fma"], sliders=["repeat"], unlock=steps, versus={"repeat": 1},
    title="When does it take longer?",
)  # fmt: skip

# %%
compare(steps, "repeat", ["cuda fma"], at=at, repeat=(1, 32))

# %% [markdown]
# <div class="after">
#
# - Up to 32 steps the time hardly changes: the memory sets the pace.
# <!-- so repeat: at(elements=16777216, dtype='float32'); flat = busy('cuda-fma', repeat=most(32)); max(flat) < 1.05 *
# min(flat) -->
# - From 128 steps on, twice the steps take nearly twice the time: the arithmetic does.
# <!-- so repeat: at(elements=16777216, dtype='float32'); [busy('cuda-fma', repeat=2 * n) / busy('cuda-fma', repeat=n) for
# n in (128, 256)] is 1.75 to 1.95 -->
# - Both times are equal at the *ridge*, rate / bandwidth: on an H200, 15 FLOP for each byte. A step is 2 FLOP on the 8 bytes of a number, so
# that is at about 60 steps: 64 already take half as long again as one.
# <!-- so repeat: at(elements=16777216, dtype='float32'); rate = flop('cuda-fma', repeat=512) / busy('cuda-fma',
# repeat=512); ridge = rate / (bytes('cuda-fma', repeat=1) / busy('cuda-fma', repeat=1)); ridge is 14.5 to 15.5; ridge * 8 / 2 is 58 to
# 62; busy('cuda-fma', repeat=64) / busy('cuda-fma', repeat=1) is 1.45 to 1.55 -->
# - So **do more with each number while you have it**: a large matmul uses each thousands of times.
#
# </div>
#
# ## 5 · Is one kernel better than three?
#
# Here are three operations in a row: scale, add, `relu`. Each is a kernel, which reads its numbers from memory and writes them back.
#
# ```python
# y = relu(x * 1.75 + r)
# ```
#
# A compiler can make one kernel of them, which keeps the numbers in between: *fusion*. `x` and `r` have 17 million numbers each.

# %%
fused = guess("As one kernel, it is ... times as fast", unit="x")

# %%
explore(
    "fusion", at={"elements": 2**24, "dtype": "float32"}, lines=["chain compile", "chain eager"], sliders=["elements"],
    unlock=fused, versus={"chain compile": "chain eager"}, title="What does one kernel gain?",
)  # fmt: skip

# %%
compare(fused, "fusion", {"chain compile": "chain eager"}, of="speed-up", at={"elements": 2**24, "dtype": "float32"})

# %% [markdown]
# <div class="after">
#
# - Three kernels read and write seven arrays of numbers. One reads two and writes one.
# - The arithmetic is the same, the bytes are fewer: 2.4 times as fast.
# <!-- so fusion: at(elements=16777216, dtype='float32'); busy('chain-eager') / busy('chain-compile') is 2.35 to 2.45;
# flop('chain-eager') == flop('chain-compile'); bytes('chain-eager') >= bytes('chain-compile') -->
# - So **fuse**: in PyTorch, `torch.compile(f)` does it.
#
# </div>
#
# ## 6 · What slows down *this* program?
#
# A program is limited by
#
# - **overhead**: the GPU waits for launches (step 2);
# - **memory**: it waits for bytes (steps 3 and 5);
# - **compute**: its arithmetic takes the time (step 4);
# - **under-filled**: a GPU can do thousands of things at once, and gets too few.
#
# Program A adds up 8 rows of a million numbers each. B normalizes 16384 rows of 4096. C is a small neural network: 16 layers, each a 64 × 64
# matmul and a `relu`, for 8 inputs.

# %%
limits = ["overhead", "memory", "compute", "under-filled"]
limit = guess("Program C is limited by", options=limits)

# %%
changes = {"eager": "graph", "half": "graph", "double": "graph"}
explore(
    "mystery", at={"model": "C"}, show="ladder", lines=[*changes, "graph"], sliders=["model"], versus=changes, unlock=limit,
    title="Change one thing: what helps?",
)  # fmt: skip

# %%
compare(limit, "mystery", of="regime", model="C")

# %% [markdown]
# <div class="after">
#
# Three questions find the reason, in this order. **Change one thing, and measure again**:
#
# | question | yes? Then it is | what helps |
# | --- | --- | --- |
# | 1. Is it much faster (1.3 times) as a graph? | overhead | fewer and larger operations, a graph, `torch.compile` |
# | 2. Is the graph that much faster with half the bytes? | memory | fusion, numbers of two bytes |
# | 3. Does twice the batch (inputs) take the graph no longer (1.15 times at most)? | under-filled | more inputs at once |
# | none of them | compute | fewer calculations, *tensor cores* |
#
# As a graph, program C is more than 11 times as fast: it is limited by **overhead**. Half the bytes do not help: it did not wait for them, and
# its kernels for two-byte numbers are a little slower. Now choose A and B: what limits these?
#
# <details><summary>A and B</summary>
#
# A is **under-filled**, B is limited by **memory**.
#
# </details>
# <!-- so mystery: period('eager', model='C') / period('graph', model='C') is 11 to 12; period('graph', model='B') /
# period('half', model='B') > 1.3; period('graph', model='A') / period('half', model='A') < 1.3; period('double',
# model='A') / period('graph', model='A') < 1.15; period('half', model='C') / period('graph', model='C') is 1.03 to 1.1 -->
#
# </div>
#
# ## Two roofs: the H200 and your GPU
#
# The *roofline* shows memory and arithmetic in one picture, but no overhead. To the right a kernel does more FLOP for each byte, upwards more
# FLOP a second. None gets above the slanted roof, the memory, or the flat one, the arithmetic. The point is step 4's kernel, at the same
# times: move it.

# %%
roofline_of("repeat", {"cuda fma": "fp32 FMA"}, at=at, repeat=tuple(several))

# %% [markdown]
# Left of the *ridge point*, where the roofs meet, it helps to move fewer bytes or to do more with each; right of it, only to calculate less.
#
# <p id="ridge" role="status"></p>
#
# ## Your guesses, and what was measured
#
# <div id="guesses">
#
# Your guesses appear here once you have given them.
#
# </div>
#
# ## Where to go on
#
# Each step is a lesson:
#
# - [Start here: host and GPU](00_start_here.ipynb)
# - Step 1: [Why does the GPU's time look constant?](01_async_timing.ipynb)
# - Step 2: [When does the GPU wait for the host?](03_overhead.ipynb)
# - Steps 3 and 4, and the roofs: [How much arithmetic is free?](04_memory_bound.ipynb)
# - Step 5: [What does fusion save?](05_fusion.ipynb)
# - Step 6: [What holds *your* model back?](10_diagnose_your_model.ipynb)
#
# [All lessons, and a search](index.ipynb)
