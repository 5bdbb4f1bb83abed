# ---
# jupyter:
#   readme: {short: 'feeding the GPU', asks: 'why is it idle although the model is fast?', before: '02, 10'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 15 · Why is my GPU idle although the model is fast?
#
# A step takes milliseconds, yet an epoch takes an hour. Between two steps the CPU must fetch samples, decode and stack them.
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
# each, crops it to 224, and stacks them. By default (`num_workers=0`) the main process does that, between two steps.

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
# One process does both, so loading and launching add up, and the GPU is idle while a batch is decoded. A crop copies bytes; a row is an
# index. Rows of tokens are small.
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
# overlap, and the slower side sets the pace:
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
# What ends the gain:
#
# - **The step.** Once the workers' rate is the step's, the GPU is busy.
# - **The cores.** Beyond them workers take turns. A step on a CPU takes one, too.
# - **The way.** A worker's batch travels through shared memory. For a cheap sample that may cost more than loading it: try *row*.
#
# An epoch's first batch waits for processes to start; `persistent_workers=True` keeps them. Prefetching evens out unequal samples, but
# raises no rate. `pin_memory=True` with `non_blocking=True` hides the *copy*, not the decoding.
#
# ## How to see it
#
# - **A trace** (`torch.profiler`): the GPU's row has gaps, and `enumerate(DataLoader)` stands above them.
# - **`brrr diagnose train.py`** says *waiting for data*, and in which line.
# - **`nvidia-smi`**: utilisation falls. A high number proves little ([10](10_diagnose_your_model.ipynb)).
#
# Where cores run out, make samples cheaper: decode once, store smaller pictures, crop on the GPU.

# %% [markdown] tags=["explore"]
# ## Explore: one index for a batch
#
# A `TensorDataset` is in memory, decoded. Yet its `DataLoader` asks for each row alone, in Python, and stacks them
# ([pytorch#154318](https://github.com/pytorch/pytorch/issues/154318)). `table[numbers]` fetches the batch in one call.
#
# 1. Why does the factor between the two grow with the batch?
# 2. Would workers help?
#
# <details><summary>Answers</summary>
#
# 1. Each call costs the host some time ([[host overhead]]). Row by row, a batch makes a call for each row; the index makes one, and copies
#    at the memory's rate.
# 2. They share the calls, but each batch then travels between processes. One call is cheaper: a sampler that gives *lists* makes the
#    `DataLoader` do that.
#
# </details>

# %% tags=["explore"]
ways = ["one by one", "lists", "indexed"]
asks = "What does fetching row by row cost?"
explore("indexing", at={"batch": 4096}, lines=ways, versus={"one by one": "indexed"}, title=asks)

# %% [markdown] tags=["your-turn"]
# ## Your turn: how many workers?
#
# Loading a picture takes 5 ms, a step on 64 pictures 20 ms. *Calculate*: how many workers keep the GPU busy? The machine has 6 cores. With
# as many workers, what share of the time is the GPU idle (from 0 to 1)?

# %% tags=["your-turn", "exercise:15-workers", "calculates"]
check("15-workers", workers=..., idle=...)

# %% [markdown] tags=["your-turn"]
# ## More: lists of numbers
#
# This loader asks `data` for each row alone. Asked for a list of numbers, `data` gives all their rows in one call. *Fix* the loader,
# so that it makes one call per batch and still shuffles, then write `loader=loader`. (`batch_size=None` stacks nothing.)


# %% tags=["your-turn", "exercise:15-lists", "makes"]
def loader(data, batch):
    return DataLoader(data, batch_size=batch, shuffle=True)


check("15-lists", loader=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# We wrote these down before we measured.

# %% tags=["claims"]
claims("15")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Take as many workers as a batch's loading takes steps: 120 ms of loading beside a step of 10 ms need 12, if there are as many cores.
# <!-- so loader: 120 / 10 is 12 to 12 -->
#
# - The slower of two sides sets the pace: the step, or loading over workers that have a core each.
# - Time the loop without a step, and the step on one batch: the longer one is what to improve.
# - Fetch a batch in one call where the data allow it, before you add workers.
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
