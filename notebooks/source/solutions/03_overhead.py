# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown]
# # 03 · Can the paper take longer than the work? The answers

# %% tags=["setup"]
import torch

from brrr import check, explore

# %% [markdown]
# ## Make it quiet
#
# `dim=1` takes all rows at once; `keepdim=True` keeps the column, so that each row meets its own mean. Four orders for
# all rows instead of four for each.


# %% tags=["exercise:03-chatty"]
def quiet(x):
    return (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True)


check("03-chatty", quiet=quiet)

# %% [markdown]
# ## When does it stop waiting?
#
# The figure's own data, on the recording: each line is a list of (elements, median, low, high). The answer is the size
# behind the last one at which the GPU is idle for a tenth of the loop or more.

# %% tags=["exercise:03-ahead"]
data = explore("run_ahead", lines=["busy", "period"], source="recorded:h200").data
busy, period = ({size: median for size, median, *_ in data[name]} for name in ["busy", "period"])
waits = [size for size in busy if 1 - busy[size] / period[size] >= 0.1]
check("03-ahead", elements=min(size for size in busy if size > max(waits)))
