# ---
# jupyter:
#   readme: {short: 'Strassen', asks: 'can a matrix multiplication be faster than the hardware''s peak?', before: '07'}
#   brrr:
#     leaves: '07'
#     needs: [cuda, triton, pycuda]
# ---

# %% [markdown] tags=["question"]
# # 09 · Faster than the peak?
#
# Side road.
# Know before: [tiles](07_gemm_shapes.ipynb).
#
# Multiplying two n × n matrices takes 2n³ FLOP, and a datasheet says how many FLOP a GPU does per second. That gives the shortest
# possible time, or so it seems. In 1969, Volker Strassen found a way with fewer multiplications. **Can a matmul be faster than the
# hardware's peak allows?**
#
# You will be able to:
#
# - calculate from which size on Strassen wins
# - tell the FLOP asked for from those done
# - find a wrong sign in Strassen's sums

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, drawing, explore, factory, guess

factory("compute", detail="sm")

# %% [markdown] tags=["guess"]
# ## Guess: seven instead of eight
#
# Cut both matrices into four blocks. The textbook multiplies eight pairs of blocks, each of half the size. Strassen first adds some
# blocks, and then needs only seven multiplications. Sums of the seven products are the result's blocks. This is one
# [[Strassen level|level]]; two levels cut each of the seven again. If the right-hand matrix is a network's weights, its sums can be
# made once, beforehand (*prepared*).
#
# We compare with *SGEMM*, cuBLAS's float32 matmul without [[tensor core|tensor cores]]. It does the seven multiplications too.

# %% tags=["guess"]
g = guess("With one level, a float32 matmul of size 8192 is faster by a factor of ...", unit="x")

# %% tags=["run"]
levels = {
    "sgemm strassen 1 prepared": "sgemm",
    "sgemm strassen 1": "sgemm",
    "sgemm strassen 2 prepared": "sgemm",
    "sgemm strassen 3 prepared": "sgemm",
}
explore(
    "strassen", at={"size": 8192}, show={"speedup": levels}, unlock=g, title="From which size on does Strassen gain?"
)

# %% tags=["compare"]
compare(g, "strassen", levels, of="speed-up", size=8192)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Seven multiplications instead of eight should gain 8/7. Why less for small matrices? Double-click
# here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# A level saves an eighth of the arithmetic, which grows with n³. It adds sums of blocks, which grow with n². The sums are pointwise
# kernels, so they are [[memory-bound]]. A small matrix has little arithmetic per byte (a low [[arithmetic intensity]]), so the sums
# take longer than the level saves.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import torch
# from torch.utils.benchmark import Timer
# n, device = (8192, "cuda") if torch.cuda.is_available() else (1024, "cpu")
# whole, blocks = torch.randn(2, n, n, device=device), torch.randn(2, 7, n // 2, n // 2, device=device)
# for (x, y), more in ((whole, ""), (blocks, "; [x[0] + y[0] for _ in range(18)]")):  # a level has 18 sums (here not fused)
#     print(Timer("x @ y" + more, globals={"x": x, "y": y}).blocked_autorange().median, "s")
# ```
#
# </details>
#
# **Faster than the peak?** The *actual* rate counts the FLOP that were done, 7/8 of the textbook's per level, and stays below the peak. The
# [[effective rate]] counts what you asked for, 2n³, and may be above it.
#
# Here is a level with whole numbers. The columns in the middle are what it adds: sums and products that are written to memory and
# read again.

# %% tags=["explain"]
drawing("strassen-flow", step=12)

# %% [markdown] tags=["explore"]
# ## Explore: where does a level pay off?
#
# The effective rate against the size. From which size on does each number of levels beat SGEMM? Where does one level gain more than
# 8/7? What does an odd size cost (4097, a single marker)?
#
# <details><summary>Answer, on the H200</summary>
#
# Along the lines, two levels win from 2048 on, one and three from 3072 on. One level gains a little more than 8/7 at 3072 and 12288, where
# SGEMM's own rate dips. At 4097, SGEMM takes about a sixth longer than at 4096 ([[tile quantisation]]), the levels about a twentieth.
# <!-- so strassen: usual = [2048, 3072, 4096, 6144, 8192, 12288, 16384]; gain = [span('sgemm', size=n) /
# span(f'sgemm-strassen-{level}-prepared', size=n) for level in (1, 2, 3) for n in usual]; from_on([gain[2, n] > 1 for n
# in usual]) is 2048 to 2048; [from_on([gain[level, n] > 1 for n in usual]) for level in (1, 3)] is 3072 to 3072 -->
# <!-- so strassen: usual = [512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384]; gain = [span('sgemm', size=n) /
# span('sgemm-strassen-1-prepared', size=n) for n in usual]; count(gain > 8 / 7) == 2; [gain[n] for n in (3072, 12288)]
# > 8 / 7; max(gain) < 1.05 * 8 / 7 -->
# <!-- so strassen: rate = flop('sgemm') / span('sgemm'); rate[3072] < [rate[n] for n in (2048, 4096)]; rate[12288] <
# [rate[n] for n in (8192, 16384)] -->
# <!-- so strassen: span('sgemm', size=4097) / span('sgemm', size=4096) is 1.15 to 1.19;
# [span(f'sgemm-strassen-{level}-prepared', size=4097) / span(f'sgemm-strassen-{level}-prepared', size=4096) for level
# in (1, 2, 3)] is 1.03 to 1.07 -->
#
# </details>

