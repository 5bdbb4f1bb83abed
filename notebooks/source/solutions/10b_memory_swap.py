# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 10b · What does a faster memory buy? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## Is the upgrade worth it?
#
# The 40 % stay, the 60 % shrink by 1.43: 0.82 of the time. With a memory that takes no time at all the 40 % remain.

# %% tags=["exercise:10b-upgrade"]
check("10b-upgrade", h200=1 / (0.4 + 0.6 / 1.43), at_most=1 / 0.4)

# %% [markdown]
# ## The other way round
#
# `fast = slow * (1 - m + m / gain)`, solved for m.


# %% tags=["exercise:10b-share"]
def share(slow, fast, gain):
    return (1 - fast / slow) / (1 - 1 / gain)


check("10b-share", share=share)

# %% [markdown] tags=["teaching"]
# ## 10b · What does a faster memory buy?
#
# | | |
# | --- | --- |
# | Goal | Tell a call's regime from its times on two GPUs with different memory; tell bytes moved from bytes waited for; judge an upgrade. |
# | Minutes | 25 |
# | Before | Lessons 04b, 07 and 10. |
# | Answers | [solutions/10b_memory_swap.ipynb](../notebooks/solutions/10b_memory_swap.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *A copy is memory-bound, so it gains.* Which memory? A working set that stays in the L2 does not wait for DRAM.
# 2. *A matmul is compute-bound, so it gains nothing.* One with two rows reads each weight for two multiplications: it streams.
# 3. *What moves hundreds of megabytes gains.* Only if it moves them at the memory's pace. Short rows and odd widths keep a kernel
#    far below.
#
# **Answers**
#
# - *Is the upgrade worth it:* 1.22 times as fast; 2.5 at most. <!-- definition: the exercise -->
# - *The other way round:* `(1 - fast / slow) / (1 - 1 / gain)`.
#
# **To discuss.** Your cluster can have H100s today or H200s in three months. Which measurements of your step decide, and what
# would they have to say? (The share of the time that is memory, from a run at a lower clock or on a borrowed card; the price over
# the speed-up.)
