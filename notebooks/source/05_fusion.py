# ---
# jupyter:
#   readme: {short: 'fusion', asks: 'what does fusion save?', before: '04'}
#   brrr:
#     needs: [cuda, triton]
# ---

# %% [markdown] tags=["question"]
# # 05 · What does fusion save?
#
# Each PyTorch operator reads its input from memory and writes its result back. The next operator reads that result again. **What
# do you gain if the numbers stay in [[registers]] in between?**
#
# You will be able to:
#
# - count the bytes that [[fusion]] saves
# - estimate how much faster a fused kernel is
# - rewrite passes over memory as one
#
# Know before: [04](04_memory_bound.ipynb)'s [[memory-bound]].

# %% tags=["setup", "question"]
from brrr import array, cost, predict
from brrr_course import check, claims, compare, cos_cos, explore, factory, guess

factory("memory", detail="l2")

# %% [markdown] tags=["guess"]
# ## Guess: two operators as one
#
# ```python
# def cos_cos(x):                # x: 2²⁸ float32
#     return x.cos().cos()
# ```
#
# PyTorch launches two [[kernel|kernels]]. A compiler can write one that does both: [[fusion]]. Count before you
# guess: how often does each number travel to memory or from memory, with two kernels and with one?

# %% tags=["guess"]
g = guess("As one kernel, x.cos().cos() is faster by a factor of ...", unit="x")

# %% [markdown] tags=["run"]
# First the calculator: it counts bytes and predicts times, and runs nothing. Then the measurement of three ways to one kernel:
# `torch.compile` writes it, you write it in Triton, or you write one line of CUDA C++. Dashed is the prediction.

# %% tags=["run"]
work = cost(cos_cos, array(2**28, "float32"))
display(work, predict(work, device="h200"), predict(work, device="h200", how="compiled"))

# %% tags=["run"]
at = {"elements": 2**28, "dtype": "float32"}
fused = {"compile": "eager", "triton": "eager", "cuda": "eager"}
asks = "What does one kernel in place of two gain?"
explore("cos_cos", at=at, show={"speedup": fused}, unlock=g, predict=True, title=asks)

# %% tags=["compare"]
compare(g, "cos_cos", fused, of="speed-up", at=at)

# %% [markdown] tags=["explain"]
# <details><summary>What measured it</summary>
#
# ```python
# import torch.utils.benchmark
# cos_cos = lambda x: x.cos().cos()
# x = torch.randn(2**28, device="cuda")
# for f in (cos_cos, torch.compile(cos_cos)):
#     print(torch.utils.benchmark.Timer("f(x)", globals=globals()).blocked_autorange())
# ```
#
# </details>
#
# Two kernels move four arrays: in, out, in, out. One kernel moves two. By the bytes, that is a factor of two.
#
# One cosine is [[memory-bound]]: its arithmetic hides behind its bytes. Fusion saves no arithmetic; it puts two cosines on the same
# bytes, which doubles the [[arithmetic intensity]]. Now arithmetic takes about as long as the bytes (*balanced*), so the gain stays a
# little below two.
# <!-- so cos_cos: at(elements=268435456, dtype='float32'); [busy('eager') / busy(way) for way in ('compile', 'triton',
# 'cuda')] is 1.8 to 2 -->
#
# Elsewhere in the figure:
#
# - **bfloat16** halves the bytes, but not the cosines: fusion gains less.
# <!-- so cos_cos: at(elements=67108864); gain = [busy('eager', dtype=kind) / busy(way, dtype=kind) for way in
# ('compile', 'triton', 'cuda') for kind in ('bfloat16', 'float32')]; [gain[way, 'bfloat16'] < gain[way, 'float32'] for
# way in ('compile', 'triton', 'cuda')] -->
# - **At 2²⁰** the gain is small: the second kernel finds the first one's result in the [[L2]] cache.
# <!-- so cos_cos: at(dtype='float32', elements=[1024, 16384, 262144, 1048576, 16777216, 268435456]); gain =
# [busy('eager') / busy(way) for way in ('compile', 'triton', 'cuda')]; [gain[way][1048576] <= min(gain[way]) for way in
# ('compile', 'triton', 'cuda')] -->
# - **At the left end** starting a kernel takes longer than its bytes. One start replaces two, and the compiler's kernel takes
#   less time than a single one of PyTorch's.
# <!-- so cos_cos: at(elements=1024, dtype='float32'); busy('eager') / busy('compile') > 2 -->

