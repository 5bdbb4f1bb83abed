# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton]
# ---

# %% [markdown]
# # 06b · Can a whole network be one kernel? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## The floor, and the barriers on top
#
# Each layer has a weight for each pair of an input and an output. Between 8 layers there are 7 places to wait. Layers a quarter
# as wide have a sixteenth of the weights and just as many barriers.

# %% tags=["exercise:06b-floor"]
weight_bytes = 8 * 1024 * 1024 * 4
check("06b-floor", weight_bytes=weight_bytes, memory_us=1e6 * weight_bytes / 4.8e12, barriers_us=7)

# %% [markdown]
# ## Which block waits for which?
#
# A block waits for the blocks that share its rows, and before the first layer for none: its input is there.


# %% tags=["exercise:06b-waits"]
def waits_for(block, layer):
    first = block // 8 * 8
    return range(first, first + 8) if layer else []


check("06b-waits", waits_for=waits_for)

# %% [markdown] tags=["teaching"]
# ## 06b · Can a whole network be one kernel?
#
# | | |
# | --- | --- |
# | Goal | Know what is left between kernels without overhead; weigh a barrier against a kernel's end; know the floor of a network. |
# | Minutes | 45 |
# | Before | Lesson 06; lesson 04b for the L2 cache. |
# | Answers | [solutions/06b_megakernel.ipynb](../notebooks/solutions/06b_megakernel.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *Hardly faster: the graph has no overhead any more.* The host's is gone, but between two kernels the GPU still empties and
#    fills again.
# 2. *Faster by the number of kernels.* The layers still depend on one another, and waiting takes the place of each kernel's end.
# 3. *Faster at every size.* Where the multiplication itself takes the time, what counts is whose matmul is faster, not the waits
#    between layers.
#
# **Answers.** A graph of the one kernel gains nothing: it is one launch either way, and only a plain launch may begin while the
# one before still runs. The floor: 8 · 1024 · 1024 · 4 bytes, over 4.8 TB/s, and 7 µs for the 7 places between 8 layers. Waits:
# for the eight blocks of the block's own cluster, and before the first layer for none.
# <!-- definition: the exercise -->
#
# **To discuss.** The kernel could let each block own a few rows of the batch, with no barrier at all. What does that cost, and
# for which batch and hidden size does it pay? (Each block fetches all the weights; few rows leave most multiprocessors idle, wide
# layers do not fit.)
