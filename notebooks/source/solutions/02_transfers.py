# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown]
# # 02 · What does the way to the factory cost? The answers

# %% tags=["setup"]
from math import ceil

import numpy as np

from brrr import check, explore

# %% [markdown]
# ## When does the way pay?
#
# With *k* sines, the CPU takes *k* times what it needs for one, and the GPU takes the way and *k* times what it needs
# for one. The way is what the transfers add; a sine is a quarter of the time of four.

# %% tags=["exercise:02-sines"]
data = explore("nested_sine", lines=["cpu", "with transfers", "without transfers"], source="recorded:h200").data
times = {line: {size: median for size, median, *_ in rows} for line, rows in data.items()}
size = max(set.intersection(*map(set, times.values())))
cpu, sent, there = (times[line][size] for line in ["cpu", "with transfers", "without transfers"])
check("02-sines", sines=ceil((sent - there) / (cpu / 4 - there / 4)))

# %% [markdown]
# ## Mend the trips
#
# What the next sine needs stays where it is worked on. And since each trip has its fixed cost, the small parts travel
# together: one trip there, one trip back.


# %% tags=["exercise:02-road"]
def process(parts, factory):
    goods = factory.send(np.concatenate(parts))
    for _ in range(4):
        goods = factory.sin(goods)
    lengths = [len(part) for part in parts]
    return np.split(factory.fetch(goods), np.cumsum(lengths)[:-1])


check("02-road", process=process)
