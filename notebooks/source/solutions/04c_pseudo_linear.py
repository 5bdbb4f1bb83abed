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
# | Goal | Know what a speed-up is true of; find three regimes (overhead-, compute- and memory-bound) on one curve; test an explanation. |
# | Minutes | 35 |
# | Before | Lesson 04. What a linear layer computes, and that its work grows with the square of its width. A side road. |
# | Answers | [solutions/04c_pseudo_linear.ipynb](../notebooks/solutions/04c_pseudo_linear.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *At width 1024 the stand-in is 1024 times faster* (or 16 times, "because tensor cores help Linear"). Nobody waits for
#    operations that are done before the next launch; and what is timed beside the layer (random data, a ReLU) costs both the same
#    and pulls the ratio towards one.
#    <!-- definition: a wrong guess -->
# 2. *A wide layer shows the full factor.* Only the linear layer is compute-bound. The stand-in fetches and stores every element:
#    it is memory-bound. The ratio still grows in proportion to the width, but is smaller by a factor that belongs to the GPU.
# 3. *The matrix multiplication must be doing less than it seems* (clever algorithms with fewer multiplications). Test it from
#    outside: then the rate counted with all multiplications could exceed the datasheet's peak, and whole numbers close to
#    float32's limit would come out rounded. The claims have the verdict.
#
# A fourth one, in the exercise: *it is enough to move the random data out of the loop.* The queue must also be empty when the
# clock starts: making the data is work in the queue, too.
#
# **Answers**
#
# - *Fix the benchmark:* make the data once, before the first `synchronize()`; leave only `x * weight + bias` in the loop; keep
#   the synchronisation after it. Timing each call separately, without making the data, is right too.
# - *The roofline by hand:* 2 · width² FLOP over 8 · width bytes are width / 4 FLOP/B, the ridge point at width 55.6; at width
#   8192 the roofline promises 147x, where counting operations promises 8192x.
#   <!-- definition: the exercise -->
# - *Above the roofline's line:* neither layer reaches its limit, and `Linear` falls farther short of its peak than the fused
#   stand-in of the bandwidth.
# - *Where do CUDA Graphs stop paying:* where the two kernels take longer than launching them. The cell prints the bracket.
# - *What the thread claims:* `brrr claims pseudo_linear pseudo_linear_flaws`. Its readers measured on other GPUs, unnamed.
#
# **To discuss.** A paper reports that its layer is 40 times faster than a linear one. Which three questions do you ask? (What
# else was timed? How many rows, and how wide: did either side wait for a launch? What limits it: would another ratio of compute
# to bandwidth give the same factor?)
# <!-- definition: made up -->
