# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown]
# # 03b · Why is the layer without a matrix product not faster? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## The roofline by hand
#
# 2 · width² FLOP over 8 · width bytes are width / 4 FLOP/B: the ridge point at 4 · 13.9. Beyond it `Linear` takes width / 55.6
# times as long as its bytes, and the fused stand-in takes as long as its bytes.

# %% tags=["exercise:03b-ridge"]
width = 13.9 * 8 / 2
check("03b-ridge", width=width, speedup=8192 / width)

# %% [markdown]
# ## Mend the benchmark
#
# The data is made once, before the clock starts; the synchronisation behind it waits until it is there. No ReLU, no
# `+ x`.


# %% tags=["exercise:03b-mend"]
def benchmark(randn, weight, bias, relu, synchronize, clock):
    x = randn(64, 256)
    synchronize()
    start = clock()
    for _ in range(100):
        x * weight + bias
    synchronize()
    return (clock() - start) / 100


check("03b-mend", benchmark=benchmark)
