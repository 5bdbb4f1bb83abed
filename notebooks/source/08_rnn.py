# ---
# jupyter:
#   readme: {short: 'RNN', asks: 'what if each step waits for the last?', before: '07'}
#   brrr:
#     leaves: '07'
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 08 · What if each step waits for the last?
#
# Side road.
# Know before: [07](07_gemm_shapes.ipynb)'s *tile*.
#
# A recurrent network reads a sequence one [[time step]] after the other, and hands its [[hidden state]] from each step to
# the next: `h = f(W @ x + U @ h)`. `W @ x` can be computed at any time. `U @ h` waits for the step before. **How much of a GPU
# can such a network use?**
#
# You will be able to:
#
# - calculate a time step's least time
# - combine eight matmuls per step into one
# - predict what a larger batch costs
#
# Below: what is computed when, numbered by step. Move *order*. (A *product* is a matmul, in an LSTM of four [[gate|gates]].)

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, drawing, explore, guess, timeline

at = {"batch": 64, "hidden": 512, "steps": 64, "layers": 4, "cell": "lstm", "dtype": "float32"}
drawing("rnn-order", order="loop", layers=4)

# %% [markdown] tags=["guess"]
# ## Guess: up the ladder
#
# An LSTM of 4 layers, hidden size 512, 64 steps, [[mini-batch]] 64, in float32 without tensor cores, from a study of 2016.
# Each rung builds on the last:
#
# - **naive**: a matmul for each gate, of input and of state; PyTorch's elementwise kernels
# - **combined**: the gates' weights stacked: one matmul of the input, one of the state
# - **streamed**: these two on two [[stream|streams]]
# - **fused**: one kernel for a step's elementwise work
# - **transposed**: weights stored transposed
# - **inputs2**, **inputs**: the input's matmuls as one, for two steps or the sequence
# - **[[wavefront]]**: a layer starts when the one below is a few steps ahead
# - **graph**: the wavefront loop, captured in a CUDA Graph
#
# For comparison: `torch.compile` of a step, `nn.LSTM` (cuDNN), and weights kept on the chip (08b).

# %% tags=["guess"]
g = guess("In a CUDA Graph, with all these changes, the network is ... times as fast as the naive loop", unit="x")

# %% tags=["run"]
rungs = ["naive", "combined", "streamed", "fused", "transposed", "inputs2", "inputs", "wavefront"]
ways = [*rungs, "graph", "compiled", "cudnn", "persistent"]
explore(
    "rnn_ladder",
    at=at,
    lines=ways,
    sliders=["hidden", "layers"],
    show="ladder",
    versus={"graph": "naive"},
    unlock=g,
    title="What does each rewriting of an RNN gain?",
)

# %% tags=["compare"]
gains = {"graph": "naive", "inputs": "naive", "wavefront": "naive", "cudnn": "naive", "persistent": "naive"}
compare(g, "rnn_ladder", gains, of="speed-up", at=at)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** The FLOP are the same on every rung. What is gained from one to the next? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# Fewer, larger matmuls fill the GPU better, and fewer launches leave fewer gaps. No rung shortens the chain from step to step.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import torch, torch.utils.benchmark
# from brrr.networks.recurrent import rung  # the ladder's loops
# device = "cuda" if torch.cuda.is_available() else "cpu"
# rnn, x = torch.nn.LSTM(512, 512, num_layers=4, device=device).eval(), torch.randn(64, 64, 512, device=device)
# for name in ("naive", "cudnn", "graph")[: 2 + torch.cuda.is_available()]:  # cudnn: rnn(x); a CPU has no graphs
#     print(name, torch.utils.benchmark.Timer("f()", globals={"f": rung(name, rnn, x)}).blocked_autorange().median)
# ```
#
# </details>
#
# **In practice:** use `nn.LSTM`: cuDNN comes close to the best loop without this work. If
# <!-- so rnn_ladder: at(layers=4, cell='lstm', dtype='float32', hidden=512, steps=64, batch=64); period('cudnn') < 1.25
# * period('graph') -->
# cuDNN lacks your cell, stack the gates, compute the inputs of all steps at once, and capture the loop in a CUDA Graph.
#
# **Launches.** On nearly every rung Python launches the kernels more slowly than the GPU runs them. *streamed* and *wavefront* even
# <!-- so rnn_ladder: at(layers=4, cell='lstm', dtype='float32', hidden=512, steps=64, batch=64); [host(way) /
# span(f'{way}-graph') for way in ('naive', 'combined', 'streamed', 'fused', 'transposed', 'inputs2')] > 1.5;
# host('wavefront') / span('graph') > 1.5 -->
# lose: where one stream waits for another, the host must launch that, too. In a graph the host launches once, and overlap pays.
# <!-- so rnn_ladder: at(layers=4, cell='lstm', dtype='float32', hidden=512, steps=64, batch=64); period('streamed') >
# period('combined'); period('wavefront') > period('inputs'); span('streamed-graph') < span('combined-graph'); span('graph') <
# span('inputs-graph') -->
#
# The timelines show 16 steps. Look for gaps in the first. In the second, kernels above one another run at the same time.

