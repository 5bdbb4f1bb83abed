# ---
# jupyter:
#   readme: {short: 'attention', asks: 'when does fusion need a new algorithm? For engineers', before: '05, 11'}
#   brrr:
#     leaves: '11'
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 11b · When does fusion need a new algorithm?
#
# Side road.
# Know before: [fusion](05_fusion.ipynb), [decode](11_language_model.ipynb).
#
# In attention, each of N tokens sends a *query* to N *keys*. The softmax of its scores gives the weights of the *values*:
#
# ```python
# scores = (q * d**-0.5) @ k.mT         # N x N for each head
# result = scores.softmax(-1) @ v
# ```
#
# In these three steps (matmul, softmax, matmul) the N x N matrix is written and read as scores, then written and read as weights.
# **Why does a compiler not fuse this away?**
#
# You will be able to:
#
# - calculate the bytes of attention's scores
# - predict whether a compiler removes the matrix
# - fix a softmax that goes tile by tile

# %% tags=["setup", "question"]
import numpy as np
from brrr_course import check, claims, compare, drawing, explore, guess

# %% [markdown] tags=["guess"]
# ## Guess: without the matrix
#
# [[flash attention|Flash attention]] computes the same result without storing the matrix. It moves q, k, v and the result, N x d
# numbers each. PyTorch's `scaled_dot_product_attention` (SDPA) has three such back ends.
#
# First *calculate*, for a head with d = 128 and N = 8192 in bfloat16: how many bytes do the matrix's four trips move, and how many
# does flash attention? Both do 4N²d FLOP. An H200's [[ridge point]] is near 200 FLOP per byte: which side are they on? Then
# <!-- so attention: sheet('bf16') / sheet('memory_bytes_per_s') is 196 to 216 -->
# guess for one sequence and 16 heads.

# %% tags=["guess"]
g = guess("With 8192 tokens, SDPA's flash back end is ... times as fast as the three steps", unit="x")

# %% tags=["run"]
plain = {"length": 8192, "kind": "all", "dtype": "bfloat16", "head": 128}
ways = ["naive", "efficient", "flash", "cudnn"]
explore(
    "attention",
    at=plain,
    lines=ways,
    sliders=["length"],
    unlock=g,
    versus={"flash": "naive"},
    title="How much faster is attention in one kernel?",
)

# %% tags=["compare"]
compare(g, "attention", {"flash": "naive", "cudnn": "naive", "efficient": "naive"}, of="speed-up", at=plain)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** The FLOP are the same. Which resource sets the pace in three steps, and which one in flash attention? Double-click
# here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# In a head, the matrix's four trips move 8N² bytes for 4N²d FLOP: d / 2 = 64 FLOP per byte, below the ridge point ([[memory-bound]]). Flash
# <!-- so attention: at(length=8192, kind='all', dtype='bfloat16', head=128); flop('naive') / (4 * 2 * 16 * 8192 ** 2)
# is 64 to 64 -->
# attention moves 8Nd bytes: N / 2 = 4096 FLOP per byte, far above it ([[compute-bound]]).
# <!-- so attention: at(length=8192, kind='all', dtype='bfloat16', head=128); flop('flash') / bytes('flash') is 4096 to
# 4096 -->
#
# Measured, the three steps take three times what their bytes need: PyTorch's softmax is slow on such rows. The back ends share the
# <!-- so attention: at(length=8192, kind='all', dtype='bfloat16', head=128); need = bytes('naive') /
# sheet('memory_bytes_per_s'); period('naive') / need is 2.85 to 3.15; period('compile') / need is 1.9 to 2.3 -->
# algorithm, not how well they feed the tensor cores.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# q, k, v = torch.randn(3, 1, 16, 8192, 128, dtype=torch.bfloat16, device="cuda")
# given = {"q": q, "k": k, "v": v, "flash": torch.nn.functional.scaled_dot_product_attention}
# with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # of torch.nn.attention; Timer: of torch.utils.benchmark
#     for way in ("((q * 128**-0.5) @ k.mT).softmax(-1) @ v", "flash(q, k, v)"):
#         print(Timer(way, globals=given).blocked_autorange().median)  # divide the first by the second
# ```
#
# </details>
#
# ## One pass over the keys
#
# A softmax needs the largest score of its row and the sum of the exponentials: both are known only at the row's end.
#
# An [[online softmax]] begins anyway. For each query it keeps the largest score, the sum and the result so far. When a
# [[tile]] of keys brings a larger score, it multiplies sum and result by exp(old maximum - new maximum).
#
# Move *step*, and check query 1 by hand, with powers of two in place of exp.

# %% tags=["explain"]
drawing("flash-tiles", step=2)

# %% [markdown] tags=["guess"]
# ## Guess: the compiler
#
# `torch.compile` gets the two lines at the top. Then it gets them *spelled as in textbooks*, with the scale moved:
# `((q @ k.mT) * d**-0.5).softmax(-1) @ v`.

# %% tags=["guess"]
w = guess("With 8192 tokens, torch.compile makes the lines at the top faster by a factor of ...", unit="x")

# %% tags=["run"]
both = ["naive", "compile", "compile known", "flash"]
spelled = {"compile": "naive", "compile known": "naive"}
explore(
    "attention",
    at=plain,
    lines=both,
    show="ladder",
    sliders=[],
    versus=spelled,
    unlock=w,
    title="Does it matter how attention is spelled?",
)

