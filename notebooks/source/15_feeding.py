# ---
# jupyter:
#   readme: {short: 'feeding the GPU', asks: 'why is it idle although the model is fast?', before: '02, 10'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 15 · Why is my GPU idle although the model is fast?
#
# A step takes milliseconds, an epoch an hour. Between steps the CPU fetches, decodes and stacks samples.
# **How many samples per second does each side manage, and what speeds up the slower one?**
#
# You will be able to:
#
# - calculate how many workers a step needs
# - find where more workers stop helping
# - fix a loader that fetches row by row
#
# Know before: [02](02_transfers.ipynb)'s *pinned memory*, [10](10_diagnose_your_model.ipynb)'s table.

# %% tags=["setup", "question"]
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from brrr_course import check, claims, compare, explore, guess

# %% [markdown] tags=["guess"]
# ## Guess: pictures as JPEG
#
# A ResNet-18 is trained in bfloat16, 128 pictures a step. They lie in memory as JPEGs, 256 pixels wide. A `DataLoader` decodes
# each, crops it to 224, and stacks them: by default (`num_workers=0`) in the main process, between two steps.

# %% tags=["guess"]
g = guess("With its batch already on the GPU, a step is ... times as fast as one that loads first", unit="x")

# %% tags=["run"]
at = {"sample": "JPEG", "batch": 128, "workers": 8}
asks = "How long does an iteration take that loads its own batch?"
ways, moved = ["main", "step", "alone"], ["sample", "batch"]
explore("loader", at=at, lines=ways, show="ladder", sliders=moved, versus={"step": "main"}, unlock=g, title=asks)

# %% tags=["compare"]
compare(g, "loader", {"step": "main"}, of="speed-up", at=at)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Set *a sample* to *crop* (no decoding), *row* (no crop either) and *tokens*. Where does a JPEG's time go? Write two
# sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# One process does both, so loading and launching add up, and the GPU is idle while a batch is decoded. Decoding is most of it: *crop* takes
# <!-- so loader: at(batch=128, workers=8); own = ['JPEG', 'crop', 'row']; period('main', sample=own) / (period('step', sample=own) +
# period('alone', sample=own)) is 0.9 to 1.15; period('alone', sample='crop') / period('alone', sample='JPEG') is 0.11 to 0.14 -->
# an eighth. A row is an index. Tokens load while the GPU computes.
# <!-- so loader: at(batch=128, workers=8); period('alone', sample='row') < period('alone', sample='crop') / 2; period('main',
# sample='tokens') / period('step', sample='tokens') is 0.95 to 1.05 -->
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import time, torch
# from torch.utils.data import DataLoader, TensorDataset
# loader, start = DataLoader(TensorDataset(torch.randn(8192, 100)), 64, shuffle=True), time.perf_counter()
# for number, (batch,) in enumerate(loader, 1):
#     pass  # loading alone; then once more with your step, and torch.cuda.synchronize() behind the loop
# print("seconds per batch", (time.perf_counter() - start) / number)
# ```
#
# </details>

# %% [markdown] tags=["guess"]
# ## Guess: eight workers
#
# A [[worker]] is a process that loads whole batches beside the main one, each with two under way ([[prefetching]]). Loading and steps
# overlap; the slower side sets the pace:
#
# ```text
# iteration = max(step, loading / min(workers, cores))
# ```
#
# *Loading* is one process's time for a batch. The figure's *arithmetic* also counts the core that launches.

# %% tags=["guess"]
w = guess("Fed by 8 workers, an iteration takes ... times as long as the step alone", unit="x")

# %% tags=["run"]
ways = ["fed", "arithmetic", "step"]
asks = "How many workers does the step need?"
moved = ["workers", "sample", "batch"]
explore("loader", at=at, lines=ways, sliders=moved, versus={"fed": "step"}, unlock=w, title=asks)

# %% tags=["compare"]
compare(w, "loader", {"step": "fed"}, of="speed-up", at=at)

