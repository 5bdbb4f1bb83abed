# ---
# jupyter:
#   readme: {short: 'megakernel', asks: 'can a whole network be one kernel? For engineers', before: '06, 04b'}
#   brrr:
#     needs: [cuda, triton, nvcc]
# ---

# %% [markdown] tags=["question"]
# # 06b · Can a whole network be one kernel?
#
# For engineers. A [[CUDA Graph]] launches all its kernels at once, and still they are many: from one to the next the GPU
# empties and fills again. **What if eight layers were a single kernel that never stops?**

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, explore, factory, first_available, guess
from brrr_course import megakernel_plan, reachable, timeline

factory("overhead", detail="sm")

# %% [markdown] tags=["guess"]
# ## Guess: one kernel
#
# A **megakernel** is a [[persistent kernel]]: launched once, its [[thread block|thread blocks]] stay on the
# [[multiprocessor|multiprocessors]] and go through the layers together, the activations in [[shared memory]] or in [[L2]].
# Between two layers they must wait for one another: each output of a layer needs all of its inputs.

# %% tags=["guess"]
g = guess("8 layers, batch 16, hidden 256: faster than the CUDA Graph by a factor of ...", unit="x")

# %% [markdown] tags=["run"]
# Each line is a way to have fewer kernels, against the graph of PyTorch's own: bias and ReLU inside the product's
# kernel, and everything in one. The strongest rival is *triton graph*, recorded at batch 2, 16 and 128 alone. Live without a GPU, the CPU queue shows one launch in place of two a layer.

# %% tags=["run"]
fewer = dict.fromkeys(["megakernel", "megakernel graph", "triton graph"], "graph")
fewer = first_available("mlp", fewer, {"queue graph": "queue module"})
at, grid = reachable("mlp", layers=8, batch=16, hidden=256), {"batch": (2, 4, 8, 16, 32, 64, 128)}
explore("mlp", at=at, sliders=["hidden", "batch", "layers"], values=grid, show={"speedup": fewer}, unlock=g)

# %% tags=["compare"]
compare(g, "mlp", fewer, of="speed-up", **at)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** The graph needs no host either. What does one kernel still save? Double-click here and write two
# sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# A kernel starts when the last block of the one before is done. Then blocks must be placed and load their first numbers, while
# nothing else happens. And each result is written and read again. In one kernel there are no such gaps, results stay on the
# chip, and the next layer's weights, which depend on nothing, are fetched while blocks still wait for this layer.
#
# </details>
#
# One thing becomes harder: the blocks must wait for one another *inside* the kernel. Four ways, the most expensive first:
#
# - **A [[grid barrier]].** Every block reports in global memory, and asks there until all have: several trips to L2, which may
#   take longer than a narrow layer.
# - **Counting through L2.** Each [[warp]] counts its results in; who needs them waits for this count only.
# - **A cluster.** Neighbouring multiprocessors can write into one another's shared memory (*distributed shared memory*). Each
#   result goes straight to the blocks that need it, and its bytes are counted where they arrive.
# - **No waiting: independent rows.** The rows of a batch never meet. So each cluster takes its own rows through all layers and
#   waits for no other, and pays by reading all the weights itself.
#
# Between these lies a **plan** for each shape: how many blocks share the columns, how many rows they take, how far they fetch
# ahead. A model of the kernel, fitted once on an H200, predicts every plan, and only the best is compiled.

# %% tags=["explain"]
for hidden in (128, 256, 512, 1024, 2048, 4096):
    print(megakernel_plan(layers=8, batch=16, hidden=hidden))

# %% [markdown] tags=["explain"]
# The ladder goes on where lesson 06 left it: the graph, then bias and ReLU in the product's kernel (by cuBLASLt, by
# Triton), then one kernel. Its predictions know the bytes and the arithmetic of the one kernel, but neither its launch nor the
# waiting inside, which the plan's model above does: so the two predicted times differ. A graph of the one kernel gains nothing
# and can lose: there is one launch either way, and a graph's takes longer.
#
# In the timelines (hidden 128), look for the gaps between kernels.

# %% tags=["explain"]
rungs = ["module", "graph", "epilogue graph", "triton graph", "megakernel", "megakernel graph"]
rungs = first_available("mlp", rungs, ["queue module", "queue pycuda", "queue pycuda fused", "queue graph"])
explore("mlp", at=at, sliders=[], lines=rungs, show="ladder", predict=True)

