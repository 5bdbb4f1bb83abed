# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 04b · What does the warehouse hand out? The answers

# %% tags=["setup"]
from brrr import check

# %% [markdown]
# ## Let neighbours read neighbours
#
# In each step the 32 threads read 32 numbers in a row: four sectors, all of each used.


# %% tags=["exercise:04b-mend"]
def place(thread, step):
    return step * 32 + thread


check("04b-mend", place=place)

# %% [markdown]
# ## Which share is of use?
#
# As long as the stride is narrower than a piece, every piece is touched, and one number in `stride` is of use. With a
# wider stride, whole pieces are left out, and of each piece that comes, one float is of use.


# %% tags=["exercise:04b-share"]
def share(stride, piece):
    return max(1 / stride, 4 / piece)


check("04b-share", share=share)
