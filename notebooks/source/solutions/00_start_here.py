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

# %% [markdown] tags=["teaching"]
# ## 00 · Start here
#
# | | |
# | --- | --- |
# | Goal | Know what host, stream and kernel are, the four regimes and the badges; have guessed once, moved one slider, and had an exercise marked. |
# | Minutes | 35 |
# | Before | How to run a cell in Jupyter. No GPU knowledge. |
# | Answers | [solutions/00_start_here.ipynb](../notebooks/solutions/00_start_here.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *The GPU is faster even for tiny matrices.* It comes from headline figures: they are rates at full load. One tiny multiplication
#    is no load; its time is the fixed cost of one launch.
# 2. *A hundred kernels take 1200 µs* (launches and runs added up). It comes from reading a program as a list of steps that wait for
#    each other. Here the host does not wait: launches and runs overlap.
#    <!-- definition: the exercise -->
# 3. *A hundred kernels take 200 µs* (only the runs). It comes from thinking of the device alone. The slower of the two
#    sets the pace, and here that is the host.
#    <!-- definition: the exercise -->
#
# **Answers.** The guess: see the figure. A hundred kernels: 1002 µs, all launches and the last kernel's run;
# 1000 is when the last launch ends. Such a program is overhead-bound. Kernels of any length: a kernel starts at the later of two times, when it is
# launched and when the one before it is done (`max`).
# <!-- definition: the exercise -->
#
# **To discuss.** The host launches one large kernel instead of a hundred small ones. What becomes better, and what could become
# worse? (Less overhead; but the GPU starts later, and the host learns late that something went wrong. Lessons 03, 05 and 06
# come back to it.)
#
# ---
