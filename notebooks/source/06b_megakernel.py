# ---
# jupyter:
#   readme: {short: 'megakernel', asks: 'can a whole network be one kernel? For engineers', before: '06, 04b'}
#   brrr:
#     leaves: '06'
#     needs: [cuda, triton]
# ---

# %% [markdown] tags=["question"]
# # 06b · Can a whole network be one kernel?
#
# Side road, for engineers.
# Know before: [06](06_killing_overhead.ipynb)'s [[CUDA Graph]], [04b](04b_caches.ipynb)'s [[L2]].
#
# A CUDA Graph is one launch for many kernels, but after each kernel the GPU still empties and fills again. **What if eight
# layers were a single kernel?**
#
# You will be able to:
#
# - say what a graph leaves between its kernels
# - calculate a network's floor and its barriers' cost
# - tell which blocks must wait for which

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, explore, factory, guess, megakernel_plan, timeline

factory("overhead", detail="sm")

# %% [markdown] tags=["guess"]
# ## Guess: one kernel
#
# A **megakernel** is a [[persistent kernel]]: it is launched once, its [[thread block|thread blocks]] stay on the
# [[multiprocessor|multiprocessors]] and go through the layers together, and the activations stay in [[shared memory]] or in L2.
# Between two layers the blocks must wait for one another: each output of a layer needs all of its inputs.
# <!-- by the definition of a Linear layer -->

# %% tags=["guess"]
g = guess("8 layers, batch 16, hidden 256: faster than the CUDA Graph by a factor of ...", unit="x")

# %% [markdown] tags=["run"]
# The rival is a graph of `nn.Sequential`, with two kernels per layer. *Triton's graph* has one per layer: bias and ReLU are computed
# inside the matmul's kernel, as its [[epilogue]].

# %% tags=["run"]
fewer = {"megakernel": "graph", "megakernel graph": "graph", "triton graph": "graph"}
at, grid = {"layers": 8, "batch": 16, "hidden": 256}, {"batch": (2, 4, 8, 16, 32, 64, 128)}
explore(
    "mlp",
    at=at,
    sliders=["hidden", "batch", "layers"],
    values=grid,
    show={"speedup": fewer},
    unlock=g,
    title="What do fewer launches gain?",
)

# %% tags=["compare"]
compare(g, "mlp", fewer, of="speed-up", at=at)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** In the graph, too, the host runs ahead. What does one kernel still save? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# A kernel starts when the last block of the kernel before is done. While its blocks load their first numbers, the
# arithmetic units wait. In one kernel there are no such gaps, results stay on the chip, and blocks fetch the next layer's weights
# while they wait for this layer.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import torch
# from brrr.networks import best  # one kernel, where that is the fastest
# from torch.utils.benchmark import Timer  # a loop of calls, synchronized at its end
# network = best(layers=8, batch=16, hidden=256)
# x = torch.randn(16, 256, device="cuda" if torch.cuda.is_available() else "cpu")
# print(network.why, Timer("network(x)", globals=globals()).blocked_autorange().median)
# ```
#
# </details>
#
# **In practice:** let `torch.compile(model, mode="max-autotune")` put bias and ReLU into the matmul's kernel, compare it with a CUDA
# Graph captured by hand, and keep the faster.
#
# **How far could one go?** Blocks of one kernel must wait *inside* it. Four ways, the most expensive first:
#
# - **A [[grid barrier]].** Every block reports in global memory and asks there until all have reported: several trips to L2.
# <!-- by the definition of a grid barrier -->
# - **Counting through L2.** Each [[warp]] counts its results in; a block waits only for those it needs.
# - **A cluster.** Neighbouring multiprocessors write results straight into one another's shared memory.
# - **No waiting.** A row of the result needs no other row of the batch: a group of blocks takes its own rows through the
#   network. The price: each group reads the weights itself.
#
# The package combines these: a group of blocks takes some rows, and its blocks share the columns. A model
# predicts each combination, and the best is compiled:

# %% tags=["explain"]
for hidden in (128, 1024, 4096):
    print(megakernel_plan(layers=8, batch=16, hidden=hidden))

# %% [markdown] tags=["explain"]
# Lesson 06's ladder goes on: bias and ReLU as an epilogue (in NVIDIA's library cuBLASLt, or in Triton), then one kernel.
#
# **Why is a *graph* of the one kernel slower?** It saves no launch: there is one either way. Plain launches
# <!-- so mlp: at(layers=8, batch=16, hidden=256); period('megakernel') / period('megakernel-graph') < 0.8 -->
# overlap: the next kernel starts before the last one has ended. Replays of a graph run one after the other. From hidden
# <!-- so mlp: at(layers=8, batch=16, hidden=256); period('megakernel') < kernel('megakernel') -->
# 1024 on, the two are nearly equal.
# <!-- so mlp: at(layers=8, hidden=least(1024)); period('megakernel') / period('megakernel-graph') is 0.95 to 1.05;
# count(period('megakernel-graph')) == 21 -->
#
# In the timelines (hidden 128) the graph has gaps *within* a call, the one kernel has none. Between calls the profiler makes gaps, and
# hides the overlap.

# %% tags=["explain"]
rungs = ["module", "graph", "epilogue graph", "triton graph", "megakernel", "megakernel graph"]
explore("mlp", at=at, sliders=[], lines=rungs, show="ladder", title="How much does each step save?")

