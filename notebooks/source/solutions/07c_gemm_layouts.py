# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 07c · Why is an odd size so slow? The answers

# %% tags=["setup"]
from math import ceil

from brrr_course import check

# %% [markdown]
# ## Where do the rows begin?
#
# Row r begins r · 2050 bytes behind the first one. 2050 is 2 more than a multiple of 16, so only every eighth row begins at one. 2056 is 8
# more: every second row. 1032 columns are the next multiple of 8.

# %% tags=["exercise:07c-rows"]
check("07c-rows", share_of_1025=1 / 8, share_of_1028=1 / 2, added=1032 - 1025)

# %% [markdown]
# ## One line is slow
#
# Compare FLOP/s, not times. `head` is the longest line and the only slow one: each row of its result has 50257 numbers of two bytes. The
# odd number of tokens does no harm, because a token is a row. The next multiple of 8 is 50264; nanoGPT takes 50304, a multiple of 64
# and 128.

# %% tags=["exercise:07c-slow-line"]
check("07c-slow-line", line="head", words=8 * ceil(50257 / 8))

# %% [markdown] tags=["teaching"]
# ## 07c · Why is an odd size so slow?
#
# | | |
# | --- | --- |
# | Goal | Know which dimension must be a multiple of 8 in short types; combine what multiplies the same input; know when layout matters. |
# | Minutes | 40 |
# | Before | Lesson 07. |
# | Answers | [solutions/07c_gemm_layouts.ipynb](../notebooks/solutions/07c_gemm_layouts.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *One more column costs a thousandth more.* The odd number also moves most rows off the 16 bytes that tensor-core kernels load
#    at once.
# 2. *Every odd size is slow.* Only the contiguous dimension counts: an odd number of samples in a `Linear` layer does no harm.
# 3. *A CUDA Graph makes small matmuls as fast as a large one.* It removes the launches, but each small matmul still fills only a
#    part of the GPU.
#
# **Answers**
#
# - *The kernels in bfloat16:* 1024 and 1032 columns get kernels made for this GPU (`nvjet_sm90...`), 1025 gets one of an older
#   generation (`cutlass_75...`).
# - *The four small matmuls:* stacked into one, then batched.
# - *The rows:* every eighth, every second, and seven columns. <!-- definition: the exercise -->
# - *The slow line:* `head`, and any multiple of 8 from 50264 words on that is not much larger. The odd number of tokens is
#   harmless: a token is a row, and rows of 768 numbers begin where they should.
#   <!-- definition: the exercise -->
#
# **To discuss.** Each batch of sentences has another length. Would you pad lengths, hidden sizes or the vocabulary, and what does
# each cost? (Hidden sizes and the vocabulary once, where the model is made; lengths at every step, and only where they are the
# contiguous dimension.)
