# ---
# jupyter:
#   readme: {short: 'killing overhead', asks: 'how much of the time is PyTorch itself?', before: '03, 05'}
#   brrr:
#     leaves: '05'
#     needs: [cuda, pycuda, nvmath, triton]
# ---

# %% [markdown] tags=["question"]
# # 06 · How much of the time is PyTorch itself?
#
# Side road.
# Know before: [03](03_overhead.ipynb)'s [[CUDA Graph]], [05](05_fusion.ipynb)'s *fusion*.
#
# Take the textbook network: a few layers of `Linear` and `ReLU`. **How much of a call is PyTorch itself, and
# which of PyTorch's own tools gets rid of it?**
#
# You will be able to:
#
# - tell what PyTorch itself costs in a call
# - calculate from which width on the host is hidden
# - rewrite a network so that it can be captured

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, explore, factory, guess, timeline

factory("overhead")

# %% [markdown] tags=["guess"]
# ## Guess: which of PyTorch's own ways is the fastest?
#
# 8 layers, hidden size 256, batch 16, one call after the other:
#
# - **module**: `nn.Sequential`
# - **functional**: the same functions, called without modules
# - **script**: TorchScript
# - **compile**: `torch.compile(model)`
# - **max autotune**: `torch.compile(model, mode="max-autotune")`; it times several kernels for each layer, keeps the fastest,
#   and captures a CUDA Graph
# - **graph**: `nn.Sequential`, captured by hand

# %% tags=["guess"]
ways = ["module", "functional", "script", "compile", "max autotune", "graph"]
r = guess("Which one takes the least time per call?", options=ways)

# %% tags=["run"]
at = {"layers": 8, "batch": 16, "hidden": 256}
narrow = {"batch": (2, 16, 128), "hidden": (128, 256, 512, 1024)}
explore(
    "mlp",
    at=at,
    sliders=["hidden", "batch"],
    values=narrow,
    lines=ways,
    show="ladder",
    unlock=r,
    title="Which way has the least overhead?",
)

# %% tags=["compare"]
compare(r, "mlp", ways, at=at)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** *module*, *functional*, *script* and *graph* run the same kernels. What does the graph save?
# Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# For most of a call the GPU waits for the host. For every operator, PyTorch runs Python, goes through [[dispatch]], allocates the
# result and [[kernel launch|launches a kernel]]: its [[host overhead]]. Functions skip the modules, TorchScript skips Python. The
# graph skips all of it: its sixteen launches were recorded once.
# <!-- so mlp: at(layers=8, batch=16, hidden=256); kernels('module') is 16 to 16 -->
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import torch
# from torch.utils.benchmark import Timer  # a loop of calls, synchronized at its end
# torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
# model = torch.nn.Sequential(*[m for _ in range(8) for m in (torch.nn.Linear(256, 256), torch.nn.ReLU())]).requires_grad_(False)
# for way in (model, torch.jit.script(model)):  # or torch.compile(model)
#     print(Timer("way(x)", globals={"way": way, "x": torch.randn(16, 256)}).blocked_autorange().median)
# ```
#
# </details>
#
# **What the graph leaves.** A replay is one launch, and costs the host less than a single layer of *module*. (In the second timeline the
# <!-- so mlp: at(layers=8); host('graph') < host('module') / 8 -->
# profiler makes its bar wide.) The GPU takes longer than that, so the host runs ahead. Gaps
# <!-- so mlp: at(layers=8, batch=16, hidden=128); host('graph') < kernel('graph') -->
# between kernels remain, and a larger one between two replays.
#
# **Compiling alone** keeps separate launches, and here each call costs the host more than eager PyTorch's. Generated
# <!-- so mlp: at(layers=8, batch=16); host('compile') > host('module'); count(host('compile')) == 6 -->
# kernels can be slower, too: at hidden 128 and 256 those of *compile* take more than five times as long as eager's,
# those of *max-autotune* about twice as long, or longer.
# <!-- so mlp: at(layers=8, batch=16, hidden=[128, 256]); kernel('compile') > 5 * kernel('module');
# kernel('max-autotune') > 1.8 * kernel('module') -->
# A profile says why: compiling moves the bias out of the matmul, and for what is left cuBLAS picks a kernel for larger
# matrices. In TF32 and bf16 it does not, and both take alike.
# <!-- by mlp.compiled-products-tf32-bf16 -->
#
# **In practice:** for fixed shapes, capture a graph by hand: at batch 16 it was the fastest up to hidden 2048, and
# *max-autotune* at 4096. [Lesson 12](12_compile.ipynb) goes on.
# <!-- so mlp: at(layers=8, batch=16); others = fastest(period('module'), period('compile'), period('functional'),
# period('script')); from_on(period('max-autotune') < fastest(others, period('graph'))) is 4096 to 4096; period('graph',
# hidden=most(2048)) <= fastest(others, period('max-autotune')) -->

