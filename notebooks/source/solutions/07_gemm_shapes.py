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
# 2048 rows are 16 tiles of 128, and 385 columns need 2 tiles of 256: the second is mostly empty and costs as much. Each sum in
# 4 parts makes 128 pieces, which 132 multiprocessors do in one wave. Up to 512 columns nothing changes; the 513th begins a third
# column of tiles, and 192 pieces are two waves.

# %% tags=["exercise:07-waves"]
pieces = ceil(2048 / 128) * ceil(385 / 256) * 4
check("07-waves", pieces=pieces, waves=ceil(pieces / 132), columns=2 * 256)

# %% [markdown]
# ## One line is slow
#
# Compare FLOP/s, not times. `head` is the longest line and the only slow one: its rows are 50257 numbers of two bytes. The odd number
# of tokens harms nothing, for a token is a row. The next multiple of 8 is 50264; nanoGPT takes 50304, a multiple of 64 and 128.

# %% tags=["exercise:07-slow-line"]
check("07-slow-line", line="head", words=8 * ceil(50257 / 8))
