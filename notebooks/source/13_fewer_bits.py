# ---
# jupyter:
#   readme: {short: 'stored bits', asks: 'when do weights in int8 and int4 help?', before: '04, 07, 10'}
#   brrr:
#     leaves: '10'
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 13 · When do weights in fewer bits help?
#
# Side road.
# Know before: [04](04_memory_bound.ipynb)'s [[ridge point]], [07](07_gemm_shapes.ipynb)'s *GEMM*.
#
# A number takes 32 bits in float32, 16 in bf16, 8 in [[fp8]]. With [[quantisation]] to int8 or int4 numbers share a scale. In
# [[weight-only quantisation]] only the weights are stored so, and the activations stay in bf16.
#
# **Weights of a quarter of the bytes: when is the layer faster, and why is mine slower?**
#
# You will be able to:
#
# - calculate a layer's FLOP per byte
# - predict when weights in fewer bits gain
# - count the bytes of quantised weights

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, drawing, explore, guess

# %% [markdown] tags=["guess"]
# ## Guess: one token
#
# One Linear layer of width 8192, without a bias: the activations are a row for each token. Each call takes another layer's weights, so
# they come from memory.
#
# int4 weights take 4 bits each; a group of 128 shares a scale and a zero of 2 bytes each. The kernel widens them to bf16 as it reads.
#
# First *calculate*: how many bytes does one token move in bf16 and in int4, and how many FLOP per byte? An H200's ridge point is
# near 200 in bf16.
# <!-- so bits: sheet('bf16') / sheet('memory_bytes_per_s') is 196 to 216 -->

# %% tags=["guess"]
g = guess("With one token, int4 weights make the layer ... times as fast as bf16", unit="x")

# %% tags=["run"]
one = {"tokens": 1, "width": 8192, "inputs": "ordinary"}
lines = ["float32", "bf16", "fp8", "int4"]
explore(
    "bits",
    at=one,
    lines=lines,
    sliders=["tokens"],
    versus={"int4": "bf16"},
    unlock=g,
    title="One token: what do fewer bits gain?",
)

# %% tags=["compare"]
compare(g, "bits", {"int4": "bf16", "fp8": "bf16", "bf16": "float32"}, of="speed-up", at=one)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** int4 weights have about a quarter of bf16's bytes. Why does the layer take more than a quarter of the time?
# Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# In bf16 each weight of 2 bytes is used for one multiply-add: 1 FLOP per byte, far below the ridge point: [[memory-bound]]. Only bytes
# count, and int4 has nearly four times fewer. But how much of the bandwidth is reached is up to the kernel: bf16's reaches more than
# <!-- so bits: at(tokens=1, width=8192, inputs='ordinary'); bytes('bf16') / bytes('int4') is 3.7 to 3.8; bytes('bf16') /
# busy('bf16') / sheet('memory_bytes_per_s') > 0.8; bytes('int4') / busy('int4') / sheet('memory_bytes_per_s') is 0.33 to
# 0.4 -->
# four fifths of it, int4's a little more than a third.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import torch, torch.utils.benchmark
# device, cpu, code = ("cuda", "", torch.uint8) if torch.cuda.is_available() else ("cpu", "_for_cpu", torch.int32)
# x, w, ends = (torch.randn(*n, dtype=torch.bfloat16, device=device) for n in ((1, 8192), (16384, 8192), (64, 16384, 2)))
# four = getattr(torch, "_convert_weight_to_int4pack" + cpu)(torch.zeros(16384, 8192 if cpu else 4096, dtype=code, device=device), 8)
# for way in ("x @ w.T", f"torch.ops.aten._weight_int4pack_mm{cpu}(x, four, 128, ends)"):  # two layers in one: more than L2 holds
#     print(torch.utils.benchmark.Timer(way, globals=globals()).blocked_autorange())
# ```
#
# </details>
#
# ## Bits on the roofline
#
# More tokens move the point to the right: each weight is used more often. So do fewer bits. How high it may rise depends on the type that
# is *multiplied*: for weights in int8 or int4 that is bf16.
#
# Move *tokens* until int4 has lost its advantage.

# %% tags=["explain"]
drawing("bits-roofline", tokens=64, type="int4")

# %% [markdown] tags=["guess"]
# ## Guess: 64 tokens
#
# With 64 tokens bf16 is still memory-bound, int4 no longer: the roofline allows it more than three times the speed of bf16. What does
# <!-- so bits: at(tokens=64, width=8192, inputs='ordinary'); ridge = sheet('bf16') / sheet('memory_bytes_per_s'); flop('bf16') /
# bytes('bf16') < ridge; flop('int4') / bytes('int4') > ridge; bytes('bf16') / sheet('memory_bytes_per_s') / (flop('int4') /
# sheet('bf16')) > 3 -->
# PyTorch's kernel make of it?

# %% tags=["guess"]
w = guess("With 64 tokens, int4 weights make the layer ... times as fast as bf16", unit="x")

# %% tags=["run"]
more = {**one, "tokens": 64}
explore(
    "bits",
    at=more,
    lines=["bf16", "int4"],
    sliders=["tokens", "width"],
    versus={"int4": "bf16"},
    unlock=w,
    title="More tokens: does int4 still gain?",
)

