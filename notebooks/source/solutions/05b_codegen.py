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
# | Goal | Read a generated kernel; know when computing again is better than saving, in time and in memory, and do it. |
# | Minutes | 35 |
# | Before | Lesson 05. What a backward pass is. A side road: the main road goes on without it. Without a GPU, torch.compile's kernels are shown as the H200 got them, or in C++ where a compiler is there. |
# | Answers | [solutions/05b_codegen.ipynb](../notebooks/solutions/05b_codegen.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *To compute again saves memory and costs time.* So it is operator by operator (`torch.utils.checkpoint`).
#    In a fused kernel what is computed again moves nothing, and what is not saved is neither written nor read. Both drop.
# 2. *Then it always pays.* It comes from counting bytes alone. Accurate cosines are so much arithmetic that computing them again
#    takes longer than fetching them; and even a cheap activation adds up in a long chain.
# 3. *A generated kernel must be slower than one written by hand* (or faster). For element-wise work, all that counts is to load
#    every number once, in wide and neighbouring words, and to have many loads in flight. All three ways do.
#
# **Answers**
#
# - *The guesses:* in the cells that compare, from the data shown. The table beside the speed-up has the peak memory of one call.
# - *Read the kernels:* the two cosines have one load and one store. In the softmax a row is loaded once; the five operators are a
#   maximum, a difference, an exponential, a sum and a quotient. The difference and the exponential are computed twice.
# - *Write a line:* `epxf` should be `expf`; the message shows where, and what was meant. On a CPU torch evaluates the line, so its
#   rate says nothing of a kernel.
# - *Count the bytes:* one by one seven large arrays (two for the bias, two for the ReLU, three for the multiplication) and the row;
#   fused three and the row. Bytes are asked for, not elements.
# - *Keep only the input:* `checkpoint(chain, x, use_reentrant=False)`. The check looks which arrays are still alive when the forward pass
#   ends: seven between the operators without `checkpoint`, none with it. Two segments of four keep one. An `autograd.Function` that
#   saves `x` and computes the chain again is right too.
#   <!-- definition: the exercise -->
#
# **To discuss.** Your training run does not fit into memory. Which activations do you compute again first, and which never?
# (First those that are cheap and between fused operators: they may even be faster. Never the results of large matrix products,
# unless nothing else is left: their arithmetic is what the time is made of.)
