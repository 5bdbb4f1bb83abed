# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 07 · What does one more column cost? The answers

# %% tags=["setup"]
from math import ceil

from brrr_course import check

# %% [markdown]
# ## Count the waves
#
# 2048 rows are 16 tiles of 128. 385 columns need 2 tiles of 256: the second one is mostly empty and costs as much as a full one. Each sum in
# 4 parts makes 128 blocks, which 132 multiprocessors do in one wave. Up to 512 columns nothing changes. The 513th begins a third
# column of tiles: 192 blocks are two waves.

# %% tags=["exercise:07-waves"]
blocks = ceil(2048 / 128) * ceil(385 / 256) * 4
check("07-waves", blocks=blocks, waves=ceil(blocks / 132), columns=2 * 256)

# %% [markdown]
# ## A function for the staircase
#
# Round up three times: tiles down, tiles across, and waves. Parts are whole anyway.


# %% tags=["exercise:07-staircase"]
def waves(m, n, rows, columns, parts):
    return ceil(ceil(m / rows) * ceil(n / columns) * parts / 132)


check("07-staircase", waves=waves)

# %% [markdown] tags=["teaching"]
# ## 07 · What does one more column cost?
#
# | | |
# | --- | --- |
# | Goal | Read a matmul's time as a staircase of tiles, waves and the library's choices; know why a mini-batch is cheaper than its samples one by one. |
# | Minutes | 40 |
# | Before | Lessons 03 (CUDA Graphs), 04 (memory-bound, the predictor) and 05. |
# | Answers | [solutions/07_gemm_shapes.ipynb](../notebooks/solutions/07_gemm_shapes.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *32 columns take as long as 32 single ones.* With few columns a matmul is memory-bound: it takes as long as reading the
#    weights, which all columns share.
# 2. *They take exactly as long as one.* For many columns the library uses another kernel, whose tiles cost time of their own.
# 3. *One more column costs a hundredth more.* Tiles and waves come whole.
#
# **Answers**
#
# - *The waves:* 16 · 2 · 4 blocks, one wave, and 512 columns.
# - *The staircase:* tiles each way and waves, rounded up; `parts` multiplies the blocks.
#
# **To discuss.** Two batch sizes differ by one, and the larger one is faster. How can that be? (The library chooses tiles and
# parts for each size, by rules tuned for common sizes.)
