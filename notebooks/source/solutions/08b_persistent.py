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
# 128 blocks read 24 states of 1024 numbers of four bytes: 12.6 MB. L2 takes 2.29 µs for them, the arithmetic 0.84 µs, the exchange
# 1 µs: reading the state is the floor. One sample's reading takes a tenth of the exchange or a little less, so 10 samples hide behind it.

# %% tags=["exercise:08b-step"]
state_bytes = 128 * 24 * 1024 * 4
seconds = max(1e-6, state_bytes / 5.5e12, 2 * 24 * 1024**2 / 60e12)
batch = int(1e-6 * 5.5e12 / (128 * 1024 * 4))
check("08b-step", state_bytes=state_bytes, seconds=seconds, batch=batch)

# %% [markdown]
# ## When to stop
#
# Go through the batches that both have, in their order, and stop at the first where ours is no faster. A later batch where it is faster
# again does not count: up to there, not all are.


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
# | Goal | Know what a persistent kernel is, where its weights lie and how its blocks wait for each other; tell the floor of a step from exchange, traffic and arithmetic; say when persistence pays. |
# | Minutes | 60 |
# | Before | Lesson 07 (mini-batches share weights, padding), lesson 06b (one kernel for a whole network, grid barriers). |
# | Answers | [solutions/08b_persistent.ipynb](../notebooks/solutions/08b_persistent.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *A step takes as long as its weights take from DRAM, so keeping them gains by the ratio of the two memories.* It comes from counting bytes. A layer's
#    weights fit into today's L2, so nobody fetches them from DRAM at each step; launches and waiting between kernels are much of what goes.
# 2. *Once the weights stay, a step takes as long as its FLOP.* It comes from forgetting that each step needs the whole state of the last. With one sample
#    the exchange between blocks takes longer than all arithmetic.
# 3. *The gain holds for any mini-batch.* It comes from thinking that fetching weights is the loss. A product with many samples fetches them once for all
#    of them; and every block here reads the state of every sample.
#
# **Answers.** The guesses: see the figures, on your source. The step: 128 · 24 · 1024 · 4 bytes, 12.6 MB; reading them takes 2.29 µs, longer than exchange and
# arithmetic; 10 samples hide behind the exchange. When to stop: the batches in order, up to the first at which ours is no faster.
# <!-- definition: the exercise -->
#
# **To discuss.** The source's kernel let threads time out at a barrier, and a program on the CPU restarted it until all had passed. Why is that not needed here, and
# what would change if another program used the same GPU? (All blocks fit at once, which is asked before the launch; a second program's kernels may take
# multiprocessors, and then all blocks wait for the one that has none.)