# %% tags=["explain"]
timeline("mlp", variants=["graph", "megakernel"], at={"layers": 8, "batch": 16, "hidden": 128})

# %% [markdown] tags=["explain"]
# ## How far from the floor?
#
# The dashed line is the least time by the datasheet: of reading the weights once, or of the arithmetic. Narrow layers
# stay far above it: the GPU is [[under-filled]].
#
# **From which width does the one kernel no longer pay?** In float32, up to batch 16, it beats every way of PyTorch at every width. With 32 or 64 rows it loses to *max-autotune* at hidden 4096, with 128 rows from 2048 on.
# <!-- so mlp: at(layers=8); best = fastest(period('module'), period('graph'), period('compile'),
# period('max-autotune'), needed=1); loses = period('megakernel') > best; count(loses) == 4; [loses[32, 4096], loses[64,
# 4096], loses[128, 2048], loses[128, 4096]]; [period('max-autotune')[batch, 4096] <= best[batch, 4096] for batch in
# (32, 64, 128)] -->

# %% tags=["explain"]
lines = ["module", "graph", "megakernel", "max autotune"]
explore(
    "mlp",
    at=at,
    sliders=["hidden", "batch"],
    values=grid,
    lines=lines,
    versus={"graph": "megakernel"},
    title="When does one kernel beat a graph?",
)

# %% [markdown] tags=["explore"]
# ## Explore: the best of all
#
# No way is the fastest everywhere. This package's `best` predicts many, measures those that come close, and returns the fastest:
#
# ```python
# from brrr.networks import best
# network = best(layers=8, batch=16, hidden=256)
# y = network(x)  # network.why says which way it took
# ```
#
# The figure shows PyTorch's ways over `best`: above one, `best` is faster. Where is the gain largest, and which rival comes closest?
#
# <details><summary>Our answer</summary>
#
# At batch 16 the gain is largest on narrow layers, where kernels are short and gaps count most; the graph comes closest. At
# hidden 4096 *max-autotune* does.
# <!-- so mlp: at(layers=8, batch=16); best = fastest(period('module'), period('graph'), period('compile'),
# period('max-autotune'), needed=1); [period('graph')[hidden] <= best[hidden] for hidden in (128, 256)];
# period('max-autotune')[4096] <= best[4096]; gain = period('graph') / period('best'); gain[256] > gain[1024] -->
#
# </details>

# %% tags=["explore"]
rivals = ["module", "graph", "compile", "max autotune", "best"]
moved = ["hidden", "batch", "layers"]
explore(
    "mlp", at=at, sliders=moved, values=grid, lines=rivals, show={"ratio": "best"}, title="How near to the best way?"
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: the floor, and the barriers on top
#
# 8 layers of hidden size 1024 in float32, weights only. *Calculate* their bytes, the microseconds that they take
# through a memory of 4.8 TB/s, and how many microseconds the barriers between the layers add, if one across the whole GPU
# takes 1 µs. Then find the memory's time in the figure of the floor.

# %% tags=["your-turn", "exercise:06b-floor", "calculates"]
check("06b-floor", weight_bytes=..., memory_us=..., barriers_us=...)

# %% [markdown] tags=["your-turn"]
# ## More: which block waits for which?
#
# Four clusters of eight blocks: cluster 0 has blocks 0 to 7, and so on. Each cluster has rows of its own, and its blocks share the
# columns. `waits_for(block, layer)` says which blocks a block waits for before it computes a layer. This one waits for all: a grid
# barrier. Fix it so that no block waits needlessly, then write `waits_for=waits_for`.


# %% tags=["your-turn", "exercise:06b-waits", "makes"]
def waits_for(block, layer):
    return range(32)


check("06b-waits", waits_for=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# This course's own targets.

# %% tags=["claims"]
claims("06b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** In true float32, in a loop, up to batch 16, one kernel for eight layers beats every way of PyTorch at every width recorded on an H200.
# <!-- so mlp: at(layers=8, batch=most(16)); best = fastest(period('module'), period('graph'), period('compile'),
# period('max-autotune'), period('functional'), period('script'), needed=1); best > 1.5 * period('megakernel'); count(period('megakernel')) == 24 -->
#
# - Between two kernels the GPU empties and fills again, even inside a graph.
# - Inside one kernel blocks must wait for one another, and the cheapest wait is the one that is not needed.
# - The floor is the weights' bytes or the arithmetic; what lies above it on narrow layers is the waiting of an under-filled GPU.
#
# Terms: [[CUDA Graph]], [[persistent kernel]], [[thread block]], [[multiprocessor]], [[shared memory]], [[L2]],
# [[epilogue]], [[grid barrier]], [[under-filled]].

# %% [markdown] tags=["work"]
# ## At work
#
# How many kernels does a call launch, and how long do they run? The rest of its time is gaps and the host.
#
# ```python
# import torch
# from torch.profiler import profile
# device = "cuda" if torch.cuda.is_available() else "cpu"
# model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)]).to(device)
# x = torch.randn(16, 256, device=device)
# with profile() as found:  # waits for the GPU at its end
#     model(x)
# print(found.key_averages().table(sort_by=f"self_{device}_time_total", row_limit=5))
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road: [07 · What does one more column cost?](07_gemm_shapes.ipynb).
#
# Back: [06 · How much of the time is PyTorch itself?](06_killing_overhead.ipynb)