# %% tags=["explain"]
timeline("rnn_ladder", variants=["fused", "graph"], at=at)

# %% [markdown] tags=["guess"]
# ## Guess: why is a larger mini-batch efficient?
#
# The study says: then the weights are loaded only once. Take one layer's matmul of the state, the *recurrent product*.

# %% tags=["guess"]
w = guess("With 64 samples instead of one, a step's recurrent product takes ... times as long", unit="x")

# %% tags=["run"]
drawing("rnn-batch", source="recorded:h200", batch=64, cell="lstm", unlock=w)

# %% tags=["compare"]
compare(w, "rnn_ladder", ["state product", "graph", "cudnn"], at=at, layers=1, batch=(1, 64))

# %% [markdown] tags=["explain"]
# A [[thread block]] loads its piece of the weights once for the samples of its [[tile]]. From eight samples on, the measured matmul lies
# below the dashed line, where each sample loads them for itself: that
# <!-- so rnn_ladder: at(layers=1, cell='lstm', dtype='float32', hidden=512, steps=64); load = 4 * 4 * 512 ** 2 /
# sheet('memory_bytes_per_s'); per = kernel('state-product') / keys(kernel('state-product')); per[4] > load; [per[n] for
# n in (8, 16, 64, 128)] < load -->
# is sharing. (For a single sample the library has a faster matrix-vector kernel.)
# <!-- so rnn_ladder: at(layers=1, cell='lstm', dtype='float32', hidden=512, steps=64); kernel('state-product', batch=1)
# < 0.6 * kernel('state-product', batch=2) -->
# Where the FLOP take longer than the weights' bytes, the limit grows with every sample ([[compute-bound]]).
#
# The next step loads the weights again, mostly from [[L2]], and kernels so short leave the GPU under-filled. Lesson 08b attacks both.

# %% [markdown] tags=["explore"]
# ## Explore: the GPU's own time
#
# The ladder again, now in CUDA Graphs, by the GPU's own time (*span*). Which rungs are faster on the GPU, and which
# only saved launches?
#
# Then cuDNN in float16, one layer. *Padded* adds zeros up to the next multiple of 8 ([[padding]]). Where do more samples take less
# time?
#
# <details><summary>Our answers</summary>
#
# *combined*, *streamed*, *fused* and *wavefront* are faster on the GPU, *transposed* is slower; *inputs2* and *inputs* mostly saved
# launches. At batch 8 and 16 cuDNN has far faster kernels, and 16 samples take less time than 8. So padding pays, most from 9 to 15.
# <!-- so rnn_ladder: at(layers=4, cell='lstm', dtype='float32', hidden=512, steps=64, batch=64); span('naive-graph') >=
# span('combined-graph'); span('combined-graph') >= span('streamed-graph'); span('streamed-graph') >=
# span('fused-graph'); span('graph') < 0.6 * span('inputs-graph'); span('inputs-graph') > 0.9 *
# span('transposed-graph'); span('transposed-graph') > 1.05 * span('fused-graph'); period('inputs') < 0.5 *
# period('transposed') -->
# <!-- so rnn_ladder: at(layers=1, cell='lstm', dtype='float16', hidden=1024, steps=64); t = span('cudnn'); t[16] <
# t[8]; 3 * t[8] < [t[n] for n in (1, 7, 9, 15, 17)]; gain = t / span('cudnn-padded'); gain[12] > gain[5]; gain[5] > 3
# -->
#
# </details>

