# ---
# jupyter:
#   readme: {short: 'overhead', asks: 'when does the GPU wait for the host?', before: '01'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 03 · When does the GPU wait for the host?
#
# The CPU must launch each operation of the GPU. **When does the GPU stand idle because the host is still launching?**
#
# You will be able to:
#
# - calculate from which size on launches are hidden
# - tell three causes of a flat time apart
# - make a loop launch fewer kernels
#
# Know before: [00](00_start_here.ipynb)'s *kernel* and *launch*.

# %% tags=["setup", "question"]
import torch

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
# `a` and `b` are two Python numbers; or two NumPy arrays, two torch tensors on the CPU, two on the GPU, each of **one** element.

# %% tags=["guess"]
adders = {"Python": "python", "NumPy": "numpy array", "torch on the CPU": "torch cpu", "torch on the GPU": "torch cuda"}
g = guess("Put them in order, the most additions a second first.", ranking=list(adders))

# %% tags=["run"]
asks = "Which adds the most numbers per second?"
explore("adds", at={"elements": 1}, lines=list(adders.values()), show="rate", unlock=g, title=asks)

# %% tags=["compare"]
compare(g, "adds", adders, elements=1)

# %% [markdown] tags=["explain"]
# <details><summary>What measured it</summary>
#
# ```python
# import numpy, torch
# from timeit import timeit
# device = "cuda" if torch.cuda.is_available() else "cpu"
# for a in (1.5, numpy.ones(1, "float32"), torch.ones(1), torch.ones(1, device=device)):
#     print(type(a), 10_000 / timeit("c = a + a", globals={"a": a}, number=10_000), "additions a second")
# ```
#
# </details>
#
# (The table times a hundred additions.) What differs is the [[host overhead]]. Python looks up a type, and adds. torch has
# more to decide ([[dispatch]]): the type, shape and device, whether a gradient is wanted, the kernel, memory for the
# result. For a GPU it must also launch the kernel.

# %% [markdown] tags=["guess"]
# ## Guess: which way costs the host least?
#
# One small ReLU in five ways:
#
# - **nn.Module**: `nn.ReLU()(x)`
# - **torch.relu**: `torch.relu(x)`
# - **out=**: `torch.relu` into an existing array, so that no memory is allocated
# - **TorchScript**: `torch.jit.script`, which reads the Python code only once
# - **PyCUDA**: a kernel launched by hand, without torch

# %% tags=["guess"]
rungs = {"nn.Module": "module", "torch.relu": "relu", "out=": "out", "TorchScript": "script", "PyCUDA": "pycuda"}
r = guess("One ReLU: which way costs the host least?", options=list(rungs))

# %% tags=["run"]
parts = {"pycuda": "the launch", "out": "the dispatcher", "relu": "the allocator", "functional": "the function"}
parts |= {"module": "nn.Module", "module-grad": "autograd"}
one, ways = {"elements": 1024, "operators": 1}, list(rungs.values())
asks, then = "How long does one operator keep the host busy?", "What does the host do in one call?"
display(
    explore("host_cost", at=one, lines=ways, show="ladder", unlock=r, title=asks),
    explore("host_cost", at=one, show={"stack": parts}, sliders=[], unlock=r, title=then),
)

# %% tags=["compare"]
compare(r, "host_cost", rungs, elements=1024, operators=1)

# %% [markdown] tags=["explain"]
# TorchScript costs most: getting into the script is overhead too. With 16 operators it costs less than *nn.Module*.
# <!-- so host_cost: at(elements=1024); one = host('script', operators=1); [one / host(way, operators=1) for way in
# ('module', 'relu', 'out', 'pycuda')] > 1.2; host('script', operators=16) < host('module', operators=16);
# host('script', operators=16) > host('relu', operators=16) -->
#
# In the second figure, each part is one program's time less the next simpler one's.

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** The host can launch the next operation while the GPU works on the last one. When is the overhead hidden, and
# when is the GPU idle? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# The slower of the two sets the pace. If a kernel is shorter than the launch of the next one, the GPU waits: the program is
# [[overhead-bound]], and larger tensors cost no more time. If kernels are longer, the host runs ahead and its overhead is hidden.
#
# </details>
#
# Here are 20 multiplications in a row; where the GPU waits for the host, the gap is shaded. A [[CUDA Graph]] launches the 20 as one:
# its launch takes no longer than that of a single operator. (Short pauses remain between its kernels.) It repeats the same kernels
# <!-- so run_ahead: host('graph') <= host('eager') / 20; busy('graph') < period('graph') -->
# on the same arrays, so their shapes stay, and a new input is copied into the old one. For long kernels it gains little.
# <!-- so run_ahead: period('eager', elements=16777216) / period('graph', elements=16777216) is 1 to 1.1 -->
#
# Move the slider: from which size on does the loop follow the GPU? (The CPU's line, of another run, can lie above it.)
# <!-- so run_ahead: host('eager', elements=[262144, 1048576]) > 1.3 * period('eager', elements=[262144, 1048576]) -->
#
# <details><summary>Answer, for the recording</summary>
#
# Up to 2²⁰ elements the loop takes about the same time: it waits for the host. From 2²² on it grows with the GPU's work.
# <!-- so run_ahead: flat = period('eager', elements=most(1048576)); max(flat) < 1.1 * min(flat); period('eager',
# elements=least(4194304)) > 1.2 * max(flat) -->
#
# </details>

# %% tags=["explore"]
here, lines = {"elements": 65536}, ["host", "busy", "period", "graph"]
asks = "When does the GPU set the pace?"
display(
    timeline("run_ahead", variants=["eager", "graph", "queue"], at=here),  # queue: on a CPU
    explore("run_ahead", at=here, lines=lines, versus={"period": "busy"}, title=asks),
)

