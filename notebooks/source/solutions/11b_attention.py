# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 11b · When does fusion need a new algorithm? The answers

# %% tags=["setup"]
import numpy as np

from brrr_course import check

# %% [markdown]
# ## Count the bytes
#
# A matrix of N x N numbers for each head, 2 bytes each. Four trips of it, over four arrays of N x 128 numbers for each head: N / 128.

# %% tags=["exercise:11b-bytes"]
matrix_bytes = 32 * 16384**2 * 2
check("11b-bytes", matrix_bytes=matrix_bytes, times=4 * matrix_bytes / (4 * 32 * 16384 * 128 * 2))

# %% [markdown]
# ## An online softmax
#
# What was summed up has exp(-m) in it, and should have exp(-new): multiply both by exp(m - new). At first m is minus infinity, and the
# factor 0.


# %% tags=["exercise:11b-online"]
def update(m, total, result, scores, values):
    new = max(m, scores.max())
    factor, weights = np.exp(m - new), np.exp(scores - new)
    return new, total * factor + weights.sum(), result * factor + weights @ values


check("11b-online", update=update)

# %% [markdown] tags=["teaching"]
# ## 11b · When does fusion need a new algorithm?
#
# | | |
# | --- | --- |
# | Goal | Count the bytes of attention with and without its matrix; explain the online softmax; say what a compiler can fuse and what it cannot find. |
# | Minutes | 40 |
# | Before | Lessons 04, 05 and 11; 05b for rematerialisation. |
# | Answers | [solutions/11b_attention.ipynb](../notebooks/solutions/11b_attention.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *It gets faster by the factor that the bytes shrink.* Without the matrix it is no longer memory-bound: the tensor cores set
#    the pace.
# 2. *The compiler fuses three steps into one.* It keeps the order of what you wrote, and a row's softmax ends before its weights
#    are used.
# 3. *Computing the scores again in the backward pass costs time.* It costs FLOP, and saves bytes that take longer.
#
# **Answers**
#
# - *Count the bytes:* 17.2 GB; 128, which is N / d. <!-- definition: the exercise -->
# - *An online softmax:* multiply `total` and `result` by `np.exp(m - new)`.
#
# **To discuss.** Which other chains of operators need a whole row before they go on, and which of them can be computed in parts?
# (A sum, a mean, a variance, a maximum, a normalisation: all can, with a number or two to carry along. A median or a sort
# cannot.)
