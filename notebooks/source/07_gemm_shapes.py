# ---
# jupyter:
#   readme: {short: 'GEMM shapes', asks: 'what does one more column cost?', before: '03, 04, 05'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 07 · What does one more column cost?
#
# Most of a network's arithmetic is *general matrix multiplication*, [[GEMM]]. Here weights `W` (M × K) are multiplied by a mini-batch `x` (K × N), one column per sample. **Does one more sample
# cost a little more?**
#
# You will be able to:
#
# - count the [[tile|tiles]] and [[wave|waves]] of a matmul
# - predict at which size its time makes a step
# - write the rule that counts them
#
# Know before: [04](04_memory_bound.ipynb)'s *memory-bound*.

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, drawing, explore, guess

at = {"columns": 32, "size": 2048, "dtype": "float32"}

# %% [markdown] tags=["guess"]
# ## Guess: from one sample to 32
#
# M = K = 2048, float32 without [[tensor core|tensor cores]]. A matmul with this few columns is called *skinny*. With one column, each
# weight is fetched and used once: the matmul is [[memory-bound]]. With 32 columns each is also fetched once, but used more often.

# %% tags=["guess"]
g = guess("With 32 columns instead of one, the matmul takes ... times as long", unit="x")

# %% tags=["run"]
batches = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096)
values = {"columns": batches, "size": (512, 1024, 2048, 4096, 8192)}
explore(
    "gemm",
    at=at,
    lines=["nn"],
    values=values,
    unlock=g,
    versus={"columns": 1},
    title="When does a matmul take longer with more columns?",
)

# %% tags=["compare"]
compare(g, "gemm", ["nn"], at=at, columns=(1, 32))

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Why do 32 samples take far less than 32 single ones? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# The mini-batch shares the weights: each is read once. So 32 samples move only a few percent more bytes than one.
# <!-- so gemm: at(size=2048, dtype='float32'); bytes('nn', columns=32) / bytes('nn', columns=1) is 1.02 to 1.05 -->
#
# They take longer than those bytes: the kernel reaches about a quarter of the memory's bandwidth and of the peak FLOP/s. The
# <!-- so gemm: at(columns=32, size=2048, dtype='float32'); bytes('nn') / span('nn') / sheet('memory_bytes_per_s') is
# 0.2 to 0.3; flop('nn') / span('nn') / sheet('fp32') is 0.2 to 0.3 -->
# matrix is too skinny to fill the GPU.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import torch.utils.benchmark
# torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
# w = torch.randn(2048, 2048)
# for n in (1, 32):
#     timer = torch.utils.benchmark.Timer("w @ x", globals={"w": w, "x": torch.randn(2048, n)})
#     print(n, timer.blocked_autorange())
# ```
#
# </details>
#
# Two columns take longer than 32: they get a kernel that is made for many.
# <!-- so gemm: at(size=2048, dtype='float32'); span('nn', columns=2) > span('nn', columns=32); span('nn', columns=32) /
# span('nn', columns=1) is 1 to 4 -->

# %% [markdown] tags=["guess"]
# ## Guess: the 129th column
#
# 128 columns and then one more: less than a hundredth of the work.
#
# Run, and drag the figure. Below the times are the result, cut into rectangles, and where these run.

# %% tags=["guess"]
w = guess("In float32, 129 columns take ... times as long as 128", unit="x")

# %% tags=["run"]
drawing("gemm-tiles", source="recorded:h200", columns=129, dtype="float32", unlock=w)

# %% tags=["compare"]
compare(w, "gemm", ["nn"], at=at, columns=(128, 129))

