# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 03 · Can the paper take longer than the work?
#
# A GPU adds millions of numbers while you blink. But somebody must write the order first, and that is a slow CPU
# running Python. **When does the factory stand still because the office is still writing?**

# %% tags=["setup", "question"]
import torch

from brrr import check, claims, compare, explore, factory, guess, scaling_test, timeline

factory("overhead")

# %% [markdown] tags=["guess"]
# ## Guess: who adds fastest?
#
# ```python
# for _ in range(100):
#     c = a + b
# ```
#
# Once `a` and `b` are two Python numbers; then two NumPy arrays, two torch tensors on the CPU, two on the GPU, each of
# **one** element. (Without a GPU, the toy accelerator takes its place.)
#
# Below the cover, the figure shows additions a second. Let the slider stand at one element first, then move it.

# %% tags=["guess"]
adders = {"Python": "python", "NumPy": "numpy array", "torch on the CPU": "torch cpu", "torch on the GPU": "torch cuda"}
g = guess("Put them in order, the most additions a second first.", ranking=list(adders))

# %% tags=["run"]
explore("adds", at={"elements": 1}, lines=list(adders.values()), show="rate", unlock=g)

# %% tags=["compare"]
compare(g, "adds", adders, elements=1)

# %% [markdown] tags=["explain"]
# The times in the table are of a hundred additions. All do the same work; what differs is the **paper**.
#
# Python asks what `a` is, and adds. torch asks far more: what kind of number, which shape, which device, must the
# result have a gradient, which of a thousand kernels fits, where is memory for the result? For a GPU it must also write
# the order and carry it over. Only then one number is added to one number.
#
# Move the slider to the right: the paper stays the same, and more and more work stands on each sheet. What does not
# grow with the work is called **overhead**.

# %% [markdown] tags=["guess"]
# ## Guess: which sheet can go?
#
# One small ReLU, written in five ways. From the first to the last, something is left out:
#
# - **module**: `nn.ReLU()(x)`, as in most models
# - **relu**: `torch.relu(x)`, without the module around it
# - **out**: into memory that is there already, so that none is asked for
# - **script**: TorchScript, which looks at Python only once
# - **pycuda**: a kernel launched by hand through PyCUDA, without torch (on a GPU only)
#
# The slider *operators* writes 16 of them in a row.

# %% tags=["guess"]
rungs = ["module", "relu", "out", "script", "pycuda"]
r = guess("One ReLU: which way costs the host least?", options=rungs)

# %% tags=["run"]
explore("host_cost", at={"elements": 1024, "operators": 1}, lines=rungs, show="ladder", unlock=r)

# %% tags=["compare"]
compare(r, "host_cost", rungs, elements=1024, operators=1)

# %% [markdown] tags=["explain"]
# The bars show what the **host** does until the call returns. (A CPU does the work itself meanwhile; here it is little.)
#
# - The module looks for hooks and for its own `forward` before anything is computed: Python's part.
# - torch's dispatcher finds the kernel; the allocator finds the memory.
# - The launch itself, the bare order to the GPU, remains in all of them.
#
# A way that looks clever may cost more: preparing a script is paper too, and pays only for a longer chain. Which order
# of the bars changes when you move *operators*? Below, the same sheet cut into its parts, with autograd's bookkeeping.

# %% tags=["explain"]
parts = {"pycuda": "the launch", "out": "the dispatcher", "relu": "the allocator", "functional": "the function"}
parts |= {"module": "nn.Module", "module-grad": "autograd"}
explore("host_cost", at={"elements": 1024, "operators": 1}, show={"stack": parts}, sliders=[], unlock=r)

# %% [markdown] tags=["explore"]
# ## Explore: running ahead
#
# Overhead need not hurt. The office may write the next order while the factory works on the last. Here are 20
# multiplications in a row, one order each. Where the factory waits for the office, the gap is shaded. Move the slider:
# from which size on is the office ahead, and its paper hidden?

# %% tags=["explore"]
timeline("run_ahead", variants=["eager", "graph", "queue"], at={"elements": 65536})

# %% tags=["explore"]
explore("run_ahead", at={"elements": 65536}, lines=["host", "busy", "period", "graph"])

# %% [markdown] tags=["explore"]
# The loop takes about as long as the slower of the two partners. A **CUDA Graph** hands over all 20 orders as one
# sheet. Who sets the pace then, at small sizes?
#
# ## Explore: double the batch
#
# In your own model you need no timeline to find out. Overhead does not grow with the data, work does. So: **double the
# batch**. If the time hardly grows, it was paper.
#
# One trap: a product of few rows with a large square of weights reads all the weights, however few the rows. Its time may
# hardly grow either, and the factory works all the while. (From one row to two it can grow a lot: a library has a kernel
# of its own for a single row.) `scaling_test` looks at the bytes, and on a GPU at its idle
# time, before it judges. It takes your own function too: `scaling_test(make, batch)`, where `make(batch)` returns the
# function to time.

# %% tags=["explore"]
print(scaling_test("scaling", 1, variant="chain"))
print(scaling_test("scaling", 16, variant="gemm"))

# %% [markdown] tags=["your-turn"]
# ## Your turn: make it quiet
#
# This loop brings each row of `x` to mean 0 and standard deviation 1. It is right, and it chatters: four orders for
# every row. Rewrite it so that it is at least three times as fast. The result is compared first. Then write
# `quiet=quiet`.


# %% tags=["your-turn", "exercise:03-chatty"]
def quiet(x):
    rows = []
    for row in x:
        rows.append((row - row.mean()) / row.std())
    return torch.stack(rows)


check("03-chatty", quiet=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: when does it stop waiting?
#
# From which size on is the device idle for less than a tenth of the loop, at this size and all larger ones? Idle is
# what the *working* line lacks to the *loop* line in the figure above. (If it shows too few points, choose the
# recording as its source.)

# %% tags=["your-turn", "exercise:03-ahead"]
check("03-ahead", elements=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# From *Making Deep Learning Go Brrrr From First Principles* and *GPU Overheads and Fused Strassen* (2021), both measured
# on other GPUs. Each sentence is judged on your source. Live, measure the points first.

# %% tags=["claims"]
claims("03")
