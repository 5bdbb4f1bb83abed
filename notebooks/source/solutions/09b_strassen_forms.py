# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton, pycuda]
# ---

# %% [markdown]
# # 09b · How much accuracy buys how much time? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## With bfloat16 instead
#
# Three terms of 8 bits hold 24 bits. The product of terms i and j is about 2^(-8(i + j)) times the first. Six have i + j of at most 2;
# the other three are below the last bit. Six matmuls, each 13 times as fast as SGEMM: 13 / 6.

# %% tags=["exercise:09b-terms"]
check("09b-terms", terms=3, products=6, faster=13 / 6)

# %% [markdown]
# ## Scale, multiply, scale back
#
# Each row of `a` gets its own factor: the power of two at or below its largest element. Each column of `b` likewise. Dividing by a power
# of two changes no digit. Afterwards both factors are multiplied in again: the rows' factors along the result's rows, the columns'
# along its columns. One factor for all of `a` would leave small rows as small beside the large ones as before.


# %% tags=["exercise:09b-scaling"]
def scaled(a, b, multiply):
    rows = a.abs().amax(1, keepdim=True).log2().floor().exp2()
    columns = b.abs().amax(0).log2().floor().exp2()
    return multiply(a / rows, b / columns) * rows * columns


check("09b-scaling", scaled=scaled)

# %% [markdown] tags=["teaching"]
# ## 09b · How much accuracy buys how much time?
#
# | | |
# | --- | --- |
# | Goal | Know why short numbers are fast and how several of them carry float32's digits; why a Strassen level makes errors larger; read a frontier of time against error; scale badly scaled inputs. |
# | Minutes | 40 |
# | Before | Lesson 09. What rounding is; float16, bfloat16, TF32. A side road. |
# | Answers | [solutions/09b_strassen_forms.ipynb](../notebooks/solutions/09b_strassen_forms.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *Two levels lose many digits: a factor of ten, or a hundred.* Textbooks' bounds are for the worst case. On normally
#    distributed inputs a level costs a fraction of a digit, on badly scaled ones most digits.
# 2. *Fewer additions are better, so Winograd's form wins.* Only where additions cost time. In one pass over memory they cost
#    almost nothing, and the sums that Winograd's form shares have more parts, so its errors are larger.
# 3. *Three matmuls instead of one take three times as long.* The three run on tensor cores, many times as fast as the float32
#    units. The time saved must pay for splitting, and for moving sums out of the tensor cores in time.
#
# **Answers**
#
# - *The frontier:* which ways are on it changes with the size, and with whether the right sides are prepared.
# - *bfloat16:* levels pay off on larger matrices only, and each about doubles the error, because sums of blocks are rounded.
# - *Scaling:* *outer* helps where rows of `a` or columns of `b` differ in size, *inner* where columns of `a` and rows of `b` do.
#   Neither helps the other case, and neither rounds anything: the factors are powers of two.
# - *With bfloat16 instead:* three terms, six products (terms i and j with i + j up to 2), at most 13 / 6 = 2.2 times as fast.
#   <!-- definition: the exercise -->
# - *Scale, multiply, scale back:* a factor for each row of `a` and each column of `b`, powers of two (`log2().floor().exp2()`);
#   then multiply both in again. The broken version has one factor for all of `a`, and forgets the columns.
#
# **To discuss.** Which matmuls of your own network may lose a digit, and how would you find out? (Start with what goes into a
# softmax or a loss; compare the loss, not the matmul, with float64 on a few batches. `matmul(accuracy=...)` assumes numbers of
# mean 0 and similar size: check yours.)
