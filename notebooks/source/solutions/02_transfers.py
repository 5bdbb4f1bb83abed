# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown]
# # 02 · What does a copy to the GPU cost? The answers

# %% tags=["setup"]
from math import ceil

import numpy as np

from brrr_course import check, explore

# %% [markdown]
# ## From how many sines on?
#
# With *k* sines, the CPU takes *k* times what it needs for one, and the GPU takes the transfers and *k* times what it
# needs for one. The transfers are what they add; a sine is a quarter of the time of four.

# %% tags=["exercise:02-sines"]
data = explore("nested_sine", lines=["cpu", "with transfers", "without transfers"], source="recorded:h200").data
times = {line: {size: median for size, median, *_ in rows} for line, rows in data.items()}
size = max(set.intersection(*map(set, times.values())))
cpu, sent, there = (times[line][size] for line in ["cpu", "with transfers", "without transfers"])
check("02-sines", sines=ceil((sent - there) / (cpu / 4 - there / 4)))

# %% [markdown]
# ## Fewer transfers
#
# What the next sine needs stays in the GPU's memory. And since each transfer has its fixed cost, the small parts travel
# together: one transfer there, one back.


# %% tags=["exercise:02-trips"]
def process(parts, gpu):
    numbers = gpu.send(np.concatenate(parts))
    for _ in range(4):
        numbers = gpu.sin(numbers)
    lengths = [len(part) for part in parts]
    return np.split(gpu.fetch(numbers), np.cumsum(lengths)[:-1])


check("02-trips", process=process)
