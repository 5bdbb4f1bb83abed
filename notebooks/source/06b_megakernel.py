# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton, nvcc]
# ---

# %% [markdown] tags=["question"]
# # 06b · Can a whole network be one kernel?
#
# A CUDA Graph hands all orders over as one sheet. But on the sheet there still stand many kernels, and from one to the
# next the GPU empties and fills again. **What if eight layers were a single kernel that never stops?**

# %% tags=["setup", "question"]
from brrr import check, claims, compare_speedup, explore, factory, guess, reachable, timeline
from brrr.course import first_available, megakernel_plan

factory("overhead")

# %% [markdown] tags=["guess"]
# ## Guess: one kernel
#
# A **megakernel** is launched once. Its blocks stay on the multiprocessors and go through the layers together, the
# activations in shared memory or in the L2 cache. Between two layers they must wait for one another: each output of a
# layer needs all of its inputs.

# %% tags=["guess"]
g = guess("8 layers, batch 16, hidden 256: faster than the CUDA Graph by a factor of ...", unit="x")

# %% [markdown] tags=["run"]
# ## Run
#
# Each line is a way to have fewer kernels, against the graph of PyTorch's own: bias and ReLU inside the product's
# kernel, and everything in one. Live without a GPU, the toy accelerator shows one order in place of two a layer.

# %% tags=["run"]
fewer = dict.fromkeys(["megakernel", "megakernel graph", "triton graph"], "graph")
fewer = first_available("mlp", fewer, {"queue graph": "queue module"})
at, grid = reachable("mlp", layers=8, batch=16, hidden=256), {"batch": (2, 4, 8, 16, 32, 64, 128)}
explore("mlp", at=at, sliders=["hidden", "batch", "layers"], values=grid, show={"speedup": fewer}, unlock=g)

# %% tags=["compare"]
compare_speedup(g, "mlp", fewer, **at)

# %% [markdown] tags=["explain"]
# Three things become cheaper in one kernel:
#
# - **The gaps.** A kernel starts when the last block of the one before is done. Then blocks must be placed, and they
#   must load their first numbers, while nothing else happens.
# - **The trips.** A layer's result is written and fetched again. Here it stays on the chip.
# - **The waiting for weights.** Weights do not depend on what was computed. One kernel can fetch those of the next
#   layer while it still waits for this one.
#
# And one thing becomes harder: the blocks must wait for one another *inside* of it. Four ways, the dearest first:
#
# - **A grid barrier.** Every block reports in global memory, and asks there until all have. All blocks must run at once
#   (a *cooperative launch*), and each barrier is several trips to the L2 cache, which may take longer than a narrow
#   layer.
# - **Counting through the L2 cache.** Each warp counts its results in; who needs them waits for this count only.
# - **A cluster.** Neighbouring multiprocessors can write into one another's shared memory (*distributed shared
#   memory*). Each result goes straight to all blocks that need it, and its bytes are counted where they arrive. No
#   barrier is left.
# - **Nobody.** The rows of a batch never meet. So each cluster takes its own rows through all layers and waits for no
#   other, and pays by fetching all the weights itself.
#
# Between *few rows, many fetches* and *many blocks, long trips* lies a **plan** for each shape: how many blocks share
# the columns, how many rows they take, how far they fetch ahead. A model of the kernel, fitted once on an H200,
# predicts every plan, and only the best is compiled. Where do the clusters end? (The times of *one kernel* follow
# below: on an H200, hold them against these.)

# %% tags=["explain"]
for hidden in (128, 256, 512, 1024, 2048, 4096):
    print(megakernel_plan(layers=8, batch=16, hidden=hidden))

# %% [markdown] tags=["explain"]
# On wide layers with many rows, all this waiting is little beside the product. There it matters whose product is the
# faster one, and hardly how many kernels it takes.
#
# The ladder goes on where lesson 06 left it: the graph, then bias and ReLU in the product's kernel (by cuBLASLt, by
# Triton), then one kernel. Its predictions know the bytes and the arithmetic of the one kernel, but neither its launch
# nor the waiting inside. Dashed: the floor, of which more below.
#
# Can a graph still help a single kernel? A launch of clusters may begin while the one in front of it still runs. A
# replay of a graph may not.

# %% tags=["explain"]
rungs = ["module", "graph", "epilogue graph", "triton graph", "megakernel", "megakernel graph"]
rungs = first_available("mlp", rungs, ["queue module", "queue pycuda", "queue pycuda fused", "queue graph"])
explore("mlp", at=at, sliders=[], lines=rungs, show="ladder", predict=True)

# %% tags=["explain"]
timeline("mlp", variants=["module", "graph", "megakernel"], at=at)

# %% [markdown] tags=["explain"]
# ## How far from the floor?
#
# The dashed line is what the GPU's datasheet allows: the weights once through the memory, or the arithmetic, whichever
# takes longer. In a loop, weights may stay in the L2 cache from one call to the next; then a line may even fall below
# it. On narrow layers the floor is far below: what is left there is neither traffic nor arithmetic, but waiting.

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
# 8 layers of hidden size 1024 in float32, weights only. How many bytes are they? How many microseconds do they take
# through a memory of 4.8 TB/s? And how many do the barriers between the layers add, if one across the whole GPU takes
# 1 µs?

# %% tags=["your-turn", "exercise:06b-floor"]
check("06b-floor", weight_bytes=..., memory_us=..., barriers_us=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# These are this course's own targets, judged on your source. Live, measure the points first.

# %% tags=["claims"]
claims("06b")
