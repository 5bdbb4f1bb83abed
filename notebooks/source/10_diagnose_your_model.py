# ---
# jupyter:
#   readme: {short: 'diagnose your model', asks: 'what holds *your* model back?', before: '03, 04, 05, 07'}
#   brrr:
#     cpu: false
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 10 · What holds *your* model back?
#
# You have met four [[regime|regimes]]: [[overhead-bound|overhead]], [[memory-bound|memory]], [[compute-bound|compute]] and
# [[under-filled]]. A real model has several at once. **Which one sets the pace of yours, how do you tell, and what helps?**
#
# You will be able to:
#
# - find what limits a model by changing one thing
# - calculate how far a step is from the peak
# - write the rule that tells the regimes apart
#
# Know before: [03](03_overhead.ipynb)'s [[CUDA Graph]].

# %% tags=["setup", "question"]
import torch

from brrr import diagnose
from brrr_course import check, claims, compare, explore, guess

at = {"step": "forward", "width": 256, "batch": 1}

# %% [markdown] tags=["guess"]
# ## Guess: a thousandth of the FLOP
#
# A transformer block as wide as BERT, forward and backward, in bfloat16. Its matmuls do nine tenths of the [[FLOP]], its layer norms
# <!-- so block: at(step='training', width=1024, batch=16); flop('products') / flop('step') is 0.88 to 0.92; flop('norms') /
# flop('step') < 0.001 -->
# less than a thousandth.

# %% tags=["guess"]
g = guess("The matmuls reach ... times as many FLOP per second as the layer norms", unit="x")

# %% tags=["compare"]
compare(g, "block", of="classes")

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Why is a thousandth of the FLOP not a thousandth of the time? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# A norm reads and writes each number and computes little with it: memory sets its pace. A matmul uses each number
# hundreds of times, on tensor cores.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import torch
# given = {"device": "cuda", "dtype": torch.bfloat16}
# block = torch.nn.TransformerEncoderLayer(1024, 16, 4096, 0.0, "gelu", batch_first=True, norm_first=True, **given)
# with torch.profiler.profile(with_flops=True) as told:  # counts the matmuls' FLOP, not the norms'
#     block(torch.randn(16, 512, 1024, **given)).sum().backward()
# print(told.key_averages().table(sort_by="self_cuda_time_total"))
# ```
#
# </details>
#
# **FLOP utilisation**, above the table, is the share of the peak that the step reaches.

# %% [markdown] tags=["guess"]
# ## Guess: the same code at two sizes
#
# The time of one block, forward, has four parts:
#
# - **overhead**: the GPU is idle and waits for the host;
# - **under-filled**: too little work is under way (few blocks, or steps that wait for each other): a larger batch takes as long;
# - **memory**: bytes set a kernel's pace;
# - **compute**: arithmetic does.

# %% tags=["guess"]
s = guess("Width 256, one sequence: most of the step is", options=["overhead", "under-filled", "memory", "compute"])

# %% tags=["run"]
parts = {"compute": "compute", "memory": "memory", "under-filled": "under-filled", "step": "overhead"}
explore(
    "block",
    at=at,
    show={"stack": parts},
    sliders=["step", "width", "batch"],
    unlock=s,
    title="Where does a step's time go?",
)

# %% [markdown] tags=["explain"]
# Move *sequences* to the right, then *width*: overhead gives way to memory and compute, at larger widths to compute. At the smallest size,
# set *step* to a [[CUDA Graph]]:
# <!-- so block: wide = busy('to-compute', step='forward', width=1024, batch=64); wide > period('step', step='forward',
# width=1024, batch=64) / 2; at(step='forward', width=256); overhead = period('step') - busy('to-latency'); overhead[1]
# > max(busy('to-compute', batch=1), busy('to-memory', batch=1) - busy('to-compute', batch=1), busy('to-latency',
# batch=1) - busy('to-memory', batch=1)); memory = busy('to-memory', batch=64) - busy('to-compute', batch=64); memory /
# busy('to-compute', batch=64) is 0.9 to 1.1; overhead[64] < 0.1 * memory -->
# *under-filled* is left.
# <!-- so block: at(step='forward, as a graph', width=256, batch=1); latency_s = busy('to-latency') - busy('to-memory');
# latency_s > max(busy('to-compute'), busy('to-memory') - busy('to-compute'), period('step') - busy('to-latency')) -->
#
# What takes a tenth of the time gains at most 1.11×: only a large part is worth a remedy.
# <!-- by arithmetic: 1 / (1 - 0.1) -->
#
# | what you see | it is | how to make sure | what helps in PyTorch |
# | --- | --- | --- | --- |
# | the GPU is idle between kernels; a larger size takes as long | overhead | a [[CUDA Graph]] is faster | that graph, by hand or `mode="reduce-overhead"`, larger batch, no `.item()` |
# | the GPU is idle between steps | the data | one batch that is already on the GPU is faster | as many workers as it needs ([15](15_feeding.ipynb)) |
# | near the peak bandwidth, far below the peak FLOP/s | [[memory-bound]] | half the bytes are faster | `torch.compile`, bfloat16, `scaled_dot_product_attention` |
# | far below both, but the GPU is busy | under-filled | a doubled batch is free; else compute | larger batch, fewer and larger kernels |
# | near the peak FLOP/s of its type | [[compute-bound]] | fewer or faster FLOP help | tensor cores: bfloat16, `set_float32_matmul_precision` |
#
# A skinny matmul passes the test of *under-filled* too, so test memory first.

