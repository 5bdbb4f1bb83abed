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
# With *k* sines, the CPU takes *k* times as long as for one sine. The GPU takes the transfers, and *k* times as long as for one of its
# own sines. The transfers take the time with them less the time without. One sine takes a quarter of the time of four.

# %% tags=["exercise:02-sines"]
data = explore("nested_sine", lines=["cpu", "with transfers", "without transfers"], source="recorded:h200").data
times = {line: {size: median for size, median, *_ in rows} for line, rows in data.items()}
cpu, sent, there = (times[line][2**24] for line in ["cpu", "with transfers", "without transfers"])
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

# %% [markdown] tags=["teaching"]
# ## 02 · What does a copy to the GPU cost?
#
# | | |
# | --- | --- |
# | Goal | Know what a copy costs (a fixed time, and the bytes over the bandwidth), what pinned and kept memory change, and when work pays for the transfers. |
# | Minutes | 40 |
# | Before | Lessons 00 and 01. NumPy: an array, `np.concatenate`, `np.split`. |
# | Answers | [solutions/02_transfers.ipynb](../notebooks/solutions/02_transfers.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *A copy takes next to no time* (microseconds for 2²⁶ bytes). Lesson 01's call returned at once, and the datasheet gives the
#    bandwidth of the GPU's own memory. The link to the CPU is far narrower; the figure shows both.
# 2. *Half the bytes, half the time.* True of large copies only. Below some size (see the last figure) a copy takes its fixed
#    cost.
# 3. *The GPU wins, since it is so good at sines.* It is, as the line without transfers shows, but four sines per number hardly
#    pay for the copies. Who wins depends on the CPU's cores, the link and the memory: compare *GPU with transfers* and the lines
#    with kept and with pinned memory.
#
# A fourth one: *pinned memory is faster memory.* It is the same memory, but it stays in place, so the copy engine can read it by
# itself. Pageable data must first be copied to such memory, while the caller waits. Part of the apparent gain comes from keeping
# the array: a new one is mapped page by page at its first write.
#
# **Answers**
#
# - *The guesses:* without a GPU the CPU queue stands in. It computes on the CPU's own cores: it shows what copies cost, and never
#   wins.
# - *From how many sines on?* (the time with transfers less the time without) over a quarter of (the CPU's time less the GPU's
#   without transfers), rounded up. Accepted within one or a tenth, at any size of a million elements or more, live or recorded.
# - *Fewer transfers:* join the parts, send once, compute four sines where the data are, fetch once, split. Sending each part
#   alone is not yet right: each transfer has its fixed cost.
# - *What the article claims:* `brrr claims transfers nested_sine`. It advises synchronising before fetching, which waits anyway,
#   as measured; and it speaks of 2³² elements in one place and of 2³¹ in another.
#
# **To discuss.** A training loop fetches the loss, four bytes, after every step to print it. Does it matter? (Not the bytes, but
# the copy's fixed cost and the wait for everything before it. Better keep the losses on the GPU and fetch a hundred together.)
