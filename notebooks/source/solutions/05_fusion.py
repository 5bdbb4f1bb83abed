# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton]
# ---

# %% [markdown]
# # 05 · Why carry it back only to fetch it again? The answer

# %% tags=["setup"]
from brrr import check

# %% [markdown]
# ## Count the bytes
#
# One large array is 4096 · 1024 · 4 bytes; the bias is a row, a thousandth of a percent of it, and may be left out.
#
# | operator | reads | writes |
# | --- | --- | --- |
# | `x + b` | one large array, a row | one |
# | `relu` | one | one |
# | `* g` | two | one |
# | all three in one kernel | `x`, `g`, a row | one |

# %% tags=["exercise:05-bytes"]
large, row = 4096 * 1024 * 4, 1024 * 4
check("05-bytes", eager=7 * large + row, fused=3 * large + row)
