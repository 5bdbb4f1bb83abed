# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton, nvcc]
# ---

# %% [markdown]
# # 06b · Can a whole network be one kernel? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## The floor, and the barriers on top
#
# Each layer has a weight for each pair of an input and an output. Between 8 layers there are 7 places to wait. On a layer
# a quarter as wide the weights are a sixteenth, and the barriers are as many as before.

# %% tags=["exercise:06b-floor"]
weight_bytes = 8 * 1024 * 1024 * 4
check("06b-floor", weight_bytes=weight_bytes, memory_us=1e6 * weight_bytes / 4.8e12, barriers_us=7)

# %% [markdown]
# ## Who waits for whom?
#
# For the blocks that share its rows, and before the first layer for nobody: its input is there.


# %% tags=["exercise:06b-waits"]
def waits_for(block, layer):
    first = block // 8 * 8
    return range(first, first + 8) if layer else []


check("06b-waits", waits_for=waits_for)
