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
# | Goal | Know that data must be copied to the GPU and back, what a copy costs (a fixed time, and the bytes over the bandwidth), what pinned and kept memory change, and when work pays for the transfers. |
# | Minutes | 40 |
# | Before | Lessons 00 and 01. NumPy: an array, `np.concatenate`, `np.split`. |
# | Answers | [solutions/02_transfers.ipynb](../notebooks/solutions/02_transfers.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *A copy takes next to no time* (microseconds for 2²⁶ bytes). It comes from lesson 01, where the call returned at once, and
#    from the GPU's memory bandwidth on the box. The link to the CPU's memory is another one, and far narrower; the figure has both.
# 2. *Half the bytes, half the time.* True of large copies only. A small one pays its fixed cost, and below some size the number of
#    bytes makes no difference. The last figure shows from which size on it does.
# 3. *The GPU wins, since it is so good at sines.* It is, and the line without transfers shows it. But four sines for each number are
#    little work to pay for the copies. Who wins depends on the CPU's cores, on the link, and on the memory: let people who disagree
#    look at *GPU with transfers* and at the lines with kept and with pinned memory.
#
# A fourth one: *pinned memory is faster memory.* It is the same memory. The copy engine may read it on its own, since it
# stays where it is; from pageable memory the driver must copy the data to such a place first, and the caller waits for that. And part
# of what people call the gain of pinning is that of keeping: a new array is mapped page by page when it is first written to.
#
# **Answers**
#
# - *The guesses:* in the cells that compare. Without a GPU the CPU queue stands in. It computes on the CPU's
#   own cores, so it shows what copies cost, and never wins by work.
# - *From how many sines on?* (the time with transfers less the time without) over a quarter of (the CPU's time less the GPU's without
#   transfers), rounded up. One more or less, or a tenth, is accepted, at any size of a million elements or more, on your live
#   measurements or on the recording.
# - *Fewer transfers:* join the parts, send once, four sines where the data are, fetch once, split. Keeping the data there but sending
#   each part alone is better than before, and not yet right: each transfer has its fixed cost.
# - *What the article claims:* `brrr claims transfers nested_sine`. Two of its sentences are worth a minute. It advises to synchronise
#   before the result is fetched, so that it is complete; fetching waits anyway, and the measurements say so. And its text speaks of
#   2³² elements in one place and of 2³¹ in another.
#
# **To discuss.** A colleague's training loop fetches the loss after every step, to print it. The loss is four bytes. Does it matter?
# (Not the bytes: the fixed cost of the copy, and the wait for everything before it, as in lesson 01. What would they do instead?
# Keep the losses on the GPU and fetch them together, every hundred steps.)
#
# ---
