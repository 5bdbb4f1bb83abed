# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton, nvcc, pycuda]
# ---

# %% [markdown] tags=["question"]
# # 09 · Faster than the peak?
#
# A product of two n × n matrices takes 2n³ FLOP, and a datasheet says how many FLOP a GPU does in a second. So much for the
# fastest time, one would think. In 1969 Volker Strassen did with seven products what takes eight. **Can a product be faster
# than the hardware's peak?**

# %% tags=["setup", "question"]
from IPython.display import display

from brrr import check, claims, compare_speedup, explore, factory, guess, reachable
from brrr.course import compare_published, drawing, first_available, strassen_table

factory("compute")

# %% [markdown] tags=["guess"]
# ## Guess: seven instead of eight
#
# Cut both matrices into four blocks. The textbook multiplies eight pairs of blocks of half the size. Strassen multiplies
# seven pairs of *sums* of blocks, and adds the seven products up: one **level** of his algorithm. The additions touch each
# element a few times; the products touch each one n times. The right matrix may be a network's weights: their sums are made
# once, beforehand (*prepared*).

# %% tags=["guess"]
g = guess("With one level, a float32 product of size 8192 is faster by a factor of ...", unit="x")

# %% [markdown] tags=["run"]
# ## Run
#
# Without tensor cores, against cuBLAS's product. The levels' products are cuBLAS's own, too: all that differs is Strassen's.

# %% tags=["run"]
at = reachable("strassen", size=8192)
ours = ["sgemm strassen 1 prepared", "sgemm strassen 1", "sgemm strassen 2 prepared", "sgemm strassen 3 prepared"]
cpus = ["cpu sgemm strassen 1 prepared", "cpu sgemm strassen 1"]
levels = first_available("strassen", dict.fromkeys(ours, "sgemm"), dict.fromkeys(cpus, "cpu sgemm"))
explore("strassen", at=at, show={"speedup": levels}, unlock=g)

# %% tags=["compare"]
compare_speedup(g, "strassen", levels, **at)

# %% [markdown] tags=["explain"]
# Seven for eight is a bound of 8/7 a level, if the additions cost nothing and the kernel is as good on both sizes. What exceeds
# it has fuller waves of tiles (below); what stays under it pays for its additions.
# Additions are pointwise work: trucks, no factory. On small matrices the trucks eat the gain.
#
# Step through it with whole numbers. The buffers in the middle are all that travels.

# %% tags=["explain"]
drawing("strassen-flow", step=12)

# %% [markdown] tags=["guess"]
# ## Guess: more than 8/7
#
# The source put this into a network of linear layers, and fused cleverly: the sums *after* one layer, its bias and ReLU, and
# the sums *before* the next are one pointwise kernel. Its GPU was a GTX 1070 with 15 multiprocessors. At its best point, 8
# layers of batch 128 and hidden size 4096, what did a level gain?

# %% tags=["guess"]
s = guess("There, one level made the fused network faster by a factor of ...", unit="x")

# %% tags=["run"]
drawing("strassen-tiles", unlock=s)

# %% tags=["compare"]
compare_published(s)

# %% [markdown] tags=["explain"]
# **Fuller waves.** A product is cut into tiles of 128 × 128, dealt out in waves to the multiprocessors. A last wave with two
# tiles lasts as long as a full one. Seven products of half the size make more and smaller tiles, and these fill the waves
# better. So part of that gain was never Strassen's: a better choice of tiles has it too. Choose the H200, or larger sizes:
# what is left?
#
# **Heavier weights.** Upwards in the table, a level loses. With few rows the product waits for its weights, and seven
# buffers of a quarter each are 7/4 of the bytes. Move *batch*: when does compute become the slower partner?

# %% tags=["explain"]
drawing("strassen-bytes")

# %% [markdown] tags=["explain"]
# **Faster than the peak?** No multiplier works faster than it can. The *actual* rate counts what was multiplied: 7/8 of the
# FLOP a level. The *effective* rate counts what you asked for, 2n³, and this one may pass the peak: the answer is there
# earlier than any machine of that peak could have it by the textbook. Both are honest if they say which they are. Move
# *levels*: the roof rises at the right, and falls at the left, where additions weigh most.

# %% tags=["explain"]
drawing("strassen-roofline", level=3)

# %% [markdown] tags=["explore"]
# ## Explore: where do levels pay?
#
# The effective rate over the size. Find the size from which each level wins. Does a level anywhere gain more than 8/7 over
# *sgemm*? Then think of waves. The source's form took even sizes only: what do the odd ones cost? (Sizes off the grid are
# single markers.)
#
# Below it, the source's table beside ours: one level in each layer of the network, over PyTorch and over fusion; then, over
# PyTorch, *StrassenMLP*, which chooses levels and products by size. These are times of a loop, orders included. Where one
# level loses, ask first what is compared: the algorithm, the kernels, or the orders.

# %% tags=["explore"]
rates = [f"sgemm strassen {level} prepared" for level in (1, 2, 3, 4)]
rates = first_available("strassen", ["sgemm", *rates], ["cpu sgemm", *cpus])
display(explore("strassen", at=at, lines=rates, show="rate"), strassen_table(layers=8))

# %% [markdown] tags=["your-turn"]
# ## Your turn: one sign, one sum, one crossing
#
# 1. Exchange rows and columns, and the products are seven others: M1 stays, M4 = (A12 - A11) B22, M5 = A22 (B11 + B21),
#    M7 = (A12 + A22)(B21 ± B22). In C11 = M1 + M4 - M5 + M7 all but A11 B11 + A12 B21 must cancel: which sign, +1 or -1?
#    And of the sums below, of the drawing's products, one is broken: which part fails to cancel? Mend it, then write
#    `recombine=recombine`.
# 2. T(n) = a n³ + b n²: arithmetic, and what touches each element once. Two sizes give a and b of each line, and both lines
#    tell from which n on a level pays. `classical` and `strassen` map two sizes to seconds; return n, or `float("inf")` for
#    never. `sizes` are two of the slider above.


# %% tags=["your-turn", "exercise:09-sign"]
def recombine(m1, m2, m3, m4, m5, m6, m7):
    c11 = m1 + m4 - m5 + m7
    c12 = m3 + m5
    c21 = m2 + m4
    c22 = m1 + m2 + m3 + m6
    return c11, c12, c21, c22


check("09-sign", sign=..., recombine=...)


# %% tags=["your-turn", "exercise:09-crossover"]
def crossing(classical, strassen):
    (one, first), (two, second) = sorted(classical.items())
    a = (second / two**2 - first / one**2) / (two - one)
    b = first / one**2 - a * one  # and those of the other line?
    return a, b


check("09-crossover", sizes=..., crossing=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# *GPU Overheads and Fused Strassen* (2021), measured on a GTX 1070, and what this course adds, on your source. Live, measure
# the points first.

# %% tags=["claims"]
claims("09")