# %% tags=["explain"]
timeline("mlp", variants=["graph", "megakernel"], at=reachable("mlp", layers=8, batch=16, hidden=128))

# %% [markdown] tags=["explain"]
# ## How far from the floor?
#
# The dashed line is what the GPU's datasheet allows: the weights once through memory, or the arithmetic, whichever takes
# longer. In a loop, weights may stay in L2 from one call to the next; then a line may even fall below it. On narrow layers the
# floor is far below: they are [[latency-bound]]. On wide layers with many rows the product takes the time, and it matters whose is
# the faster one: on the H200 the one kernel loses to *max-autotune* at hidden 4096 from batch 32 on, and at 2048 from 128. There
# *best* takes another way, and is faster than both.

# %% tags=["explain"]
lines = first_available("mlp", ["module", "graph", "megakernel", "best"], ["cpu module", "cpu numpy", "cpu best"])
explore("mlp", at=at, sliders=["hidden", "batch"], values=grid, lines=lines)

# %% [markdown] tags=["explore"]
# ## Explore: the best of all
#
# No one way need be the fastest everywhere. `best` predicts each, measures those that come close, and gives back the
# network in the fastest one, ready to be called:
#
# ```python
# from brrr.networks import best
#
# network = best(layers=8, batch=16, hidden=256)      # or weights=..., your own
# y = network(x)
# print(network.way, network.why)
# ```
#
# The figure shows PyTorch's own ways over it: above one, `best` is the faster. Where is the gain largest, and where
# does a rival come close?

# %% tags=["explore"]
rivals = ["module", "graph", "compile", "max autotune", "best"]
rivals = first_available("mlp", rivals, ["cpu module", "cpu functional", "cpu script", "cpu best"])
explore("mlp", at=at, sliders=["hidden", "batch", "layers"], values=grid, lines=rivals, show={"ratio": rivals[-1]})

# %% [markdown] tags=["your-turn"]
# ## Your turn: the floor, and the barriers on top
#
# 8 layers of hidden size 1024 in float32, weights only. *Calculate* their bytes, the microseconds that they take
# through a memory of 4.8 TB/s, and how many the barriers between the layers add, if one across the whole GPU takes
# 1 µs.

# %% tags=["your-turn", "exercise:06b-floor", "calculates"]
check("06b-floor", weight_bytes=..., memory_us=..., barriers_us=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: who waits for whom?
#
# Four clusters of eight blocks: cluster 0 has blocks 0 to 7, and so on. Each cluster has rows of its own, its blocks share the
# columns. `waits_for(block, layer)` says for which blocks a block waits before it computes a layer. This one waits for all, a grid
# barrier. Mend it so that nobody waits needlessly, then write `waits_for=waits_for`.


# %% tags=["your-turn", "exercise:06b-waits", "makes"]
def waits_for(block, layer):
    return range(32)


check("06b-waits", waits_for=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# These are this course's own targets, judged on your source. Live, measure the points first.

# %% tags=["claims"]
claims("06b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - Between two kernels the GPU empties and fills again, also inside a graph.
# - Inside one kernel blocks must wait for one another, and the cheapest wait is the one that is not needed.
# - The floor is the weights' bytes or the arithmetic; what is above it on narrow layers is latency.
#
# Terms: [[CUDA Graph]], [[persistent kernel]], [[thread block]], [[multiprocessor]], [[shared memory]], [[L2]],
# [[grid barrier]], [[latency-bound]].

# %% [markdown] tags=["work"]
# ## At work
#
# How much of a step's time is gaps between kernels? The profiler tells:
#
# ```python
# import torch
# from torch.profiler import ProfilerActivity, profile
# model, x = torch.nn.Sequential(*[torch.nn.Linear(256, 256)] * 8).cuda(), torch.randn(16, 256, device="cuda")
# with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
#     model(x), torch.cuda.synchronize()
# print(found.key_averages().table(sort_by="cuda_time_total", row_limit=5))
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [07 · What does one more column cost?](07_gemm_shapes.ipynb) looks into the products.
#
# Back: [06 · How much of the time is PyTorch itself?](06_killing_overhead.ipynb)
