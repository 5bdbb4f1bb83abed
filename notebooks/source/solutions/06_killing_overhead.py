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
# hidden² · 4 bytes over the bandwidth is the GPU's time for a layer. At the divide it equals the host's time.

# %% tags=["exercise:06-divide"]
divide = (20e-6 * 256e9 / 4) ** 0.5
wider = (20e-6 * 4.2e12 / 4) ** 0.5
check("06-divide", gtx1070=divide, h200=wider)

# %% [markdown]
# ## What breaks a capture?
#
# `.item()` brings a number to Python: Python waits for the GPU, and the `if` is decided once and for all. Without it the
# number stays on the GPU, and one formula covers both cases: whatever is below 1 becomes a division by 1.


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
# | Goal | Tell a framework's overhead from the device's work; know the rungs from modules to a CUDA Graph, and what a graph cannot hold. |
# | Minutes | 40 |
# | Before | Lesson 03 (overhead, running ahead, CUDA Graphs), lesson 05 (fusion). |
# | Answers | [solutions/06_killing_overhead.ipynb](../notebooks/solutions/06_killing_overhead.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *A compiler must beat a graph, because it writes better code.* On narrow layers nobody waits for kernels; fewer launches win.
#    (The rung *compile* says nothing about compilers in general: in this recording its kernels take many times as long as the
#    modules', and the cause is not known.)
# 2. *The rewrite is slower* (below one), because Python is slow and PyTorch is written in C++. Python drives both; the rewrite
#    asks fewer questions on the way to the same library. (A gain beyond the divide is not overhead: the rewrite times the
#    library's kernels once and keeps the fastest.)
# 3. *The gain is the same everywhere.* A speed-up belongs to a program on a device at a size: where the GPU takes longer than the
#    host, less host work gains nothing.
#
# **Answers.** The divide: hidden² · 4 bytes / 256 GB/s = 20 µs, so 1131 on the GTX 1070, and with 4.2 TB/s 4583 on the H200. The
# capture: leave the number on the GPU and use one formula, `x / size.clamp(min=1)`; `torch.where` is right, too. *max-autotune*
# picks kernels by short timings: another process may pick others, several times as slow, and two students with the same GPU model
# may see two lines ([docs/strassen.md](strassen.md), *Earlier recordings*).
# <!-- definition: the exercise -->
#
# **To discuss.** The article wrote that eager mode could have most of these gains with a better allocator. What would a framework
# have to know beforehand to do as little host work as the rewrite, and what would users lose? (Shapes, types, devices and the
# order of the calls; hooks, data-dependent branches, printing in the middle of a model.)