# %% tags=["explore"]
half = {"batch": 5, "hidden": 1024, "steps": 64, "layers": 1, "cell": "lstm", "dtype": "float16"}
some = ["cudnn span", "cudnn padded span", "persistent span"]
graphs = ["naive graph span", "combined graph span", "streamed graph span", "fused graph span"]
graphs += ["transposed graph span", "inputs2 graph span", "inputs graph span"]
graphs += ["graph span", "compiled span", "cudnn span", "persistent span"]
display(explore("rnn_ladder", at=at, lines=graphs, sliders=["hidden"], show="ladder"))
explore("rnn_ladder", at=half, lines=some, sliders=["batch", "cell"], values={"batch": range(1, 18)})

# %% [markdown] tags=["your-turn"]
# ## Your turn: how short can a step be?
#
# An LSTM layer, hidden size 512, float32, at 4.8 TB/s and 67 TFLOP/s. *Calculate* the bytes of its recurrent weights, the least
# time of their matmul with one sample (in seconds), and the largest mini-batch for which the bytes, not the FLOP, set that
# limit.

# %% tags=["your-turn", "exercise:08-floor", "calculates"]
check("08-floor", weight_bytes=..., seconds=..., batch=...)

# %% [markdown] tags=["your-turn"]
# ## More: eight matmuls, or fewer
#
# `gates` makes four gates by eight matmuls per step. `w` and `u` are lists of four weights each. Do it with two matmuls
# or one: `stack` runs once and may arrange the weights as you like; `gates` runs at each step and must not move them. Then write `stack=stack, gates=gates`.


# %% tags=["your-turn", "exercise:08-combine", "makes"]
def stack(w, u):
    return w, u


def gates(x, h, weights):
    w, u = weights
    return [x @ w[k].t() + h @ u[k].t() for k in range(4)]


check("08-combine", stack=..., gates=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# From *Optimizing Performance of Recurrent Neural Networks on GPUs* (2016) and this course.

# %% tags=["claims"]
claims("08")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** In float16, pad cuDNN's LSTM batches to a multiple of 8, better of 16: at hidden size 1024, other small ones take over three times as long.
# <!-- so rnn_ladder: at(layers=1, cell='lstm', dtype='float16', hidden=1024, steps=64); gain = span('cudnn') /
# span('cudnn-padded'); gain > 3; count(gain) == 15 -->
#
# - Only the matmul with the state has to wait: compute everything else before it, beside it, or in larger pieces.
# - A mini-batch shares each load of the weights: the bytes stay, the arithmetic grows with every sample.
# - While launches set the pace, overlap loses: use cuDNN, or a CUDA Graph.
# <!-- so rnn_ladder: at(layers=4, cell='lstm', dtype='float32', hidden=512, steps=64, batch=64); period('streamed') >
# period('combined'); period('wavefront') > period('inputs'); period('cudnn') < period('inputs'); period('graph') < period('inputs') -->
#
# Terms: [[time step]], [[hidden state]], [[gate]], [[wavefront]].

# %% [markdown] tags=["work"]
# ## At work
#
# Compare cuDNN with float64 once: version 9.19 gets some LSTMs of hidden size below 200 wrong (`docs/rnn.md` in the repository). Its
# float32 is TF32, with fewer digits, unless you set `torch.backends.cudnn.allow_tf32 = False`.
#
# ```python
# import torch
# device = "cuda" if torch.cuda.is_available() else "cpu"
# rnn = torch.nn.LSTM(512, 512, num_layers=4, device=device, dtype=torch.half).eval()
# x = torch.randn(16, 5, 512, device=device).half()
# padded = torch.nn.functional.pad(x, (0, 0, 0, 3))  # batch 5 becomes 8
# with torch.inference_mode():
#     y = rnn(padded)[0][:, :5]
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb). Further along: [08b · Why fetch the same
# weights at each step?](08b_persistent.ipynb)
#
# Back: [07 · What does one more column cost?](07_gemm_shapes.ipynb)
