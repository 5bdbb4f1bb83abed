# ---
# jupyter:
#   brrr:
#     needs: [cuda, pycuda, nvmath, triton]
# ---

# %% [markdown]
# # 06 · How much of the time is PyTorch itself? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## Where is the divide?
#
# hidden² · 4 bytes over the bandwidth is the GPU's time, and it is to be the host's.

# %% tags=["exercise:06-divide"]
hidden = (20e-6 * 4.2e12 / 4) ** 0.5
check("06-divide", hidden=hidden, quarter=hidden / 2)

# %% [markdown]
# ## What breaks a capture?
#
# `.item()` brings a number to Python, so Python waits for the GPU, and the `if` is decided once and for all. Without it
# the number stays where it is, and one formula holds in both cases: whatever is below 1 divides by 1.


# %% tags=["exercise:06-capture"]
def network(x, layers):
    for w, b in layers:
        x = (x @ w.t() + b).relu()
        x = x / x.square().mean().sqrt().clamp(min=1)
    return x


check("06-capture", network=network)

# %% [markdown] tags=["teaching"]
# ## 06 · How much of the time is PyTorch itself?
#
# | | |
# | --- | --- |
# | Goal | Tell a framework's overhead from the device's work on a whole network; know the rungs of the ladder from modules to a CUDA Graph, and what a graph cannot hold. |
# | Minutes | 60: 15 for the rewrite, 10 for the divide, 15 for the ladder, 20 for the two exercises |
# | Before | Lesson 03 (overhead, running ahead, CUDA Graphs), lesson 05 (fusion). |
# | Answers | [solutions/06_killing_overhead.ipynb](../notebooks/solutions/06_killing_overhead.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *The rewrite is slower* (below one). It comes from knowing that Python is slow, and PyTorch written in C++. But both are driven by
#    Python; the rewrite only asks fewer questions on the way to the same library. (What remains of a gain beyond the divide is not overhead: the
#    rewrite times the library's kernels once and keeps the fastest.)
# 2. *The gain is the same everywhere.* It comes from reading a speed-up as a property of the program. It belongs to the program on
#    a device at a size: where the GPU takes longer than the host, less host work gains nothing. (In the drawing of the divide, the
#    dotted line has both in a CUDA Graph: what it gains is the kernels' own, and it explains a gain that comes back on wide layers.)
# 3. *A script or a compiler must beat a graph, for they make better code.* It comes from thinking of the kernels. On narrow layers
#    the kernels are not what is waited for; fewer launches win. (The rung *compile* is no evidence for it: in this recording
#    its kernels themselves take many times as long as the modules', and the cause is not known.)
#
# **Answers.** The guesses: see the figures, on your source. The divide: hidden² · 4 bytes / 4.2 TB/s = 20 µs, so 4583, and half of
# that with a quarter of the time. The capture: leave the number on the GPU and use one formula for both cases, as
# `x / size.clamp(min=1)`; `torch.where` is right, too. *max-autotune*: it takes kernels by short timings when it compiles, and in a fresh process
# it may take others, several times as slow. So two students with GPUs of one model may see two lines ([docs/strassen.md](strassen.md),
# *Earlier recordings*).
# <!-- definition: the exercise -->
#
# **To discuss.** The source found these gains and wrote that eager mode could have most of them with a better allocator. What would a
# framework have to know beforehand to do no more host work than the rewrite, and what would its users lose? (Shapes, types, devices
# and the order of the calls; hooks, data-dependent branches, printing in the middle of a model.)