# %% tags=["explain"]
timeline("mlp", variants=["module", "graph"], at={"layers": 8, "batch": 16, "hidden": 128})

# %% [markdown] tags=["guess"]
# ## Guess: how far could one go without a graph?
#
# A framework cannot know what you call next. A program for this one network does:
#
# ```python
# for w, b, y in layers:            # memory for each y is there already
#     cublas_sgemm(x, w, y)         # the matmul: PyTorch calls the same library
#     add_bias(y, b)                # a kernel of four lines, through PyCUDA
#     relu(y)                       # another one
#     x = y
# ```
#
# It launches **three** kernels per layer. PyTorch launches two, and so does a second version that fuses bias and ReLU.
# <!-- so mlp: at(layers=8, batch=16, hidden=256); kernels('pycuda') is 24 to 24; kernels('module') is 16 to 16; kernels('pycuda-fused') is
# 16 to 16 -->
# The library has several kernels for a matmul: the rewrite times them once and keeps the fastest.

# %% tags=["guess"]
g = guess("8 layers, batch 16, hidden 256: the rewrite is faster than nn.Sequential by a factor of ...", unit="x")

# %% tags=["run"]
rewrites = {"pycuda": "module", "pycuda fused": "module"}
grid = {"batch": (2, 4, 8, 16, 32, 64, 128)}
explore(
    "mlp",
    at=at,
    sliders=["hidden", "batch", "layers"],
    values=grid,
    show={"speedup": rewrites},
    unlock=g,
    title="Which rewriting gains the most?",
)

# %% tags=["compare"]
compare(g, "mlp", rewrites, of="speed-up", at=at)

# %% [markdown] tags=["explain"]
# The rewrite skips the dispatcher and the allocator. That helps while the network is [[overhead-bound]]: few rows, narrow layers.
# On wider layers the GPU takes longer per layer than the host, whose time is hidden.
#
# **How much of it is `nn.Module`?** At batch 2 and hidden 128, *functional* saves about a fifth of the host's time, and the
# <!-- so mlp: at(layers=8, batch=2, hidden=128); 1 - host('functional') / host('module') is 0.17 to 0.23 -->
# rewrite two fifths. So `nn.Module` is about half of what the rewrite removes.
# <!-- so mlp: at(layers=8, batch=2, hidden=128); 1 - host('pycuda') / host('module') is 0.37 to 0.43; (host('module') -
# host('functional')) / (host('module') - host('pycuda')) is 0.45 to 0.55 -->
#
# The article behind this experiment found a **divide**: from some width on the host is hidden, and the rewrite gains little. The
# H200 is done sooner than the article's GPU, so its divide lies at wider layers. At batch 16 and hidden 4096 the rewrite gains no more
# than *inside a CUDA Graph*, where only kernels count.
# <!-- so mlp: at(layers=8, batch=16, hidden=4096); period('module') / period('pycuda-fused') <= period('graph') /
# period('pycuda-graph') -->

