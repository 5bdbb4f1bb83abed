# ---
# jupyter:
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

from brrr import check, claims, compare, compare_speedup, explore, factory, guess, reachable, timeline
from brrr.course import drawing, first_available, mlp_table

factory("overhead")

# %% [markdown] tags=["guess"]
# ## Guess: the naive rewrite
#
# ```python
# for w, b, y in layers:            # memory for each y is there already
#     cublas_sgemm(x, w, y)         # the product: PyTorch calls the same library
#     add_bias(y, b)                # a kernel of four lines, launched through PyCUDA
#     relu(y)                       # another one
#     x = y
# ```
#
# **Three** kernels a layer, driven by Python. One thing in it is clever: the library has several kernels for a product,
# and the one it takes depends on how much **workspace** it is lent. The rewrite times them once and keeps the fastest.
# Live without a GPU, NumPy makes the same three calls a layer on the CPU.

# %% tags=["guess"]
g = guess("8 layers, batch 16, hidden 256: faster than nn.Sequential by a factor of ...", unit="x")

# %% [markdown] tags=["run"]
# ## Run
#
# The source's grid, along x the hidden size. Move *batch* and *layers*: what does each of them do to the gain?

# %% tags=["run"]
rewrites = dict.fromkeys(["pycuda", "pycuda fused"], "module")
rewrites = first_available("mlp", rewrites, dict.fromkeys(["cpu numpy", "cpu functional"], "cpu module"))
at, grid = reachable("mlp", layers=8, batch=16, hidden=256), {"batch": (2, 4, 8, 16, 32, 64, 128)}
explore("mlp", at=at, sliders=["hidden", "batch", "layers"], values=grid, show={"speedup": rewrites}, unlock=g)

# %% tags=["compare"]
compare_speedup(g, "mlp", rewrites, **at)

# %% [markdown] tags=["explain"]
# The GPU does the same sums in both. What differs is who writes the orders, and how long that takes. PyTorch looks for
# hooks, dispatches, allocates, asks which kernel fits. The rewrite knows all that beforehand.
#
# So *this* gain can only live where the office is slower than the factory: narrow layers, few rows. Beyond a certain
# width, orders wait for the GPU, and nobody notices how long they took to write. The source found a **divide** there.
# What is gained or lost beyond it is the kernels' own.
#
# Here is the source's GTX 1070, and beside it your source of measurements: two machines, so no ratio across. *Bias and
# ReLU fused* is the same rewrite with two kernels a layer. The ground is darker from where on the rewrite keeps less
# than half of its best gain, if it comes to that. Move *batch*: where is the divide in each? If the factory became
# faster by more than the office since then, wider layers wait for paper, too.
#
# Dotted, on a GPU: the fused rewrite against `nn.Sequential`, both in a CUDA Graph. No paper is left there, so this is
# what its kernels alone gain. Where wide layers gain again, look at the dotted line. Below, both as the source's table.
# (Live, both grow with what you measure: run the cell again.)

# %% tags=["explain"]
display(drawing("mlp-divide", batch=16, layers=8), mlp_table(layers=8))

# %% [markdown] tags=["guess"]
# ## Guess: which way is the fastest?
#
# The same network, hidden 256, batch 16, 8 layers, one call after the other:
#
# - **module**: `nn.Sequential`; **functional**: the same functions, without modules
# - **script**: TorchScript; **compile**: `torch.compile`
# - **pycuda**: the rewrite, three kernels a layer; **pycuda fused**: two
# - **graph**: the module captured in a CUDA Graph, replayed as one order
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
# Most rungs leave some paper away: functions leave the modules away, a script leaves Python away, the rewrite leaves
# the dispatcher and the allocator away. A compiler writes kernels of its own, but checks and launches, too: does that
# pay here? The graph leaves *all* of it away: every order is written once, and then one sheet is handed over. What is
# left is the GPU's own time, and the small gaps between its kernels. The last rung, all layers in one kernel, is
# lesson 06b.
#
# Beside the measured times stand predicted ones. Where one is missing, the predictor has no model of that office. It
# knows how large a product is, but not which of its kernels the library takes.
#
# In the timelines, look at the gaps. Who waits for whom, from rung to rung?

# %% tags=["explain"]
timeline("mlp", variants=["module", "pycuda-fused", "graph"], at=at)

# %% [markdown] tags=["explore"]
# ## Explore: where it stops mattering
#
# The gain over `nn.Sequential`, further up the ladder. Follow each line to the right: where is nothing left of it? Does
# a graph still help there? *max-autotune* tries out kernels for minutes and then replays a graph, behind checks of its
# own (it is measured with 8 layers, with fewer at chosen points). In another process it may take other kernels; on wide
# layers, a line below one means slow ones. *PyCUDA in a CUDA Graph* differs from the other graph by its kernels alone.
# Move *batch* to its largest value: which ways are still above one, and what can that be, if it is not paper?

# %% tags=["explore"]
gains = ["graph", "pycuda graph", "compile", "max autotune"]
cpu_gains = dict.fromkeys(["cpu functional", "cpu script", "cpu numpy", "cpu best"], "cpu module")
gains = first_available("mlp", dict.fromkeys(gains, "module"), cpu_gains)
wider, few = reachable("mlp", layers=8, batch=16, hidden=512), {"batch": (2, 16, 128)}
explore("mlp", at=wider, sliders=["hidden", "batch", "layers"], values=few, show={"speedup": gains})

# %% [markdown] tags=["your-turn"]
# ## Your turn: one line less
#
# The rewrite's bias and ReLU are two lines of CUDA C++, and so two kernels: `y = x + b`, then `y = x < 0 ? 0 : x`.
# Write **one** line that does both. `x` is what the product has left, `b` the bias; it runs once for each element.

# %% tags=["your-turn", "exercise:06-fuse"]
check("06-fuse", line=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: what breaks a capture?
#
# This network scales a layer back when its outputs grow too large. It is right, and it cannot become a graph. Mend it
# so that the results stay the same, then write `network=network`. It is captured with one input and replayed on others;
# on a machine without a GPU, in a toy graph that has the same rules. Try your own model too: `brrr.capture(model, x)`.


# %% tags=["your-turn", "exercise:06-capture"]
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