# %% [markdown] tags=["guess"]
# ## Guess: softmax, five operators
#
# ```python
# power = torch.exp(x - x.amax(-1, keepdim=True))
# return power / power.sum(-1, keepdim=True)
# ```
#
# A row of `x` has 1024 numbers. A maximum or a sum over it is a **reduction**: it needs the whole row. Can
# one kernel do all five operators and read `x` only once?

# %% tags=["guess"]
s = guess("As one kernel, this softmax is faster by a factor of ...", unit="x")

# %% tags=["run"]
gains = {
    "softmax compile": "softmax eager",
    "norm compile": "norm eager",
    "bias compile": "bias eager",
    "kept compile": "kept eager",
    "linear compile": "linear eager",
}
there = {"elements": 2**26, "dtype": "float32"}
large = {"elements": (2**20, 2**22, 2**24, 2**26)}
asks = "What does fusion gain, and where?"
explore("fusion", at=there, values=large, show={"speedup": gains}, unlock=s, predict=True, title=asks)

# %% tags=["compare"]
compare(s, "fusion", gains, of="speed-up", at=there)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Fusion gains nothing for a linear layer with its ReLU, and a lot for a layer norm. Why? Double-click here
# and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# A linear layer is [[compute-bound]]: its matmul takes nearly all of the time, so the ReLU's bytes hardly count. A layer norm is many small
# memory-bound operators. A row fits into one multiprocessor's registers, so one kernel reads it once and does them all.
#
# </details>
#
# Numbers moved, for n elements of `x` (rows and weights left out):
#
# | line | computes | one by one | fused |
# | --- | --- | --- | --- |
# | softmax | as above | 8n | 2n |
# | layer norm | `c = x - mean(x)`, `c * rsqrt(mean(c * c) + eps) * w + b` | 12n | 2n |
# | bias and ReLU | `relu(x + b)` | 4n | 2n |
# | two cosines, both needed | `h = x.cos()`, `h.cos()` | 4n | 3n |
# | linear layer and ReLU | `relu(x @ W + b)` | 4n | 2n |
#
# For a float32 `x` of shape (B, N), fusing bias and ReLU saves one write and one read, 2 · B · N · 4 bytes. With
# B = 8192 and N = 4096 that is 268 MB.
# <!-- so fusion: 2 * 8192 * 4096 * 4 is 267.5e6 to 268.5e6 -->
#
# The first three lines gain *more* than the table says. Some of their operators, run alone, take longer than their bytes:
# <!-- so fusion: at(elements=67108864, dtype='float32'); busy('softmax-eager') / busy('softmax-compile') > 4;
# busy('norm-eager') / busy('norm-compile') > 6; busy('bias-eager') / busy('bias-compile') > 2; busy('linear-eager') /
# busy('linear-compile') is 0.95 to 1.05 -->
# PyTorch adds a row to each row of a matrix with a slower kernel than the one that adds two matrices. *Predictions*, below the
# figure, knows these kernels; table and claims count *bytes alone*.
#
# With tiny arrays fusion can even lose: calling a compiled function costs the host more than the operators do.
# <!-- so fusion: at(elements=1024, dtype='float32'); period('chain-compile') > 1.2 * period('chain-eager') -->
#
# **What stops a compiler from fusing?**
#
# - A matmul mostly stays the library's own kernel; only the pointwise operators around it are fused.
# - A reduction across thread blocks: all must finish before any can use its result.
# - A result needed elsewhere must be written: saved for the backward pass, or changed in place and seen through a view.
# - A **graph break**: `print`, `.item()` or an `if` on a tensor's values needs Python in between, so the parts are compiled separately.

