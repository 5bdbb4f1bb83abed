# ---
# jupyter:
#   readme: {short: 'fewer bits', asks: 'when do TF32, bf16, fp8, int8 and int4 help?', before: '04, 07, 10'}
#   brrr:
#     leaves: '10'
#     recorded: h100
#     needs: []
# ---

# %% [markdown] tags=["question"]
# # 13 · When do fewer bits help?
#
# Side road. Read 04, 07 and 10 first.
#
# A number in float32 takes 32 bits, in bf16 16, in [[fp8]] 8. Fewer bits are fewer bytes, and tensor cores multiply them faster. With
# [[quantisation]] to int8 or int4 they get a scale too; with [[weight-only quantisation]] the activations stay in bf16.
#
# Yet people ask: **why did fp8 not make my model twice as fast, why are my quantised weights slower, and why does TF32 change nothing?**

# %% tags=["setup", "question"]
import torch
from brrr_course import check, claims, compare, drawing, explore, guess

# %% [markdown] tags=["guess"]
# ## Guess: one token
#
# One Linear layer of width 8192, without a bias: the activations are a row for each token. Each call takes the weights of another layer,
# as in a model, so they come from memory.
#
# int4 weights take 4 bits each; a group of 128 shares a scale and a zero of 2 bytes each. The kernel widens them to bf16 as it reads.
#
# First *calculate*: how many bytes does one token move in bf16 and in int4, and how many FLOP per byte is that? The [[ridge point]] of an
# H100 is near 300 in bf16. Then guess.

# %% tags=["guess"]
g = guess("With one token, int4 weights make the layer ... times as fast as bf16", unit="x")

# %% tags=["run"]
one = {"tokens": 1, "width": 8192, "inputs": "ordinary"}
lines = ["float32", "tf32", "bf16", "fp8", "int4"]
explore("bits", at=one, lines=lines, sliders=["tokens"], versus={"bf16": "int4"}, unlock=g)

# %% tags=["compare"]
pairs = {"int4": "bf16", "fp8": "bf16", "bf16": "float32", "tf32": "float32"}
compare(g, "bits", pairs, of="speed-up", at=one)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** TF32 has a roof seven times as high as float32. Why does it gain nothing here, and bf16 something? Double-click here
# and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# In bf16 each weight of 2 bytes is used for one multiply-add: 1 FLOP per byte, far below the ridge point: [[memory-bound]]. Only bytes
# count. TF32 is a way to *multiply*: in memory the numbers are float32.
#
# </details>
#
# ## Bits on the roofline
#
# More tokens move the point to the right: each weight is used more often. Fewer bits move it to the right too, as there are fewer bytes.
# How high it may rise depends on the type that is *multiplied*. Weights in int8 or int4 are multiplied in bf16, below bf16's roof.
#
# Move *tokens* until int4 has lost its advantage.

# %% tags=["explain"]
drawing("bits-roofline", tokens=64, type="int4")

# %% [markdown] tags=["guess"]
# ## Guess: many tokens
#
# With 16384 tokens the layer is [[compute-bound]]. By the datasheet fp8 has twice the FLOP/s of bf16.
#
# An fp8 number reaches from about 0.002 to 448, so the activations must be scaled first: find the largest number, divide, cast. That is
# done in each call.

# %% tags=["guess"]
w = guess("With 16384 tokens, fp8 with its cast is ... times as fast as bf16", unit="x")

# %% tags=["run"]
many = {**one, "tokens": 16384}
ways = ["bf16", "fp8", "fp8 cast", "int4"]
explore("bits", at=many, lines=ways, sliders=["tokens", "width"], versus={"bf16": "fp8 cast"}, unlock=w)

# %% tags=["compare"]
compare(w, "bits", {"fp8 cast": "bf16", "fp8": "bf16", "int4": "bf16", "tf32": "float32"}, of="speed-up", at=many)

