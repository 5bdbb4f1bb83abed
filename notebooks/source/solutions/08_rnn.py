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
# Four gates of 512 × 512 weights, four bytes each. With one sample there are two FLOP for every four bytes, so loading
# takes longer; each further sample adds FLOP and no bytes. 2 · weights · batch / 67 TFLOP/s reaches the load's time
# between 27 and 28 samples: rate over bandwidth, times two bytes per FLOP. Neither hidden size nor gates are in it.

# %% tags=["exercise:08-floor"]
weights = 4 * 512 * 512
fetch = 4 * weights / 4.8e12
check("08-floor", weight_bytes=4 * weights, seconds=fetch, batch=int(fetch * 67e12 / (2 * weights)))

# %% [markdown]
# ## Eight matmuls, or fewer
#
# The weights of several matmuls with the same input go below each other, and the gates are columns of the result. With `x` and
# `h` side by side, and their weights too, it would be a single matmul; but then nothing of it could be computed before `h`
# is known.


# %% tags=["exercise:08-combine"]
def stack(w, u):
    return torch.cat(w).t(), torch.cat(u).t()


def gates(x, h, weights):
    w, u = weights
    return torch.addmm(x @ w, h, u).chunk(4, dim=1)


check("08-combine", stack=stack, gates=gates)

# %% [markdown] tags=["teaching"]
# ## 08 · What if each step waits for the last?
#
# | | |
# | --- | --- |
# | Goal | Know what in a recurrent network must wait; tell rungs that save launches from rungs that overlap kernels; say why a mini-batch shares the weights, and up to where that helps. |
# | Minutes | 50 |
# | Before | Lesson 07 (tiles); CUDA Graphs from lesson 03. What a recurrent network computes. |
# | Answers | [solutions/08_rnn.ipynb](../notebooks/solutions/08_rnn.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *The gain is the number of matmuls saved.* The naive loop also launches a kernel for each elementwise operation, and from
#    Python each launch costs about the same, whatever it does.
# 2. *As many times as there are samples* (or exactly as long as one). The first counts FLOP, the second bytes. Few samples share
#    each load of the weights; where the FLOP take longer than the load, each sample pays for itself.
# 3. *Streams must help, because the GPU is mostly idle.* It is idle because nothing has been launched yet. Overlap needs two
#    kernels at once; while Python sets the pace there is hardly ever a second, and each wait between streams costs the host more
#    calls.
#
# **Answers.** The floor: 4 · 512 · 512 · 4 bytes, over 4.8 TB/s (0.874 µs), and 27 samples. The batch does not depend on the
# hidden size: it is rate over bandwidth, times two bytes per FLOP. The matmuls: weights stacked with `torch.cat`, two matmuls (or
# one, of `x` and `h` side by side), the result cut by `chunk`; any answer with at most two matmuls that moves no weights at a
# step.
# <!-- definition: the exercise -->
#
# **To discuss.** A transformer computes all steps of a training sequence at once. What did it give up for that? When it generates
# text, token by token, which parts of this lesson come back? (Each token waits for the last, all weights are loaded for one
# vector per sequence, and a mini-batch shares them. The key-value cache is the state, and it grows.)
