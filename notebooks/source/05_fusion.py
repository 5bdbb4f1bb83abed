# ---
# jupyter:
#   readme: {short: 'fusion', asks: 'what does fusion save?', before: '04'}
#   brrr:
#     needs: [cuda, triton]
# ---

# %% [markdown] tags=["question"]
# # 05 · What does fusion save?
#
# Each PyTorch operator reads its input from memory and writes its result back. The next one reads it again. **What
# do you gain if the numbers stay in [[registers]] in between?**
#
# You will be able to:
#
# - count the bytes that [[fusion]] saves
# - estimate how much faster a fused kernel is
# - write a fused kernel in Triton
#
# Know before: [04](04_memory_bound.ipynb)'s [[memory-bound]].

# %% tags=["setup", "question"]
from brrr import array, cost, predict
from brrr_course import check, claims, compare, cos_cos, explore, factory, guess, tl, triton

factory("memory", detail="l2")

# %% [markdown] tags=["guess"]
# ## Guess: two operators as one
#
# ```python
# def cos_cos(x):                # x: 2²⁸ float32
#     return x.cos().cos()
# ```
#
# PyTorch launches two [[kernel|kernels]]. One kernel can do both: [[fusion]]. Count first: how often does each number travel to or
# from memory, with two kernels and one?

# %% tags=["guess"]
g = guess("As one kernel, x.cos().cos() is faster by a factor of ...", unit="x")

# %% [markdown] tags=["run"]
# The calculator counts bytes and predicts times (dashed). Then three ways to one kernel are measured: `torch.compile`, Triton,
# and one line of CUDA C++.

# %% tags=["run"]
work = cost(cos_cos, array(2**28, "float32"))
display(work, predict(work, device="h200"), predict(work, device="h200", how="compiled"))

# %% tags=["run"]
at = {"elements": 2**28, "dtype": "float32"}
one_kernel = {"compile": "eager", "triton": "eager", "cuda": "eager"}
asks = "What does one kernel in place of two gain?"
explore("cos_cos", at=at, show={"speedup": one_kernel}, unlock=g, predict=True, title=asks)

# %% tags=["compare"]
compare(g, "cos_cos", one_kernel, of="speed-up", at=at)

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
# Two kernels move four arrays: in, out, in, out. One kernel moves two: by the bytes, a factor of two.
#
# One cosine is [[memory-bound]]: its arithmetic hides behind its bytes. Two on the same bytes double the [[arithmetic intensity]]. Now
# arithmetic takes about as long as the bytes, and the gain stays a little below two.
# <!-- so cos_cos: at(elements=268435456, dtype='float32'); [busy('eager') / busy(way) for way in ('compile', 'triton',
# 'cuda')] is 1.8 to 2 -->
#
# **At 2²⁰** the gain is small: the second kernel finds its input in the [[L2]] cache.
# <!-- so cos_cos: at(dtype='float32', elements=[1024, 16384, 262144, 1048576, 16777216, 268435456]); gain =
# [busy('eager') / busy(way) for way in ('compile', 'triton', 'cuda')]; [gain[way][1048576] <= min(gain[way]) for way in
# ('compile', 'triton', 'cuda')] -->

# %% [markdown] tags=["guess"]
# ## Guess: softmax, five operators
#
# ```python
# power = torch.exp(x - x.amax(-1, keepdim=True))
# return power / power.sum(-1, keepdim=True)
# ```
#
# A row of `x` has 1024 numbers. A maximum or a sum over it is a **reduction**: it needs the whole row. Can one kernel do the five
# operators and read `x` once?

# %% tags=["guess"]
s = guess("As one kernel, this softmax is faster by a factor of ...", unit="x")

