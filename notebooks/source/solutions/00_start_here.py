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
# | Goal | Know host, stream and kernel, the four regimes and the badges; make a guess, move a slider, have an exercise marked. |
# | Minutes | 35 |
# | Before | How to run a cell in Jupyter. No GPU knowledge. |
# | Answers | [solutions/00_start_here.ipynb](../notebooks/solutions/00_start_here.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *The GPU is faster even for tiny matrices.* Headline figures are rates at full load. A tiny multiplication takes as long as
#    its launch.
# 2. *A hundred kernels take 1200 µs* (launches plus runs). The host does not wait for each run: launches and runs overlap.
#    <!-- definition: the exercise -->
# 3. *A hundred kernels take 200 µs* (only the runs). The slower of host and device sets the pace, and here that is the host.
#    <!-- definition: the exercise -->
#
# **Answers.** A hundred kernels: 1002 µs; the last launch ends at 1000, then the last kernel runs. Such a program is
# overhead-bound. Kernels of any length: each starts at its launch or at the end of the one before, whichever is later (`max`).
# <!-- definition: the exercise -->
#
# **To discuss.** The host launches one large kernel instead of a hundred small ones. What gets better, and what could get worse?
# (Less overhead; but the GPU starts later, and the host learns late that something went wrong. Lessons 03, 05 and 06 come back to
# it.)
