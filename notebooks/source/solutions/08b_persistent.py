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
