# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown]
# # 01 · Why does the GPU's time look constant? The answers

# %% tags=["setup"]
from statistics import median

from brrr import check, explore

# %% [markdown]
# ## Mend the timer
#
# The warm-up call is itself an order in the queue, so the first thing in the loop is to wait. One disturbed call does not
# move a median.


# %% tags=["exercise:01-timer"]
def timer(call, synchronize, clock):
    call()
    times = []
    for _ in range(9):
        synchronize()
        start = clock()
        call()
        synchronize()
        times.append(clock() - start)
    return median(times)


check("01-timer", timer=timer)

# %% [markdown]
# ## Where do the lines cross?
#
# The figure's own data, on the recording: each line is a list of (size, median, low, high). The answer is the size behind
# the last one at which the GPU is not ahead.

# %% tags=["exercise:01-crossover"]
lines = ["cpu", "transfers", "synchronized"]
data = explore("matmul", lines=lines, source="recorded:h200").data
times = {name: {size: median for size, median, *_ in data[name]} for name in lines}
crossing = {}
for name in ["transfers", "synchronized"]:
    ahead = {size: times[name][size] < times["cpu"][size] for size in sorted(times[name])}
    behind = max(size for size in ahead if not ahead[size])
    crossing[name] = min(size for size in ahead if size > behind)
check("01-crossover", with_transfers=crossing["transfers"], without_transfers=crossing["synchronized"])
