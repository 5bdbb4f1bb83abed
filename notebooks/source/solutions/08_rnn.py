# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 08 · What if each step waits for the last? The answers

# %% tags=["setup"]
import torch

from brrr_course import check

# %% [markdown]
# ## How short can a step be?
#
# Four gates of 512 × 512 weights, four bytes each. With one sample there are two FLOP for every four bytes, so the
# fetch takes longer; each further sample adds FLOP and no bytes. 2 · weights · batch / 54 TFLOP/s reaches the fetch
# between 25 and 26 samples: rate over bandwidth, times two bytes a FLOP. Neither hidden size nor gates are in it.

# %% tags=["exercise:08-floor"]
weights = 4 * 512 * 512
fetch = 4 * weights / 4.2e12
check("08-floor", weight_bytes=4 * weights, seconds=fetch, batch=int(fetch * 54e12 / (2 * weights)))

# %% [markdown]
# ## Eight products, or fewer
#
# Weights of several products with the same input go below each other, and the result's columns are the gates. `x` and
# `h` side by side, and their weights too, would make it one product; then nothing of it could be made before `h` is
# known.


# %% tags=["exercise:08-combine"]
def stack(w, u):
    return torch.cat(w).t(), torch.cat(u).t()


def gates(x, h, weights):
    w, u = weights
    return torch.addmm(x @ w, h, u).chunk(4, dim=1)


check("08-combine", stack=stack, gates=gates)
