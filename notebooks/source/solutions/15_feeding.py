# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 15 · Why is my GPU idle although the model is fast? The answers

# %% tags=["setup"]
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from brrr_course import check

# %% [markdown]
# ## How many workers?
#
# A batch loads in 64 times 5 ms: 320 ms, or 16 steps. Six cores deliver one every 53.3 ms, of which the GPU works 20.

# %% tags=["exercise:15-workers"]
loading_ms = 64 * 5
check("15-workers", workers=loading_ms / 20, idle=1 - 20 / (loading_ms / 6))

# %% [markdown]
# ## Lists of numbers
#
# The sampler shuffles and gives lists; the loader hands each to the dataset as it is, and stacks nothing.


# %% tags=["exercise:15-lists"]
def loader(data, batch):
    return DataLoader(data, sampler=BatchSampler(RandomSampler(data), batch, drop_last=False), batch_size=None)


check("15-lists", loader=loader)

# %% [markdown] tags=["teaching"]
# ## 15 · Why is my GPU idle although the model is fast?
#
# | | |
# | --- | --- |
# | Goal | Say by samples per second whether a step or its loader sets the pace, how many workers it needs, and where they run out. |
# | Minutes | 35 |
# | Before | Lessons 02 and 10. |
# | Answers | [solutions/15_feeding.ipynb](../notebooks/solutions/15_feeding.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *Loading is a small part of a step.* Decoding a picture takes a core longer than a fast GPU trains on it.
# 2. *Twice the workers, twice the speed.* Only up to a limit: the step's own time, the time to pass a batch on, or the number of
#    cores.
# 3. *`pin_memory` fixes it.* It hides the copy. Decoding is as slow as before, and sets the pace.
#
# **Answers**
#
# - *How many workers?* 16; 0.625. <!-- definition: the exercise -->
# - *Lists of numbers:* `sampler=BatchSampler(RandomSampler(data), batch, drop_last=False)` with `batch_size=None`.
#
# **To discuss.** A rented GPU comes with eight cores, and a larger machine with the same GPU and 32 costs a third more. For which
# program does it pay? (Count samples per second on both sides. Storing decoded pictures, or decoding on the GPU, may cost less
# than cores.)
