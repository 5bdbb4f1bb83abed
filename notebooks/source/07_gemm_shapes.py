# ---
# jupyter:
#   readme: {short: 'GEMM shapes', asks: 'what does one more column cost?', before: '03, 04, 05'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 07 · What does one more column cost?
#
# Nearly all the arithmetic of a network is in matrix multiplications. Libraries call their kernel for it [[GEMM|GEMM]], *general matrix
# multiplication*. Here weights `W` (M × K) are multiplied by a mini-batch `x` (K × N), one column per sample. **Does one more sample
# cost a little more?**

# %% tags=["setup", "question"]
from brrr import suggest_shape
from brrr_course import check, claims, compare, drawing, explore, guess, model_lines

at = {"columns": 32, "size": 2048, "dtype": "float32"}

# %% [markdown] tags=["guess"]
# ## Guess: from one sample to 32
#
# M = K = 2048, float32 without [[tensor core|tensor cores]]. A matmul with this few columns is called *skinny*. With one column, all of `W`
# must be fetched for it: the matmul is [[memory-bound]]. With 32 columns each weight is also fetched once, but used more often.
#
# Then run: along x the columns, upwards the time. In NN, NT and TN the first letter is for `W`, the second for `x`: T is stored
# [[transposed operand|transposed]], N is not.

# %% tags=["guess"]
g = guess("With 32 columns instead of one, the matmul takes ... times as long", unit="x")

# %% tags=["run"]
batches = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096)
values = {"columns": batches, "size": (512, 1024, 2048, 4096, 8192)}
explore(
    "gemm",
    at=at,
    lines=["nn", "nt", "tn"],
    values=values,
    unlock=g,
    versus={"columns": 1},
    title="When does a matmul take longer with more columns?",
)

# %% tags=["compare"]
compare(g, "gemm", ["nn"], at=at, columns=(1, 32))

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Why do thirty-two samples take so little longer than one? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# The mini-batch shares the weights: they are read once for all samples. As long as reading them takes longer than the
# arithmetic, the matmul is memory-bound and one more sample costs little.
#
# </details>
#
# **A bad choice at two columns.** For *one* column the library has a kernel for a matrix and a vector. For *two* (NN) it takes a kernel
# made for many columns, and most of what that computes is thrown away: it takes longer than 32 columns. NT reads the same `W`, with
# another kernel, and takes less than half as long.
# <!-- so gemm: at(size=2048, dtype='float32'); span('nn', columns=2) > span('nn', columns=32); span('nt', columns=2) <
# span('nn', columns=2) / 2; span('nn', columns=32) / span('nn', columns=1) is 1 to 4 -->
#
# **Why do NN and TN differ?** Neighbours of `W` in memory lie along K if it is stored row by row, along M if transposed. A [[warp]], 32
# threads, loads at once only what lies side by side ([[coalesced access|coalesced]]), so each layout has its own kernels. With many
# columns the layouts hardly differ.
# <!-- so gemm: at(size=2048, dtype='float32', columns=1024); layouts = [span(way) for way in ('nn', 'nt', 'tn')];
# max(layouts) < 1.05 * min(layouts) -->
#
# A GEMM kernel cuts the result into [[tile|tiles]]. A [[thread block]] computes one tile on one [[multiprocessor]]. Cost comes in
# steps:
#
# - **[[tile quantisation]]**: a part of a tile costs as much as a whole one. Tiles = ⌈M / tile rows⌉ · ⌈N / tile columns⌉.
# - **[[wave quantisation]]**: blocks run in [[wave|waves]]. We count one block per multiprocessor: a large one leaves no room for a
#   second (small ones do, as in 04b). Waves = ⌈blocks / multiprocessors⌉, and
#   blocks / (waves · multiprocessors) is how full they are. 133 blocks on 132 multiprocessors: two waves, and
#   133 of 264 places are used.
# - **[[split-K]]**: with few tiles, the library cuts each sum into parts, a block each, and adds them up afterwards.

# %% tags=["explain"]
drawing("gemm-tiles", source="recorded:h200", columns=257, dtype="float32")

# %% [markdown] tags=["guess"]
# ## Guess: one column too many
#
# Now bfloat16, where tensor cores do the arithmetic. 1024 columns fill whole tiles. What does the 1025th cost?

# %% tags=["guess"]
w = guess("In bfloat16, 1025 columns take ... times as long as 1024", unit="x")

# %% tags=["run"]
near = {"columns": (896, 897, 928, 929, 960, 961, 992, 993, 1024, 1025)}
where = {"columns": 1025, "size": 2048, "dtype": "bfloat16"}
lines = ["nn", "linear", "padded"]
explore(
    "gemm",
    at=where,
    lines=lines,
    values=near,
    sliders=["columns"],
    unlock=w,
    versus={"columns": 1024},
    title="What does one column too many cost?",
)

# %% tags=["compare"]
compare(w, "gemm", ["nn"], at=where, columns=(1024, 1025))

