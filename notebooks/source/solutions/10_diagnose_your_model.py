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
# Each token takes two FLOP for each of the 12 w² weights, and backward takes two products for each one: 618 GFLOP. That is 30 % of the
# peak over the whole step. If only the products remained, the step would be 2.5 times as fast: this is what fusion, graphs and larger
# batches can gain at most.

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
    return "latency" if double <= 1.15 * graph else "compute"


check("10-regime", regime=regime)
