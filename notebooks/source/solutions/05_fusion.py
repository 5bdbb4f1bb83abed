# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton]
# ---

# %% [markdown]
# # 05 · What does fusion save? The answers

# %% tags=["setup"]
from brrr_course import check, tl, triton

# %% [markdown]
# ## The small part of the FLOP
#
# A matmul of (tokens, a) by (a, b) takes 2 · tokens · a · b FLOP. Counted in arrays of tokens × width: a layer norm reads one and writes
# one, an addition reads two and writes one, and the GELU reads four and writes four.

# %% tags=["exercise:05-transformer"]
width, tokens = 1024, 8192
flop = 2 * tokens * (4 * width**2 + 2 * width * 4 * width)
nbytes = (2 * 2 + 2 * 3 + 2 * 4) * tokens * width * 2
rest, matmuls = nbytes / 4.2e12, flop / 660e12
check("05-transformer", flop=flop, nbytes=nbytes, share=rest / (rest + matmuls))

# %% [markdown]
# ## Fill in a Triton kernel
#
# `value` is a variable of the kernel: a register. Both cosines are computed of it before anything is stored.


# %% tags=["exercise:05-kernel"]
@triton.jit
def kernel(x, y, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    value = tl.load(x + place, mask=inside).to(tl.float32)
    value = tl.cos(tl.cos(value))
    tl.store(y + place, value, mask=inside)


check("05-kernel", kernel=kernel)

# %% [markdown] tags=["teaching"]
# ## 05 · What does fusion save?
#
# | | |
# | --- | --- |
# | Goal | Count the bytes of operators one by one and fused, and predict the gain; write a fused kernel in Triton; know three cases in which fusion gains little, and what stops a compiler from fusing. |
# | Minutes | 40 |
# | Before | Lesson 04: memory-bound and compute-bound. No knowledge of compilers or Triton. Without a GPU, Triton's interpreter runs the kernel (Linux, or WSL); macOS and Windows have no Triton, `check` says so, and nothing later needs it. |
# | Answers | [solutions/05_fusion.ipynb](../notebooks/solutions/05_fusion.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *Two cosines as one kernel take as long as two, because the arithmetic is the same.* Nobody waited for the arithmetic: two
#    arrays are moved instead of four.
# 2. *A softmax cannot be one kernel, because the sum must be known first.* It needs only a row's sum. A row fits into a
#    multiprocessor: it is fetched once and stays there until its result is written.
# 3. *Fusing always gains.* Not where an intermediate is needed elsewhere and must be written anyway; not after a matmul, where
#    memory is idle anyway; and not in a loop over tiny arrays, where calling a compiled function may cost more than the operators
#    it replaces.
#
# **Answers**
#
# - *The guesses:* the calculator's cell prints what the bytes predict.
# - *The small part of the FLOP:* 24 · tokens · width² = 206 GFLOP; 18 arrays of tokens × width, 302 MB; 19 % of the time. With
#   attention's own matmuls, dropout and real rates it is the third that the article found.
#   <!-- definition: the exercise -->
# - *Fill in a Triton kernel:* `value = tl.cos(tl.cos(value))`, then `tl.store(y + place, value, mask=inside)`. The check counts
#   bytes in Triton's interpreter: 100,000 float32 numbers are 400 kB read and 400 kB written. Hints: the first cosine stored and
#   loaded again (right result, twice these bytes), a missing mask, a type that `tl.cos` does not take.
#   <!-- definition: the exercise -->
# - *Why four fused sines gain less than a factor of four:* an accurate sine is a long polynomial, and four of them take longer
#   than moving the bytes. `torch.jit.script` writes another kernel than `torch.compile`; the claims compare both with the
#   article's sentence.
# - *Why some lines gain more than their bytes say:* one of their operators is slower than its own bytes, such as torch's addition
#   of a row to each row of a matrix.
#
# **To discuss.** A profile shows forty small kernels between two matmuls. By how much can fusion shorten that part at best?
# (Compare the bytes of the part's inputs and results with the bytes of all its kernels. What the backward pass needs must be
# written, so it counts as a result.)
