# ---
# jupyter:
#   readme: {short: 'GEMM shapes', asks: 'what does one more column cost?', before: '03, 04'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 07 · What does one more column cost?
#
# Nearly all the arithmetic of a network is in products of matrices ([[GEMM|GEMM]]): weights `W` (M × K) times a mini-batch
# `x` (K × N), a column a sample. **Does one sample more cost a little more?**

# %% tags=["setup", "question"]
from IPython.display import display

from brrr import suggest_shape
from brrr_course import check, claims, compare, drawing, explore, guess, model_lines, reachable

at = reachable("gemm", columns=1, size=2048, dtype="float32")

# %% [markdown] tags=["guess"]
# ## Guess: from one sample to 32
#
# M = K = 2048, float32 without [[tensor core|tensor cores]]. A product with one column has to fetch all of `W` for it: it is
# [[memory-bound]]. With 32 columns each weight is fetched once, too, and used by all of them.
#
# Then run: along x the columns, upwards FLOP/s. Move *size* and *type*, and compare NT and TN, where `x` or `W` is stored
# [[transposed operand|transposed]].

# %% tags=["guess"]
g = guess("With 32 columns instead of one, the product takes ... times as long", unit="x")

# %% tags=["run"]
batches = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096)
values = {"columns": batches, "size": (512, 1024, 2048, 4096, 8192)}
explore("gemm", at=at, lines=["nn", "nt", "tn"], values=values, show="rate", unlock=g)

# %% tags=["compare"]
compare(g, "gemm", ["nn"], **{**at, "columns": (1, 32)})

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Thirty-two samples take far less than thirty-two times as long as one. What do they share? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# The mini-batch shares the weights: they are read once, for all its samples, and the product is memory-bound as long as reading
# them takes longer than the arithmetic.
#
# </details>
#
# So many samples cost far less than one each. *Two* columns are the worst choice in
# float32: for one the library has a kernel for a matrix and a vector, for two it takes a kernel made for many, and most of
# what that computes is thrown away.
#
# A kernel cuts the result into [[tile|tiles]]; a [[thread block]] computes one of them, on one [[multiprocessor]]. So
# cost comes in steps:
#
# - **[[tile quantisation]]**: a part of a tile costs as much as a whole one;
# - **[[wave quantisation]]**: the multiprocessors work through the tiles in [[wave|waves]], and one tile more may be a wave of
#   its own;
# - **the library's choice**: at some sizes it takes another kernel, or cuts each sum into parts ([[split-K]]) to have more
#   blocks.
#
# Where NN and TN differ at your size, store the weights the faster way once: **pre-transposing** costs one copy.

# %% tags=["explain"]
drawing("gemm-tiles", source="recorded:h200", columns=385, dtype="float32")

# %% [markdown] tags=["guess"]
# ## Guess: one column too many
#
# Now bfloat16, where tensor cores do the arithmetic. 1024 columns fill whole tiles. What does the 1025th cost?

# %% tags=["guess"]
w = guess("In bfloat16, 1025 columns take ... times as long as 1024", unit="x")

# %% tags=["run"]
near = {"columns": (896, 897, 928, 929, 960, 961, 992, 993, 1024, 1025)}
where = reachable("gemm", columns=1025, size=2048, dtype="bfloat16")
lines = ["nn", "linear", "padded"]
explore("gemm", at=where, lines=lines, values=near, sliders=["columns"], unlock=w)

# %% tags=["compare"]
compare(w, "gemm", ["nn"], **{**where, "columns": (1024, 1025)})

# %% [markdown] tags=["explain"]
# That is no tile and no wave. Rows of `x` and of the result are N numbers of two bytes; if N is odd, they begin at odd
# places (the [[leading dimension]]). Tensor cores' kernels load 16 bytes at once, and such [[misaligned access]] leaves the
# library only older, slower kernels: the drawing above names them. Set its type to bfloat16 and go to 1024, 1025 and 1032.
#
# **It matters which dimension is contiguous.** A `Linear` layer stores a sample as a row: there the odd number is the number of
# rows, each row begins where it should, and the line *a Linear layer* hardly notices. And **[[padding]]** mends the rest: copy
# `x` to rows of whole 16 bytes, multiply, and look at the part that you need.

