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
