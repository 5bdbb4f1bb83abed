# ---
# jupyter:
#   readme: {short: 'overhead', asks: 'when does the GPU wait for the host?', before: '01'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 03 · When does the GPU wait for the host?
#
# A GPU adds millions of numbers while you blink. But each operation must be issued first, by a CPU that runs Python. **When does
# the GPU stand still because the host is still issuing work?**

# %% tags=["setup", "question"]
import torch
from IPython.display import display

from brrr_course import check, claims, compare, explore, factory, guess, scaling_test, timeline

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
# **one** element. (Without a GPU, the CPU queue takes its place.) The figure shows additions a second. Let the slider
# stand at one element first, then move it.

# %% tags=["guess"]
adders = {"Python": "python", "NumPy": "numpy array", "torch on the CPU": "torch cpu", "torch on the GPU": "torch cuda"}
g = guess("Put them in order, the most additions a second first.", ranking=list(adders))

# %% tags=["run"]
explore("adds", at={"elements": 1}, lines=list(adders.values()), show="rate", unlock=g)

# %% tags=["compare"]
compare(g, "adds", adders, elements=1)

# %% [markdown] tags=["explain"]
# The times in the table are of a hundred additions. All do the same work; what differs is the [[host overhead]]. Python asks what
# `a` is, and adds. torch asks far more ([[dispatch]]): which type, which shape, which device, is a gradient wanted, which kernel
# fits, where is memory for the result? For a GPU it must also launch the kernel. Only then one number is added to one number.
#
# Move the slider to the right: the overhead stays the same, and more and more work stands behind it.

# %% [markdown] tags=["guess"]
# ## Guess: which layer of software costs most?
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
parts = {"pycuda": "the launch", "out": "the dispatcher", "relu": "the allocator", "functional": "the function"}
parts |= {"module": "nn.Module", "module-grad": "autograd"}
one = {"elements": 1024, "operators": 1}
display(
    explore("host_cost", at=one, lines=rungs, show="ladder", unlock=r),
    explore("host_cost", at=one, show={"stack": parts}, sliders=[], unlock=r),
)

# %% tags=["compare"]
compare(r, "host_cost", rungs, elements=1024, operators=1)

# %% [markdown] tags=["explain"]
# The figure shows what the **host** does until the call returns. (A CPU does the work itself meanwhile; here it is little.) A way that
# looks clever may cost more: preparing a script is overhead too, and pays only for a longer chain.
#
# The second figure stacks the differences from one program to the next. They are differences, not parts that somebody timed inside: the last
# one, called the launch, is PyCUDA's whole prepared call, Python included.

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Overhead need not hurt: the host may issue the next operation while the GPU works on the last. When is it
# hidden, and when is the GPU idle? Double-click here and write two sentences; then move the slider of the timeline.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# The slower of the two sets the pace. While a kernel is shorter than issuing the next one, the GPU waits: the program is
# [[overhead-bound]], and its time does not depend on the size. Once kernels are longer, the host runs ahead, and its work is
# hidden. A [[CUDA Graph]] issues all 20 at once.
#
# </details>
#
# Here are 20 multiplications in a row; where the GPU waits for the host, the gap is shaded. (In the middle of
# the figure *issuing* takes longer than the whole loop: it is timed apart, in short bursts, and is no part of the loop's time.)

# %% tags=["explore"]
display(
    timeline("run_ahead", variants=["eager", "graph", "queue"], at={"elements": 65536}),
    explore("run_ahead", at={"elements": 65536}, lines=["host", "busy", "period", "graph"]),
)

# %% [markdown] tags=["explore"]
# ## Explore: double the batch
#
# In your own model: **double the batch**. If the time hardly grows, it is one of three:
#
# - **overhead-bound**: the GPU is idle between kernels. A graph, compiling, or fewer operators help.
# - **an under-filled GPU**: kernels follow each other without a gap, but have too few [[thread block|thread blocks]] for all
#   multiprocessors. In the figure, the *graph* stays flat at small sizes with the host out of the way. More work a kernel helps
#   (lesson 04b).
# - **a skinny product**: few rows times a large matrix read all of the weights, however few the rows. The GPU is busy all the while:
#   a few rows more are nearly free (lesson 07).
#
# `nvidia-smi` cannot tell them apart: it calls a GPU fully utilised when *some* kernel was running, however little it does.
# `scaling_test` doubles the batch and looks: much idle time means overhead; little, and bytes that hardly grow, a skinny product;
# else an under-filled GPU. Where twice the rows take less time, the library has changed to another kernel. It takes your own function too:
# `scaling_test(make, batch)`.

# %% tags=["explore"]
print(scaling_test("scaling", 1, variant="chain"))
print(scaling_test("scaling", 16, variant="gemm"))

# %% [markdown] tags=["your-turn"]
# ## Your turn: when does it stop waiting?
#
# The host needs 5 µs to issue an operator. On the GPU it takes 1 µs to start, and then moves 8 bytes an element at 4.2 TB/s.
# *Calculate* from how many elements on the GPU no longer waits. Then look at the figure above.

# %% tags=["your-turn", "exercise:03-ahead", "calculates"]
check("03-ahead", elements=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: fewer kernels
#
# This loop brings each row of `x` to mean 0 and standard deviation 1. It is right, but it launches four kernels for every row.
# Rewrite it so that it is at least three times as fast. The result is compared first. Then write `quiet=quiet`.


# %% tags=["your-turn", "exercise:03-chatty", "makes"]
def quiet(x):
    rows = []
    for row in x:
        rows.append((row - row.mean()) / row.std())
    return torch.stack(rows)


check("03-chatty", quiet=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# From *Making Deep Learning Go Brrrr From First Principles* and *GPU Overheads and Fused Strassen* (2021), both measured
# on other GPUs. Each sentence is judged on your source. Live, measure the points first.

# %% tags=["claims"]
claims("03")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - Issuing an operation costs the host the same, however large it is.
# - The slower of host and GPU sets the pace, and the other one's time is hidden.
# - A time that is flat with the batch is overhead, an under-filled GPU, or a skinny product.
#
# Terms: [[host overhead]], [[dispatch]], [[overhead-bound]], [[CUDA Graph]], [[thread block]].

# %% [markdown] tags=["work"]
# ## At work
#
# Is it overhead? Compare the profiler's two totals: of the host, and of the GPU.
#
# ```python
# import torch
# from torch.profiler import ProfilerActivity, profile
# model, x = torch.nn.Linear(64, 64), torch.randn(8, 64)
# if torch.cuda.is_available():
#     model, x = model.cuda(), x.cuda()
# with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
#     model(x)
# print(found.key_averages().table(sort_by="cpu_time_total", row_limit=5))
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [04 · How much arithmetic is free?](04_memory_bound.ipynb) asks what the GPU waits for when the host is ahead.
#
# Back: [02b · Why do three streams not help?](02b_overlap.ipynb)
