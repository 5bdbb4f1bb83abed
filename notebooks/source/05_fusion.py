# ---
# jupyter:
#   readme: {short: 'fusion', asks: 'what does fusion save?', before: '04'}
#   brrr:
#     needs: [cuda, triton]
# ---

# %% [markdown] tags=["question"]
# # 05 · What does fusion save?
#
# Each operator of torch reads its numbers from memory and writes its result back. The next one reads that result again. **What
# is gained if the numbers stay in registers in between?**

# %% tags=["setup", "question"]
from brrr import array, cost, predict
from brrr_course import check, claims, compare, cos_cos, explore, factory, first_available, guess, reachable

factory("memory", detail="l2")

# %% [markdown] tags=["guess"]
# ## Guess: two operators as one
#
# ```python
# def cos_cos(x):                # x: 2^28 float32
#     return x.cos().cos()
# ```
#
# Run as it stands, these are two [[kernel|kernels]]. A compiler can write one kernel for both: [[fusion]]. Count first: how often
# does each number go to memory or come from it, before and after?
#
# First the calculator: it counts the bytes and predicts, without running anything. The peaks are the course's H200's.

# %% tags=["guess"]
g = guess("As one kernel, x.cos().cos() is faster by a factor of ...", unit="x")

# %% tags=["run", "nbval-check-output"]
work = cost(cos_cos, array(2**28, "float32"))
print(f"one by one {work.eager_bytes:.3g} B, fused {work.bytes:.3g} B")
print(predict(work, device="h200"), predict(work, device="h200", how="compiled"), sep="\n")

# %% [markdown] tags=["run"]
# Then the measurement, of three ways to one kernel: `torch.compile` writes it, you write it in Triton, or you write one line of
# CUDA C++. (Live on a CPU: both operators on a block of the array that stays in the cache, then on the next.) Dashed is the
# *roofline prediction*, which knows the arithmetic of a cosine as well as its bytes.

# %% tags=["run"]
at = reachable("cos_cos", elements=2**28, dtype=["float32"])
fused = dict.fromkeys(["compile", "triton", "cuda"], "eager")
fused = first_available("cos_cos", fused, {"cpu blocks": "cpu eager"})
explore("cos_cos", at=at, show={"speedup": fused}, unlock=g)

# %% tags=["compare"]
compare(g, "cos_cos", fused, of="speed-up", **at)

# %% [markdown] tags=["explain"]
# Two operators move four arrays: in, out, in, out. One kernel moves two: a *bytes ratio* of two. Both are [[memory-bound]], so
# two cosines take hardly longer than one. Fusion saves no arithmetic: it saves the traffic of what stands in between,
# and so raises the [[arithmetic intensity]].
#
# Where the gain stays below the bytes ratio, arithmetic has begun to count: an accurate cosine is a long polynomial. Choose
# *bfloat16*: half the bytes, the same cosines. Move to the left: what the first kernel wrote may still lie in the [[L2]] cache
# when the second one reads it, and there is less to save. At the end, all that fusion saves is a kernel's start.

# %% [markdown] tags=["guess"]
# ## Guess: five operators
#
# ```python
# power = torch.exp(x - x.amax(-1, keepdim=True))         # softmax, as its formula says
# return power / power.sum(-1, keepdim=True)
# ```
#
# The rows have 1024 numbers. A sum over a row is a **reduction**: it needs all of its numbers before it has a result. Can
# the whole be one kernel that reads `x` once? And if so, how much is gained?

# %% tags=["guess"]
s = guess("As one kernel, this softmax is faster by a factor of ...", unit="x")

# %% tags=["run"]
works = ["softmax", "norm", "chain", "bias", "pseudo", "kept", "linear"]
gains = {f"{name} compile": f"{name} eager" for name in works}
blocks = {f"cpu {name} blocks": f"cpu {name} eager" for name in works[:5]}
gains = first_available("fusion", gains, blocks)
there = reachable("fusion", elements=2**26, dtype=["float32"])
explore("fusion", at=there, show={"speedup": gains}, unlock=s)

