# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton, nvcc, pycuda]
# ---

# %% [markdown]
# # 09b · How much accuracy buys how much time? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## With bfloat16 instead
#
# Three terms of 8 bits hold 24. Terms i and j make a product of 2^(-8(i + j)); with i + j up to 2 there are six, and the other three are
# below the last bit. The bound is 770 / 51 / 6.

# %% tags=["exercise:09b-terms"]
check("09b-terms", terms=3, products=6, faster=770 / 51 / 6)

# %% [markdown]
# ## Scale, multiply, scale back
#
# Each row of A gets a factor of its own, the power of two at or below its largest element; each column of B likewise. The
# factors are powers of two, so that dividing changes no digit. What was divided out is multiplied in again: the rows' factors
# down the result's rows, the columns' along its columns. One factor for all of A leaves small rows beside large ones.


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
# | Goal | Read a frontier of time against error; know what a level, a form and a split product trade; scale badly scaled inputs; let `matmul` and `fuse` choose. |
# | Minutes | 75: 20 for levels and forms, 25 for split products and scaling, 15 for the frontier, 15 for the two exercises |
# | Before | Lesson 09. What rounding is; float16, bfloat16, TF32. For engineers: the core does not need it. |
# | Answers | [solutions/09b_strassen_forms.ipynb](../notebooks/solutions/09b_strassen_forms.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *Two levels lose many digits: a factor of ten, or a hundred.* It comes from the bounds in textbooks, which hold for the worst
#    case. On random inputs a level costs a fraction of a digit. On badly scaled inputs the bound is what happens.
# 2. *Fewer additions are better, so Winograd's form wins.* So it is where additions cost time. In one pass over memory they cost
#    hardly any, and the sums that Winograd's form shares are longer, so that its errors are larger.
# 3. *Three products instead of one take three times as long.* Each of the three runs on tensor cores, which are many times faster
#    than the float32 units. What is left must pay for the splitting, and for taking sums out of the tensor core in time.
#
# **Answers**
#
# - *The guesses:* on your source, in the cells that compare.
# - *The frontier:* see the figure, on your source. Which ways lie on it changes with the size, and with whether the right side is
#   prepared. Levels come to it on large matrices, and there with short types and split products inside, the right side prepared
#   first. Without tensor cores they make SGEMM faster and stay dominated where split products are faster and more accurate still.
# - *bfloat16:* its levels pay on larger matrices only, and each doubles the error: sums of blocks are rounded to bfloat16.
# - *Scaling:* *outer* helps rows and columns of different size, *inner* helps columns of A against rows of B. Each does nothing for
#   the other. Both round nothing, for their factors are powers of two. Whole numbers are exact at every level, while float32 holds
#   them.
# - *With bfloat16 instead:* three terms, six products (terms i and j with i + j up to 2), 770 / 51 / 6 = 2.5 at most.
#   <!-- definition: the exercise -->
# - *Scale, multiply, scale back:* a factor for each row of A and each column of B, powers of two (`log2().floor().exp2()`), both
#   multiplied in again. The broken one has one factor for all of A, and forgets the columns.
#
# **To discuss.** Which products of your own network may lose a digit, and how would you find out? (Start with what goes into a
# softmax or a loss; compare the loss, not the product, against float64 on a few batches. `matmul(accuracy=...)` predicts for
# numbers of mean 0 that are alike in size: check that yours are.)
