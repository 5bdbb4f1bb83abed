# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 08b · Why fetch the same weights at each step? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## What does a step take at least?
#
# 3 groups of 32 blocks read 8 samples of 1024 numbers of four bytes each: 3.15 MB. Reading them takes 0.23 µs, the arithmetic
# 0.41 µs, the exchange 0.49 µs: the exchange is the floor. The arithmetic of up to 28 samples hides behind it.

# %% tags=["exercise:08b-step"]
state_bytes = 3 * 32 * 8 * 1024 * 4
seconds = max(0.49e-6, state_bytes / 13.8e12, 2 * 24 * 1024**2 / 122e12)
batch = int(0.49e-6 * 122e12 / (2 * 1024**2))
check("08b-step", state_bytes=state_bytes, seconds=seconds, batch=batch)

# %% [markdown]
# ## When to stop
#
# Go through the batches that both have, in order, and stop at the first where ours is not faster. A later batch where it is faster
# again does not count.


# %% tags=["exercise:08b-until"]
def until(ours, theirs):
    last = 0
    for batch in sorted(set(ours) & set(theirs)):
        if ours[batch] >= theirs[batch]:
            break
        last = batch
    return last


check("08b-until", until=until)

# %% [markdown] tags=["teaching"]
# ## 08b · Why fetch the same weights at each step?
#
# | | |
# | --- | --- |
# | Goal | Know what a persistent kernel is, where its weights lie and how its blocks wait for each other; tell a step's floor from exchange, traffic and arithmetic; say when persistence pays. |
# | Minutes | 40 |
# | Before | Lesson 08 (mini-batches share weights, padding), lesson 06b (one kernel for a whole network, grid barriers). |
# | Answers | [solutions/08b_persistent.ipynb](../notebooks/solutions/08b_persistent.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *A step takes as long as its weights take from DRAM, so keeping them gains the ratio of the two memories.* A layer's weights
#    fit into today's L2. Much of what is saved is launches and waiting between kernels.
# 2. *Once the weights stay, a step takes as long as its FLOP.* Each step needs the whole state of the last. With one sample, this
#    exchange between blocks takes longer than the arithmetic.
# 3. *The gain holds for any mini-batch.* A matmul loads the weights once for all samples, so many samples leave little to gain;
#    and here the blocks read every sample's state at each step.
#
# **Answers.** The step: 3 · 32 · 8 · 1024 · 4 bytes, 3.15 MB; the exchange, 0.49 µs, takes longer than reading them and than the
# arithmetic, which hides behind it up to 28 samples. When to stop: at the first batch, in order, at which ours is not faster.
# <!-- definition: the exercise -->
#
# **To discuss.** The article's kernel let threads time out at a barrier, and the CPU restarted it until all had passed. Why not
# here, and what if another program used the GPU? (All blocks fit at once, which is asked before the launch. A second program may
# take multiprocessors; then all blocks wait for the one that has none.)
