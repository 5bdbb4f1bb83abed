# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown]
# # 04c · Why is the layer without a matrix product not faster? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## The roofline by hand
#
# 2 · width² FLOP over 8 · width bytes are width / 4 FLOP/B: the ridge point at 4 · 13.9. Beyond it `Linear` takes width / 55.6
# times as long as its bytes, and the fused stand-in takes as long as its bytes.

# %% tags=["exercise:04c-ridge"]
width = 13.9 * 8 / 2
check("04c-ridge", width=width, speedup=8192 / width)

# %% [markdown]
# ## Fix the benchmark
#
# The data is made once, before the clock starts; the synchronisation behind it waits until it is there. No ReLU, no
# `+ x`.


# %% tags=["exercise:04c-mend"]
def benchmark(randn, weight, bias, relu, synchronize, clock):
    x = randn(64, 256)
    synchronize()
    start = clock()
    for _ in range(100):
        x * weight + bias
    synchronize()
    return (clock() - start) / 100


check("04c-mend", benchmark=benchmark)

# %% [markdown] tags=["teaching"]
# ## 04c · Why is the layer without a matrix product not faster?
#
# | | |
# | --- | --- |
# | Goal | Know what a speed-up is true of; find three regimes (overhead-, compute- and memory-bound) on one curve; test an explanation instead of believing it. |
# | Minutes | 35 |
# | Before | Lesson 04. What a linear layer computes, and that its work grows with the square of its width. A side road: the main road goes on without it. |
# | Answers | [solutions/04c_pseudo_linear.ipynb](../notebooks/solutions/04c_pseudo_linear.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *At width 1024 the stand-in is 1024 times faster* (or 16 times, "because tensor cores help Linear"). It comes from counting
#    operations. Nobody waits for operations that are done before the next kernel is launched; and what is timed beside the layer
#    (random data, a ReLU) costs both the same and pulls the ratio towards one.
#    <!-- definition: a wrong guess -->
# 2. *A wide layer shows the full factor.* It comes from the same counting: at large widths overhead is gone, so what is left must be
#    the operations. But the stand-in is not bound by its operations at all. It fetches and stores every element, so it runs at
#    the pace of the memory, and only the linear layer is compute-bound. The ratio of the two still grows in proportion to the width,
#    but is smaller by a factor that belongs to the GPU.
# 3. *The matrix multiplication must be doing less than it seems* (clever algorithms with fewer multiplications). A good thought, and it
#    can be tested: with fewer multiplications the rate counted with all of them could exceed the datasheet's peak, and results of
#    whole numbers close to the limit of float32 would come out rounded. Neither needs a look into the library. The claims
#    give the verdict for the recording.
#
# A fourth one, in the exercise: *it is enough to move the random data out of the loop.* It must be outside what is timed, and the
# queue must be empty when the clock starts: making the data is work in the queue, too.
#
# **Answers**
#
# - *The guesses:* in the cells that compare, from the data shown.
# - *Fix the benchmark:* the data made once before the first `synchronize()`; `x * weight + bias` alone in the loop; the
#   synchronisation after the loop kept. Timing each call separately, with the data made outside the two readings of the clock, is
#   right too.
# - *The roofline by hand:* 2 · width² FLOP over 8 · width bytes are width / 4 FLOP/B, the ridge point at width 55.6; at width 8192
#   the roofline promises 147x, where counting operations promises 8192x.
#   <!-- definition: the exercise -->
# - *Above the roofline's line:* neither layer reaches its limit, and `Linear` falls farther short of its peak than the fused stand-in of
#   the bandwidth.
# - *Where do CUDA Graphs stop paying:* where the two kernels take longer than launching them. The cell prints the bracket.
# - *What the thread claims:* `brrr claims pseudo_linear pseudo_linear_flaws`. Its readers measured on other GPUs, unnamed.
#
# **To discuss.** A paper reports that its layer is 40 times faster than a linear one. Which three questions do you ask? (What
# else was timed with both? How many rows, and how wide: was either side waiting for the next launch? And what limits the layer: would
# the same factor appear on a GPU with another ratio of compute to bandwidth?)
# <!-- definition: made up -->
#
# ---
