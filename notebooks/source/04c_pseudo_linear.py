# ---
# jupyter:
#   readme: {short: 'pseudo-Linear', asks: 'where did the speed-up go? For engineers', before: '04'}
#   brrr:
#     leaves: '04'
#     needs: [cuda, triton]
# ---

# %% [markdown] tags=["question"]
# # 04c · Why is the layer without a matrix product not faster?
#
# Side road. Read 04 first.
#
# Somebody replaced a linear layer by a cheaper one, with one weight per feature instead of a whole matrix, and asked a forum why it
# was hardly faster. **Where did the speed-up go?**

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, explore, factory, find_transition, guess, pays

factory(detail="dram")

# %% [markdown] tags=["guess"]
# ## Guess: the benchmark as it was posted
#
# ```python
# def step(layer):                              # this is what is timed
#     x = torch.randn(batch, width)             # on the device
#     return torch.relu(layer(x))
#
# linear = nn.Linear(width, width)              # x @ W.T + b
# pseudo = lambda x: x * w + b + x              # w and b: one number for each feature
# ```
#
# Per row, `linear` does width² multiplications, and `pseudo` only as many as the width.
#
# The figure shows the speed-up as posted, and then with one flaw after the other removed: the random data made outside, no
# stray `+ x`, no ReLU. Each line compares the two layers timed in the same way.

# %% tags=["guess"]
g = guess("At width 1024, timed like this, pseudo is faster than Linear by a factor of ...", unit="x")

# %% tags=["run"]
over_linear = {
    "pseudo posted": "linear posted",
    "pseudo data out": "linear data out",
    "pseudo data and x out": "linear data and x out",
    "pseudo clean": "linear clean",
}
flawed = {"width": 1024, "batch": 2048}
explore("pseudo_linear_flaws", at=flawed, show={"speedup": over_linear}, unlock=g, title="Which version is fast?")

# %% tags=["compare"]
compare(g, "pseudo_linear_flaws", over_linear, of="speed-up", at=flawed)

# %% [markdown] tags=["explain"]
# Work that both layers share pulls their ratio towards one. Here the random data and the ReLU cost about as much as the cheap
# layer itself, and hide much of the difference. The stray `+ x` is work that only `pseudo` does. So a speed-up is true only of what was
# timed.
#
# At width 256 all lines lie near one or below it: both layers are [[overhead-bound]]. The [[host overhead]] of one call of `Linear` is about
# that of the two operators of the clean `pseudo`.

# %% [markdown] tags=["guess"]
# ## Guess: the clean benchmark
#
# Now only the layers are timed, with 32768 rows, so that the GPU is full.
#
# The grey lines are theory. *By counting operations*, the speed-up is the width. By the [[roofline]], each layer takes as long as
# its operations at the peak or its bytes at the memory's bandwidth, whichever is longer.

# %% tags=["guess"]
wide = {"width": 8192, "batch": 32768, "direction": "forward"}
w = guess("At width 8192, pseudo is faster than Linear by a factor of ...", unit="x")

# %% tags=["run"]
speedups = {
    "pseudo eager": "linear eager",
    "pseudo graph": "linear eager",
    "pseudo triton": "linear eager",
}
explore("pseudo_linear", at=wide, show={"speedup": speedups}, unlock=w, title="Is it faster than nn.Linear?")