# %% [markdown] tags=["explain"]
# That is neither a tile nor a wave. The rows of `x` are N numbers of two bytes apart (the [[leading dimension]]). With an odd N most rows
# do not begin at a multiple of 16 bytes, but the fast kernels for tensor cores load 16 bytes at once.
# [[misaligned access|Misaligned]] rows leave only older, slower kernels: for 1024 columns the library launches one made for this GPU
# (`nvjet_sm90...`), for 1025 one made for a GPU two generations older (`cutlass_75...`). That holds for the
# <!-- so gemm: at(size=2048, dtype='bfloat16'); span('nn', columns=1025) > 5 * span('nn', columns=1024) -->
# result's rows too.
#
# **It matters which dimension is contiguous.** A `Linear` layer stores each sample as a row. There the odd number is the number of
# rows, each row begins where it should, and the line *a Linear layer* hardly changes here (elsewhere it may).
# <!-- so gemm: at(size=2048, dtype='bfloat16'); span('linear', columns=1025) < 1.15 * span('linear', columns=1024) -->
#
# **[[padding|Padding]]** fixes the rest: in PyTorch, `F.pad(x, (0, -N % 8))`, multiply, and keep the columns that you need (the line
# *padded*). The next multiple of 8 is not always the best, for another size may get another
# <!-- so gemm: at(size=2048, dtype='bfloat16', columns=1025); span('padded') < span('nn') / 5 -->
# kernel. `suggest_shape` tries several:

# %% tags=["explain"]
suggest_shape(2048, 1025, 2048, "bfloat16", device="h200")

# %% [markdown] tags=["explore"]
# ## Explore: four small matmuls or one large one?
#
# Some weights multiply the same input: q, k and v of attention, the gates of a recurrent layer. Here are four, with 64 columns: one after
# the other, in a CUDA Graph, on [[stream|streams]], as a [[batched GEMM]] (`torch.bmm`), or stacked into one large matmul. Which is fastest,
# and why? Does it matter what the *numbers* are?
#
# <details><summary>Answers</summary>
#
# Stacked, then batched: one launch, and enough tiles for all multiprocessors. If your weights differ in size, a [[grouped GEMM]]
# <!-- so gemm_many: at(count=4, size=512, dtype='float32'); span('combined') < span('batched'); span('batched') <
# span('streams'); span('streams') < span('graph'); span('graph') < span('loop') -->
# does the same.
#
# Where power is the limit, the GPU lowers its clock, and zeros switch fewer transistors than random numbers: with tensor cores (TF32:
# float32 with fewer digits), zeros are faster. **Benchmark with data like yours.**
# <!-- so gemm: at(columns=4096, size=8192); [span('zeros', dtype=kind) / span('nn', dtype=kind) for kind in ('tf32',
# 'bfloat16', 'float16')] < 0.9; span('zeros', dtype='float32') / span('nn', dtype='float32') is 0.97 to 1.03 -->
#
# </details>

# %% tags=["explore"]
four = {"count": 4, "size": 512, "dtype": "float32"}
ways = ["loop", "graph", "streams", "batched", "combined"]
display(
    explore("gemm_many", at=four, lines=ways, show="ladder", title="Many small matmuls: one by one, or together?"),
    compare(None, "gemm", of="data"),
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: count the waves
#
# With 385 columns in float32 the library takes tiles of 128 rows × 256 columns and cuts each sum into 4 parts, a block each. M = 2048, and
# each of the GPU's 132 multiprocessors works on one block at a time. *Calculate* how many blocks there are, how many waves they
# make, and the largest number of columns that takes no longer. Then move the drawing to 385.

# %% tags=["your-turn", "exercise:07-waves", "calculates"]
check("07-waves", blocks=..., waves=..., columns=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: one line is slow
#
# A small language model in bfloat16 multiplies 12287 tokens by these weights. One of the four lines is far slower than its size
# allows. Which? Its size 50257 is the vocabulary: to how many words would you pad it?

# %% tags=["your-turn", "exercise:07-slow-line", "makes"]
for name, (m, n, k) in model_lines().items():
    print(f"{name:5}", suggest_shape(m, n, k, transposed=(False, True), device="h200").asked)

check("07-slow-line", line=..., words=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# From *Investigating performance of GPU BLAS Libraries* and two studies after it, measured ten years ago.

# %% tags=["claims"]
claims("07")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - A matmul's time is a staircase: count tiles and waves before you blame the GPU.
# - A mini-batch shares the weights: its first samples cost far less than one each.
# - In short types the contiguous dimension must be a multiple of 8: pad it, or store the matrix the other way.
#
# Terms: [[GEMM]], [[tile quantisation]], [[wave quantisation]], [[leading dimension]], [[padding]], [[batched GEMM]].

# %% [markdown] tags=["work"]
# ## At work
#
# `torch.profiler.profile(record_shapes=True)` finds the slow shape. Round it up where the weights are made, and stack what multiplies
# the same input:
#
# ```python
# import torch
# vocabulary, width = 50257, 768
# head = torch.nn.Linear(width, -(-vocabulary // 8) * 8)
# qkv = torch.nn.Linear(width, 3 * width)
# x = torch.randn(64, width)
# logits = head(x)[:, :vocabulary]
# q, k, v = qkv(x).chunk(3, dim=-1)
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [10 · What holds *your* model back?](10_diagnose_your_model.ipynb) asks it of a whole model. Side roads: [08 · What if each step
# waits for the last?](08_rnn.ipynb) and [09 · Faster than the peak?](09_strassen.ipynb).
#
# Back: [05 · What does fusion save?](05_fusion.ipynb)
