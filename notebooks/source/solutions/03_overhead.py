# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown]
# # 03 · When does the GPU wait for the host? The answers

# %% tags=["setup"]
import torch

from brrr_course import check

# %% [markdown]
# ## When does it stop waiting?
#
# The GPU no longer waits when its time for an operator, start and bytes, is as long as the host's.

# %% tags=["exercise:03-ahead"]
check("03-ahead", elements=(5e-6 - 1e-6) * 4.2e12 / 8)

# %% [markdown]
# ## Fewer kernels
#
# `dim=1` takes all rows at once; `keepdim=True` keeps the column, so that each row meets its own mean. Four kernels
# for all rows instead of four for each.


# %% tags=["exercise:03-chatty"]
def quiet(x):
    return (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True)


check("03-chatty", quiet=quiet)

# %% [markdown] tags=["teaching"]
# ## 03 · When does the GPU wait for the host?
#
# | | |
# | --- | --- |
# | Goal | Know an operator's fixed cost on the host, where it comes from, and when it is hidden; tell from the outside whether a program is overhead-bound. |
# | Minutes | 45 |
# | Before | Lesson 01: a GPU call returns before its work is done. What a ReLU is; what a mean and a standard deviation are; `dim=` of a torch operator. |
# | Answers | [solutions/03_overhead.ipynb](../notebooks/solutions/03_overhead.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *The GPU adds fastest, then torch on the CPU; Python is last.* So it is at full load. On one number, what counts is how much
#    must be decided before the addition, and Python decides least.
# 2. *TorchScript (or a graph, or a compiler) is always cheaper than plain calls.* Entering the script is overhead too, shared by
#    the operators of a chain. Let students move *operators* from 1 to 16 and say which rungs change places.
# 3. *If the time does not grow with the batch, it is overhead.* Or an under-filled GPU (lesson 04b), or a skinny matmul, which
#    reads the same weights for any number of rows. The idle share and the bytes tell them apart.
#
# A fourth one, about the timeline: *overhead always costs time.* Only where the device waits for it. At the slider's right end
# the host still launches everything, and nobody waits.
#
# **Answers**
#
# - *The guesses:* the ladder's cheapest rung differs from machine to machine, and with the number of operators.
# - *Fewer kernels:* `(x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, keepdim=True)`. Anything with the same result and at least
#   the wanted ratio is right, `torch.vmap` or `torch.var_mean` too. The check compares on fresh numbers and a second shape, times
#   both in turn, and compares again with new numbers in the same tensor, to find a remembered result. Hints: the mean of all
#   numbers, division by n, a changed input.
# - *When does it stop waiting:* (5 - 1) µs · 4.2 TB/s / 8 bytes, 2.1 million elements; in the figure the loop begins to follow
#   the GPU between 2²⁰ and 2²².
#   <!-- definition: the exercise -->
# - *What the articles claim:* `brrr claims adds host_cost run_ahead scaling`. The articles measured other GPUs, with torch of
#   2021 and 2022: what fails here may have been true there.
#
# **To discuss.** A model's training step takes as long on an old GPU as on a new one with three times the bandwidth. What do you
# suspect, how do you test it without a profiler, and what do you change first? (The host sets the pace. Double or halve the
# batch: does the step's time move? Then fewer, larger operators, a CUDA Graph or a compiler, before any new GPU.)
