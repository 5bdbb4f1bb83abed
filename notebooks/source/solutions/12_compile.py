# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 12 · What does torch.compile remove, and how does it come back? The answers

# %% tags=["setup"]
import torch

from brrr_course import check

# %% [markdown]
# ## Does it pay?
#
# Seconds of compiling over seconds gained a step. 1000 steps gain 50 s of the 90.

# %% tags=["exercise:12-payback"]
gained_s = 0.25 - 0.2
check("12-payback", steps=90 / gained_s, lost_s=90 - 1000 * gained_s)

# %% [markdown]
# ## One graph
#
# A factor of at least 1 covers both cases, and stays on the GPU. The `print` goes: return the size, and print it where it is no hurry.


# %% tags=["exercise:12-fullgraph"]
def step(x):
    size = x.square().mean().sqrt()
    return torch.tanh(x / size.clamp(min=1.0))


check("12-fullgraph", step=step)

# %% [markdown] tags=["teaching"]
# ## 12 · What does torch.compile remove, and how does it come back?
#
# | | |
# | --- | --- |
# | Goal | Say what compiling a program removes and what it costs; find graph breaks and recompilations, and say what each costs. |
# | Minutes | 35 |
# | Before | Lessons 05 and 10. |
# | Answers | [solutions/12_compile.ipynb](../notebooks/solutions/12_compile.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *Compiling makes everything faster.* It fuses; a matmul stays the library's, and launches stay unless a CUDA Graph takes
#    them.
# 2. *A print in the middle is harmless, as it takes a microsecond.* The line is cheap; on large arrays the pass through memory is
#    not.
# 3. *No more slow calls: all is compiled.* After eight recompilations nothing more is compiled, and the program runs as written.
#
# **Answers**
#
# - *Does it pay?* 1800 steps; 40 s. <!-- definition: the exercise -->
# - *One graph:* `x / size.clamp(min=1.0)` without `.item()`, and no `print`.
#
# **To discuss.** A program serves requests of any length. Compile with dynamic shapes, pad to a few lengths, or compile each
# length? (Count compilations at the start, work on padding, and what a dynamic kernel loses. A CUDA Graph needs fixed sizes
# anyway.)
