# %% [markdown]
# # Why is this GPU code slow?
#
# <p class="lead">Six short experiments, ten minutes. Guess first, then look, then move the slider.</p>
#
# A GPU is a second processor for a lot of arithmetic at once. The one measured here, an NVIDIA H200, does more than 60 trillion
# calculations a second. Code often gets only a small part of that. You will see why.
# <!-- so repeat: at(repeat=512, elements=67108864, dtype='float32'); flop('cuda-fma') / busy('cuda-fma') is 60e12 to
# 66e12 -->
#
# <div id="yours" hidden>
#
# **Do you have a GPU?** Nearly every laptop and phone has one. Let this page measure yours while you read: it takes about half a minute, and
# then your GPU stands beside the H200 in the figures. Nothing is sent anywhere.
#
# </div>

# %%
from brrr_course import compare, explore, guess, roofline_of

# %% [markdown]
# ## 1 · The clock lies
#
# Your program runs on the CPU and gives work to the GPU. How long does this work take?
#
# ```python
# start = time(); c = a @ b; seconds = time() - start
# ```
#
# `a @ b` multiplies two tables of numbers (matrices). First they have 64 × 64 numbers, then 8192 × 8192. That is two million times as
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
    versus={"size": 64},
    title="What does the clock see?",
)

# %%
compare(clock, "matmul", clocks, size=(64, 8192))

# %% [markdown]
# <div class="after">
#
# - The call only puts the work into a queue. It comes back after about 10 µs, for small tables and for large ones.
# <!-- so matmul: host('gpu', size=[64, 8192]) is 8e-6 to 12e-6 -->
# - The GPU was not done: for the large tables it needed 22 ms.
# <!-- so matmul: latency('gpu', size=8192) is 21.5e-3 to 22.5e-3 -->
# - So **wait for the GPU before you stop the clock**: in PyTorch, call `torch.cuda.synchronize()`.
#
# </div>
#
# ## 2 · Each start costs
#
# Each operation on the GPU is a small program, a *kernel*. The CPU must start it: that is a *launch*. This line launches 20 kernels. Each
# multiplies 65536 numbers by 1.001:
#
# ```python
# for _ in range(20): x = x * 1.001
# ```
#
# One can also record the 20 kernels once, and later start them all with one launch. Such a recording is a *CUDA Graph*,
# or a *graph* for short.

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
# - A launch takes the CPU about 6 µs. The GPU's work on 65536 numbers takes less than 1 µs.
# <!-- so run_ahead: at(elements=65536); host('eager') / 20 is 5.8e-6 to 6.3e-6; busy('eager') / 20 < 1e-6 -->
# - So the GPU waits for the CPU, and sixteen times as many numbers take hardly longer. This is called *overhead*.
# <!-- so run_ahead: period('eager', elements=1048576) / period('eager', elements=65536) is 1 to 1.06 -->
# - So **launch less often**: fewer and larger operations, or a graph.
#
# </div>
#
# ## 3 · Bytes decide
#
# When the numbers are many, launches no longer count. The GPU reads each number from its memory, calculates, and writes the result back.
#
# ```python
# y = relu(x)  # or: y = gelu(x)
# ```
#
# `relu` is very simple: it puts a zero in place of each negative number. `gelu` is a long formula. Now `x` has 67 million numbers.

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
# - The GPU calculates while it waits for the next bytes, so here the longer formula costs no time.
# <!-- so unary: at(elements=67108864, dtype='float32'); busy('gelu') / busy('relu') is 0.98 to 1.02 -->
# - So **count the bytes**: with two bytes for each number in place of four, `relu` takes half the time.
# <!-- so unary: at(elements=67108864); busy('relu', dtype='bfloat16') / busy('relu', dtype='float32') is 0.49 to 0.52 -->
#
# </div>
#
# ## 4 · Arithmetic is free, until it is not
#
# How much can the GPU calculate while it waits for bytes? Now one kernel reads each number once, does more and more steps with it, and
# writes it back once. A step is one multiplication and one addition, together called an *FMA*:
#
# ```python
# for _ in range(steps): x = x * a + b  # all in one kernel
# ```

# %%
steps = guess("32 steps take ... times as long as 1 step", unit="x")

# %%
at, several = {"repeat": 32, "elements": 2**24, "dtype": "float32"}, [2**k for k in range(10)]
explore(
    "repeat", at=at, values={"repeat": several}, lines=["cuda fma"], sliders=["repeat"], unlock=steps, versus={"repeat": 1},
    title="How much arithmetic is free?",
)  # fmt: skip

# %%
compare(steps, "repeat", ["cuda fma"], at=at, repeat=(1, 32))