# %% tags=["compare"]
compare(s, "fusion", gains, of="speed-up", **there)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** A linear layer with its ReLU gains next to nothing from fusion, a layer norm a lot. Why? Double-click here
# and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# A linear layer is [[compute-bound]]: memory waits for its product anyway, and fusing the ReLU saves traffic that nobody waits
# for. A layer norm written out is many small operators, each memory-bound. A row fits into the registers of one
# multiprocessor, so one kernel reads it once, finds mean and variance, and writes the result: pointwise operators *fused onto a
# reduction*.
#
# </details>
#
# The figure's other works:
#
# - **More than its bytes say.** One operator was slower than its own bytes: torch adds a row to each row of a matrix by a slower
#   kernel than it adds two matrices.
# - **Two results.** The first cosine is needed elsewhere as well, so it must be written, fused or not.
# - **Tiny arrays.** The figure shows the GPU's own time. A loop over tiny kernels waits for the host ([[overhead-bound]]), and
#   calling a compiled function may cost the host more than the operators did.
#
# In the source's profile of a transformer, products have nearly all of the FLOP and take two thirds of the time. The rest, a fraction of a percent of
# the FLOP, takes the other third: it is memory-bound. The exercise below calculates why.

# %% [markdown] tags=["explore"]
# ## Explore: a longer chain
#
# The nested sine of lesson 02 is a chain of four. Its author let `torch.jit.script` fuse them and found *almost half of the
# time* saved. By the bytes alone, one kernel for k operators takes one k-th. Make the chain longer: how far does each of
# the three ways follow, and what stops it?

# %% tags=["explore"]
ways = dict.fromkeys(["script", "compile", "cuda"], "eager")
ways = first_available("sines", ways, {"cpu blocks": "cpu eager"})
explore("sines", at=reachable("sines", sines=4, elements=2**26), show={"speedup": ways})

# %% [markdown] tags=["your-turn"]
# ## Your turn: the small part of the FLOP
#
# A transformer's layer: width 1024, 8192 tokens, bfloat16. Its products: four of tokens × 1024 by 1024 × 1024, one to 4096
# features and one back (we leave out the attention's scores). Besides: two layer norms, two additions, and a GELU on the 4096
# features, each a kernel that reads its inputs and writes its result once. *Calculate* the products' FLOP, the bytes of the rest,
# and the rest's share of the time with 660 TFLOP/s and 4.2 TB/s.

# %% tags=["your-turn", "exercise:05-transformer", "calculates"]
check("05-transformer", flop=..., nbytes=..., share=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: three passes as one
#
# `gated` computes `relu(x + b) * g` operator by operator. `memory.read(name, i)` and `memory.write(name, i, value)` are counted.
# Mend it so that "y" is the same with as few of them as possible, then write `gated=gated`.


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
# ## What held
#
# From *Making Deep Learning Go Brrrr From First Principles*, *GPU Performance: Parallel Processing vs Overhead* (2024) and
# this course's own expectations, on your source. Live, measure the points first.

# %% tags=["claims"]
claims("05")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - Fusion saves the memory traffic of what stands between two operators, and no arithmetic.
# - Where memory sets the pace, it gains the bytes of all operators over the bytes of the inputs and results; more where an operator
#   alone took longer than its bytes.
# - It gains little behind a matrix product, where an intermediate is needed anyway, and where the host sets the pace.
#
# Terms: [[fusion]], [[memory-bound]], [[compute-bound]], [[L2]], [[overhead-bound]].

# %% [markdown] tags=["work"]
# ## At work
#
# Let the compiler fuse, and check both the result and what it launched:
#
# ```python
# import torch
# def gated(x, b, g):
#     return torch.relu(x + b) * g
# x, g = torch.randn(2, 4096, 1024)
# b, fused = torch.randn(1024), torch.compile(gated)
# torch.testing.assert_close(fused(x, b, g), gated(x, b, g))
# ```
#
# `TORCH_LOGS=output_code python train.py` prints the kernels that it wrote.

# %% [markdown] tags=["next"]
# ## Next
#
# [07 · What does one more column cost?](07_gemm_shapes.ipynb) looks into the products. Beside the road, [06 · How much of the time
# is PyTorch itself?](06_killing_overhead.ipynb) removes the launches, and [05b · Who writes the kernel?](05b_codegen.ipynb) is for
# engineers.
#
# Back: [04b · When does memory keep up?](04b_caches.ipynb)
