# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton]
# ---

# %% [markdown]
# # 05b · Who writes the kernel? The answers

# %% tags=["setup"]
import torch
from brrr_course import check
from torch.utils.checkpoint import checkpoint

# %% [markdown]
# ## Count the bytes
#
# One large array is 4096 · 1024 · 4 bytes; the bias is a row, a thousandth of a percent of it, and may be left out.
#
# | operator | reads | writes |
# | --- | --- | --- |
# | `x + b` | one large array, a row | one |
# | `relu` | one | one |
# | `* g` | two | one |
# | all three in one kernel | `x`, `g`, a row | one |

# %% tags=["exercise:05b-bytes"]
large, row = 4096 * 1024 * 4, 1024 * 4
check("05b-bytes", eager=7 * large + row, fused=3 * large + row)

# %% [markdown]
# ## Keep only the input
#
# `checkpoint` runs the function without keeping anything but `x`, and runs it again as soon as the backward pass asks for what is in between.


# %% tags=["exercise:05b-again"]
def chain(x):
    for _ in range(8):
        x = torch.nn.functional.hardswish(x)
    return x


def again(x):
    return checkpoint(chain, x, use_reentrant=False)


check("05b-again", again=again)

# %% [markdown] tags=["teaching"]
# ## 05b · Who writes the kernel?
#
# | | |
# | --- | --- |
# | Goal | Read a generated kernel; know when computing again beats saving, in time and in memory, and do it. |
# | Minutes | 35 |
# | Before | Lesson 05. What a backward pass is. A side road. Without a GPU, torch.compile's kernels are shown as the H200 got them, or in C++ if there is a compiler. |
# | Answers | [solutions/05b_codegen.ipynb](../notebooks/solutions/05b_codegen.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *Computing again saves memory and costs time.* True operator by operator (`torch.utils.checkpoint`). In a fused kernel both
#    drop: what is computed again moves nothing, and what is not saved is neither written nor read.
# 2. *Then it always pays.* Computing accurate cosines again takes longer than fetching them; and even a cheap activation adds up
#    in a long chain.
# 3. *A generated kernel must be slower than one written by hand* (or faster). An element-wise kernel need only load every number
#    once, in wide and neighbouring words, with many loads in flight. All three ways do.
#
# **Answers**
#
# - *The guesses:* the table beside the speed-up has the peak memory of one call.
# - *Read the kernels:* the two cosines have one load and one store. The softmax loads a row once; its five operators are maximum,
#   difference, exponential, sum and quotient. Difference and exponential are computed twice.
# - *Write a line:* `epxf` should be `expf`, as the message says. On a CPU torch evaluates the line, so its rate says nothing
#   about a kernel.
# - *Count the bytes:* one by one, seven large arrays (two for the bias, two for the ReLU, three for the multiplication) and the
#   row; fused, three and the row. The answer is in bytes, not elements.
# - *Keep only the input:* `checkpoint(chain, x, use_reentrant=False)`. The check counts the arrays between the operators that are
#   alive when the forward pass ends: seven without `checkpoint`, none with it. Two segments of four keep one. An
#   `autograd.Function` that saves `x` and computes the chain again is right too.
#   <!-- definition: the exercise -->
#
# **To discuss.** Your training run does not fit into memory. Which activations do you compute again first, and which last? (First
# the cheap ones between fused operators: that may even be faster. Last the results of large matrix products: their arithmetic
# takes most of the time.)