# %% [markdown] tags=["guess"]
# ## Guess: three programs
#
# Change one thing and measure again:
#
# 1. as a CUDA Graph: faster by a factor of 1.3? Overhead.
# 2. as a graph with half the bytes, as many FLOP: that much faster than the graph? Memory.
# 3. as a graph with twice the batch: nearly free? Under-filled.
#
# Otherwise, compute. (On your model, `.bfloat16()` is 2; but compute-bound float32 matmuls get faster by it too.)
#
# Program A takes cumulative sums of 8 rows of a million numbers, one thread block per row. B takes layer norms of 16384 rows of 4096
# numbers. C is 16 layers of width 64 on 8 samples. Guess C last.

# %% tags=["guess"]
limits = ["overhead", "memory", "under-filled", "compute"]
a = guess("Program A is limited by", options=limits)
b = guess("Program B is limited by", options=limits)
c = guess("Program C is limited by", options=limits)

# %% tags=["run"]
changes = {"eager": "graph", "half": "graph", "double": "graph"}
explore(
    "mystery",
    show="ladder",
    lines=[*changes, "graph"],
    sliders=["model"],
    versus=changes,
    unlock=c,
    title="Which change helps this model?",
)

# %% tags=["compare"]
for guessed, model in ((a, "A"), (b, "B"), (c, "C")):
    display(compare(guessed, "mystery", of="regime", model=model))

# %% [markdown] tags=["explore"]
# ## Explore: fully utilised
#
# Matmuls of one size run in a loop. The figure shows three shares of the time: what `nvidia-smi` reports, a kernel running, and the
# FLOP at the datasheet's peak. Compare both settings of *matmuls*.
# What does `nvidia-smi` tell you about the work?
#
# <details><summary>Answer</summary>
#
# Only that *some* kernel was running. Launched one by one, small matmuls leave gaps, and the driver
# sees those. As a CUDA Graph they leave short ones: the driver's line is at the top, their FLOP near zero.
# <!-- so utilisation: at(how='one by one', size=[64, 256, 1024]); busy('driver') < 0.6 -->
# <!-- so utilisation: at(how='as a CUDA Graph'); busy('driver', size=[64, 256, 1024]) > 0.97; min(busy('busy')) is 0.8
# to 0.9; busy('peak', size=[64, 128, 256]) < 0.02 -->
#
# </details>

# %% tags=["explore"]
tiny = {"how": "as a CUDA Graph", "size": 256}
explore(
    "utilisation",
    at=tiny,
    show={"y": "share", "x": "size"},
    lines=["driver", "busy", "peak"],
    title="How much does a GPU do at 100 % utilisation?",
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: how far from the peak?
#
# Suppose a training step of a block of width w = 1024 on 8192 tokens takes 2.1 ms, its matmuls 0.83 ms. The datasheet has 990 TFLOP/s.
# The block's weights are 12 w² numbers, and each takes a multiplication and an addition per token. *Calculate* the FLOP of its matmuls, forward and twice that backward; the share of the
# peak that the step reaches, from 0 to 1; and how many times as fast the step would be if only its matmuls remained.

# %% tags=["your-turn", "exercise:10-peak", "calculates"]
check("10-peak", flop=..., share=..., at_most=...)

# %% [markdown] tags=["your-turn"]
# ## More: the rule as a function
#
# Write `regime(eager, graph, half, double)`: four times in, one of the four words out, by the rule of the three programs. A gain counts
# from a factor of 1.3 on, and twice the batch is free up to a factor of 1.15.
#
# Then diagnose your own model: `diagnose` goes by this lesson's table.

# %% tags=["your-turn", "exercise:10-regime", "makes"]
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
display(diagnose(model, torch.randn(64, 256), backward=True, budget_s=0.1))

check("10-regime", regime=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# The first two are from *Making Deep Learning Go Brrrr*: BERT on an older GPU.

# %% tags=["claims"]
claims("10")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Do not judge by `nvidia-smi`: on an H200 it reports almost full utilisation at less than 2 % of the peak.
# <!-- so utilisation: at(how='as a CUDA Graph', size=256); busy('driver') > 0.97; busy('peak') < 0.02 -->
#
# - A regime belongs to a step at one size, not to a model.
# - Change one thing and measure: the host, the bytes, or the batch.
# - [[utilisation|Utilisation]] says that the GPU is [[busy]]; FLOP and bytes per second say how much it does.
#
# Terms: [[regime]], [[overhead-bound]], [[memory-bound]], [[compute-bound]], [[CUDA Graph]].

# %% [markdown] tags=["work"]
# ## At work
#
# Compare the step's time *without* the profiler with the sum of the kernels' times (*self CUDA*): if it is much longer, look at the host.
# If not, take the rows with the most self time (`synchronize` only waits). The largest *measured minus predicted* is your target.
#
# ```python
# import torch
# model, x = torch.nn.Linear(256, 256), torch.randn(64, 256)
# with torch.profiler.profile(record_shapes=True) as recorded:
#     for _ in range(3):
#         model(x).sum().backward()
#         recorded.step()
# print(recorded.key_averages(group_by_input_shape=True).table(sort_by="self_cuda_time_total", row_limit=8))
# recorded.export_chrome_trace("trace.json")
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [15 · Why is my GPU idle although the model is fast?](15_feeding.ipynb) Side roads: [10b · What does a
# faster memory buy?](10b_memory_swap.ipynb), [13 · When do weights in fewer bits help?](13_fewer_bits.ipynb),
# [14 · When are two GPUs faster than one?](14_two_gpus.ipynb)
#
# Back: [07 · What does one more column cost?](07_gemm_shapes.ipynb)