# %% [markdown] tags=["explain"]
# The matmul's work grows with tokens times width², the cast's with tokens times width. So the cast weighs most in narrow layers: set
# *width* to 1024. Compiled into one kernel, the cast reads the activations once in place of three times.
#
# ## What is lost
#
# A type keeps a *relative* error if each number has an exponent of its own: bf16 keeps 8 bits of mantissa, fp8 (e4m3) 4, each with the
# leading one. An integer keeps an *absolute* error, a step of its scale. A few outlier channels make the scale large, and all other
# channels are rounded to a few steps. See the claims for the errors against float64.

# %% [markdown] tags=["explore"]
# ## Explore: weights in int8
#
# 1. Three ways store the weights in int8. *int8 widened* makes bf16 weights first, then multiplies. *int8* is PyTorch's own kernel.
#    *int8 fused* is compiled, for one token. Which is faster than bf16, and why not all?
# 2. Move *tokens*. Does *int8 widened* ever win?
#
# <details><summary>Answers</summary>
#
# 1. Widened first, a weight moves 5 bytes in place of 2: read as 1, written and read as 2. PyTorch's kernel has a thread for each result,
#    and neighbours read far apart: few bytes, badly read. The compiled one reads int8 in order and widens in registers.
# 2. No: it has the matmul of bf16, and the widening on top.
#
# </details>

# %% tags=["explore"]
eights = ["bf16", "int8", "int8 fused", "int8 widened"]
explore("bits", at=one, lines=eights, sliders=["tokens"], versus={"int8 widened": "bf16"})

# %% [markdown] tags=["your-turn"]
# ## Your turn: where int4 loses
#
# A kernel reads all int4 weights once for each 16 tokens that it takes together: 17 tokens, two passes. The bf16 kernel reads all
# weights once. *Calculate* how many bytes an int4 weight takes, scale and zero included, and from how many tokens on the int4
# kernel moves more bytes of weights.

# %% tags=["your-turn", "exercise:13-crossover", "calculates"]
check("13-crossover", int4_bytes=..., loses_from=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: scales for fp8
#
# `scales` returns what `a` and `b` are divided by before the cast to e4m3, whose largest number is 448; `a @ b` is multiplied by both
# again. Here rows of `a` and columns of `b` are of very different sizes, and one scale for each rounds the small ones to zero. *Make*
# scales that keep every row and column, then write `scales=scales`.


# %% tags=["your-turn", "exercise:13-scales", "makes"]
def scales(a, b):
    return a.abs().max() / 448, b.abs().max() / 448


check("13-scales", scales=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# We wrote down all sentences before anything was measured.

# %% tags=["claims"]
claims("13")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - With few tokens a layer is memory-bound and its time follows the bits that are stored; with many it is compute-bound and its time follows
#   the type that is multiplied.
# - Weight-only types gain with few tokens and lose with many; fp8 gains with many, if the layer is wide enough to pay for the cast.
# - A type of floating-point numbers copes with outliers by its exponents; integers with one scale do not.
#
# Terms: [[fp8]], [[quantisation]], [[weight-only quantisation]], [[memory-bound]], [[compute-bound]], [[ridge point]].

# %% [markdown] tags=["work"]
# ## At work
#
# Before you quantise, count tokens per call: below the ridge point store fewer bits, above it multiply fewer. `torchao` has the kernels
# (`quantize_`) and compiles the casts; `_scaled_mm` is what its fp8 layers call.
#
# ```python
# import torch
# torch.set_float32_matmul_precision("high")      # TF32 for matmuls of float32
# layer, x = torch.nn.Linear(512, 512), torch.randn(64, 512)
# with torch.autocast("cpu", dtype=torch.bfloat16):  # "cuda" on a GPU: casts the weights too, in each call
#     y = layer(x)
# layer.to(torch.bfloat16)                        # once and for all: half the bytes
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road, [11 · Why does one token take so long?](11_language_model.ipynb) finds every regime in one language model.
#
# Back: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb)
