# ---
# jupyter:
#   readme: {short: 'killing overhead', asks: 'how much of the time is PyTorch itself?', before: '03, 05'}
#   brrr:
#     needs: [cuda, pycuda, nvmath, triton]
# ---

# %% [markdown] tags=["question"]
# # 06 · How much of the time is PyTorch itself?
#
# Take the network of every textbook, a few layers of `Linear` and `ReLU`, and rewrite it in plain Python: the same
# library for the products, two small kernels of your own, no framework. **Can that be faster than PyTorch?**

# %% tags=["setup", "question"]
from IPython.display import display

from brrr_course import check, claims, compare, drawing, explore, factory, first_available
from brrr_course import guess, reachable, speedup_table, timeline

factory("overhead")

# %% [markdown] tags=["guess"]
# ## Guess: the naive rewrite
#
# ```python
# for w, b, y in layers:            # memory for each y is there already
#     cublas_sgemm(x, w, y)         # the product: PyTorch calls the same library
#     add_bias(y, b)                # a kernel of four lines, through PyCUDA
#     relu(y)                       # another one
#     x = y
# ```
#
# **Three** kernels a layer, driven by Python. One thing is clever: the library has several kernels for a product, and the rewrite
# times them once and keeps the fastest. Live without a GPU, NumPy makes the same three calls a layer.
#
# The source's grid, along x the hidden size. Move *batch* and *layers*: what does each of them do to the gain?

# %% tags=["guess"]
g = guess("8 layers, batch 16, hidden 256: faster than nn.Sequential by a factor of ...", unit="x")

# %% tags=["run"]
rewrites = dict.fromkeys(["pycuda", "pycuda fused"], "module")
rewrites = first_available("mlp", rewrites, dict.fromkeys(["cpu numpy", "cpu functional"], "cpu module"))
at, grid = reachable("mlp", layers=8, batch=16, hidden=256), {"batch": (2, 4, 8, 16, 32, 64, 128)}
explore("mlp", at=at, sliders=["hidden", "batch", "layers"], values=grid, show={"speedup": rewrites}, unlock=g)

# %% tags=["compare"]
compare(g, "mlp", rewrites, of="speed-up", **at)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** The GPU computes the same sums in both. What does PyTorch do besides, and from which width on does nobody
# notice? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# Both are driven from the host. For each operator PyTorch looks for hooks, goes through [[dispatch]], allocates the result, and
# picks a kernel; the rewrite knows all that beforehand, so its [[host overhead]] is lower. That counts while the network is
# [[overhead-bound]]: few rows, narrow layers. Beyond a certain width the GPU takes longer for a layer than the host needs to
# issue it, and the host's cost is hidden.
#
# </details>
#
# The source found a **divide** there. Here is its GTX 1070, and beside it your source of measurements, both for one batch: two
# machines, so no ratio across. (The claims below take the mean over all batches.) The background is darker from where on the
# rewrite keeps less than half of its best gain, if it comes to that. On a faster GPU the divide should lie at wider layers.
#
# Dotted, on a GPU: the fused rewrite against `nn.Sequential`, both in a [[CUDA Graph]]. No host overhead is left there, so this is
# what its kernels alone gain: the library's fastest, in place of its first choice. Below, both as the source's table.

# %% tags=["explain"]
display(drawing("mlp-divide", batch=16, layers=8), speedup_table("mlp", layers=8))

# %% [markdown] tags=["guess"]
# ## Guess: which way is the fastest?
#
# The same network, hidden 256, batch 16, 8 layers, one call after the other:
#
# - **module**: `nn.Sequential`; **functional**: the same functions, without modules
# - **script**: TorchScript; **compile**: `torch.compile`
# - **pycuda**: the rewrite, three kernels a layer; **pycuda fused**: two
# - **graph**: the module captured in a CUDA Graph, replayed at once
# - **cpu numpy**: live without a GPU, the rewrite there

# %% tags=["guess"]
ways = ["module", "functional", "script", "compile", "pycuda", "pycuda fused", "graph"]
ways = first_available("mlp", ways, ["cpu module", "cpu functional", "cpu script", "cpu numpy"])
r = guess("Which one takes the least time a call?", options=ways)

# %% tags=["run"]
narrow = {"batch": (2, 16, 128), "hidden": (128, 256, 512, 1024)}
explore("mlp", at=at, sliders=["hidden", "batch"], values=narrow, lines=ways, show="ladder", predict=True, unlock=r)

# %% tags=["compare"]
compare(r, "mlp", ways, **at)