# %% [markdown] tags=["explore"]
# ## Explore: a longer chain
#
# Lesson 02's nested sine is a chain of four. By the bytes alone, one kernel for k operators takes one k-th of the time. Make the
# chain longer: how far does the gain of each way follow?
#
# <details><summary>Answer</summary>
#
# That of CUDA C++ follows up to two sines, that of the others not even so far. From eight on, all three gain about twofold: an accurate
# <!-- so sines: at(elements=67108864); gain = [busy('eager', sines=n) / busy(way, sines=n) for way in ('cuda',
# 'compile', 'script') for n in (2, 8, 16, 32)]; gain['cuda', 2] is 1.9 to 2.1; [gain[way, 2] for way in ('compile',
# 'script')] < 1.5; [gain[way, n] for way in ('cuda', 'compile', 'script') for n in (8, 16, 32)] is 1.8 to 2.5 -->
# sine is a long polynomial: the kernel is compute-bound, and each further sine adds its arithmetic.
#
# </details>

# %% tags=["explore"]
ways = {"script": "eager", "compile": "eager", "cuda": "eager"}
explore(
    "sines", at={"sines": 4, "elements": 2**26}, show={"speedup": ways}, title="Longer chains: does fusion gain more?"
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: the small part of the FLOP
#
# A transformer layer has width 1024 and processes 8192 tokens in bfloat16. Its matmuls (without attention's own): four
# multiply (tokens × 1024) by (1024 × 1024), one goes to 4096 features and one back. The rest: two layer norms, two additions, and a GELU on the 4096
# features, each a kernel that reads its inputs and writes its result once. *Calculate* the matmuls' FLOP, the rest's bytes, and
# the rest's share of the time at 660 TFLOP/s and 4.2 TB/s.

# %% tags=["your-turn", "exercise:05-transformer", "calculates"]
check("05-transformer", flop=..., nbytes=..., share=...)

# %% [markdown] tags=["your-turn"]
# ## More: three passes as one
#
# `gated` computes `relu(x + b) * g`, one operator after the other. `memory.read(name, i)` and `memory.write(name, i, value)` are counted.
# Rewrite it so that it makes the same "y" with as few of them as possible. Then write `gated=gated`.


# %% tags=["your-turn", "exercise:05-passes", "makes"]
def gated(memory, n):
    for i in range(n):
        memory.write("sum", i, memory.read("x", i) + memory.read("b", i))
    for i in range(n):
        memory.write("relu", i, max(memory.read("sum", i), 0.0))
    for i in range(n):
        memory.write("y", i, memory.read("relu", i) * memory.read("g", i))


check("05-passes", gated=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# From *Making Deep Learning Go Brrrr From First Principles*, *GPU Performance: Parallel Processing vs Overhead* (2024), and this course's
# own expectations.

# %% tags=["claims"]
claims("05")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** On an H200, fusing memory-bound operators on large float32 arrays gains at least 0.9 of what their bytes promise.
# <!-- so fusion: at(elements=67108864, dtype='float32'); [busy(f'{way}-eager') /
# busy(f'{way}-compile') / promised for way, promised in (('softmax', 4), ('norm', 6), ('bias', 2), ('kept', 4 / 3))] > 0.9 -->
#
# - Fusion saves the memory traffic between operators, and no arithmetic.
# - Where memory sets the pace, expect a gain of all operators' bytes over the bytes of inputs and results; more where an operator
#   alone takes longer than its bytes require.
# - Expect little after a matmul, where an intermediate is needed anyway, or where the host sets the pace.
#
# Terms: [[fusion]], [[memory-bound]], [[compute-bound]], [[L2]], [[arithmetic intensity]].

# %% [markdown] tags=["work"]
# ## At work
#
# Let the compiler fuse, and report graph breaks:
#
# ```python
# import torch
# def biased(x, b):
#     return torch.relu(x + b)
#
# fused = torch.compile(biased, fullgraph=True)
# x, b = torch.randn(4096, 1024), torch.randn(1024)
# torch.testing.assert_close(fused(x, b), biased(x, b))
# ```
#
# `TORCH_LOGS=output_code` prints the kernels that it wrote.

# %% [markdown] tags=["next"]
# ## Next
#
# [07 · What does one more column cost?](07_gemm_shapes.ipynb) looks into the matmuls. Side roads: [05b · Who writes the
# kernel?](05b_codegen.ipynb), [06 · How much of the time is PyTorch itself?](06_killing_overhead.ipynb), and after 11
# [11b · When does fusion need a new algorithm?](11b_attention.ipynb).
#
# Back: [04 · How much arithmetic is free?](04_memory_bound.ipynb)
