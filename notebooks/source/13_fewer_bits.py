# ---
# jupyter:
#   readme: {short: 'fewer bits', asks: 'when do TF32, bf16, fp8, int8 and int4 help?', before: '04, 07, 10'}
#   brrr:
#     leaves: '10'
#     recorded: h100
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 13 · When do fewer bits help?
#
# Side road. Read 04, 07 and 10 first.
#
# A number takes 32 bits in float32, 16 in bf16, 8 in [[fp8]]. Fewer bits are fewer bytes, and tensor cores multiply them faster. With
# [[quantisation]] to int8 or int4 numbers share a scale; in [[weight-only quantisation]] the activations stay in bf16.
#
# **Why did fp8 not make my model twice as fast, why are my quantised weights slower, and why does TF32 change nothing?**

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
# First *calculate*: how many bytes does one token move in bf16 and in int4, and how many FLOP per byte? An H100's [[ridge point]] is
# near 300 in bf16.
# <!-- so bits: sheet('bf16') / sheet('memory_bytes_per_s') is 291 to 309 -->

# %% tags=["guess"]
g = guess("With one token, int4 weights make the layer ... times as fast as bf16", unit="x")

# %% tags=["run"]
one = {"tokens": 1, "width": 8192, "inputs": "ordinary"}
lines = ["float32", "tf32", "bf16", "fp8", "int4"]
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
pairs = {"int4": "bf16", "fp8": "bf16", "bf16": "float32", "tf32": "float32"}
compare(g, "bits", pairs, of="speed-up", at=one)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** TF32 has a roof seven times as high as float32. Why does bf16 gain here, and TF32 not? Double-click here
# <!-- so bits: sheet('tf32') / sheet('fp32') is 6.3 to 7.7 -->
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
# More tokens move the point to the right, as each weight is used more often; so do fewer bits, with fewer bytes. How high it
# may rise depends on the type that is *multiplied*: for weights in int8 or int4 that is bf16.
#
# Move *tokens* until int4 has lost its advantage. The roofline is the best a kernel could do; PyTorch's own loses much earlier (first
# figure).
#
# A normalisation computes little for each byte: with many tokens half the bits take half the time, in fp16 as in bf16 (below the
# roofline). TF32 is for matmuls only.
# <!-- so norms: at(width=8192); [busy(way, tokens=16384, dtype='bfloat16') / busy(way, tokens=16384, dtype='float32')
# for way in ('layer norm', 'rms norm')] is 0.47 to 0.53; [busy(way, tokens=16384, dtype='float16') / busy(way,
# tokens=16384, dtype='bfloat16') for way in ('layer norm', 'rms norm')] is 0.98 to 1.02; [busy(way, tokens=64,
# dtype='bfloat16') / busy(way, tokens=64, dtype='float32') for way in ('layer norm', 'rms norm')] > 0.8; [flop(way,
# tokens=16384, dtype='float32') / bytes(way, tokens=16384, dtype='float32') for way in ('layer norm', 'rms norm')] <
# sheet('fp32') / sheet('memory_bytes_per_s') / 10 -->

# %% tags=["explain"]
norms = {"tokens": 16384, "width": 8192, "dtype": "float32"}
both, halved = ["layer norm", "rms norm"], {"dtype": "bfloat16"}
display(
    drawing("bits-roofline", tokens=64, type="int4"),
    explore(
        "norms",
        at=norms,
        lines=both,
        sliders=[],
        show={"x": "dtype"},
        versus=halved,
        title="Do fewer bits speed up a normalisation?",
    ),
)

# %% [markdown] tags=["guess"]
# ## Guess: many tokens
#
# With 16384 tokens the layer is [[compute-bound]]. By the datasheet fp8 has twice the FLOP/s of bf16.
# <!-- so bits: sheet('fp8') / sheet('bf16') is 1.998 to 2.002 -->
#
# An fp8 number reaches from about 0.002 to 448, so in each call the activations must be scaled first: find the largest number,
# divide, cast.

# %% tags=["guess"]
w = guess("With 16384 tokens, fp8 with its cast is ... times as fast as bf16", unit="x")

# %% tags=["run"]
many = {**one, "tokens": 16384}
ways = ["bf16", "fp8", "fp8 cast", "int4"]
explore(
    "bits",
    at=many,
    lines=ways,
    sliders=["tokens", "width"],
    versus={"fp8 cast": "bf16"},
    unlock=w,
    title="Many tokens: what do fewer bits gain?",
)

# %% tags=["compare"]
compare(w, "bits", {"fp8 cast": "bf16", "fp8": "bf16", "int4": "bf16", "tf32": "float32"}, of="speed-up", at=many)

