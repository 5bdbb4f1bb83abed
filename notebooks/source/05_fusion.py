# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton]
# ---

# %% [markdown] tags=["question"]
# # 05 · Why carry it back only to fetch it again?
#
# Each operator of torch fetches its numbers from the memory and brings its result back. The next one fetches that result
# again. **What is gained if the numbers stay in the factory in between?**

# %% tags=["setup", "question"]
from brrr import array, check, claims, compare_speedup, cost, explore, factory, guess, predict, reachable
from brrr.course import cos_cos, first_available

factory("memory")

# %% [markdown] tags=["guess"]
# ## Guess: two operators as one
#
# ```python
# def cos_cos(x):                # x: 2^28 float32
#     return x.cos().cos()
# ```
#
# Run as it stands, these are two **kernels**. A compiler can write one kernel for both: this is **fusion**. Count first:
# how often does each number travel, before and after?

# %% tags=["guess"]
g = guess("As one kernel, x.cos().cos() is faster by a factor of ...", unit="x")

# %% [markdown] tags=["run"]
# ## Run
#
# First the calculator: it counts the bytes and predicts, without running anything. The peaks are the course's H200's.

# %% tags=["run", "nbval-check-output"]
work = cost(cos_cos, array(2**28, "float32"))
print(f"one by one {work.eager_bytes:.3g} B, fused {work.bytes:.3g} B")
print(predict(work), predict(work, how="compiled"), sep="\n")

# %% [markdown] tags=["run"]
# Then the measurement. There are three ways to one kernel: `torch.compile` writes it, you write it in Triton, or you write
# one line of CUDA C++. Live on a CPU there is a fourth: both operators on a block of the array that stays in the cache,
# then on the next. The thin dashes are what is predicted of each line.

# %% tags=["run"]
at = reachable("cos_cos", elements=2**28, dtype=["float32"])
fused = dict.fromkeys(["compile", "triton", "cuda"], "eager")
fused = first_available("cos_cos", fused, {"cpu blocks": "cpu eager"})
explore("cos_cos", at=at, show={"speedup": fused}, unlock=g)

# %% tags=["compare"]
compare_speedup(g, "cos_cos", fused, **at)

# %% [markdown] tags=["explain"]
# Two operators move four arrays: in, out, in, out. One kernel moves two. If trucks set the pace, half the freight takes
# half the time, and **two cosines should take hardly longer than one**. That is the whole trick: fusion saves no
# arithmetic at all. It saves the trips of what stands *in between*.
#
# Where the measurement stays below the dashes' promise of the bytes alone, the factory has begun to count: an accurate
# cosine is a long polynomial, and two of them on one delivery are almost too much. Choose *bfloat16*: half the freight,
# the same cosines.
#
# Move to the left. In the middle, what the first kernel brings back may still lie in the **L2 cache** when the second one
# asks for it: a shorter trip, and less to save. At the end, all that fusion saves is the start of a kernel.

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
compare_speedup(s, "fusion", gains, **there)

# %% [markdown] tags=["explain"]
# A row fits into a multiprocessor. So the kernel fetches it once, finds its maximum, its exponentials and its sum, and
# brings back the result: pointwise work **fused onto a reduction**. The same holds for a layer norm. Such formulas have
# many small operators, and so most to gain.
#
# A work that gains *more* than its bytes say had an operator slower than its own bytes: torch adds a row to each row of a
# matrix by a slower kernel than it adds two matrices.
#
# Three gain less:
#
# - **Somebody else needs it too.** In *two results* the first cosine is asked for as well. It must be brought back, fused
#   or not.
# - **The factory is the slower partner.** A linear layer is a matrix product: the trucks wait anyway. To fuse its ReLU
#   saves a trip that hardly anybody waits for.
# - **Tiny arrays.** The figure shows the device's own time. A program that runs tiny kernels in a loop waits for orders,
#   and a compiled function's order may be the dearer one.
#
# Does it matter who fuses? Lesson 05b has the claim.

# %% [markdown] tags=["explore"]
# ## Explore: a longer chain
#
# The nested sine of lesson 02 is a chain of four. Its author let `torch.jit.script` fuse them and found *almost half of the
# time* saved. By the bytes alone, one kernel for k operators takes one k-th. Make the chain longer: how far does each of
# the three ways follow, and what stops it? (Think of two cosines in *bfloat16*.)

# %% tags=["explore"]
ways = dict.fromkeys(["script", "compile", "cuda"], "eager")
ways = first_available("sines", ways, {"cpu blocks": "cpu eager"})
explore("sines", at=reachable("sines", sines=4, elements=2**26), show={"speedup": ways})

# %% [markdown] tags=["your-turn"]
# ## Your turn: count the bytes
#
# `torch.relu(x + b) * g`, where `x` and `g` have 4096 rows of 1024 float32 and `b` has 1024. How many bytes do the three
# operators move, one by one, and how many does one fused kernel? Count reads and writes by hand; no machine is needed.

# %% tags=["your-turn", "exercise:05-bytes"]
check("05-bytes", eager=..., fused=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# From *Making Deep Learning Go Brrrr From First Principles*, *GPU Performance: Parallel Processing vs Overhead* (2024) and
# this course's own expectations, on your source. Live, measure the points first.

# %% tags=["claims"]
claims("05")
