# ---
# jupyter:
#   readme: {short: 'memory-bound', asks: 'how much arithmetic is free?', before: '03'}
#   brrr:
#     needs: [cuda, triton]
# ---

# %% [markdown] tags=["question"]
# # 04 · How much arithmetic is free?
#
# A GPU reads numbers from its memory, computes, and writes the result back. **How much can it compute with each number before that
# costs any time?**
#
# You will be able to:
#
# - calculate the [[ridge point]] of a GPU
# - predict a time from bytes and [[FLOP]]
# - turn measured times into bandwidth and FLOP/s
#
# Know before: [02](02_transfers.ipynb)'s *bandwidth*.

# %% tags=["setup", "question"]
import torch

from brrr import array, cost, predict
from brrr_course import check, claims, compare, explore, factory, guess, ridge_by_generation, roofline_of

factory("memory", detail="dram")

# %% [markdown] tags=["guess"]
# ## Guess: more of the same
#
# One kernel reads each element, multiplies it again and again, and writes it once:
#
# ```python
# def f(x, factor):                 # x: 2²⁶ float32
#     for _ in range(repeat):
#         x = x * factor            # in a register of the GPU: nothing is stored between the steps
#     return x
# ```
#
# Three versions of this kernel lie close together: in CUDA C++, in Triton, and by `torch.compile`.
# <!-- so repeat: at(elements=67108864, dtype='float32', repeat=[1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
# [busy(f'{way}-mul') / busy('cuda-mul') for way in ('triton', 'compile')] is 0.85 to 1.05 -->
# *One operator each* launches a kernel for each multiplication. *Predictions*, below the figure, draws in thin dashes what a measured
# bandwidth and peak **predict**.

# %% tags=["guess"]
g = guess("With repeat = 32 instead of 1, the kernel takes ... times as long", unit="x")

# %% tags=["run"]
at = {"repeat": 32, "elements": 2**26, "dtype": "float32"}
ways = ["cuda mul", "triton mul", "compile mul", "eager mul"]
explore("repeat", at=at, lines=ways, unlock=g, versus={"repeat": 1}, predict=True, title="How much arithmetic is free?")

# %% tags=["compare"]
compare(g, "repeat", ways, at=at, repeat=(1, 32))

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** The three lines are flat, and then rise. What sets the time in each part? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# In the flat part the kernel is [[memory-bound]]: each element moves eight bytes, four in and four out, at the
# [[DRAM bandwidth]]. The arithmetic units wait for them, so more arithmetic costs no time. In the steep part the kernel is
# [[compute-bound]]: the time grows with the multiplications.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import torch.utils.benchmark
# torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
# x, factor = torch.randn(2**26), torch.tensor(1.01)
# for repeat in (1, 32):
#     f = torch.compile(eval("lambda x, factor: x" + " * factor" * repeat))  # one kernel
#     print(repeat, torch.utils.benchmark.Timer("f(x, factor)", globals=globals()).blocked_autorange())
# ```
#
# </details>
#
# What decides is how many FLOP a kernel does for each byte that it moves: its [[arithmetic intensity]]. At the GPU's [[ridge point]],
# its peak over its bandwidth in FLOP/B, bytes and arithmetic take equally long. Below it a kernel is memory-bound, above it
# compute-bound.
#
# So you can tell the time beforehand: `cost` counts FLOP and bytes, and `predict` takes the longer of the two times. (It rests
# on measurements of this operator too, so its time differs a little from the table's.)

# %% tags=["explain"]
work = cost(torch.mul, array(2**26, "float32"), 1.01)
display(work, predict(work, device="h200"))

# %% [markdown] tags=["guess"]
# ## Guess: a harder operator
#
# `relu` compares a number with zero. `gelu` computes an error function, a long formula. Both read and write each element once.

# %% tags=["guess"]
w = guess("On 2²⁶ float32 numbers, gelu takes ... times as long as relu", unit="x")

# %% tags=["run"]
there = {"elements": 2**26, "dtype": "float32"}
operators = ["copy", "relu", "gelu", "tanh", "cos"]
asks = "Does a harder formula cost more?"
display(
    explore("unary", at=there, lines=operators, unlock=w, versus={"gelu": "relu"}, title=asks),
    compare(w, "unary", {"relu": "gelu"}, of="speed-up", at=there),
)

# %% [markdown] tags=["explain"]
# An operator on each element has a low intensity: in float32 it costs its bytes, whether its formula is short or long.
# <!-- so unary: at(elements=67108864, dtype='float32'); [busy(way) / busy('copy') for way in ('relu', 'gelu', 'tanh', 'cos')]
# is 0.95 to 1.05 -->
#
# Choose *bfloat16*: half the bytes, the same formulas. Which operators take half the time?
#
# <details><summary>Answer, for the recording at 2²⁶</summary>
#
# *copy* and *relu* do, and *tanh* nearly. *cos* and *gelu* take more: their arithmetic is not halved, and now takes longer than
# <!-- so unary: at(elements=67108864); halved = [busy(way, dtype='bfloat16') / busy(way, dtype='float32') for way in
# ('copy', 'relu', 'tanh', 'cos', 'gelu')]; [halved[way] for way in ('copy', 'relu')] is 0.49 to 0.52; halved['tanh'] is
# 0.52 to 0.56; [halved[way] for way in ('cos', 'gelu')] is 0.6 to 1 -->
# their bytes.
#
# </details>
#
# So count the arrays that an operator reads and writes. (Working in place saves memory, but moves the same bytes.)
#
# Around 2²² elements they take less time than the memory's bandwidth allows: so small an array fits into the [[L2]] cache, and a
# benchmark that uses it again and again measures this cache. At the left end a
# <!-- so unary: at(dtype='float32'); rate = [8 * n / busy(way, elements=n) / sheet('memory_bytes_per_s') for n in
# (4194304, 67108864) for way in ('copy', 'relu', 'gelu', 'tanh', 'cos')]; [rate[4194304, way] for way in ('copy',
# 'relu', 'gelu', 'tanh', 'cos')] > 1; [rate[67108864, way] for way in ('copy', 'relu', 'gelu', 'tanh', 'cos')] < 1 -->
# kernel's start and end take most of the time.

