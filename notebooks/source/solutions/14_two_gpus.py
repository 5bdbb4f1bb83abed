# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 14 · When are two GPUs faster than one? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## What can hide
#
# 1 GB over 450 GB/s takes 2.22 ms. The first bucket is full after 0.15 ms, and from then on the link never rests: the exchange takes longer
# than the backward pass. It has 1.5 - 0.15 = 1.35 ms to hide in, which is 61 % of 2.22 ms.

# %% tags=["exercise:14-exchange"]
exchange_ms = 1e9 / 450e9 * 1e3
check("14-exchange", exchange_ms=exchange_ms, hidden=(1.5 - 1.5 / 10) / exchange_ms)

# %% [markdown]
# ## Two shards
#
# Cut by outputs, a GPU has all it needs for the ReLU of its half. The second layer takes that half as its inputs, and the sum over all inputs
# is the sum of both results.


# %% tags=["exercise:14-shards"]
def cut(up, down, rank):
    return up.chunk(2, dim=0)[rank], down.chunk(2, dim=1)[rank]


check("14-shards", cut=cut)

# %% [markdown] tags=["teaching"]
# ## 14 · When are two GPUs faster than one?
#
# | | |
# | --- | --- |
# | Goal | Say what two GPUs exchange, how long that takes, how much of it can hide, and whether two GPUs pay. |
# | Minutes | 45 |
# | Before | Lessons 02, 07 and 10. |
# | Answers | [solutions/14_two_gpus.ipynb](../notebooks/solutions/14_two_gpus.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *2 MiB take far longer than 8 bytes.* By the link's bandwidth they take 5 µs; the launch takes longer.
#    <!-- definition: a datasheet -->
# 2. *Two GPUs are nearly twice as fast.* Only with many samples. With few, the host launches as many kernels as before, and the
#    gradients are as large as ever.
# 3. *What is overlapped is free.* The exchange needs multiprocessors, so the matmuls beside it take longer.
#
# **Answers**
#
# - *What can hide:* 2.22 ms, and 61 % of it. <!-- definition: the exercise -->
# - *Two shards:* the first layer by outputs (`dim=0`), the second by inputs (`dim=1`).
#
# **To discuss.** A model fits on one GPU. You have eight GPUs, and one user who waits for each token. Data parallel or tensor
# parallel? And with a thousand users? (One token is one sample: only tensor parallelism shortens it, if the layers are wide. A
# thousand users are many samples: data parallelism then exchanges nothing, for lack of gradients.)