# %% [markdown] tags=["explain"]
# The arithmetic is right within a fifth for *PNG*, slowest to load; JPEGs take up to two fifths longer. What ends the gain:
# <!-- so loader: at(batch=128); period('fed', sample='PNG') / period('arithmetic', sample='PNG') is 0.9 to 1.2; period('fed',
# sample='JPEG') / period('arithmetic', sample='JPEG') is 1.1 to 1.42; period('alone', sample='PNG', workers=8) > 2 * period('alone',
# sample='JPEG', workers=8) -->
#
# - **The step.** From 16 workers on, JPEGs gain no more.
# <!-- so loader: at(batch=128, sample='JPEG'); many = [16, 32]; period('arithmetic', workers=many) / period('step', workers=many) is 1 to 1;
# period('fed', workers=8) > 1.3 * period('fed', workers=16); period('fed', workers=32) / period('fed', workers=16) is 0.95 to 1.05 -->
# - **The cores.** Beyond them workers take turns: on 16 cores, 32 decode *PNG* no faster.
# <!-- so loader: at(batch=128, sample='PNG'); period('load', workers=8) > 1.9 * period('load', workers=16); period('load', workers=32) /
# period('load', workers=16) is 0.95 to 1.1 -->
# - **The way.** A batch crosses shared memory, and the main process pins it. With 1 worker as with 32, *row* takes half as long again
# as the step. JPEGs keep part of that; we have not taken it apart.
# <!-- so loader: at(batch=128, sample='row'); period('load', workers=1) > period('alone', workers=1); period('fed') / period('step') is 1.45 to
# 1.65 -->
# <!-- so loader: at(batch=128, sample='JPEG'); period('fed', workers=[16, 32]) / period('step', workers=[16, 32]) is 1.3 to 1.4 -->
#
# `persistent_workers=True` spares each epoch the start of processes.
# <!-- so loader: at(batch=128, sample='JPEG'); latency('first') > 1.5 * latency('again') -->
# `pin_memory=True` with `non_blocking=True` hides the *copy*, not the decoding: *row* gains, JPEGs only from 16 workers on.
# <!-- so loader: at(batch=128, sample='JPEG'); few = [1, 2, 4, 8]; many = [16, 32]; period('pageable', sample='row') / period('fed',
# sample='row') > 1.25; period('pageable', workers=few) / period('fed', workers=few) < 1.15; period('pageable', workers=many) /
# period('fed', workers=many) > 1.25 -->
#
# Where cores run out, store smaller pictures, crop on the GPU, or decode once: then one worker feeds nearly as fast as eight.
# <!-- so loader: at(batch=128); period('fed', sample='crop', workers=1) / period('fed', sample='JPEG', workers=8) is 1 to 1.15 -->
#
# ## How to see it
#
# - **A trace** (`torch.profiler`): the GPU's row has gaps below `enumerate(DataLoader)`.
# - **`brrr diagnose train.py`** names the line that waits for data.
# - **`nvidia-smi`**: utilisation falls.

# %% [markdown] tags=["explore"]
# ## Explore: one index for a batch
#
# A `TensorDataset` is in memory, decoded. Yet its `DataLoader` asks for each row alone, in Python
# ([pytorch#154318](https://github.com/pytorch/pytorch/issues/154318)). `table[numbers]` fetches the batch in one call.
#
# 1. Why does the factor between them grow with the batch?
# 2. Would workers help?
#
# <details><summary>Answers</summary>
#
# 1. Each call costs the host some time ([[host overhead]]): row by row one for each row, by index one for all.
# <!-- so indexing: factor = period('one-by-one') / period('indexed'); [factor[n] > factor[n / 4] for n in [256, 1024, 4096, 16384, 65536]] -->
# 2. They share the calls, but each batch then travels. A sampler that gives *lists* makes one call, from 256 rows on five times as fast
#    or more. The index alone is faster again: a list's numbers pass through Python.
# <!-- so indexing: at(batch=least(256)); period('one-by-one') > 5 * period('lists'); period('lists') > 2.5 * period('indexed') -->
#
# </details>

# %% tags=["explore"]
ways = ["one by one", "lists", "indexed"]
asks = "What does fetching row by row cost?"
explore("indexing", at={"batch": 65536}, lines=ways, versus={"one by one": "indexed"}, title=asks)

# %% [markdown] tags=["your-turn"]
# ## Your turn: how many workers?
#
# Loading a picture takes 5 ms, a step on 64 pictures 20 ms. *Calculate*: how many workers keep the GPU busy? With 6 workers on 6 cores, what
# share of the time is the GPU idle (0 to 1)?

# %% tags=["your-turn", "exercise:15-workers", "calculates"]
check("15-workers", workers=..., idle=...)

# %% [markdown] tags=["your-turn"]
# ## More: lists of numbers
#
# This loader asks `data` for each row alone. Asked for a list, it gives all rows in one call. *Fix* the loader (one call per batch, still
# shuffled), then write `loader=loader`. (`batch_size=None` stacks nothing.)


# %% tags=["your-turn", "exercise:15-lists", "makes"]
def loader(data, batch):
    return DataLoader(data, batch_size=batch, shuffle=True)


check("15-lists", loader=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# We wrote these down before we measured. One on the arithmetic is undecided: `brrr claims loader`.

# %% tags=["claims"]
claims("15")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Take as many workers as a batch's loading takes steps: on an H200, 128 JPEGs load in 131 ms beside a step of 10 ms, so 13.
# <!-- so loader: at(batch=128, sample='JPEG', workers=8); 1e3 * period('alone') is 130.5 to 131.5; 1e3 * period('step') is 9.5 to
# 10.5; period('alone') / period('step') is 13 to 13.5 -->
#
# - The slower side sets the pace: the step, or loading over workers with a core each; passing batches on adds to it.
# - Time the loop without a step, and the step on one batch: improve the longer.
# - Before you add workers, fetch a batch in one call.
#
# Terms: [[worker]], [[prefetching]], [[host overhead]].

# %% [markdown] tags=["work"]
# ## At work
#
# Run it as it stands, then with your step in the loop.
#
# ```python
# import time, torch
# from torch.utils.data import DataLoader, TensorDataset
# data, gpu = TensorDataset(torch.randn(8192, 100)), torch.cuda.is_available()
# loader = DataLoader(data, 64, shuffle=True, num_workers=2, pin_memory=gpu, persistent_workers=True)
# start = time.perf_counter()
# for number, (x,) in enumerate(loader, 1):
#     x = x.to("cuda" if gpu else "cpu", non_blocking=True)
# print("seconds per batch", (time.perf_counter() - start) / number)
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [12 · What does torch.compile remove, and how does it come back?](12_compile.ipynb) makes a step faster that has its data.
#
# Back: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb)
