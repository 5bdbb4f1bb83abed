# ---
# jupyter:
#   readme: {short: 'diagnose your model', asks: 'what holds *your* model back?', before: '03 to 06'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 10 · What holds *your* model back?
#
# You have met four [[regime|regimes]]: [[overhead-bound|overhead]], [[memory-bound|memory]], [[compute-bound|compute]] and latency. A real
# model has all of them at once, one operator this and the next one that. **Which one sets the pace of yours, how do you tell, and
# what helps?**

# %% tags=["setup", "question"]
import torch
from IPython.display import display

from brrr import diagnose
from brrr_course import check, claims, compare, explore, guess, reachable

at = reachable("block", step="forward", width=256, batch=1)

# %% [markdown] tags=["guess"]
# ## Guess: a rounding error
#
# A transformer block as wide as BERT, forward and backward, bfloat16. Products of matrices do nearly all of its [[FLOP]]; layer norms
# do less than a thousandth. FLOP a *second* is another matter.

# %% tags=["guess"]
g = guess("The products reach ... times as many FLOP a second as the layer norms", unit="x")

# %% tags=["compare"]
compare(g, "block", of="classes")

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Why is a thousandth of the FLOP not a thousandth of the time? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# A norm reads and writes each number and computes a little with it: the memory sets its pace. A product uses each number
# hundreds of times, and runs on tensor cores. Count bytes for the one, FLOP for the other.
#
# </details>
#
# The source found a factor of 250 for norms and of 700 for pointwise operators, on BERT and an older GPU. The verdicts below say how far
# this block is from that, and why.
#
# FLOP done over what the device could do in that time is a step's **FLOP utilisation**. Where it is low, something else than
# arithmetic sets the pace. The question is what.

# %% [markdown] tags=["guess"]
# ## Guess: the same code at two sizes
#
# One block forward, in four parts of its time:
#
# - **overhead**: the GPU has nothing to run, and waits for the host;
# - **latency**: a kernel runs that cannot fill the GPU: twice the batch would cost it nothing;
# - **memory**: bytes set a kernel's pace; **compute**: arithmetic does.

# %% tags=["guess"]
s = guess("Width 256, one sequence: most of the step is", options=["overhead", "latency", "memory", "compute"])

# %% tags=["run"]
parts = {"compute": "compute", "memory": "memory", "latency": "latency", "step": "overhead"}
explore("block", at=at, show={"stack": parts}, sliders=["step", "width", "batch"], unlock=s)

# %% [markdown] tags=["explain"]
# Move *sequences* to the right, then *width*: overhead gives way to the device's own work, and compute takes over. Now let *step*
# be a [[CUDA Graph]] of the same, and go back to the smallest: with the host out of the way, the same kernels are limited by latency.
# At width 256 with 64 sequences memory takes as much as compute.
#
# Each part has its remedy. Nothing helps against a limit that is not yours.
#
# | what you see | it is | how to make sure | what helps |
# | --- | --- | --- | --- |
# | the GPU idle between kernels; the time hardly depends on the size | overhead | replay it as a [[CUDA Graph]]: faster | graph, compile, larger batch, no `.item()` |
# | far below the peak FLOP, near the bandwidth | [[memory-bound]] | half the bytes: faster | fusion, shorter types, computing again |
# | near the peak FLOP of its type | [[compute-bound]] | fewer FLOP alone make it faster | tensor cores, shorter types, Strassen |
# | far below both, the GPU busy | latency | twice the batch costs nothing | larger batch, fewer and larger kernels |
# | one size is slow, its neighbour fast | a bad shape | one column more or less | [[padding]] |

# %% [markdown] tags=["guess"]
# ## Guess: three programs
#
# Change one thing and measure again: without the host, as a [[CUDA Graph]]; then, as a graph, with half the bytes at as many FLOP; then
# with twice the batch. Ask in this order: does the graph gain a third? It is overhead. Do fewer bytes? Memory. Is twice the batch
# (nearly) free? Latency. Else compute.
#
# A takes the cumulative sums of 8 rows of a million numbers; a block of threads takes a row. B takes the layer norms of 16384 rows of 4096.
# C is 16 layers of width 64 on 8 samples.

