# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton]
# ---

# %% [markdown]
# # 05b · Who writes the kernel? The answers

# %% tags=["setup"]
import torch

from brrr_course import check, tl, triton

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

# %% [markdown]
# ## Fuse three operators in Triton
#
# Each program loads its block of both arrays, computes, and stores once. The mask keeps the last program inside of the
# arrays. Three operators move seven arrays, the kernel three.


# %% tags=["exercise:05-fuse"]
@triton.jit
def kernel(x, r, y, scale, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    value = tl.load(x + offsets, mask=inside) * scale + tl.load(r + offsets, mask=inside)
    tl.store(y + offsets, tl.maximum(value, 0.0), mask=inside)


def fused(x, scale, r):
    kernel[(triton.cdiv(x.numel(), 1024),)](x, r, y := torch.empty_like(x), scale, x.numel(), BLOCK=1024)
    return y


check("05-fuse", fused=fused)
