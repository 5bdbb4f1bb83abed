# ---
# jupyter:
#   readme: {short: 'persistent RNN', asks: 'why fetch the same weights at each step? For engineers', before: '08, 06b'}
#   brrr:
#     leaves: '08'
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 08b · Why fetch the same weights at each step?
#
# Side road.
# Know before: [recurrent layers](08_rnn.ipynb), [megakernels](06b_megakernel.ipynb).
#
# A recurrent layer multiplies its state by the same weights at each time step. With few samples, most of a step goes into loading
# those weights and starting the next kernel. **What if the weights stayed where they are used?**
#
# You will be able to:
#
# - calculate the least time of a step
# - predict what more samples cost a step
# - find the batch where staying on chip stops paying

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, drawing, explore, guess, step_times

at = {"batch": 1, "hidden": 1024, "steps": 256, "cell": "rnn_tanh", "dtype": "float32"}

# %% [markdown] tags=["guess"]
# ## Guess: one sample, one thousand hidden units
#
# A tanh layer, hidden size 1024, float32, inference. PyTorch's `nn.RNN` calls cuDNN, here without TF32. Its rival is a
# [[persistent kernel]]: one launch covers the time steps, and the weights stay on the chip.

# %% tags=["guess"]
g = guess("With one sample, 256 steps with the weights on the chip are ... times as fast as the best cuDNN's", unit="x")

# %% tags=["run"]
lines = ["persistent", "cudnn", "cudnn graph", "graph"]
closest = {"persistent": "cudnn graph", "cudnn": "persistent"}
explore(
    "rnn",
    at=at,
    lines=lines,
    sliders=["batch", "hidden", "cell"],
    unlock=g,
    versus=closest,
    title="Does it pay to keep the weights on the chip?",
)

# %% tags=["compare"]
display(
    compare(g, "rnn", {"persistent": "cudnn graph"}, of="speed-up", at=at),
    compare(None, "rnn", of="step", cell="rnn_tanh", dtype="float32", batch=(1, 64)),
)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** The same FLOP, the same weights, one launch: what does a step no longer do? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# It no longer loads the weights: they stay on the chip. And no kernel starts or ends between two steps. What remains is the matmul
# with the state, and handing the new state to the other blocks.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# net = PersistentRNN(rnn, choose=False)  # of brrr.kernels.recurrent; rnn: torch.nn.RNN(1024, 1024) on the GPU
# for call in (graph.replay, lambda: net(x)):  # graph: of rnn(x), 256 steps of one sample; both ran once before
#     torch.cuda._sleep(20_000_000)  # the GPU waits while the host launches
#     start.record(), call(), end.record()  # start, end: torch.cuda.Event(enable_timing=True)
#     torch.cuda.synchronize()
#     print(start.elapsed_time(end), "ms")
# ```
#
# </details>
#
# **In practice:** with few samples, cuDNN as PyTorch calls it waits for the host: the table shows what a CUDA Graph gains.
# <!-- so rnn: at(hidden=1024, steps=256, cell='rnn_tanh', dtype='float32', batch=1); period('cudnn') > 1.5 *
# period('cudnn-graph') -->
#
# The table gives a step as a *slope*: the extra time of 256 steps over 64, divided by 192. Costs that come once per call drop out.
# They are the host's, and large: [capture the call](../docs/rnn.md#a-whole-call).
# <!-- by rnn.call-in-a-graph -->
#
# **Where the weights lie.** In our kernel each [[thread block]] holds some rows of the recurrent matrix, in its
# multiprocessor's [[register file]] and, where that is too small, in [[shared memory]]. It computes those rows of each new state.
#
# **How blocks wait for each other.** The next step needs the *whole* state. At a [[grid barrier]] each block reports its rows and waits
# for the others' reports: several trips to the [[L2]] cache. Our kernel fills the result's memory beforehand with a pattern that no
# result has, and a block reads until the pattern is gone ([[polling]]): one trip. A waiting block keeps its multiprocessor, so a launch
# with more blocks than fit is refused.

# %% [markdown] tags=["guess"]
# ## Guess: sixty-four samples
#
# More samples share the same weights.

# %% tags=["guess"]
w = guess("With 64 samples instead of one, all steps take ... times as long", unit="x")

# %% tags=["run"]
drawing("rnn-floor", batch=64, cell="rnn_tanh", dtype="float32", source="recorded:h200", unlock=w)

# %% tags=["compare"]
compare(w, "rnn", ["persistent"], at=at, batch=(1, 64))

# %% [markdown] tags=["explain"]
# Three things overlap in a step, and the longest sets the pace:
#
# - **the exchange**: a trip to L2 and back, measured on a layer with 32 hidden units;
# - **the state**: every block reads the state of its samples at each step;
# - **the arithmetic**: on CUDA cores; in the drawing, with 24 samples or more, on [[tensor core|tensor cores]].
#
# The input's matmul runs before the first step; its share is added to the longest. The sum is the *floor*, dashed; markers are measured.
#
# With few samples the exchange is the largest part, from 16 on the input's matmul. cuDNN fills its tiles better then, and the
# gain is much smaller. With 64 samples the floor is half of the measured step.
# <!-- so rnn: gains = [cudnn(cell='rnn_tanh', dtype='float32', hidden=1024, batch=n) / step('persistent',
# cell='rnn_tanh', dtype='float32', hidden=1024, batch=n) for n in (8, 16, 24, 32, 64, 96, 128)]; [gains[n] / gains[8]
# for n in (16, 24, 32, 64, 96, 128)] < 0.6 -->
# <!-- so rnn: floor(cell='rnn_tanh', dtype='float32', hidden=1024, batch=64) / step('persistent', cell='rnn_tanh',
# dtype='float32', hidden=1024, batch=64) is 0.45 to 0.55 -->
#
# *Groups* of blocks keep the state's part small: each group holds a copy of the weights and has some of the samples.