# %% tags=["guess"]
limits = ["overhead", "memory", "latency", "compute"]
a = guess("Program A is limited by", options=limits)
b = guess("Program B is limited by", options=limits)
c = guess("Program C is limited by", options=limits)

# %% tags=["run"]
explore("mystery", show="ladder", lines=["eager", "graph", "half", "double"], sliders=["model"], unlock=c)

# %% tags=["compare"]
for guessed, model in ((a, "A"), (b, "B"), (c, "C")):
    display(compare(guessed, "mystery", of="regime", model=model))

# %% [markdown] tags=["explore"]
# ## Explore: fully utilised
#
# `nvidia-smi` calls a GPU utilised while *any* kernel runs, on whatever part of it. Products of two matrices in a loop: the driver's
# figure, the share of time with a kernel running, and the share that their FLOP would take at the peak, in seconds of each second.
# Issued one by one, small products leave gaps, and the driver sees them. Now put *products* on *as a CUDA Graph*: the gaps go, the
# driver's line is at the top, and the peak's is still at the bottom.

# %% tags=["explore"]
explore("utilisation", show={"y": "time", "x": "size"}, lines=["driver", "busy", "peak"], sliders=["how", "size"])

# %% [markdown] tags=["your-turn"]
# ## Your turn: how far from the peak?
#
# A training step of a block of width w = 1024 on 8192 tokens takes 2.1 ms, its products 0.83 ms of that; the datasheet has 990 TFLOP/s.
# The four products have 12 w² weights. *Calculate* the products' FLOP forward and backward, the share of the peak that the step
# reaches (as a part of one), and how many times as fast it would be if only the products remained.

# %% tags=["your-turn", "exercise:10-peak", "calculates"]
check("10-peak", flop=..., share=..., at_most=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: the rule as a function
#
# Write `regime(eager, graph, half, double)`: four times in, one of the four words out, by the rule of the three programs: a change counts
# from a factor of 1.3 on, and twice the batch is free up to a factor of 1.15. Then diagnose a model of your own: `diagnose` takes any module
# or function and runs here, on a CPU too; `try_remedies=True` also tries what is safe.

# %% tags=["your-turn", "exercise:10-regime", "makes"]
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
print(diagnose(model, torch.randn(64, 256), backward=True, budget_s=0.1))

check("10-regime", regime=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# The shares of FLOP and time follow *Making Deep Learning Go Brrrr*. Live, measure the points first.

# %% tags=["claims"]
claims("10")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - A model has no regime of its own; a step at a size has one, and another size another.
# - Change one thing, measure, and you know: the host, the bytes, or the batch.
# - Utilisation says that the GPU is occupied, and only FLOP and bytes a second say how much it does.
#
# Terms: [[regime]], [[overhead-bound]], [[memory-bound]], [[compute-bound]], [[CUDA Graph]].

# %% [markdown] tags=["work"]
# ## At work
#
# Record a few steps and read which operators take the time; `brrr diagnose trace.json` reads such a file:
#
# ```python
# import torch
# model, x = torch.nn.Linear(256, 256), torch.randn(64, 256)
# with torch.profiler.profile(record_shapes=True) as recorded:
#     for _ in range(3):
#         model(x).sum().backward()
#         recorded.step()
# print(recorded.key_averages().table(row_limit=8))
# recorded.export_chrome_trace("trace.json")
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Your own model; docs/diagnosis.md has all that `diagnose` says, and [00 · Start here](00_start_here.ipynb) the map. Or
# [10b · What does a faster memory buy?](10b_memory_swap.ipynb), where a regime needs no model.
#
# Back: [09b · How much accuracy buys how much time?](09b_strassen_forms.ipynb)