# %% tags=["compare"]
compare(w, "attention", spelled, of="speed-up", at=plain)

# %% [markdown] tags=["explain"]
# A compiler fuses the operations that you wrote. From the lines at the top it makes a faster softmax than PyTorch's; the matrix
# stays. An online softmax is another algorithm.
#
# But the compiler knows some programs by heart. The textbook's spelling is on its list: it puts the library's attention in its place.
# Do not rely on spelling.

# %% [markdown] tags=["explore"]
# ## Explore: masks, one query, training
#
# 1. Move *tokens* to both ends. Why are the lines flat at the left, and why do the three steps end before the right?
# 2. Set *kind of attention* to *causal*: a query sees no later key. Who gains?
# 3. Set it to *one query*: [[decode]]. What can flash attention still save?
# 4. Set it to *training*: forward and backward. The backward pass needs the softmax's weights. The three steps stored them; flash attention
#    computes them again: [[rematerialisation]]. Which takes longer, and which more memory?
#
# <details><summary>Answers</summary>
#
# 1. At the left the host sets the pace: [[overhead-bound]]. At the right, 65536 tokens need 137 GB for the scores, and as much for the
# <!-- so attention: 16 * 65536 ** 2 * 2 is 136.5e9 to 137.5e9; 2 * 136.5e9 > sheet('memory_bytes') -->
#    weights.
# 2. Flash attention skips tiles that the mask hides. The three steps compute every score, then overwrite half.
# 3. Few bytes: keys and values are read either way. What counts is how many multiprocessors read them.
# <!-- so attention: at(kind='one query', dtype='bfloat16', head=128); bytes('naive') / bytes('flash') < 1.03 -->
# 4. Flash attention takes less of both: it computes on tensor cores that would wait.
# <!-- so attention: at(kind='training', dtype='bfloat16', head=128); period('naive') > 1.3 * period('flash');
# peak_bytes('naive', length=least(512)) > peak_bytes('flash', length=least(512)) -->
#
# </details>

# %% tags=["explore"]
explore("attention", at=plain, lines=ways, sliders=["length", "kind"], title="How much do masks cost?")

# %% tags=["explore"]
compare(None, "attention", ["naive", "flash", "cudnn"], of="memory", at={**plain, "kind": "training"})

# %% [markdown] tags=["your-turn"]
# ## Your turn: count the bytes
#
# A layer has 32 heads of 128 numbers and reads 16384 tokens in bfloat16. *Calculate* how many bytes its scores take, all heads together.
# Four times that is moved: how many times the bytes of q, k, v and the result?

# %% tags=["your-turn", "exercise:11b-bytes", "calculates"]
check("11b-bytes", matrix_bytes=..., times=...)

# %% [markdown] tags=["your-turn"]
# ## More: an online softmax
#
# `update` gets what is known of one query (maximum `m`, sum `total`, `result` so far) and a tile: its scores, and a row of `values` for
# each. It returns the new three. In the end `result / total` should be the query's result. This one is right only as long as the maximum
# does not rise. *Fix* it, then write `update=update`.


# %% tags=["your-turn", "exercise:11b-online", "makes"]
def update(m, total, result, scores, values):
    new = max(m, scores.max())
    weights = np.exp(scores - new)
    return new, total + weights.sum(), result + weights @ values


check("11b-online", update=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# We wrote these down before we measured.

# %% tags=["claims"]
claims("11b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** In bfloat16, for whole prompts without gradients, from 2048 tokens on, call `scaled_dot_product_attention`: storing the scores takes twice as long.
# <!-- so attention: at(kind='all', dtype='bfloat16', head=128, length=least(2048)); gain = period('naive') /
# period('flash'); gain > 2; count(gain) == 5; period('naive', length=1024) / period('flash', length=1024) < 2; [period('naive', kind='training',
# length=n) / period('flash', kind='training', length=n) for n in (2048, 8192)] is 1.4 to 1.8 -->
#
# - Attention in three steps moves an N x N matrix through memory four times; flash attention takes it tile by tile, and stores none.
# - The online softmax makes it possible: keep a maximum and a sum, and rescale when the maximum rises.
# - A compiler fuses the steps that you wrote, or knows a program by heart; it did not find this algorithm.
#
# Terms: [[flash attention]], [[online softmax]], [[memory-bound]], [[compute-bound]], [[rematerialisation]].

# %% [markdown] tags=["work"]
# ## At work
#
# Name the back end while you test: then the call raises an error where it would fall back to the matrix. For a mask of your own,
# `flex_attention` compiles a kernel.
#
# ```python
# import torch
# from torch.nn.attention import SDPBackend, sdpa_kernel
# from torch.nn.functional import scaled_dot_product_attention
# device = "cuda" if torch.cuda.is_available() else "cpu"
# q, k, v = torch.randn(3, 1, 16, 512, 128, dtype=torch.bfloat16, device=device)
# with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
#     y = scaled_dot_product_attention(q, k, v, is_causal=True)
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road: [16 · Where does the memory go?](16_memory.ipynb)
#
# Back: [11 · Why does one token take so long?](11_language_model.ipynb)