# %% [markdown] tags=["explore"]
# ## Explore: half the bytes
#
# In float16 cuDNN has persistent kernels of its own, but takes them only where the batch suits it. *Padded* lines add
# rows of zeros to the batch ([[padding]]). How close does cuDNN come?
#
# <details><summary>Our answer</summary>
#
# Up to batch 8, *padded to 16* is the fastest cuDNN, and at batch 4 about a sixth slower than our kernel. From 16 on, our kernel
# <!-- so rnn: at(hidden=1024, steps=256, cell='lstm', dtype='float16'); [span('cudnn-pad16', batch=n) for n in (1, 2, 3,
# 4, 8)] < [span('cudnn', batch=n) for n in (1, 2, 3, 4, 8)]; [span('cudnn-pad16', batch=n) for n in (1, 2, 3, 4)] <
# [span('cudnn-pad8', batch=n) for n in (1, 2, 3, 4)]; span('cudnn-pad16', batch=4) / span('persistent', batch=4) is 1.13
# to 1.22 -->
# and cuDNN lie close together. So pad small batches of half types.
# <!-- so rnn: [step('persistent', cell='lstm', dtype='float16', hidden=1024, batch=n) / cudnn(cell='lstm',
# dtype='float16', hidden=1024, batch=n) for n in (16, 24, 32, 64, 96, 128)] is 0.85 to 1.15 -->
#
# </details>

# %% tags=["explore"]
half = {"batch": 4, "hidden": 1024, "steps": 256, "cell": "lstm", "dtype": "float16"}
padded = ["persistent", "cudnn", "cudnn pad8", "cudnn pad16"]
closest = {"cudnn pad16": "persistent", "cudnn": "persistent"}
explore(
    "rnn",
    at=half,
    lines=padded,
    sliders=["batch", "hidden", "cell"],
    versus=closest,
    title="Does padding the batch pay?",
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: what does a step take at least?
#
# The tanh layer with 24 samples: three groups of 32 blocks; each block reads the state of its group's 8 samples, 1024 float32 numbers
# each. An exchange takes 0.49 µs, all blocks together read at most 13.8 TB/s (the fastest of 04b's reads), and tensor cores compute 122
# <!-- so working_set: max(bytes('sustained-read') / busy('sustained-read')) is 13.66e12 to 13.94e12 -->
# TFLOP/s. *Calculate* the bytes that all blocks read in a step, a step's least time (in seconds, without the input's matmul), and the
# largest batch whose arithmetic hides behind the exchange.

# %% tags=["your-turn", "exercise:08b-step", "calculates"]
check("08b-step", state_bytes=..., seconds=..., batch=...)

# %% [markdown] tags=["your-turn"]
# ## More: when to stop
#
# Up to which batch should a program keep the weights on the chip? `step_times` has the seconds per step by batch, for our kernel and
# for cuDNN's fastest way (padded ones included). Write `until(ours, theirs)` for two such tables: the largest batch up to
# which ours is faster at *every* batch in both, and 0 where it never is.

# %% tags=["your-turn", "exercise:08b-until", "makes"]
times = step_times("lstm", "float16")
for batch in list(times["ours"])[::3]:
    print(f"batch {batch}: ours {1e6 * times['ours'][batch]:.3g} µs, cuDNN {1e6 * times['cudnn'][batch]:.3g} µs")

check("08b-until", until=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# From *Persistent RNNs* (2016), measured on a Titan X, and this course.

# %% tags=["claims"]
claims("08b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** On an H200, at hidden size 1024 and up to batch 16, capture `nn.RNN` and `nn.LSTM` in a CUDA Graph; in float16 pad 1 or 4 samples first.
# <!-- so rnn: at(hidden=1024); [period('cudnn', cell=cell, dtype=dtype, batch=n) / period('cudnn-graph', cell=cell,
# dtype=dtype, batch=n) for cell in ('rnn_tanh', 'lstm') for dtype in ('float32', 'float16') for n in (1, 4, 16)] is 1.05
# to 4; [period('cudnn-graph', cell=cell, dtype='float16', batch=n, steps=256) / period(way, cell=cell, dtype='float16', batch=n,
# steps=256) for cell, way in (('rnn_tanh', 'cudnn-pad8'), ('lstm', 'cudnn-pad16')) for n in (1, 4)] > 2 -->
#
# - What every step needs again should stay where it is used: registers first, then shared memory, then L2.
# - Once the weights stay, the exchange between blocks is the floor of a step with few samples; with many, it is the matmuls.
# - Persistence pays with few samples; with many, an ordinary matmul shares its weights.
#
# Terms: [[persistent kernel]], [[register file]], [[shared memory]], [[grid barrier]], [[polling]].

# %% [markdown] tags=["work"]
# ## At work
#
# Capture cuDNN in a graph; in half types pad a small batch, an LSTM's to 16, a tanh layer's to 8. Launch your own persistent kernel by
# `cudaLaunchCooperativeKernel`: it refuses more blocks than fit.
#
# ```python
# import torch
# device = "cuda" if torch.cuda.is_available() else "cpu"
# rnn = torch.nn.LSTM(512, 512, device=device, dtype=torch.half).eval().requires_grad_(False)
# y, _ = rnn(x := torch.randn(32, 16, 512, device=device).half())  # warm up
# if device == "cuda":  # a CPU has no graphs
#     with torch.cuda.graph(graph := torch.cuda.CUDAGraph()):
#         y, _ = rnn(x)
#     graph.replay()  # after x.copy_(new_input)
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb)
#
# Back: [08 · What if each step waits for the last?](08_rnn.ipynb)