# %% [markdown] tags=["explain"]
# Without the cast fp8 comes near twice the speed, with it only a part of that is left. The matmul's work grows with tokens times width²,
# <!-- so bits: at(tokens=16384, width=8192, inputs='ordinary'); period('bf16') / period('fp8') > 1.8; period('bf16') /
# period('fp8-cast') is 1.1 to 1.4 -->
# the cast's with tokens times width. The cast weighs most in narrow layers. Here the cast runs operator by
# <!-- so bits: at(tokens=16384, width=1024, inputs='ordinary'); period('bf16') / period('fp8-cast') < 0.5 -->
# operator; compiled with a scale for each row, it reads them once in place of three times, and takes less than a fifth as long.
# <!-- so bits: at(tokens=16384, width=4096, inputs='ordinary'); (period('fp8-rows-compiled') - period('fp8-rows')) /
# (period('fp8-rows-cast') - period('fp8-rows')) < 1 / 5 -->
#
# With fewer tokens the host sets the pace: fp8 with its cast launches nine kernels where bf16 launches one or two. At 512 tokens its
# <!-- so bits: at(width=8192, inputs='ordinary'); kernels('fp8-cast', tokens=16384) is 9 to 9; kernels('bf16') is 1 to
# 2; min(kernels('bf16')) is 1 to 1; max(kernels('bf16')) is 2 to 2 -->
# kernels are done sooner than bf16's, yet the loop of calls is slower. The int4 kernel was written for few tokens: it widens all weights
# <!-- so bits: at(width=8192, inputs='ordinary'); busy('fp8-cast', tokens=512) < busy('bf16', tokens=512);
# period('fp8-cast', tokens=512) > period('bf16', tokens=512); busy('fp8-cast', tokens=256) > busy('bf16', tokens=256)
# -->
# again for each 16.
# <!-- so bits: at(width=8192, inputs='ordinary'); busy('int4', tokens=8) < busy('bf16', tokens=8); busy('int4',
# tokens=16) > busy('bf16', tokens=16); doubled(busy('int4', tokens=least(2))) > 1.3 -->
#
# ## What is lost
#
# A type keeps a *relative* error (but for tiny numbers) if each number has an exponent of its own: bf16 keeps 7 bits of mantissa,
# fp8 (e4m3) 3. An integer keeps an *absolute* error, a step of its scale. A few outlier channels make the scale large, and all others
# are rounded to a few steps.

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
#    takes longer to launch compiled code than the GPU to run it: [[overhead-bound]]. In a CUDA Graph it would pay.
# <!-- so bits: at(tokens=1, width=8192, inputs='ordinary'); busy('bf16') > 1.5 * busy('int8-fused'); host('int8-fused')
# > busy('int8-fused'); [period(way) for way in ('int8', 'int8-fused', 'int8-widened')] > period('bf16') -->
# 2. Only near 16384: the weights are widened once for all tokens. Even then it gains nothing: the matmul is bf16's.
# <!-- so bits: at(width=8192, inputs='ordinary'); period('bf16', tokens=4096) / period('int8-widened', tokens=4096) <
# 0.8; period('bf16', tokens=16384) / period('int8-widened', tokens=16384) is 0.9 to 1 -->
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
    title="8 bits a weight: why is it slower?",
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
# ## Your turn: scales for fp8
#
# `scales` returns what `a` and `b` are divided by before the cast to fp8 (e4m3); `a @ b` is multiplied by both
# again. Here rows of `a` and columns of `b` differ much in size, and one scale for each rounds the small ones to zero. *Make*
# scales that keep every row and column, then write `scales=scales`.


# %% tags=["your-turn", "exercise:13-scales", "makes"]
def scales(a, b):
    return a.abs().max() / 448, b.abs().max() / 448


check("13-scales", scales=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# All, errors and energy included, were written down before the data. The layer's figures show the time of a call in a loop; the
# normalisations' figure and claims about one token, kernels' own times.

# %% tags=["claims"]
claims("13")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - With few tokens a layer is memory-bound and its time at best follows the stored bits; with many it is compute-bound and its time follows
#   the type that is multiplied.
# - Weight-only types gain with few tokens and lose with many; fp8 gains with many, if the layer is wide enough to pay for the cast.
# - A type of floating-point numbers copes with outliers by its exponents; integers with one scale do not.
#
# Terms: [[fp8]], [[quantisation]], [[weight-only quantisation]], [[memory-bound]], [[compute-bound]], [[ridge point]].

# %% [markdown] tags=["work"]
# ## At work
#
# Count tokens per call first: with few, store fewer bits; with many, multiply fewer. `torchao` (`quantize_`)
# has the kernels.
#
# ```python
# import torch
# torch.set_float32_matmul_precision("high")      # TF32 for matmuls of float32
# layer, x = torch.nn.Linear(512, 512), torch.randn(64, 512)
# with torch.autocast("cpu", dtype=torch.bfloat16):  # "cuda" on a GPU: casts the weights too
#     y = layer(x)
# layer.to(torch.bfloat16)                        # once and for all: half the bytes
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road: [12 · What does torch.compile remove, and how does it come back?](12_compile.ipynb)
#
# Back: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb)