# %% tags=["run"]
gains = {
    "softmax compile": "softmax eager",
    "norm compile": "norm eager",
    "chain compile": "chain eager",
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
# <!-- so fusion: at(elements=67108864, dtype='float32'); busy('linear-eager') / busy('linear-compile') is 0.98 to 1.02;
# busy('norm-eager') / busy('norm-compile') > 6 -->
# and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# A linear layer with this many rows is [[compute-bound]]: next to its matmul the ReLU's bytes count little. A layer norm is many
# memory-bound operators. A row fits into one multiprocessor's registers, so one kernel reads it once.
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
# | scale, add and ReLU | `relu(a * x + r)` | 7n | 3n |
# | two cosines, both needed | `h = x.cos()`, `h.cos()` | 4n | 3n |
# | linear layer and ReLU | `relu(x @ W + b)` | 4n | 2n |
#
# The first three lines gain *more* than the table says: some of their operators, run alone, take longer than their bytes.
# <!-- so fusion: at(elements=67108864, dtype='float32'); busy('softmax-eager') / busy('softmax-compile') > 4;
# busy('norm-eager') / busy('norm-compile') > 6; busy('bias-eager') / busy('bias-compile') > 2; busy('linear-eager') /
# busy('linear-compile') is 0.95 to 1.05 -->
#
# With tiny arrays fusion can lose: the host sets the pace (the figures show the GPU's time alone), and a compiled function costs it more than
# the operators.
# <!-- so fusion: at(elements=1024, dtype='float32'); period('chain-compile') > 1.2 * period('chain-eager') -->
#
# **What stops a compiler from fusing?**
#
# - A matmul: it mostly stays the library's own kernel.
# - A sum over many thread blocks: its result is there when the last block has finished.
# - A result needed elsewhere, as in the backward pass: it must be written.
# - A **graph break**: `print`, `.item()` or an `if` on a tensor's values needs Python in between.
#
# **Activation checkpointing** computes the forward's results again for the backward. It saves memory and costs one more forward. A backward
# takes about two, so a step takes a third longer: worth it if the model fits only so, or a larger batch gains more. Where bytes set the pace,
# computing again can be faster than reading ([05b](05b_codegen.ipynb)). An operator *in place* (`x.cos_()`) saves memory too, but moves the
# same bytes.
# <!-- by arithmetic: forward 1 and backward 2 become 4 in place of 3 -->

# %% [markdown] tags=["explore"]
# ## Explore: a longer chain
#
# By the bytes, one kernel for k sines takes one k-th of the time. How far does each way follow?
#
# <details><summary>Answer</summary>
#
# CUDA C++ follows up to two sines, the others less far. From eight on, each gains about twofold: an accurate
# <!-- so sines: at(elements=67108864); gain = [busy('eager', sines=n) / busy(way, sines=n) for way in ('cuda',
# 'compile', 'script') for n in (2, 8, 16, 32)]; gain['cuda', 2] is 1.9 to 2.1; [gain[way, 2] for way in ('compile',
# 'script')] < 1.5; [gain[way, n] for way in ('cuda', 'compile', 'script') for n in (8, 16, 32)] is 1.8 to 2.5 -->
# sine is a long polynomial, so the kernel is compute-bound.
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
# A transformer layer has width 1024 and processes 8192 tokens in bfloat16. Its matmuls (a product of (a × b) by (b × c) takes 2abc
# FLOP; without attention's own): four multiply (tokens × 1024) by (1024 × 1024), one goes to 4096 features and one back. The rest:
# two layer norms, two additions, and a GELU on the 4096 features. Each is a kernel that reads its inputs and writes its result once. *Calculate* the matmuls' FLOP, the
# rest's bytes, and the rest's share of the time at 660 TFLOP/s and 4.2 TB/s.

# %% tags=["your-turn", "exercise:05-transformer", "calculates"]
check("05-transformer", flop=..., nbytes=..., share=...)

# %% [markdown] tags=["your-turn"]
# ## More: fill in a Triton kernel
#
# You write what one *program* does with its block of 1024 numbers, and start many:
#
# ```python
# programs = triton.cdiv(x.numel(), 1024)           # divide and round up: 2500 numbers need 3 programs
# kernel[(programs,)](x, y, x.numel(), BLOCK=1024)
# ```
#
# In the kernel, `x` is the address of the first number, so `x + place` are 1024 addresses. Of 2500 numbers, program 2 has the places
# 2048 to 3071, and its **mask** leaves out those from 2500 on. A variable is a register.
#
# Fill in two lines, so that `y` becomes `x.cos().cos()`, then write `kernel=kernel`. `check` counts the bytes that you read and write.
# Without a GPU, Triton's interpreter runs it (on Linux).


# %% tags=["your-turn", "exercise:05-kernel", "makes"]
@triton.jit
def kernel(x, y, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # program 0: 0 to 1023, program 1: 1024 to 2047, ...
    inside = place < count  # the mask
    value = tl.load(x + place, mask=inside).to(tl.float32)  # x may be bfloat16; tl.cos takes float32
    ...  # yours: compute. The cosine is tl.cos(value)
    ...  # yours: store. tl.store(addresses, values, mask=...) writes


check("05-kernel", kernel=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# From *Making Deep Learning Go Brrrr From First Principles*, *GPU Performance: Parallel Processing vs Overhead* (2024), and this course.

# %% tags=["claims"]
claims("05")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** On an H200, fusing operators on large float32 arrays gains at least 0.9 of what the bytes promise, if the fused kernel is memory-bound.
# <!-- so fusion: at(elements=67108864, dtype='float32'); [busy(f'{way}-eager') /
# busy(f'{way}-compile') / promised for way, promised in (('softmax', 4), ('norm', 6), ('bias', 2), ('kept', 4 / 3))] > 0.9 -->
#
# - Fusion saves the memory traffic between operators, and no arithmetic.
# - For memory-bound operators expect a gain of the operators' bytes, one by one, over the bytes of inputs and results.
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

# %% [markdown] tags=["next"]
# ## Next
#
# [07 · What does one more column cost?](07_gemm_shapes.ipynb) looks into the matmuls. Side roads: [05b · Who writes the
# kernel?](05b_codegen.ipynb), [06 · How much of the time is PyTorch itself?](06_killing_overhead.ipynb), and after 11
# [11b · When does fusion need a new algorithm?](11b_attention.ipynb).
#
# Back: [04 · How much arithmetic is free?](04_memory_bound.ipynb)
