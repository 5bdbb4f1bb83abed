# ---
# jupyter:
#   readme: {short: 'GEMM layouts', asks: 'why is an odd size so slow? For engineers', before: '07'}
#   brrr:
#     leaves: '07'
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 07c · Why is an odd size so slow?
#
# Side road, for engineers.
# Know before: [07](07_gemm_shapes.ipynb)'s *tile* and *wave*.
#
# **Why can one column too many make a matmul several times as slow, and does it help to store the matrix in another way?**
#
# You will be able to:
#
# - calculate where the rows of a matrix begin
# - find the slow matmul of a model
# - combine small matmuls into a large one

# %% tags=["setup", "question"]
from brrr import suggest_shape
from brrr_course import check, claims, compare, explore, guess, model_lines

# %% [markdown] tags=["guess"]
# ## Guess: one column too many
#
# Weights `W` (2048 × 2048) are multiplied by a [[mini-batch]] `x`, one column per sample, in bfloat16, by tensor cores.
# 1024 columns fill whole tiles.

# %% tags=["guess"]
g = guess("In bfloat16, 1025 columns take ... times as long as 1024", unit="x")

# %% tags=["run"]
near = {"columns": (896, 897, 928, 929, 960, 961, 992, 993, 1024, 1025)}
where = {"columns": 1025, "size": 2048, "dtype": "bfloat16"}
explore(
    "gemm",
    at=where,
    lines=["nn", "linear", "padded"],
    values=near,
    sliders=["columns"],
    unlock=g,
    versus={"columns": 1024},
    title="What does one column too many cost?",
)

# %% tags=["compare"]
compare(g, "gemm", ["nn"], at=where, columns=(1024, 1025))

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** `x` lies in memory row by row. Where do its rows begin if each has 1025 numbers of two bytes? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# The rows of `x` begin N numbers after each other: that distance is the [[leading dimension]]. With an odd N most rows do not begin at a
# multiple of 16 bytes, but the fast kernels for tensor cores load 16 bytes at once.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import torch
# from torch.utils.benchmark import Timer
# w = torch.randn(2048, 2048, device="cuda" if torch.cuda.is_available() else "cpu").bfloat16()
# for n in (1024, 1025):
#     timer = Timer("w @ x", globals={"w": w, "x": torch.randn(2048, n, device=w.device).bfloat16()})
#     print(n, timer.blocked_autorange().median)
# ```
#
# </details>
#
# **[[misaligned access|Misaligned]] rows** leave only older, slower kernels: for 1024 columns the library launches one made for this GPU,
# for 1025 one of two generations before. The same holds for the rows of the result.
# <!-- so gemm: at(size=2048, dtype='bfloat16'); span('nn', columns=1025) > 5 * span('nn', columns=1024) -->
#
# **It matters which dimension is contiguous.** A `Linear` layer stores each sample as a row. There the number of rows is odd, each
# begins where it should, and 1025 samples take about a tenth longer. An odd number of *outputs* would hurt it.
# <!-- so gemm: at(size=2048, dtype='bfloat16'); span('linear', columns=1025) / span('linear', columns=1024) is 1.05 to 1.15 -->
#
# **[[padding|Padding]]** fixes the rest. In PyTorch: `F.pad(x, (0, -N % 8))`, multiply, and keep the columns you need (the line
# *padded*). Another size may get a better kernel. `suggest_shape` tries several (*smaller* would drop a column):
# <!-- so gemm: at(size=2048, dtype='bfloat16', columns=1025); span('padded') < span('nn') / 5 -->

# %% tags=["explain"]
suggest_shape(2048, 1025, 2048, "bfloat16", device="h200")

# %% [markdown] tags=["guess"]
# ## Guess: four small matmuls or one large one?
#
# Some weights multiply the same input: q, k and v of attention, the gates of a recurrent layer. Here are four of 512 × 512, with 64
# columns, in float32. They can run one after the other, in a CUDA Graph, on [[stream|streams]], as a
# [[batched GEMM]] (`torch.bmm`), or as one large matmul, their weights stacked beforehand.

# %% tags=["guess"]
s = guess("One large matmul is ... times as fast as four in a CUDA Graph", unit="x")

# %% tags=["run"]
four = {"count": 4, "size": 512, "dtype": "float32"}
explore(
    "gemm_many",
    at=four,
    lines=["loop", "graph", "streams", "batched", "combined"],
    show="ladder",
    unlock=s,
    versus={"combined": "graph"},
    title="Many small matmuls: one by one, or together?",
)

# %% tags=["compare"]
compare(s, "gemm_many", {"combined": "graph", "batched": "graph", "streams": "graph"}, of="speed-up", at=four)