# %% tags=["compare"]
compare(w, "bits", {"int4": "bf16"}, of="speed-up", at=more)

# %% [markdown] tags=["explain"]
# The int4 kernel was written for few tokens. It widens the weights again for each 16 tokens, and each of its blocks reads the tokens'
# activations again. So its time grows with the tokens from the second on, while bf16's stays flat past a hundred.
# <!-- so bits: at(width=8192, inputs='ordinary'); busy('int4', tokens=4) < busy('bf16', tokens=4); busy('int4',
# tokens=8) > busy('bf16', tokens=8); doubled(busy('int4', tokens=least(2))) > 1.3; busy('bf16', tokens=128) < 1.1 *
# busy('bf16', tokens=1) -->
#
# Another library's kernel, [run once](../docs/claims_history.md#rivals-that-came-as-wheels-run-once), stays ahead of bf16 far longer. Where
# arithmetic sets the pace, no such kernel can win: what is multiplied is bf16.

# %% [markdown] tags=["explore"]
# ## Explore: weights in int8
#
# 1. Three ways store the weights in int8: in PyTorch's own kernel, *compiled* for one token, or *widened first* to bf16. Why is none
#    faster than bf16 in this loop of calls?
# 2. Move *tokens*. When does the widening no longer matter?
#
# <details><summary>Answers</summary>
#
# 1. Widened first, a weight moves 5 bytes in place of 2: one is read, two are written, two read again. PyTorch's own kernel has
#    a thread for each result, and neighbours read far apart. The compiled kernel reads in order and is faster than bf16's, but the host
#    takes longer to launch compiled code than the GPU to run it: [[overhead-bound]].
# <!-- so bits: at(tokens=1, width=8192, inputs='ordinary'); busy('bf16') > 1.1 * busy('int8-fused'); host('int8-fused')
# > busy('int8-fused'); [period(way) for way in ('int8', 'int8-fused', 'int8-widened')] > period('bf16') -->
# 2. The more tokens share one widening, the less it matters; at 16384 it still costs about a sixth.
# <!-- so bits: at(width=8192, inputs='ordinary'); period('bf16', tokens=4096) / period('int8-widened', tokens=4096) <
# 0.8; period('bf16', tokens=16384) / period('int8-widened', tokens=16384) is 0.81 to 0.87 -->
#
# </details>

# %% tags=["explore"]
eights = ["bf16", "int8", "int8 fused", "int8 widened"]
explore(
    "bits",
    at=one,
    lines=eights,
    sliders=["tokens"],
    versus={"int8 widened": "bf16"},
    title="What do 8 bits a weight cost?",
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: where int4 loses
#
# In PyTorch's int4 kernel a block computes 8 results for up to 16 tokens, and reads these tokens' activations. *Calculate*
# how many bytes of activations all blocks read for one token at width 8192. From how many tokens on does the kernel read more,
# its weights with their scales and the activations together, than bf16's weights?

# %% tags=["your-turn", "exercise:13-crossover", "calculates"]
check("13-crossover", activation_bytes=..., loses_from=...)

# %% [markdown] tags=["your-turn"]
# ## More: how many bytes?
#
# *Make* a function that returns the bytes of a square layer's weights: `width` times `width` of them with so many `bits` each, and for each
# `group` of weights a scale and a zero of 2 bytes each. Then write `weight_bytes=weight_bytes`.


# %% tags=["your-turn", "exercise:13-bytes", "makes"]
def weight_bytes(width, bits, group):
    return width * bits / 8


check("13-bytes", weight_bytes=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# The figures show the time of a call in a loop; claims about one token, the kernels' own times.

# %% tags=["claims"]
claims("13")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** On an H200, take PyTorch's int4 weights for a layer of width 8192 up to 4 tokens a call: from 8 on, bf16 is faster.
# <!-- so bits: at(width=8192, inputs='ordinary'); period('int4', tokens=most(4)) < period('bf16', tokens=most(4));
# period('int4', tokens=least(8)) > period('bf16', tokens=least(8)); count(period('int4')) is 15 to 15 -->
#
# - With few tokens a layer is memory-bound, and its time at best follows the bytes in which its weights are stored.
# - Weights in fewer bits gain with few tokens and lose with many, when widening them costs more than their bytes save.
# - Fewer bytes are a promise that a kernel has to keep: time the one that you get.
#
# Terms: [[quantisation]], [[weight-only quantisation]], [[memory-bound]], [[ridge point]].

# %% [markdown] tags=["work"]
# ## At work
#
# Count tokens per call first: with few, store fewer bits. `torchao` (`quantize_`) has the kernels.
#
# ```python
# import torch
# layer = torch.nn.Linear(512, 512).to(torch.bfloat16)    # once and for all: half the bytes
# scale = layer.weight.detach().abs().amax(1, keepdim=True) / 127
# stored = (layer.weight.detach() / scale).round().to(torch.int8)  # a quarter
# x = torch.randn(1, 512, dtype=torch.bfloat16)
# y = x @ (stored * scale).T + layer.bias                 # torch.compile can fuse the widening
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road: [15 · Why is my GPU idle although the model is fast?](15_feeding.ipynb) Further
# along: [13b · When does multiplying in fewer bits help?](13b_multiplied_bits.ipynb)
#
# Back: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb)
