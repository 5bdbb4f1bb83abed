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
# Side road.
# Know before: [04](04_memory_bound.ipynb)'s [[roofline]].
#
# Somebody replaced a linear layer by a cheaper one, with one weight per feature in place of a matrix. It was little faster, and a forum
# was asked why. **Where did the speed-up go?**
#
# You will be able to:
#
# - find what a benchmark times beside the layer
# - tell what limits each side of a ratio
# - calculate a speed-up by the roofline

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
# stray `+ x`, no ReLU. Each line times the two layers in the same way.

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
# <details><summary>What measured it</summary>
#
# ```python
# import torch, torch.utils.benchmark
# device = "cuda" if torch.cuda.is_available() else "cpu"
# linear, w, b = torch.nn.Linear(1024, 1024, device=device), *torch.randn(2, 1024, device=device)
# for layer in (linear, lambda x: x * w + b + x):
#     step = lambda: torch.relu(layer(torch.randn(2048, 1024, device=device)))
#     print(torch.utils.benchmark.Timer("step()", globals=globals()).blocked_autorange().median)
# ```
#
# </details>
#
# Work that both layers share pulls their ratio towards one. Here the random data and the ReLU take about as long as the cheap layer
# itself. The stray `+ x` is work that only `pseudo` does. So a speed-up is true only of what was timed.
# <!-- so pseudo_linear_flaws: at(width=1024, batch=2048); (busy('pseudo-posted') - busy('pseudo-data-out') +
# busy('pseudo-data-and-x-out') - busy('pseudo-clean')) / busy('pseudo-clean') is 0.75 to 1 -->
#
# At width 256 the lines lie near one or below it: both layers are [[overhead-bound]]. The [[host overhead]] of one call of `Linear` is
# <!-- so pseudo_linear_flaws: at(width=256, batch=2048); [period(f'linear-{way}') / period(f'pseudo-{way}') for way in
# ('posted', 'data-out', 'clean')] is 0.7 to 1; [host(f'{layer}-{way}') / period(f'{layer}-{way}') for layer in ('linear',
# 'pseudo') for way in ('posted', 'data-out', 'clean')] > 0.9; host('linear-clean') / host('pseudo-clean') is 0.9 to 1.1 -->
# about that of the two operators of the clean `pseudo`.

# %% [markdown] tags=["guess"]
# ## Guess: the clean benchmark
#
# Now only the layers are timed, with 32768 rows, so that the GPU is full. The grey lines are theory. *By counting operations*, the
# speed-up is the width. By the roofline, each layer takes as long as its operations at the peak or its bytes at the memory's
# bandwidth, whichever is longer.

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
# Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# At the right `Linear` is [[compute-bound]], and `pseudo` is [[memory-bound]]: for two operations it reads one number and writes one.
# The speed-up still grows with the width, but `pseudo` pays for eight bytes and not for two operations: a constant factor, which the
# exercise below calculates.
#
# **Why is the fused layer above the roofline's line?** Neither layer reaches its limit. The fused `pseudo` gets about six
# sevenths of the datasheet's bandwidth, `Linear` only about three quarters of its peak.
# <!-- so pseudo_linear: at(width=8192, batch=32768, direction='forward'); bytes('pseudo-triton') /
# period('pseudo-triton') / sheet('memory_bytes_per_s') is 0.84 to 0.87; flop('linear-eager') / period('linear-eager') /
# sheet('fp32') is 0.72 to 0.78 -->
#
# **Why is eager lower?** Its two kernels move each element four times, one fused kernel twice. That is lesson 05's *fusion*.
# <!-- by definition: each kernel reads its input once and writes its result once -->
#
# </details>
#
# The thread guessed that a clever algorithm saves `Linear` multiplications. The claims below test it.

# %% [markdown] tags=["explore"]
# ## Explore: from which width on does the host not matter?
#
# With 2048 rows, from which width on does a CUDA Graph gain less than a twentieth? What `find_transition` calls *open* is too close to
# tell:

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
# It should time `x * weight + bias` alone. The functions that it is given only record that they were called. Fix it, then write
# `benchmark=benchmark`.


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
# What the thread (*Surprisingly low performance in pseudo-Linear layer*) and this course say. The *stand-in* is `pseudo`.

# %% tags=["claims"]
claims("04c")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Ask what limits each side: on an H200, a fused layer with 8192 times fewer multiplications ran 172 times as fast.
# <!-- so pseudo_linear: at(width=8192, batch=32768, direction='forward'); period('linear-eager') / period('pseudo-triton')
# is 171.5 to 172.5 -->
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
