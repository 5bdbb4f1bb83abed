# ---
# jupyter:
#   readme: {short: 'multiplied bits', asks: 'when do TF32 and fp8 help? For engineers', before: '13'}
#   brrr:
#     leaves: '13'
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 13b · When does multiplying in fewer bits help?
#
# Side road, for engineers.
# Know before: [13](13_fewer_bits.ipynb)'s *weight-only quantisation*.
#
# Lesson 13 multiplies in bf16. Here fewer bits are *multiplied*: tensor cores do more FLOP/s in shorter types.
#
# **Why did [[fp8]] not make my model twice as fast, and why does TF32 change nothing?**
#
# You will be able to:
#
# - predict when TF32 and fp8 gain
# - calculate how wide a layer pays for its cast
# - write scales that keep small rows and columns

# %% tags=["setup", "question"]
import torch
from brrr_course import check, claims, compare, explore, guess

# %% [markdown] tags=["guess"]
# ## Guess: TF32 with many tokens
#
# One Linear layer of width 8192, without a bias. With 16384 tokens it is [[compute-bound]].
#
# TF32 is a way to *multiply*: in memory the numbers are float32, and the tensor cores round them to 10 bits of mantissa. By the
# datasheet its roof is seven times as high as float32's.
# <!-- so bits: sheet('tf32') / sheet('fp32') is 6.3 to 7.7 -->

# %% tags=["guess"]
g = guess("With 16384 tokens, TF32 makes the layer ... times as fast as float32", unit="x")

# %% tags=["run"]
many = {"tokens": 16384, "width": 8192, "inputs": "ordinary"}
explore(
    "bits",
    at=many,
    lines=["float32", "tf32", "bf16"],
    sliders=["tokens"],
    versus={"tf32": "float32"},
    unlock=g,
    title="What does TF32 gain?",
)

# %% tags=["compare"]
compare(g, "bits", {"tf32": "float32", "bf16": "float32"}, of="speed-up", at=many)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Move *tokens* to one. Why does TF32 gain nothing there, and bf16 much? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# With one token each weight is used once: [[memory-bound]]. Only bytes count: TF32's are float32's, bf16's are half.
# <!-- so bits: at(tokens=1, width=8192, inputs='ordinary'); busy('float32') / busy('tf32') is 0.95 to 1.05;
# busy('float32') / busy('bf16') > 2 -->
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import torch, torch.utils.benchmark
# device, tokens = ("cuda", 16384) if torch.cuda.is_available() else ("cpu", 64)
# x, w = (torch.randn(n, 8192, device=device) for n in (tokens, 8192))
# for precision in ("highest", "high"):  # on a GPU float32, then TF32
#     torch.set_float32_matmul_precision(precision)
#     print(torch.utils.benchmark.Timer("x @ w.T", globals={"x": x, "w": w}).blocked_autorange())
# ```
#
# </details>
#
# **A normalisation has no matmul**, so TF32 leaves it as it is.
# It computes little for each byte: with many tokens half the bits take about half the time.
# <!-- so norms: at(width=8192); [busy(way, tokens=16384, dtype='bfloat16') / busy(way, tokens=16384, dtype='float32')
# for way in ('layer norm', 'rms norm')] is 0.47 to 0.55; [busy(way, tokens=16384, dtype='float16') / busy(way,
# tokens=16384, dtype='bfloat16') for way in ('layer norm', 'rms norm')] is 0.98 to 1.02; [busy(way, tokens=64,
# dtype='bfloat16') / busy(way, tokens=64, dtype='float32') for way in ('layer norm', 'rms norm')] > 0.8; [flop(way,
# tokens=16384, dtype='float32') / bytes(way, tokens=16384, dtype='float32') for way in ('layer norm', 'rms norm')] <
# sheet('fp32') / sheet('memory_bytes_per_s') / 10 -->

# %% tags=["explain"]
norms = {"tokens": 16384, "width": 8192, "dtype": "float32"}
explore(
    "norms",
    at=norms,
    lines=["layer norm", "rms norm"],
    sliders=[],
    show={"x": "dtype"},
    versus={"dtype": "bfloat16"},
    title="Do fewer bits speed up a normalisation?",
)

# %% [markdown] tags=["guess"]
# ## Guess: fp8 with its cast
#
# By the datasheet fp8 has twice the FLOP/s of bf16.
# <!-- so bits: sheet('fp8') / sheet('bf16') is 1.998 to 2.002 -->
#
# But its numbers reach only from about 0.002 to 448, so each call must scale the activations first: find the largest number, divide, cast.

# %% tags=["guess"]
w = guess("With 16384 tokens, fp8 with its cast is ... times as fast as bf16", unit="x")

# %% tags=["run"]
explore(
    "bits",
    at=many,
    lines=["bf16", "fp8", "fp8 cast"],
    sliders=["tokens", "width"],
    versus={"fp8 cast": "bf16"},
    unlock=w,
    title="What does fp8 gain, with its cast and without?",
)

# %% tags=["compare"]
compare(w, "bits", {"fp8 cast": "bf16", "fp8": "bf16"}, of="speed-up", at=many)