# %% [markdown] tags=["explore"]
# ## Explore: double the batch
#
# In your own model, **double the batch**. If the time stays about the same or falls, it is one of three things:
#
# - **The host pays**: the GPU is idle between kernels. A graph, compiling, or fewer operators help.
# - **[[under-filled|Under-filled]] GPU**: its [[multiprocessor|multiprocessors]] compute a kernel's parts, the [[thread block|thread blocks]].
#   With too few blocks, some are idle. Larger kernels help. A second stream can help here; a kernel that fills the GPU leaves no room.
# - **The weights set the pace**: a matmul ([[GEMM]]) with a small batch is memory-bound, as it reads a large weight matrix (lesson 07).
#
# On an H200:
#
# | | work | µs |
# | --- | --- | --- |
# | the host pays | the loop above: 2¹⁰ numbers → 2²⁰ | 124 → 124 |
# | under-filled GPU | 1 thread block → 132 like it | 94 → 97 |
# | the weights set the pace | bfloat16, 8192 × 8192 weights: batch 8 → 128 | 37 → 36 |
# <!-- so run_ahead: 1e6 * period('eager', elements=1024) is 123.5 to 124.5; 1e6 * period('eager', elements=1048576) is
# 123.5 to 124.5 -->
# <!-- so occupancy: 1e6 * busy('loads-1', blocks=1) is 93.5 to 94.5; 1e6 * busy('loads-1', blocks=132) is 96.5 to 97.5
# -->
# <!-- so gemm: at(size=8192, dtype='bfloat16'); 1e6 * span('nn', columns=8) is 36.5 to 37.5; 1e6 * span('nn',
# columns=128) is 35.5 to 36.5 -->
#
# `nvidia-smi` cannot tell them apart: its utilisation says that *some* kernel runs. `scaling_test` can:
#
# - Much idle time: the host pays.
# - Little idle time, and about the same bytes: the weights set the pace.
# - Otherwise: an under-filled GPU.
#
# Below, first eight small operators in a row, then 16 rows on 4096 × 4096 weights. (The time *falls*: for 32 the
# library has a faster kernel.) For your own model: `scaling_test(make)`, where `make(batch)` returns a function to time.

# %% tags=["explore"]
display(scaling_test("scaling", 1, variant="chain"), scaling_test("scaling", 16, variant="gemm"))

# %% [markdown] tags=["your-turn"]
# ## Your turn: when does it stop waiting?
#
# *An example.* From how many elements on is a launch of 5 µs at most 10 % of the kernel's time? The kernel takes 50 µs. So a memory of
# 4.2 TB/s moves 210 MB: with 8 bytes (read and written) for each, 26 million elements.
# <!-- so run_ahead: 10 * 5e-6 * 4.2e12 / 8 is 25.5e6 to 26.5e6 -->
#
# Now *calculate*: the launch again costs 5 µs. The kernel takes 1 µs to start, and then moves 8 bytes per element at 4.2 TB/s. From how
# many elements on does the GPU no longer wait for the host?

# %% tags=["your-turn", "exercise:03-ahead", "calculates"]
check("03-ahead", elements=...)

# %% [markdown] tags=["your-turn"]
# ## More: fewer kernels
#
# This loop brings each row of `x` to mean 0 and standard deviation 1, with four kernels for every row. Make it at least three times
# as fast. Then write `quiet=quiet`.


# %% tags=["your-turn", "exercise:03-chatty", "makes"]
def quiet(x):
    rows = []
    for row in x:
        rows.append((row - row.mean()) / row.std())
    return torch.stack(rows)


check("03-chatty", quiet=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# From *Making Deep Learning Go Brrrr From First Principles* and *GPU Overheads and Fused Strassen* (2021), measured on other GPUs. The last
# claim is judged on small operators; the matmul above denies it.
# <!-- so scaling: period('gemm-double', batch=16) < 1.1 * period('gemm', batch=16); busy('gemm-double', batch=16) /
# period('gemm-double', batch=16) > 0.9 -->

# %% tags=["claims"]
claims("03")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** A flat time and an idle GPU mean the host: on this H200's host the small products above take about 6 µs a kernel.
# <!-- so run_ahead: period('eager', elements=most(1048576)) / 20 is 5.8e-6 to 6.3e-6 -->
#
# - A launch costs the host about as much for 2²⁴ elements as for 2¹⁰.
# <!-- so run_ahead: host('eager', elements=16777216) / host('eager', elements=1024) is 0.95 to 1.1 -->
# - The slower of host and GPU sets the pace.
# - If a doubled batch takes the same time, ask whether the GPU is idle.
#
# Terms: [[host overhead]], [[dispatch]], [[overhead-bound]], [[CUDA Graph]], [[thread block]].

# %% [markdown] tags=["work"]
# ## At work
#
# Is it the data? Time the step on one batch kept on the GPU. If that is much faster, read lesson 15.
#
# Is it overhead? If *Self CUDA time total* is far below the step's time *without* the profiler (it slows the host), the GPU is idle.
#
# ```python
# import torch
# from torch.profiler import ProfilerActivity, profile
# device = "cuda" if torch.cuda.is_available() else "cpu"
# model, x = torch.nn.Linear(64, 64, device=device), torch.randn(8, 64, device=device)
# model(x)  # warm-up
# with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
#     model(x)
# print(found.key_averages().table(sort_by="cpu_time_total", row_limit=5))  # aten::item: a wait, no work
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [04 · How much arithmetic is free?](04_memory_bound.ipynb) asks what the GPU waits for when the host is ahead.
#
# Back: [02 · What does a copy to the GPU cost?](02_transfers.ipynb)
