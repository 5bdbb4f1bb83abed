# ---
# jupyter:
#   readme: {short: 'RNN', asks: 'what if each step waits for the last?', before: '06, 07'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 08 · What if each step waits for the last?
#
# A recurrent network reads a sequence one [[time step]] after the other, and hands its [[hidden state]] from each to
# the next: `h = f(W @ x + U @ h)`. Products with `x` can be made at any time. A product with `h` waits for the step
# before. **How much of a GPU can such a network use?**
#
# Below, what is computed when; the numbers are the steps. In an LSTM each product is of four [[gate|gates]]. Move
# *order* and *layers*.

# %% tags=["setup", "question"]
from IPython.display import display

from brrr_course import check, claims, compare, drawing, explore, guess, reachable, timeline

at = reachable("rnn_ladder", batch=64, hidden=512, steps=64, layers=4, cell="lstm", dtype="float32")
drawing("rnn-order", order="loop", layers=4)

# %% [markdown] tags=["guess"]
# ## Guess: up the ladder
#
# An LSTM of 4 layers, hidden size 512, 64 steps, [[mini-batch]] 64, true float32: the network of a paper of 2016.
# Each of its rungs keeps what those before it have.
#
# - **naive**: a product for each gate, of the input and of the state; torch's kernels for what is elementwise
# - **combined**: the gates' weights stacked, so one product of the input and one of the state
# - **streamed**: these two on two [[stream|streams]]
# - **fused**: all elementwise work of a step in one kernel
# - **transposed**: the weights stored transposed beforehand
# - **inputs2**, **inputs**: the input's products of two steps, of all steps, as one
# - **[[wavefront]]**: layers beside each other, each as soon as the one below is a few steps ahead
#
# Then what came later: the best loop in a CUDA Graph, `torch.compile`, cuDNN, and weights kept on the chip (08b).

# %% tags=["guess"]
g = guess("In a CUDA Graph, with all rungs below it, the network is ... times as fast as the naive loop", unit="x")

# %% tags=["run"]
rungs = ["naive", "combined", "streamed", "fused", "transposed", "inputs2", "inputs", "wavefront"]
ways = [*rungs, "graph", "compiled", "cudnn", "persistent"]
explore("rnn_ladder", at=at, lines=ways, sliders=["hidden", "layers"], show="ladder", unlock=g)

# %% tags=["compare"]
gains = dict.fromkeys(["graph", "inputs", "wavefront", "cudnn", "persistent"], "naive")
compare(g, "rnn_ladder", gains, of="speed-up", **at)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** The FLOP are the same on every rung. What is gained from one to the next? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# Fewer, larger products fill the GPU better, and fewer launches leave fewer gaps. No rung removes FLOP, or the chain from step to
# step.
#
# </details>
#
# **Parallelism.** A kernel for a product gives each [[thread block]] a [[tile]] of the result. Few samples make few
# tiles, and most [[multiprocessor|multiprocessors]] stay idle. So stack the gates, put independent products beside
# each other, and let layers overlap.
#
# **Launches.** The loop issues kernel after kernel from Python. Where that takes longer than the kernels, it sets the
# pace: a rung with fewer kernels gains, and a rung that only overlaps them gains nothing at best. A
# CUDA Graph issues everything at once: then overlap counts.
#
# In the timelines, look for gaps, then for kernels beside each other.

# %% tags=["explain"]
timeline("rnn_ladder", variants=["naive", "fused", "wavefront", "graph"], at={**at, "steps": 16})

# %% [markdown] tags=["guess"]
# ## Guess: why is a larger mini-batch efficient?
#
# Because the weights are then loaded from the memory only once, says the source, and asks why. Take one layer and the
# product of its state: with one sample it multiplies all recurrent weights by one vector.

# %% tags=["guess"]
w = guess("With 64 samples instead of one, a step's recurrent product takes ... times as long", unit="x")

# %% tags=["run"]
drawing("rnn-batch", source="recorded:h200", batch=64, cell="lstm", unlock=w)

# %% tags=["compare"]
single = {**at, "layers": 1, "batch": (1, 64)}
compare(w, "rnn_ladder", ["state product", "graph", "cudnn"], **single)

