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
# ## One line is slow
#
# Compare FLOP/s, not times. `head` is the longest line and the only slow one: each row of its result has 50257 numbers of two bytes. The
# odd number of tokens does no harm, because a token is a row. The next multiple of 8 is 50264; nanoGPT takes 50304, a multiple of 64
# and 128.

# %% tags=["exercise:07-slow-line"]
check("07-slow-line", line="head", words=8 * ceil(50257 / 8))

# %% [markdown] tags=["teaching"]
# ## 07 · What does one more column cost?
#
# | | |
# | --- | --- |
# | Goal | Read a matmul's time as a staircase of tiles, waves and the library's choices; know which dimension must be a multiple of 8 in short types; combine what multiplies the same input. |
# | Minutes | 45 |
# | Before | Lessons 03 (CUDA Graphs), 04 (memory-bound, the predictor) and 05. |
# | Answers | [solutions/07_gemm_shapes.ipynb](../notebooks/solutions/07_gemm_shapes.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *32 columns take as long as 32 single ones.* It comes from counting arithmetic. With few columns a matmul is memory-bound: its time is that of
#    reading the weights, which all columns share.
# 2. *They take exactly as long as one.* It comes from counting bytes alone. The library takes another kernel for many columns than for one, and
#    a tile of it has its own cost.
# 3. *One more column costs a thousandth more.* It comes from thinking of work as divisible. A tile is not; and in bfloat16 the odd number also
#    moves most rows off the 16 bytes that the kernels for tensor cores load at once.
#
# **Answers**
#
# - *The guesses:* in the cells that compare, from the data shown there.
# - *Why NN and TN differ at few columns:* other numbers are neighbours in memory, so the library has other kernels for each layout. With two
#   columns its choice for NN is bad.
# - *The kernels in bfloat16:* 1024 and 1032 columns get kernels made for this GPU (`nvjet_sm90...`), 1025 gets one of an older
#   generation (`cutlass_75...`).
# - *The four small matmuls:* stacked into one, then batched; zeros are faster where power is the limit.
# - *The waves:* 16 · 2 · 4 blocks, one wave, and 512 columns.
# - *The slow line:* `head`, and any multiple of 8 from 50264 words on that is not much larger. The number of tokens is odd as well, and
#   harmless: a token is a row, and rows of 768 numbers begin where they should.
#   <!-- definition: the exercise -->
#
# **To discuss.** A batch of sentences has another length each time. Would you pad lengths, hidden sizes or the vocabulary, and what does each
# cost? (Hidden sizes and the vocabulary once, where the model is made; lengths at every step, and only where they are the contiguous
# dimension.)
