# ---
# jupyter:
#   readme: {short: 'Strassen', asks: 'can a product be faster than the hardware''s peak?', before: '04, 05'}
#   brrr:
#     needs: [cuda, triton, nvcc, pycuda]
# ---

# %% [markdown] tags=["question"]
# # 09 · Faster than the peak?
#
# A product of two n × n matrices takes 2n³ FLOP, and a datasheet says how many FLOP a GPU does in a second. One
# over the other is the shortest time, one would think. In 1969 Volker Strassen needed seven products where the textbook
# needs eight. **Can a product be faster than the hardware's peak?**

# %% tags=["setup", "question"]
from IPython.display import display

from brrr_course import check, claims, compare, drawing, explore, factory, first_available
from brrr_course import guess, reachable, speedup_table

factory("compute", detail="sm")

# %% [markdown] tags=["guess"]
# ## Guess: seven instead of eight
#
# Cut both matrices into four blocks. The textbook multiplies eight pairs of blocks of half the size. Strassen multiplies
# seven pairs of *sums* of blocks, and adds the seven products up: one [[Strassen level|level]] of his algorithm. The additions
# touch each element a few times; the products touch each one n times. The right matrix may be a network's weights: their sums
# are made once, beforehand (*prepared*).
#
# We run it in float32 without [[tensor core|tensor cores]], against cuBLAS's product (*SGEMM*). The levels' products are cuBLAS's own,
# too: the only difference is the algorithm.

# %% tags=["guess"]
g = guess("With one level, a float32 product of size 8192 is faster by a factor of ...", unit="x")

# %% tags=["run"]
at = reachable("strassen", size=8192)
ours = ["sgemm strassen 1 prepared", "sgemm strassen 1", "sgemm strassen 2 prepared", "sgemm strassen 3 prepared"]
cpus = ["cpu sgemm strassen 1 prepared", "cpu sgemm strassen 1"]
levels = first_available("strassen", dict.fromkeys(ours, "sgemm"), dict.fromkeys(cpus, "cpu sgemm"))
explore("strassen", at=at, show={"speedup": levels}, unlock=g)

# %% tags=["compare"]
compare(g, "strassen", levels, of="speed-up", **at)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Seven for eight should gain 8/7 a level. Why less on small matrices? What else might a level change on a
# GPU? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# 8/7 a level is the bound if the additions cost nothing and the library is as good at half the size. The additions are pointwise
# kernels: [[memory-bound]]. They grow with n², the arithmetic with n³: the smaller the matrices, the lower the
# [[arithmetic intensity]], and the more of the gain they take. What exceeds the bound comes from a fuller GPU (below) or another kernel.
#
# For the same reason a level pays later **with tensor cores**. In bfloat16 the arithmetic takes a fraction of the time, and the
# additions still move half of float32's bytes.
#
# </details>
#
# Step through it with whole numbers. Only the sums and products in the middle go through memory.

# %% tags=["explain"]
drawing("strassen-flow", step=12)

# %% [markdown] tags=["guess"]
# ## Guess: more than 8/7
#
# The source put this into a network of linear layers, and fused cleverly: the sums *after* one layer, its bias and ReLU, and
# the sums *before* the next are one pointwise kernel. Its GPU was a GTX 1070 with 15 [[multiprocessor|multiprocessors]]. At its
# best point, 8 layers of batch 128 and hidden size 4096, what did a level gain?

# %% tags=["guess"]
s = guess("There, one level made the fused network faster by a factor of ...", unit="x")

# %% tags=["run"]
drawing("strassen-tiles", unlock=s)

# %% tags=["compare"]
compare(s, "strassen", of="published")

# %% [markdown] tags=["explain"]
# **Fuller [[wave|waves]].** A product is cut into [[tile|tiles]] of 128 × 128, one for each [[thread block]], and these run in
# waves. A last wave with two tiles lasts as long as a full one ([[wave quantisation]]). Seven products of half the size make more and smaller tiles,
# which fill the waves better. So part of that gain was never Strassen's: a better choice of tiles has it too. Choose the H200: what
# is left?
#
# **Heavier weights.** With fewer rows a level loses. The product then waits for its weights, and seven buffers of a quarter each
# are 7/4 of the bytes. In the first drawing below, move *batch*: when does arithmetic take longer than
# the bytes?
#
# **Faster than the peak?** No multiplier works faster than it can. The *actual* rate counts what was multiplied: 7/8 of the
# FLOP a level. The [[effective rate]] counts what you asked for, 2n³, and may pass the peak. Both are honest. In the
# second drawing, move *levels*: the roof rises at the right, and falls at the left, where additions weigh most.