# %% [markdown] tags=["explain"]
# Three limits are dashed: the recurrent weights through the memory once a step, the same once *for each sample*, and
# the product's FLOP at the peak.
#
# A block brings its piece of the weights to its multiprocessor and multiplies it there with *all* samples of its
# tile. Hence "once": the bytes grow with the number of tiles, and until a second tile of samples is needed there is
# no more to load. Where the measured product falls below the line for each sample, you see that sharing. Where the
# FLOP overtake the weights' bytes, the limit grows with every sample ([[compute-bound]]).
#
# Once a step, not once: the next step loads them again, today mostly from the [[L2]] cache. And the measured lines
# lie above two limits: these kernels are too short to fill the GPU. Lesson 08b attacks both.

# %% [markdown] tags=["explore"]
# ## Explore: without the gaps, and one sample at a time
#
# First the ladder again, each loop in a CUDA Graph, by the GPU's own time. Compare it with the one above: which rungs
# are faster on the GPU, and which only for its queue?
#
# Then cuDNN in float16, one layer. Its fastest kernels take some batches only. *Padded* adds zeros up to the next
# multiple of 8 ([[padding]]). Where do more samples take less time?

# %% tags=["explore"]
half = reachable("rnn_ladder", batch=4, hidden=1024, steps=64, layers=1, cell="lstm", dtype="float16")
some = ["cudnn", "cudnn padded", "persistent"]
graphs = [*(f"{way} graph span" for way in rungs[:-1]), *(f"{way} span" for way in ways[8:])]
display(explore("rnn_ladder", at=at, lines=graphs, sliders=["hidden"], show="ladder"))
explore("rnn_ladder", at=half, lines=some, sliders=["batch", "cell"], values={"batch": tuple(range(1, 18))})

# %% [markdown] tags=["your-turn"]
# ## Your turn: how short can a step be?
#
# An LSTM layer, hidden size 512, float32. The memory hands out 4.2 TB/s, and 54 TFLOP/s are computed. *Calculate* the
# bytes of its recurrent weights, what their product takes at least with one sample (in seconds), and the largest
# mini-batch for which the weights' bytes, not the FLOP, set that limit. Then compare with the figure of one layer.

# %% tags=["your-turn", "exercise:08-floor", "calculates"]
check("08-floor", weight_bytes=..., seconds=..., batch=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: eight products, or fewer
#
# `gates` makes what an LSTM's four gates are computed from, by eight products a step. `w` and `u` are lists of four
# weights each. Do it with two products or with one: `stack` runs once and may arrange the weights as you like,
# `gates` runs at each step and must not move them any more. Then write `stack=stack, gates=gates`.


# %% tags=["your-turn", "exercise:08-combine", "makes"]
def stack(w, u):
    return w, u


def gates(x, h, weights):
    w, u = weights
    return [x @ w[k].t() + h @ u[k].t() for k in range(4)]


check("08-combine", stack=..., gates=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# The sources are *Optimizing Performance of Recurrent Neural Networks on GPUs* (2016), which reports an order of
# magnitude from bottom to top, and two studies before it. Live, measure the points first.

# %% tags=["claims"]
claims("08")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - Only the product with the state has to wait: make everything else beforehand, beside it, or in larger pieces.
# - A mini-batch shares each fetch of the weights: the bytes stay the same, and the arithmetic grows with every sample.
# - Overlap gains nothing while the launches set the pace: first put the loop into a CUDA Graph, or let cuDNN run it.
#
# Terms: [[time step]], [[hidden state]], [[gate]], [[wavefront]].

# %% [markdown] tags=["work"]
# ## At work
#
# Let cuDNN run it, and know what it does: it takes TF32 for float32 unless told not to, and in half types it likes
# batches of whole eights. Compare with float64 once: cuDNN 9.19 computes some small LSTMs wrongly (docs/rnn.md).
#
# ```python
# import torch
# torch.backends.cudnn.allow_tf32 = False  # for float32 in full precision
# rnn = torch.nn.LSTM(256, 256, num_layers=2).eval()
# batch, x = 5, torch.randn(20, 5, 256)
# x = torch.nn.functional.pad(x, (0, 0, 0, -batch % 8))
# with torch.inference_mode():
#     y = rnn(x)[0][:, :batch]
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [08b · Why fetch the same weights at each step?](08b_persistent.ipynb) keeps them on the chip, with one launch for
# all steps.
#
# Back: [07 · What does one more column cost?](07_gemm_shapes.ipynb)