# %% [markdown] tags=["explain"]
# A GEMM kernel cuts the result into [[tile|tiles]]. A [[thread block]] computes one tile on one [[multiprocessor]]. So the time has
# steps, for two reasons.
#
# **[[tile quantisation|Tile quantisation]]**: a part of a tile costs as much as a whole one. Tiles = ⌈M / tile rows⌉ · ⌈N / tile columns⌉.
# For 129 columns the library takes tiles of 256 columns (its kernel's name has them first: 256x128), and half of their work is wasted. The
# 130th to the 256th are nearly free.
# <!-- so gemm: at(size=2048, dtype='float32'); span('nn', columns=129) / span('nn', columns=128) is 1.4 to 1.6;
# span('nn', columns=256) < 1.06 * span('nn', columns=129) -->
#
# **[[wave quantisation|Wave quantisation]]**: blocks run in [[wave|waves]]. Waves = ⌈blocks / multiprocessors⌉, and
# blocks / (waves · multiprocessors) is how full they are. 133 blocks on 132 multiprocessors: two waves, and 133 of 264 places are used.
# We count one block per multiprocessor: a large one takes most of its registers. A kernel that fills the GPU leaves no place for one in a
# second stream.
#
# With few tiles most multiprocessors would be idle. Then the library cuts each sum into parts, a block each, and adds them up
# afterwards: **[[split-K]]**. That is how 16 tiles become 128 blocks at 129 columns.
#
# The library chooses tiles and parts anew for each size. So steps differ in width. A new size may need a kernel that must be loaded first, as an epoch's last, smaller batch does (`drop_last=True` avoids it).
#
# **Alignment**: in 16-bit types the fast kernels want rows that begin at multiples of 16 bytes, 8 numbers. 1025 columns take over
# seven times as long as 1024 ([07c](07c_gemm_layouts.ipynb)). So pad a vocabulary of 50257 to 50304: choose multiples of 8, better of 64, which fill
# <!-- so gemm: at(size=2048, dtype=['bfloat16', 'float16']); span('nn', columns=1025) > 7 * span('nn', columns=1024); 50304 / 64
# == 786 -->
# tiles too.
#
# `set_float32_matmul_precision("high")` allows TF32. It rounds a float32 matmul's inputs to about three digits, so it is not the default.
# bfloat16 also halves the bytes, so memory-bound operators gain too. It has float32's range; float16 needs loss scaling. `autocast` keeps
# norms and softmax in float32.
# <!-- by definition: TF32 has 10 bits of mantissa, bfloat16 the exponent of float32 -->

# %% [markdown] tags=["explore"]
# ## Explore: how many columns are enough?
#
# At size 2048, from how many columns on does the matmul reach nine tenths of its highest rate?
#
# <details><summary>Answer</summary>
#
# From 1024 on. With fewer columns, large tiles may be too few to fill the GPU.
# <!-- so gemm: at(size=2048, dtype='float32'); [flop('nn', columns=n) / span('nn', columns=n) / (flop('nn',
# columns=4096) / span('nn', columns=4096)) for n in (1024, 2048)] > 0.9; [flop('nn', columns=n) / span('nn', columns=n) /
# (flop('nn', columns=4096) / span('nn', columns=4096)) for n in (128, 256, 512)] < 0.9 -->
#
# </details>

# %% tags=["explore"]
explore(
    "gemm",
    at={**at, "columns": 1024},
    lines=["nn"],
    sliders=["columns", "size"],
    values={**values, "columns": batches[6:]},
    show="rate",
    title="How many FLOP per second?",
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
# ## More: a function for the staircase
#
# *Make* a function that returns the number of waves of any result: `m` rows and `n` columns in tiles of `rows` × `columns`, each sum in so
# many `parts`, on 132 multiprocessors. Then write `waves=waves`.


# %% tags=["your-turn", "exercise:07-staircase", "makes"]
def waves(m, n, rows, columns, parts):
    return m * n * parts / (rows * columns * 132)


check("07-staircase", waves=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# From *Investigating performance of GPU BLAS Libraries* and two later studies, ten years ago.

# %% tags=["claims"]
claims("07")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Fill whole tiles: in float32 at size 2048, 129 columns take about half again as long as 128.
# <!-- so gemm: at(size=2048, dtype='float32'); span('nn', columns=129) / span('nn', columns=128) is 1.4 to 1.6 -->
#
# - A mini-batch shares the weights: 32 samples cost far less than 32 single ones.
# - A part of a tile costs as much as a whole one, and a part of a wave as much as a full one.
# - A matmul's time is a staircase: count tiles and waves before you blame the GPU.
#
# Terms: [[GEMM]], [[tile]], [[tile quantisation]], [[wave]], [[wave quantisation]], [[split-K]].

# %% [markdown] tags=["work"]
# ## At work
#
# Plot samples per second against the batch size, and take the batch where the curve bends. Beyond it a step only takes longer and needs
# more memory. (The batch also changes how training converges.) On a GPU this table names the library's kernels, with their tiles:
#
# ```python
# import torch
# from torch.profiler import profile
# torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
# w, x = torch.randn(2048, 2048), torch.randn(2048, 129)
# with profile(record_shapes=True) as found:
#     w @ x[:, :128].contiguous()
#     w @ x
# print(found.key_averages(group_by_input_shape=True).table(row_limit=9))
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [10 · What holds *your* model back?](10_diagnose_your_model.ipynb) asks it of a whole model. Side roads: [07c · Why is an odd size so
# slow?](07c_gemm_layouts.ipynb), [08 · What if each step waits for the last?](08_rnn.ipynb) and [09 · Faster than the
# peak?](09_strassen.ipynb).
#
# Back: [05 · What does fusion save?](05_fusion.ipynb)