# %% [markdown] tags=["explain"]
# A small matmul leaves the GPU under-filled. The stacked one is fastest: one launch, with the tiles of four. If your
# weights differ in size, a [[grouped GEMM]] is one launch, too.
# <!-- so gemm_many: at(count=4, size=512, dtype='float32'); span('combined') < span('batched'); span('batched') <
# span('streams'); span('streams') < span('graph'); span('graph') < span('loop') -->

# %% [markdown] tags=["explore"]
# ## Explore: which layout?
#
# A matrix may lie in memory [[transposed operand|transposed]]. In NN, NT and TN the first letter is for `W`, the second for `x`: T is
# transposed, N is not.
#
# 1. With two columns, how much faster is NT than NN? Why does the layout matter there?
# 2. From 1024 columns on, which layout is the fastest?
# 3. The table: does it matter what the *numbers* are?
#
# <details><summary>Answers</summary>
#
# 1. Two and a half times. Neighbours of `x` in memory lie along N, or along K if it is transposed. A [[warp]] loads at once only what lies
#    side by side ([[coalesced access|coalesced]]). So each layout has its own kernels, and for few columns the library may choose badly.
# <!-- so gemm: at(size=2048, dtype='float32', columns=2); span('nn') / span('nt') is 2.4 to 2.6 -->
# 2. None: they differ by a few percent.
# <!-- so gemm: at(size=2048, dtype='float32', columns=[1024, 2048, 4096]); max(span('nn'), span('nt'), span('tn')) / min(span('nn'),
# span('nt'), span('tn')) is 1 to 1.05 -->
# 3. With tensor cores, yes (TF32 is float32 with fewer digits): power is the limit, and zeros switch fewer transistors, so the clock
#    stays higher. **Benchmark with data like yours.**
# <!-- so gemm: at(columns=4096, size=8192); [span('zeros', dtype=kind) / span('nn', dtype=kind) for kind in ('tf32',
# 'bfloat16', 'float16')] < 0.9; span('zeros', dtype='float32') / span('nn', dtype='float32') is 0.97 to 1.03 -->
#
# </details>

# %% tags=["explore"]
few = {"columns": 2, "size": 2048, "dtype": "float32"}
stops = {"columns": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096), "size": (512, 1024, 2048, 4096, 8192)}
display(
    explore("gemm", at=few, lines=["nn", "nt", "tn"], values=stops, versus={"nt": "nn"}, title="Which layout is fast?"),
    compare(None, "gemm", of="data"),
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: where do the rows begin?
#
# A matrix in bfloat16 has 1025 columns and lies row by row; its first row begins at a multiple of 16 bytes. *Calculate* which share of its
# rows does. Which share would it be with 1028 columns? And how many columns must be added to 1025, at least, so that all rows do?

# %% tags=["your-turn", "exercise:07c-rows", "calculates"]
check("07c-rows", share_of_1025=..., share_of_1028=..., added=...)

# %% [markdown] tags=["your-turn"]
# ## More: one line is slow
#
# A small language model in bfloat16 multiplies 12287 tokens by these weights. One of the four lines is far slower than its size
# allows. Which? Its size 50257 is the vocabulary: to how many words would you pad it?

# %% tags=["your-turn", "exercise:07c-slow-line", "makes"]
for name, (m, n, k) in model_lines().items():
    print(f"{name:5}", suggest_shape(m, n, k, transposed=(False, True), device="h200").asked)

check("07c-slow-line", line=..., words=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# From this course and *Investigating performance of GPU BLAS Libraries*, measured ten years ago.

# %% tags=["claims"]
claims("07c")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** In 16-bit types, make the contiguous dimension a multiple of 8: at size 2048, 1025 columns take over 7 times as long as 1024.
# <!-- so gemm: at(size=2048, dtype=['bfloat16', 'float16']); span('nn', columns=1025) > 7 * span('nn', columns=1024) -->
#
# - Fast kernels for tensor cores load 16 bytes at once: pad, or store the matrix the other way.
# - Stack what multiplies the same input: one large matmul fills the GPU better than small ones.
# - With few columns the layout decides which kernel you get; with a thousand and more it matters little.
# <!-- so gemm: at(dtype='float32', columns=[1024, 2048, 4096]); max(span('nn'), span('nt'), span('tn')) / min(span('nn'), span('nt'),
# span('tn')) is 1 to 1.16 -->
#
# Terms: [[leading dimension]], [[misaligned access]], [[padding]], [[batched GEMM]], [[transposed operand]].

# %% [markdown] tags=["work"]
# ## At work
#
# Round a slow shape up where the weights are made, and stack what multiplies the same input:
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
# Back on the road: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb).
#
# Back: [07 · What does one more column cost?](07_gemm_shapes.ipynb)