# %% [markdown] tags=["explore"]
# ## Explore: where does it stop mattering?
#
# The gain over `nn.Sequential`. *PyCUDA in a CUDA Graph* differs from the other graph by its kernels alone. From which width
# does a graph no longer pay? Move *batch* to its largest value: which lines stay above one?
#
# <details><summary>Our answer</summary>
#
# At hidden 4096, with 8 layers, a graph gains less than a tenth at every batch: kernels take longer than launching them. At batch
# <!-- so mlp: at(layers=8, hidden=4096); period('module') / period('graph') < 1.1 -->
# 128 only the three lines with other kernels stay well above one.
# <!-- so mlp: at(layers=8, batch=128, hidden=4096); period('module') / period('graph') < 1.05; [period('module') /
# period(way) for way in ('pycuda-graph', 'compile', 'max-autotune')] > 1.5 -->
#
# </details>

# %% tags=["explore"]
gains = {"graph": "module", "pycuda graph": "module", "compile": "module", "max autotune": "module"}
wider, few = {"layers": 8, "batch": 16, "hidden": 512}, {"batch": (2, 16, 128)}
explore(
    "mlp",
    at=wider,
    sliders=["hidden", "batch", "layers"],
    values=few,
    show={"speedup": gains},
    title="Where does the gain end?",
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: where is the divide?
#
# Launching a layer costs the host 20 µs, say. With few rows, the GPU's time for a layer is that of reading its hidden × hidden
# float32 weights. *Calculate* the hidden size at which both take equally long: on the article's GTX 1070 at 256 GB/s, and on the H200 at
# 4.2 TB/s. Compare with the width from which on a graph gained little.

# %% tags=["your-turn", "exercise:06-divide", "calculates"]
check("06-divide", gtx1070=..., h200=...)

# %% [markdown] tags=["your-turn"]
# ## More: what breaks a capture?
#
# This network scales a layer back when its outputs grow too large. It is correct, but cannot be captured: a capture only notes down
# launches, so Python cannot read a result or branch on one. Fix it so that the results stay the same, then write `network=network`. It
# is captured with one input and replayed with others.


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
# ## Which claims held
#
# From *GPU Overheads and Fused Strassen* (2021), measured on a GTX 1070, and this course.

# %% tags=["claims"]
claims("06")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Capture small networks in a CUDA Graph: at batch 16 it is the fastest of PyTorch's ways up to hidden size 2048.
# <!-- so mlp: at(layers=8, batch=16, hidden=most(2048)); others = fastest(period('module'), period('compile'), period('functional'),
# period('script')); period('graph') < fastest(others, period('max-autotune')); count(period('graph')) == 5 -->
#
# - Host overhead counts as long as the GPU finishes before the host has launched the next kernel.
# - A CUDA Graph turns many launches into one, for work whose shapes, addresses and branches stay the same.
# - On wide layers the host is hidden, and only the kernels are left to choose.
#
# Terms: [[dispatch]], [[host overhead]], [[overhead-bound]], [[CUDA Graph]], [[kernel launch]].

# %% [markdown] tags=["work"]
# ## At work
#
# For fixed shapes, capture by hand:
#
# ```python
# import torch
# device = "cuda" if torch.cuda.is_available() else "cpu"
# model, x = torch.nn.Linear(256, 256, device=device).requires_grad_(False), torch.randn(16, 256, device=device)
# y = model(x)  # warm up: libraries allocate in their first call
# if device == "cuda":  # a CPU launches nothing
#     with torch.cuda.graph(graph := torch.cuda.CUDAGraph()):
#         y = model(x)
#     graph.replay()  # after x.copy_(new_input); the result is in y
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road: [07 · What does one more column cost?](07_gemm_shapes.ipynb). Further along: [06b · Can a whole
# network be one kernel?](06b_megakernel.ipynb).
#
# Back: [05 · What does fusion save?](05_fusion.ipynb)