# %% [markdown] tags=["explain"]
# Each rung skips some host work: functions skip the modules, a script skips Python, the rewrite skips dispatcher and
# allocator. A compiler's kernels need not be faster: on the H200 at hidden 128 and 256 they take nearly all of *compile*'s time,
# and why was not found out; that rung is no measure of compilers. The graph skips all
# of it: every [[kernel launch]] was recorded once, and the whole list goes to the GPU in one. What is left is the GPU's own time,
# and the small gaps between its kernels: where kernels take longer than issuing them, a graph gains little.
#
# Where a prediction is missing, the predictor has no model of that way's host work.
#
# In the timelines (hidden 128), look at the gaps. Who waits for whom, from rung to rung?

# %% tags=["explain"]
timeline("mlp", variants=["module", "pycuda-fused", "graph"], at=reachable("mlp", layers=8, batch=16, hidden=128))

# %% [markdown] tags=["explore"]
# ## Explore: where it stops mattering
#
# The gain over `nn.Sequential`, further up the ladder. Follow each line to the right: where is nothing left of it? *max-autotune*
# tries out kernels for minutes and then replays a graph, behind checks of its own (it is measured with 8 layers, with fewer at
# chosen points). In another process it may take other kernels; on wide layers, a line below one means slow ones. *PyCUDA in a CUDA
# Graph* differs from the other graph by its kernels alone. Move *batch* to its largest value: which ways are still above one?

# %% tags=["explore"]
gains = ["graph", "pycuda graph", "compile", "max autotune"]
cpu_gains = dict.fromkeys(["cpu functional", "cpu script", "cpu numpy", "cpu best"], "cpu module")
gains = first_available("mlp", dict.fromkeys(gains, "module"), cpu_gains)
wider, few = reachable("mlp", layers=8, batch=16, hidden=512), {"batch": (2, 16, 128)}
explore("mlp", at=wider, sliders=["hidden", "batch", "layers"], values=few, show={"speedup": gains})

# %% [markdown] tags=["your-turn"]
# ## Your turn: where is the divide?
#
# A layer's calls cost the host 20 µs. On the GPU, a layer with few rows reads its hidden × hidden weights, float32, at 4.2 TB/s,
# and does nothing else that takes time. *Calculate* the hidden size at which both take equally long; and the one for a host that
# needs a quarter of that. Then look for the divide above.

# %% tags=["your-turn", "exercise:06-divide", "calculates"]
check("06-divide", hidden=..., quarter=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: what breaks a capture?
#
# This network scales a layer back when its outputs grow too large. It is right, and it cannot become a graph. Mend it
# so that the results stay the same, then write `network=network`. It is captured with one input and replayed on others;
# on a machine without a GPU, in a toy graph that has the same rules. Try your own model too: `brrr.capture(model, x)`.


# %% tags=["your-turn", "exercise:06-capture", "makes"]
def network(x, layers):
    for w, b in layers:
        x = (x @ w.t() + b).relu()
        size = x.square().mean().sqrt().item()
        if size > 1:
            x = x / size
    return x


check("06-capture", network=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# *GPU Overheads and Fused Strassen* (2021), measured on a GTX 1070 with PyTorch 1.7.1, and what this course adds, on your
# source. Live, measure the points first.

# %% tags=["claims"]
claims("06")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - Host overhead counts as long as the GPU is done before the host has issued the next kernel.
# - A CUDA Graph removes it all at once, for work whose shapes, addresses and branches do not change.
# - What is left beyond the divide is the choice of kernels.
#
# Terms: [[dispatch]], [[host overhead]], [[overhead-bound]], [[CUDA Graph]], [[kernel launch]].

# %% [markdown] tags=["work"]
# ## At work
#
# `torch.compile(model, mode="reduce-overhead")` captures by itself; by hand it is:
#
# ```python
# import torch
# model, x = torch.nn.Linear(256, 256).cuda().eval(), torch.randn(16, 256, device="cuda")
# with torch.no_grad():
#     model(x)  # warm up: libraries allocate in their first call
#     graph = torch.cuda.CUDAGraph()
#     with torch.cuda.graph(graph):
#         y = model(x)
#     graph.replay()  # with new numbers in x, by x.copy_(...)
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [07 · What does one more column cost?](07_gemm_shapes.ipynb) looks into the products. [06b · Can a whole network be one
# kernel?](06b_megakernel.ipynb) is for engineers.
#
# Back: [05b · Who writes the kernel?](05b_codegen.ipynb)