# %% [markdown] tags=["explore"]
# ## Explore: the roofline
#
# The [[roofline]] shows both limits in one figure: across the intensity, upwards the FLOP/s. A kernel that works from memory stays below the roof:
#
# - The **slanted** roof is the memory's bandwidth. A point on it is memory-bound.
# - The **flat** roof is the peak. A point on it is compute-bound.
# - They meet at the **ridge point**.
#
# If a point lies far below both roofs, something else sets its time: the host, or an under-filled GPU.
#
# The point is the kernel above. Move the slider from 1 step to 512 and watch it climb. Then choose **FMAs** (fused multiply-adds,
# `x * a + b`) in place of multiplications (MUL). Why is the roof of MUL only half as high?
#
# <details><summary>Answer</summary>
#
# The datasheet's peak counts FMAs: each is one instruction and two FLOP. A multiplication alone is also one instruction, but one
# FLOP: half the peak. (The roof *L2 cache*: lesson 04b.)
#
# </details>

# %% tags=["explore"]
roofs = {"triton mul": "fp32 MUL", "triton fma": "fp32 FMA"}
roofline_of("repeat", roofs, at=at, repeat=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512))

# %% [markdown] tags=["explore"]
# ## Explore: the ridge points of other GPUs
#
# These are ridge points by the GPUs' datasheets. Does the ridge grow from one generation to
# the next? What moves it most?
#
# <details><summary>Answer</summary>
#
# In float32 it has grown on graphics cards; on the others it goes up and down.
# What moves it most is the unit that computes: on [[tensor core|tensor cores]] (matrix units) a kernel needs many more FLOP per byte.
# `torch.set_float32_matmul_precision("high")` lets float32 matmuls use them, but rounds their inputs to about three digits, so it is no default.
#
# </details>

# %% tags=["explore"]
ridge_by_generation()

# %% [markdown] tags=["your-turn"]
# ## Your turn: where is the knee?
#
# A GPU does 33.5 TFLOP/s of multiplications alone, and its memory delivers 4.8 TB/s. *Calculate* the intensity at which both take
# equally long, and the `repeat` of the first kernel that has this intensity. Then look where the first figure rises.

# %% tags=["your-turn", "exercise:04-knee", "calculates"]
check("04-knee", intensity=..., repeat=...)

# %% [markdown] tags=["your-turn"]
# ## More: two slips
#
# The article behind this lesson calculates: *a 32-bit float has 8 bytes*. And if the code runs `iterations` times per second
# on N elements, *the bandwidth is `bytes * 2 * N / iterations`, the FLOP/s are `N * repeat / iterations`*. Both sentences contain a
# slip. Write `float_bytes`, and fix the two functions.


# %% tags=["your-turn", "exercise:04-slips", "makes"]
def bandwidth(elements, iterations_per_s):
    return 8 * 2 * elements / iterations_per_s


def flops(elements, repeat, iterations_per_s):
    return elements * repeat / iterations_per_s


check("04-slips", float_bytes=..., bandwidth=bandwidth, flops=flops)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# The claims are from *Making Deep Learning Go Brrrr From First Principles*, measured on another GPU.

# %% tags=["claims"]
claims("04")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** On an H200, up to 32 multiplications of each float32 number that a kernel reads and writes are free.
# <!-- so repeat: at(elements=67108864, dtype='float32'); [busy(f'{way}-mul', repeat=32) / busy(f'{way}-mul', repeat=1) for way
# in ('cuda', 'triton', 'compile')] is 0.98 to 1.02 -->
#
# - Below the ridge point a kernel costs its bytes, and more arithmetic is free.
# - The ridge point is the peak over the bandwidth, for the type and the instructions that you use.
# - In float32 an operator on each element costs its bytes; in bfloat16 a long formula can cost more.
#
# Terms: [[memory-bound]], [[compute-bound]], [[DRAM bandwidth]], [[arithmetic intensity]], [[ridge point]], [[roofline]].

# %% [markdown] tags=["work"]
# ## At work
#
# Memory-bound or compute-bound? Let PyTorch count the FLOP, count the bytes, and compare with the ridge point:
#
# ```python
# import torch
# from torch.utils.flop_counter import FlopCounterMode
# layer, x = torch.nn.Linear(1024, 4096), torch.randn(512, 1024)
# with FlopCounterMode(display=False) as counter:
#     y = layer(x)
# moved = sum(t.nbytes for t in (x, y, *layer.parameters()))
# print(counter.get_total_flops() / moved, "FLOP/B")  # an H200's ridge points by datasheet: 13.9 in float32, 206 in bfloat16 (tensor cores)
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [05 · What does fusion save?](05_fusion.ipynb) moves fewer bytes. Side roads: [04b](04b_caches.ipynb) looks into
# the GPU, and [04c](04c_pseudo_linear.ipynb) uses the roofline.
#
# Back: [03 · When does the GPU wait for the host?](03_overhead.ipynb)