# %% tags=["compare"]
compare(w, "pseudo_linear", speedups, of="speed-up", at=wide)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** The curves rise, and stay far below the width. What limits each of the two layers at the right end?
# Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# At the right `Linear` is [[compute-bound]], and `pseudo` is [[memory-bound]]: for two operations it reads one number and writes one.
# That is far left of the [[ridge point]], so its time follows its bytes.
#
# The roofline's line is *parallel* to the width, only lower. The speed-up still grows with the width, but `pseudo` pays for eight
# bytes and not for two operations: a constant factor, which the exercise below calculates.
#
# **Why is the fused layer above the roofline's line?** Neither layer reaches its limit. The fused `pseudo` gets about six
# sevenths of the datasheet's bandwidth, `Linear` only about three quarters of its peak, so the ratio is larger than predicted.
# <!-- so pseudo_linear: at(width=8192, batch=32768, direction='forward'); bytes('pseudo-triton') /
# period('pseudo-triton') / sheet('memory_bytes_per_s') is 0.84 to 0.87; flop('linear-eager') / period('linear-eager') /
# sheet('fp32') is 0.72 to 0.78 -->
#
# **Why is eager lower?** Its two kernels move each element four times, one fused kernel twice. That is fusion, and lesson 05's.
#
# </details>
#
# <details><summary>The thread's own tables: speed-ups on two unnamed GPUs</summary>
#
# | width | GPU A, eager | GPU B, eager | GPU B, CUDA Graph |
# | --- | --- | --- | --- |
# | 128 | 0.969 | 0.644 | 0.896 |
# | 1024 | 1.13 | 1.54 | 3.11 |
# | 4096 | 2.3 | 15.7 | 32.3 |
#
# <!-- given: 0.969, 0.644, 0.896, 1.13, 1.54, 3.11, 2.3, 15.7, 32.3, data/published/pseudo_linear.csv -->
#
# </details>
#
# The thread guessed that a clever algorithm saves `Linear` multiplications. The claims below test that.

# %% [markdown] tags=["explore"]
# ## Explore: from which width on does the host not matter?
#
# With 2048 rows, from which width on does a CUDA Graph gain less than a twentieth? `find_transition` bisects; what it
# calls *open* is too close to tell:

# %% tags=["explore", "nbval-check-output"]
graph_pays = pays("pseudo graph", over="pseudo eager", at_least=1.05)
rest = {"batch": 2048, "direction": "forward"}
print(find_transition("pseudo_linear", "width", graph_pays, at=rest, source="recorded:h200"))

# %% [markdown] tags=["your-turn"]
# ## Your turn: the roofline by hand
#
# An H200's ridge point in float32 is 13.9 FLOP/B. Per row, `Linear` reads `width` numbers of four bytes, writes as many, and does
# 2 · width² FLOP. (With many rows the weights hardly count.) *Calculate* from which width on it is compute-bound. The fused
# `pseudo` moves the same bytes and is memory-bound: what speed-up does the roofline promise at width 8192? Compare with the figure.

# %% tags=["your-turn", "exercise:04c-ridge", "calculates"]
check("04c-ridge", width=..., speedup=...)

# %% [markdown] tags=["your-turn"]
# ## More: fix the benchmark
#
# It should time `x * weight + bias`, and nothing else. The functions that it is given only record that they
# were called, so nothing runs on a GPU. Fix it, then write `benchmark=benchmark`.


# %% tags=["your-turn", "exercise:04c-mend", "makes"]
def benchmark(randn, weight, bias, relu, synchronize, clock):
    synchronize()
    start = clock()
    for _ in range(100):
        x = randn(64, 256)
        relu(x * weight + bias + x)
    synchronize()
    return (clock() - start) / 100


check("04c-mend", benchmark=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# What the thread (*Surprisingly low performance in pseudo-Linear layer*) and this course say, judged on the data shown here. The
# *stand-in* is `pseudo`.

# %% tags=["claims"]
claims("04c")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - A speed-up is true of what was timed: ask what both sides share.
# - Fewer operations help only what is limited by operations, so find the limit of each side first.
# - A guess about the cause is worth a measurement that could refute it.
#
# Terms: [[overhead-bound]], [[host overhead]], [[roofline]], [[compute-bound]], [[memory-bound]].

# %% [markdown] tags=["work"]
# ## At work
#
# Let PyTorch's own benchmark warm up, synchronise and repeat. Make the data outside:
#
# ```python
# import torch
# from torch.utils.benchmark import Timer
# device = "cuda" if torch.cuda.is_available() else "cpu"
# x = torch.randn(2048, 256, device=device)
# layer = torch.nn.Linear(256, 256, device=device)
# print(Timer("layer(x)", globals={"layer": layer, "x": x}).blocked_autorange())
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road, [05 · What does fusion save?](05_fusion.ipynb) explains what made the fused layer faster.
#
# Back: [04 · How much arithmetic is free?](04_memory_bound.ipynb)