# %% tags=["explain"]
display(drawing("strassen-bytes"), drawing("strassen-roofline", level=3))

# %% [markdown] tags=["explore"]
# ## Explore: where do levels pay?
#
# The effective rate over the size. Find the size from which each level wins. Does a level anywhere gain more than 8/7 over
# *sgemm*? Then think of waves, and of [[tile quantisation]]. What do odd sizes cost? (They are single markers.)
#
# Below it, the source's table, then ours: one level in each layer of the network, over PyTorch and over fusion; then, over
# PyTorch, *StrassenMLP*, which chooses levels and products by size. These are times of a loop, [[host overhead]] included: on narrow layers
# it decides.

# %% tags=["explore"]
rates = [f"sgemm strassen {level} prepared" for level in (1, 2, 3)]
rates = first_available("strassen", ["sgemm", *rates], ["cpu sgemm", *cpus])
display(explore("strassen", at=at, lines=rates, show="rate"), speedup_table("strassen", layers=8))

# %% [markdown] tags=["your-turn"]
# ## Your turn: from which size on?
#
# T(n) = a n³ + b n²: arithmetic, and what touches each element once. Two sizes give a and b of one curve; both curves
# give the n from which a level pays. *Calculate* it from two sizes of the slider, `sizes`: `classical` and `strassen` map them
# to seconds, `crossing` returns n, or `float("inf")` for never. Then compare with the figure.


# %% tags=["your-turn", "exercise:09-crossover", "calculates"]
def crossing(classical, strassen):
    (one, first), (two, second) = sorted(classical.items())
    a = (second / two**2 - first / one**2) / (two - one)
    b = first / one**2 - a * one  # and those of the other line?
    return a, b


check("09-crossover", sizes=..., crossing=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: one sign, one sum
#
# Transposing gives seven other products: M1 stays, M4 = (A12 - A11) B22, M5 = A22 (B11 + B21),
# M7 = (A12 + A22)(B21 ± B22). In C11 = M1 + M4 - M5 + M7 all but A11 B11 + A12 B21 must cancel: which sign, +1 or -1?
# And of the sums below, of the drawing's products, one is broken: which part fails to cancel? Mend it, then write
# `recombine=recombine`.


# %% tags=["your-turn", "exercise:09-sign", "makes"]
def recombine(m1, m2, m3, m4, m5, m6, m7):
    c11 = m1 + m4 - m5 + m7
    c12 = m3 + m5
    c21 = m2 + m4
    c22 = m1 + m2 + m3 + m6
    return c11, c12, c21, c22


check("09-sign", sign=..., recombine=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# *GPU Overheads and Fused Strassen* (2021), measured on a GTX 1070, and what this course adds, on your source. Live, measure
# the points first.

# %% tags=["claims"]
claims("09")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - A Strassen level trades an eighth of the arithmetic for passes over memory, so it pays on large matrices, and later where arithmetic is
#   faster.
# - An effective rate above the peak beats no hardware: fewer operations were done.
# - A gain above 8/7 a level comes from something else, such as fuller waves or a better kernel.
#
# Terms: [[Strassen level]], [[effective rate]], [[memory-bound]], [[tensor core]], [[wave]].

# %% [markdown] tags=["work"]
# ## At work
#
# Before any algorithm: which rate does a product reach here, and with which digits? (For float32's own digits on any inputs,
# this course's package has `matmul`: docs/strassen.md.)
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

# %% [markdown] tags=["next"]
# ## Next
#
# [10 · What holds *your* model back?](10_diagnose_your_model.ipynb). For engineers, [09b · How much accuracy
# buys how much time?](09b_strassen_forms.ipynb) has the error, too.
#
# Back: [08b · Why fetch the same weights at each step?](08b_persistent.ipynb)