# %% [markdown] tags=["explain"]
# Without the cast fp8 comes near twice the speed; with it, less than half of that gain is left. The matmul's work grows with tokens times
# <!-- so bits: at(tokens=16384, width=8192, inputs='ordinary'); period('bf16') / period('fp8') > 1.8; period('bf16') /
# period('fp8-cast') is 1.1 to 1.4; period('bf16') / period('fp8-cast') - 1 < (period('bf16') / period('fp8') - 1) / 2 -->
# width², the cast's with tokens times width. So the cast weighs most in narrow layers.
# <!-- so bits: at(tokens=16384, width=1024, inputs='ordinary'); period('bf16') / period('fp8-cast') < 0.5 -->
#
# With fewer tokens the host sets the pace: at 512, fp8 with its cast launches eight kernels where bf16 launches one. They are done
# <!-- so bits: at(width=8192, inputs='ordinary', tokens=512); kernels('fp8-cast') is 8 to 8; kernels('bf16') is 1 to 1 -->
# sooner than bf16's, yet the loop of calls is slower.
# <!-- so bits: at(width=8192, inputs='ordinary'); busy('fp8-cast', tokens=512) < busy('bf16', tokens=512);
# period('fp8-cast', tokens=512) > period('bf16', tokens=512); busy('fp8-cast', tokens=256) > busy('bf16', tokens=256)
# -->
#
# ## What is lost
#
# Where each number has an exponent, the error is *relative*: TF32 keeps 10 bits of mantissa, bf16 7, fp8 (e4m3) 3. An integer's error is
# *absolute*, a step of its scale: a few outlier channels make the scale large, and the others are rounded to a few steps.

# %% [markdown] tags=["explore"]
# ## Explore: compile the cast
#
# Width 4096: fp8 has a scale for each row of activations; the cast runs operator by operator, or compiled.
#
# 1. With 16384 tokens: what does compiling the cast change?
# 2. Move *tokens* to 256. The compiled kernels are done sooner than bf16's. Why does the loop take longer?
#
# <details><summary>Answers</summary>
#
# 1. Operator by operator fp8 is slower than bf16; compiled it is faster. The compiled cast reads the activations once in place of three
#    times, and takes about a quarter as long.
# <!-- so bits: at(tokens=16384, width=4096, inputs='ordinary'); (period('fp8-rows-compiled') - period('fp8-rows')) /
# (period('fp8-rows-cast') - period('fp8-rows')) is 0.22 to 0.3; period('fp8-rows-cast') > period('bf16');
# period('fp8-rows-compiled') < period('bf16') -->
# 2. The host takes longer to launch compiled code than the GPU to run it: [[overhead-bound]].
# <!-- so bits: at(tokens=256, width=4096, inputs='ordinary'); busy('fp8-rows-compiled') < busy('bf16');
# period('fp8-rows-compiled') > period('bf16'); host('fp8-rows-compiled') > busy('fp8-rows-compiled') -->
#
# </details>

# %% tags=["explore"]
rows = ["bf16", "fp8 rows cast", "fp8 rows compiled"]
explore(
    "bits",
    at={**many, "width": 4096},
    lines=rows,
    sliders=["tokens"],
    values={"tokens": (1, 16, 256, 4096, 16384)},
    versus={"fp8 rows compiled": "bf16"},
    title="What does compiling the cast change?",
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: how wide must the layer be?
#
# With many tokens an H200 does 989 TFLOP in bf16 a second, and twice as many in fp8; its memory moves 4.8 TB. For each activation the cast
# moves 9 bytes operator by operator, and 3 compiled. *Calculate* for both from which width on the faster matmul pays for the cast.

# %% tags=["your-turn", "exercise:13b-width", "calculates"]
check("13b-width", width=..., compiled_width=...)

# %% [markdown] tags=["your-turn"]
# ## More: scales for fp8
#
# `scales` returns what `a` and `b` are divided by before the cast to fp8 (e4m3); `a @ b` is multiplied by both
# again. Rows of `a` and columns of `b` differ much in size, and one scale for each rounds the small ones to zero. *Make* scales that keep
# every row and column, then write `scales=scales`.


# %% tags=["your-turn", "exercise:13b-scales", "makes"]
def scales(a, b):
    return a.abs().max() / 448, b.abs().max() / 448


check("13b-scales", scales=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# The layer's figures show a call's time in a loop; the normalisations' figure and claims about one token, the kernels' own.

# %% tags=["claims"]
claims("13b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** On an H200, cast a layer of width 8192 to fp8 from 2048 to 4096 tokens on: cast operator by operator, in a loop it gains a tenth there.
# <!-- so bits: at(width=8192, inputs='ordinary'); period('fp8-cast', tokens=least(4096)) < period('bf16', tokens=least(4096));
# period('fp8-cast', tokens=most(512)) > period('bf16', tokens=most(512)); count(period('fp8-cast')) is 15 to 15 -->
#
# - With many tokens a layer is compute-bound, and its time follows the type that is multiplied.
# - fp8 gains with many tokens, if the layer is wide enough to pay for the cast.
# - A type of floating-point numbers copes with outliers by its exponents; integers with one scale do not.
#
# Terms: [[compute-bound]], [[memory-bound]], [[fp8]], [[overhead-bound]].

# %% [markdown] tags=["work"]
# ## At work
#
# Count tokens per call first: with many, multiply fewer bits. `torchao` has fp8 with its cast compiled.
#
# ```python
# import torch
# torch.set_float32_matmul_precision("high")      # TF32 for matmuls of float32
# layer, x = torch.nn.Linear(512, 512), torch.randn(64, 512)
# with torch.autocast("cpu", dtype=torch.bfloat16):  # "cuda" on a GPU: casts the weights too
#     y = layer(x)
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road: [15 · Why is my GPU idle although the model is fast?](15_feeding.ipynb)
#
# Back: [13 · When do weights in fewer bits help?](13_fewer_bits.ipynb)