# %% [markdown]
# <div class="after">
#
# - Up to 32 steps the time hardly changes: the memory sets the pace.
# <!-- so repeat: at(elements=16777216, dtype='float32'); flat = busy('cuda-fma', repeat=most(32)); max(flat) < 1.05 *
# min(flat) -->
# - From 128 steps on, twice the steps take nearly twice the time: now the arithmetic sets the pace.
# <!-- so repeat: at(elements=16777216, dtype='float32'); [busy('cuda-fma', repeat=2 * n) / busy('cuda-fma', repeat=n) for
# n in (128, 256)] is 1.75 to 1.95 -->
# - So **do more with each number while you have it**: on an H200, 15 calculations take as long as moving one byte.
# <!-- so repeat: at(elements=67108864, dtype='float32'); rate = flop('cuda-fma', repeat=512) / busy('cuda-fma',
# repeat=512); rate / (bytes('cuda-fma', repeat=1) / busy('cuda-fma', repeat=1)) is 14.5 to 15.5 -->
#
# </div>
#
# ## 5 · One kernel in place of three
#
# Here are three operations in a row: multiply, add, `relu`. Each is a kernel, which reads its numbers from memory and writes them back.
#
# ```python
# y = relu(x * 1.75 + r)
# ```
#
# A compiler can make one kernel of the three, which keeps the numbers between the steps. This is called *fusion*. `x` and `r` have 17 million
# numbers each.

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
# - Three kernels read and write seven arrays of numbers. One kernel reads two and writes one.
# - The arithmetic is the same, but there are fewer bytes: that makes it 2.4 times as fast.
# <!-- so fusion: at(elements=16777216, dtype='float32'); busy('chain-eager') / busy('chain-compile') is 2.35 to 2.45;
# flop('chain-eager') == flop('chain-compile'); bytes('chain-eager') >= bytes('chain-compile') -->
# - So **fuse**: in PyTorch, `torch.compile(f)` does it for you.
#
# </div>
#
# ## 6 · What slows down *this* program?
#
# You now know three reasons, and here is a fourth. A program is limited by
#
# - **overhead**: the GPU waits for launches (step 2);
# - **memory**: it waits for bytes (steps 3 and 5);
# - **compute**: its arithmetic takes the time (step 4);
# - **under-filled**: a GPU can do thousands of things at once, and gets too few of them.
#
# Program C is a small neural network: 16 layers, each with 64 × 64 numbers, for 8 inputs at once.

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
# | 1. Is it much faster as a graph? | overhead | fewer and larger operations, a graph, `torch.compile` |
# | 2. Is the graph much faster with half the bytes? | memory | fusion, numbers of two bytes |
# | 3. Does twice the batch (twice as many inputs) take the graph no longer? | under-filled | more inputs at once |
# | none of them | compute | fewer calculations, or the GPU's fast units for small numbers (*tensor cores*) |
#
# As a graph, program C is more than 11 times as fast: it is limited by **overhead**. Now choose the programs A and B: A is under-filled, and B is
# limited by memory.
# <!-- so mystery: period('eager', model='C') / period('graph', model='C') is 11 to 12; period('graph', model='B') /
# period('half', model='B') > 1.3; period('graph', model='A') / period('half', model='A') < 1.3; period('double',
# model='A') / period('graph', model='A') < 1.15 -->
#
# </div>
#
# ## Two roofs: the H200 and your GPU
#
# This picture holds it all; it is called the *roofline*. To the right a kernel does more calculations for each byte. Upwards it does more
# calculations a second. No kernel gets above the slanted roof, which is the memory, or above the flat one, which is the arithmetic. The
# point is the kernel of step 4: move it from 1 step to 512.

# %%
roofline_of("repeat", {"cuda fma": "fp32 FMA"}, at={**at, "elements": 2**26}, repeat=tuple(several))

# %% [markdown]
# Both roofs meet at the *ridge point*. On the H200 it lies at 15 calculations (FLOP) for each byte. To its left only fewer bytes
# help, to its right only less arithmetic.
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
# Each step is a lesson, which takes longer and shows why:
#
# - [Start here: host and GPU](00_start_here.ipynb)
# - Step 1: [Why does the GPU's time look constant?](01_async_timing.ipynb)
# - Step 2: [When does the GPU wait for the host?](03_overhead.ipynb)
# - Steps 3 and 4, and the roofs: [How much arithmetic is free?](04_memory_bound.ipynb)
# - Step 5: [What does fusion save?](05_fusion.ipynb)
# - Step 6: [What holds *your* model back?](10_diagnose_your_model.ipynb)
#
# [All lessons, and a search](index.ipynb)