# %% tags=["explore"]
rates = ["sgemm", "sgemm strassen 1 prepared", "sgemm strassen 2 prepared", "sgemm strassen 3 prepared"]
explore("strassen", at={"size": 8192}, lines=rates, show="rate", title="How many FLOP per second?")

# %% [markdown] tags=["your-turn"]
# ## Your turn: from which size on?
#
# Model a time as T(n) = a n³ + b n²: the arithmetic, and what touches each element once. Two measured sizes give a and b. With those of
# both curves, *calculate* the n from which a level wins.
#
# `classical` and `strassen` map two sizes to seconds. Complete `crossing`: it returns this n, or `float("inf")` if there is none. Choose
# two `sizes` of the slider, and compare with the figure.


# %% tags=["your-turn", "exercise:09-crossover", "calculates"]
def crossing(classical, strassen):
    (one, first), (two, second) = sorted(classical.items())
    a = (second / two**2 - first / one**2) / (two - one)
    b = first / one**2 - a * one  # and of the other curve?
    return a, b


check("09-crossover", sizes=..., crossing=...)

# %% [markdown] tags=["your-turn"]
# ## More: one wrong sign
#
# The drawing with whole numbers shows the products M1 to M7. `recombine` adds them up to the four blocks of the result, but one sign is
# wrong. C12 is right: M3 + M5 = A11 (B12 - B22) + (A11 + A12) B22 = A11 B12 + A12 B22, as A11 B22 cancels. Write out the
# others, fix the sign, and answer `recombine=recombine`.


# %% tags=["your-turn", "exercise:09-sign", "makes"]
def recombine(m1, m2, m3, m4, m5, m6, m7):
    c11 = m1 + m4 - m5 + m7
    c12 = m3 + m5
    c21 = m2 + m4
    c22 = m1 + m2 + m3 + m6
    return c11, c12, c21, c22


check("09-sign", recombine=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# The last sentence is from *GPU Overheads and Fused Strassen* (2021), the others are this course's.

# %% tags=["claims"]
claims("09")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Without tensor cores, from size 3072 on, three prepared levels gain 1.3x or more over an H200's SGEMM, at several times its error.
# <!-- so strassen: min(span('sgemm', size=least(3072)) / span('sgemm-strassen-3-prepared', size=least(3072))) is 1.3 to
# 1.35 -->
#
# - A Strassen level saves an eighth of the arithmetic and adds passes over memory, so it pays off on large matrices only.
# - An effective rate above the peak beats no hardware: fewer operations were done.
# - A gain above 8/7 per level has another cause too, such as another kernel of the library.
#
# Terms: [[Strassen level]], [[effective rate]], [[memory-bound]], [[tensor core]], [[arithmetic intensity]].

# %% [markdown] tags=["work"]
# ## At work
#
# First see what PyTorch alone gives: one line lets float32 matmuls use tensor cores, with fewer digits (TF32).
#
# ```python
# import torch
# from torch.utils.benchmark import Timer
# n, device = 1024, "cuda" if torch.cuda.is_available() else "cpu"
# a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
# for allow in ("highest", "high"):  # float32, then TF32 where the GPU has it
#     torch.set_float32_matmul_precision(allow)
#     seconds = Timer("a @ b", globals={"a": a, "b": b}).blocked_autorange().median
#     print(f"{allow}: {2 * n**3 / seconds / 1e12:.1f} TFLOP/s")
# ```
#
# To keep float32's accuracy, this course's package has `matmul`.

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb). Side road: [09b · How much accuracy
# buys how much time?](09b_strassen_forms.ipynb)
#
# Back: [07 · What does one more column cost?](07_gemm_shapes.ipynb)
