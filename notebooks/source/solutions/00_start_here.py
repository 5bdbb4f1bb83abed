# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 00 · Start here: the answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## A hundred kernels
#
# The host launches without a pause. Each kernel runs while the next one is launched, so only the last kernel's run adds to
# the launches: 100 × 10 µs + 2 µs.

# %% tags=["exercise:00-launches"]
check("00-launches", microseconds=1002)

# %% [markdown]
# ## Kernels of any length
#
# A kernel starts when it is launched and when the one before it is done: at the later of these two times.


# %% tags=["exercise:00-queue"]
def finished(launches_us, kernels_us):
    launched = done = 0
    for number, launch in enumerate(launches_us):
        launched = launched + launch
        done = max(launched, done) + kernels_us[number]
    return done


check("00-queue", finished=finished)
