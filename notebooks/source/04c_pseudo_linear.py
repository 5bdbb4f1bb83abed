# ---
# jupyter:
#   readme: {short: 'pseudo-Linear', asks: 'where did the speed-up go? For engineers', before: '03'}
#   brrr:
#     needs: [cuda, triton]
# ---

# %% [markdown] tags=["question"]
# # 04c · Why is the layer without a matrix product not faster?
#
# For engineers. Somebody replaced a linear layer by a cheaper one, with one weight for each feature in place of a whole matrix,
# and asked a forum why almost nothing was gained. **Where did the speed-up go?**

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, explore, factory, find_transition, guess, pays, reachable

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
# For each row, `linear` multiplies as often as the square of the width, `pseudo` as often as the width.
#
# The speed-up as posted, and then with one flaw after the other taken out of the benchmark: the random data made
# outside, no stray `+ x`, no ReLU. Each line compares the two layers timed in the same way.

# %% tags=["guess"]
g = guess("At width 1024, timed like this, pseudo is faster than Linear by a factor of ...", unit="x")

# %% tags=["run"]
stages = ["posted", "data out", "data and x out", "clean"]
over_linear = {f"pseudo {stage}": f"linear {stage}" for stage in stages}
flawed = reachable("pseudo_linear_flaws", width=1024, batch=2048)
explore("pseudo_linear_flaws", at=flawed, show={"speedup": over_linear}, unlock=g)

# %% tags=["compare"]
compare(g, "pseudo_linear_flaws", over_linear, of="speed-up", **flawed)

# %% [markdown] tags=["explain"]
# Whatever is timed with both layers pulls their ratio towards one: a common part that costs as much as both layers
# hides nearly all of the difference. And whatever only one of them does too much, as the stray `+ x`, is charged to that
# layer. So a speed-up is true only of what was timed.
#
# Move to width 256. There the flaws hide nothing, since there is nothing to hide: both layers are [[overhead-bound]], and wait
# for the host. `pseudo` needs two kernels, `Linear` one.

# %% [markdown] tags=["guess"]
# ## Guess: the clean benchmark
#
# Now only the layers are timed, on data that is there already. By counting operations, the speed-up should be the
# width. Many rows, so that the GPU is full: the batch of the thread.
#
# The broken grey lines are theory: by operations alone, and by the [[roofline]], where each layer takes as long as its operations
# at the peak or its bytes at the memory's bandwidth, whichever is more. Below stand the thread's own tables, from two GPUs that it
# does not name.

# %% tags=["guess"]
wide = {"width": 8192, "batch": 32768, "direction": "forward"}
w = guess("At width 8192, pseudo is faster than Linear by a factor of ...", unit="x")

# %% tags=["run"]
ways = ["eager", "compile", "graph", "triton"]
speedups = {f"pseudo {way}": "linear eager" for way in ways}
start = reachable("pseudo_linear", **wide)
explore("pseudo_linear", at=start, show={"speedup": speedups}, published="pseudo_linear", unlock=w)

# %% tags=["compare"]
compare(w, "pseudo_linear", speedups, of="speed-up", **wide)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** The curve rises, and stays far below the width. What limits each of the two layers at its right end?
# Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# At the left both layers wait for [[host overhead]]: narrow layers are done before the next kernel is issued. A CUDA Graph, which
# issues all of them at once, helps there.
#
# At the right `Linear` is [[compute-bound]], and the stand-in [[memory-bound]]: for each element it reads one number, computes with
# it twice, and writes one. Its time follows its bytes, not its operations. So the ratio still grows with the width, but by what
# the ratio of peak and bandwidth allows: that is the roofline's line, and its slope is below one.
#
# </details>
#
# Eager, the stand-in moves each element four times, for the product of its first kernel goes to memory and back. As one kernel
# (in Triton, or by `torch.compile`) it moves twice, and gains more than that factor where torch's own kernel for adding a row is
# slow (lesson 05).
#
# The thread had another guess: that clever algorithms need fewer multiplications for a matrix product. The claims below put that
# to the test.

# %% [markdown] tags=["explore"]
# ## Explore: few rows, many rows, and the way back
#
# The same layers as a rate: bytes that must move, a second. Move the batch, and turn on the backward pass. Where does which way of
# running reach the memory's bandwidth, and where does none?

# %% tags=["explore"]
lines = [f"pseudo {way}" for way in (*ways, "triton graph")]
explore("pseudo_linear", at=reachable("pseudo_linear", **wide), lines=lines, show="rate")

# %% [markdown] tags=["explore"]
# From which width on is a CUDA Graph no longer worth it? `find_transition` bisects, and stops where the noise of the
# measurements does not let it see more.

# %% tags=["explore", "nbval-check-output"]
graph_pays = pays("pseudo graph", over="pseudo eager", at_least=1.05)
rest = {"batch": 2048, "direction": "forward"}
print(find_transition("pseudo_linear", "width", graph_pays, at=rest, source="recorded:h200"))

# %% [markdown] tags=["your-turn"]
# ## Your turn: the roofline by hand
#
# An H200's ridge point in float32 is 13.9 FLOP/B. With many rows, each row of `Linear` reads and writes `width` numbers of four
# bytes, and its product has 2 · width² FLOP. *Calculate* from which width on it is compute-bound. The fused stand-in moves the same
# bytes: what speed-up does the roofline promise at width 8192?

# %% tags=["your-turn", "exercise:04c-ridge", "calculates"]
check("04c-ridge", width=..., speedup=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: mend the benchmark
#
# It should time `x * weight + bias`, and nothing else. It is given a `randn`, a `relu`, a `synchronize` and a `clock`
# that keep account of what is done. Mend it, then write `benchmark=benchmark`.


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
# ## What held
#
# What the forum thread *Surprisingly low performance in pseudo-Linear layer* said, and what this course adds, on your
# source. Live, measure the points first.

# %% tags=["claims"]
claims("04c")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - A speed-up is true of what was timed: ask what both sides share.
# - Fewer operations help only what is limited by operations, so find each side's limit first.
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
# x, layer = torch.randn(2048, 256, device=device), torch.nn.Linear(256, 256, device=device)
# print(Timer("layer(x)", globals={"layer": layer, "x": x}).blocked_autorange())
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [04 · How much arithmetic is free?](04_memory_bound.ipynb) looks closely at the memory's limit.
#
# Back: [03 · When does the GPU wait for the host?](03_overhead.ipynb)
