# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 10 · What holds *your* model back? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## How far from the peak?
#
# Each token takes two FLOP for each of the 12 w² weights, and backward takes two matmuls for each one forward: 618 GFLOP. That is 30 % of
# the peak over the whole step. If only the matmuls remained, the step would be 2.5 times as fast. Fusion, graphs and larger
# batches cannot gain more.

# %% tags=["exercise:10-peak"]
flop = 3 * 2 * 8192 * 12 * 1024**2
check("10-peak", flop=flop, share=flop / 2.1e-3 / 990e12, at_most=2.1 / 0.83)

# %% [markdown]
# ## The rule as a function
#
# The order matters: a program that waits for the host is not made faster by fewer bytes.


# %% tags=["exercise:10-regime"]
def regime(eager, graph, half, double):
    if eager >= 1.3 * graph:
        return "overhead"
    if graph >= 1.3 * half:
        return "memory"
    return "under-filled" if double <= 1.15 * graph else "compute"


check("10-regime", regime=regime)

# %% [markdown] tags=["teaching"]
# ## 10 · What holds *your* model back?
#
# | | |
# | --- | --- |
# | Goal | Split a step into overhead, under-filled, memory and compute; find a regime by changing one thing; choose the remedy; tell utilisation from work. |
# | Minutes | 40 |
# | Before | Lessons 03, 04, 05 and 07. |
# | Answers | [solutions/10_diagnose_your_model.ipynb](../notebooks/solutions/10_diagnose_your_model.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *A thousandth of the FLOP takes a thousandth of the time.* Only if all operators reached the same FLOP per second. A norm
#    moves all its numbers' bytes, whatever it computes with them.
# 2. *The model is memory-bound.* At one size it is; at another size the same code waits for the host, or multiplies matrices. A
#    regime belongs to a step at a size on a device.
# 3. *The GPU is fully utilised, so it works as fast as it can.* The driver counts the time in which any kernel runs, on one
#    multiprocessor or on all.
#
# **Answers**
#
# - *The guesses:* the smallest step is overhead; A is under-filled, B memory, C overhead.
# - *Utilisation:* small matmuls launched one by one leave gaps that the driver sees, so the claim that it is always full fails.
#   In a CUDA Graph it is almost full, at a small part of the peak.
# - *How far from the peak:* 72 w² FLOP for each token, 618 GFLOP; 0.30 of the peak; 2.5 times as fast if only the matmuls
#   remained.
#   <!-- definition: the exercise -->
# - *The rule as a function:* in the order of the questions; where two hold, the first counts.
#
# **To discuss.** A colleague's training is fully utilised and reaches a fifth of the peak. What do you ask for first? (The parts
# of a step and its slowest operators. Then one change at a time: a graph, half the bytes, twice the batch.)