# %% tags=["explain"]
suggest_shape(2048, 1025, 2048, "bfloat16", device="h200")

# %% [markdown] tags=["explore"]
# ## Explore: four small products or a large one?
#
# The gates of a recurrent layer, the heads of an attention layer, q, k and v: several weights times the same mini-batch of
# 64 columns. One after the other, on [[stream|streams]], as a [[batched GEMM]], as a [[grouped GEMM]] (which may have
# different sizes), or with all weights below each other as one product.
#
# And what do the *numbers* do? The table has a large product, again and again for a second: where power is the limit, the GPU
# lowers its clock, and zeros switch fewer transistors than random numbers. **Benchmark with data like yours.**

# %% tags=["explore"]
four = reachable("gemm_many", count=4, size=512, dtype="float32")
ways = ["loop", "graph", "streams", "batched", "grouped", "combined"]
display(explore("gemm_many", at=four, lines=ways, show="ladder"), compare(None, "gemm", of="data"))

# %% [markdown] tags=["your-turn"]
# ## Your turn: count the waves
#
# With 385 columns in float32 the library takes tiles of 128 rows × 256 columns and cuts each sum into 4 parts. M = 2048, the
# GPU has 132 multiprocessors, each works on one piece at a time. *Calculate* how many pieces of work there are, how many waves they
# make, and the largest number of columns that takes no longer. Then look at the drawing.

# %% tags=["your-turn", "exercise:07-waves", "calculates"]
check("07-waves", pieces=..., waves=..., columns=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: one line is slow
#
# A small language model in bfloat16 multiplies 12287 tokens by these weights. One of the four lines is far slower than its size
# allows. Which one, and what would you make of its 50257 words?

# %% tags=["your-turn", "exercise:07-slow-line", "makes"]
for name, (m, n, k) in model_lines().items():
    print(f"{name:5}", suggest_shape(m, n, k, transposed=(False, True), device="h200").asked)

check("07-slow-line", line=..., words=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# The source is *Investigating performance of GPU BLAS Libraries* and two studies after it, measured ten years ago. Each
# sentence is judged on your source. Live, measure the points first.

# %% tags=["claims"]
claims("07")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - A product's time is a staircase: count tiles and waves before you blame the GPU.
# - A mini-batch shares the weights: its first samples cost far less than one each, and a sample in a tile that is there
#   already costs nothing.
# - In short types the contiguous dimension must be a multiple of 8; pad it, or store the matrix the other way.
#
# Terms: [[GEMM]], [[tile quantisation]], [[wave quantisation]], [[leading dimension]], [[padding]], [[batched GEMM]].

# %% [markdown] tags=["work"]
# ## At work
#
# Find the slow shape, pad it once where the weights are made, and stack what multiplies the same input:
#
# ```python
# import torch
# x = torch.randn(64, 768, dtype=torch.bfloat16)
# head = torch.nn.Linear(768, -(-50257 // 8) * 8, dtype=torch.bfloat16)
# qkv = torch.nn.Linear(768, 3 * 768, dtype=torch.bfloat16)
# with torch.profiler.profile(record_shapes=True) as found:
#     logits, (q, k, v) = head(x)[..., :50257], qkv(x).chunk(3, dim=-1)
# print(found.key_averages(group_by_input_shape=True).table(row_limit=5))
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [10 · What holds *your* model back?](10_diagnose_your_model.ipynb) asks it of a whole model. Beside the road, [08 · What if each step
# waits for the last?](08_rnn.ipynb) has products that are too small, and [09 · Faster than the peak?](09_strassen.ipynb) multiplies less.
#
# Back: [06b · Can a whole network be one kernel?](06b_megakernel.ipynb)
