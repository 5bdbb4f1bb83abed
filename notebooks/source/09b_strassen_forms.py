# ---
# jupyter:
#   readme: {short: 'Speed for accuracy', asks: 'how much accuracy buys how much time?', before: '09'}
#   brrr:
#     leaves: '09'
#     needs: [cuda, triton, pycuda]
# ---

# %% [markdown] tags=["question"]
# # 09b · How much accuracy buys how much time?
#
# Side road.
# Know before: [Strassen's algorithm](09_strassen.ipynb).
#
# Numbers with fewer digits are faster to multiply, and so are matrices with Strassen. Both make the result less accurate. **Why, and which of
# these trades are worth it?**
#
# You will be able to:
#
# - predict how errors grow with Strassen
# - calculate how many bfloat16 matmuls replace a float32 one
# - scale inputs so that small rows keep digits

# %% tags=["setup", "question"]
import torch

from brrr.strassen import plan
from brrr_course import check, claims, compare, drawing, explore, factory, guess

factory("compute", detail="sm")

# %% [markdown] tags=["guess"]
# ## Guess: what do two levels cost?
#
# Every operation rounds its result: float32 keeps 24 bits. The error that this leaves, relative to the size of the exact result, is the
# [[relative error]].
#
# A [[Strassen level|level]] multiplies *sums* of blocks. If the elements are normally distributed, a sum of two blocks is larger than a
# block by √2, and rounding errors grow with it. In the result the large parts cancel, but the errors stay.

# %% tags=["guess"]
g = guess("Two levels of Strassen in float32: the error is larger by a factor of ...", unit="x")

# %% tags=["run"]
drawing("strassen-errors", unlock=g)

# %% tags=["compare"]
compare(g, "strassen", of="error", level=2)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** In the table, where do two levels gain the least time, and where does the error grow most? Why? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# In bfloat16, both. A level saves an eighth of the arithmetic and adds sums, which move bytes. [[tensor core|Tensor cores]] do bfloat16's
# arithmetic in a fraction of float32's time, so there is less to save; the sums still move half the bytes. And a sum of bfloat16
# numbers is rounded once more.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# from brrr.strassen import matmul
# a, b = torch.randn(2, 16384, 16384, device="cuda")
# exact = a[:64].double() @ b.double()  # some rows are enough
# for level in (0, 2):
#     y = matmul(a, b, level=level, form="strassen", inner="sgemm")[:64]
#     print(level, float((y - exact).norm() / exact.norm()))
# ```
#
# </details>
#
# In float32 two levels double the error: one bit of 24 is lost. The drawing shows more, as it has the *worst* row of a small matrix.
# It also has Winograd's form of a level: 15 additions instead of 18, but larger sums, so the error grows faster.

# %% [markdown] tags=["guess"]
# ## Guess: float32's digits from short numbers
#
# Tensor cores are fast because they multiply short numbers: a multiplier for 11 bits is far smaller than one for 24, so more fit
# on the chip. By the datasheet, float16 has fifteen times float32's rate.
#
# To keep the digits, write each float32 number as a sum of two float16 *terms*, its upper and its lower 11
# bits. A product is then upper · upper + upper · lower + lower · upper + lower · lower, and the last part is too small to matter.
# Three fast matmuls replace a slow one: a [[split product]].

# %% tags=["guess"]
s = guess(
    "Split into two float16 terms, a float32 matmul of size 8192 is faster than SGEMM by a factor of ...", unit="x"
)

# %% tags=["run"]
splits = {
    "fp16x3": "sgemm",
    "fp16x3 strassen 1": "sgemm",
    "torch fp16x3": "sgemm",
    "tf32": "sgemm",
    "bf16": "sgemm",
}
explore("strassen", at={"size": 8192}, show={"speedup": splits}, unlock=s, title="Split products: when do they gain?")

# %% tags=["compare"]
compare(s, "strassen", splits, of="speed-up", size=8192)

# %% [markdown] tags=["explain"]
# **Why less than five times?** Fifteen times the rate for three matmuls would be five. But the numbers must be split first, and
# <!-- so strassen: span('sgemm', size=8192) / span('fp16x3', size=8192) < 5; sheet('h200', 'fp16') / sheet('h200',
# 'fp32') is 14.7 to 15.3 -->
# tensor cores drop the last bits when they add, so partial sums must move to float32 registers often.
#
# **Badly scaled inputs.** A large number plus a small one loses the small one's digits. A level adds large and
# small blocks: in the drawing below small rows lose most digits.
#
# The remedy is to scale by powers of two, which change no digit. *Outer* scaling divides each row of `a` and each column of `b`, and
# scales the result back; *inner* scaling divides columns of `a` and multiplies rows of `b`. Which one helps if the rows of `a` differ in
# size?
#
# <details><summary>Answer</summary>
#
# *Outer*: each row gets its own factor. *Inner* helps if columns of `a` differ.
#
# </details>
#
# **A mask does the same**, in the code below: two float16 terms keep digits relative to the row's largest number, -1e9.

# %% tags=["explain"]
drawing("strassen-errors", inputs="badly scaled rows")

# %% tags=["explain"]
a, b = torch.randn(256, 1024), torch.randn(1024, 256)
a[:, ::8], b[::8] = -1e9, 0.0  # a mask meets zeros: the exact result stays as it is
scale = a.abs().amax(1, keepdim=True) / 2**15
hi = (a / scale).half().float()
two = (hi + (a / scale - hi).half().float()) * scale
exact = a.double() @ b.double()
for name, y in {"a in two float16 terms": two @ b, "a in float32": a @ b}.items():
    print(f"{name}: the worst row is off by {float(((y - exact).norm(dim=1) / exact.norm(dim=1)).max()):.0e}")

# %% [markdown] tags=["explore"]
# ## Explore: the frontier
#
# Each marker is a way of multiplying. It is small and hollow if another way is faster and no less accurate. The others form the
# [[frontier]]: there, more speed costs accuracy. Move *size*, then *right sides* (prepared: `b`'s sums or terms are made
# beforehand). Where are levels on the frontier?
#
# <details><summary>Answer, on the H200</summary>
#
# At 16384, around bfloat16 and around the split product; at 8192 only with prepared right sides; at 4096 nowhere. Levels of plain float32
# are beaten at all three: the split product is faster *and* more accurate.
# <!-- so strassen: ways = [f'sgemm-strassen-{level}{more}' for level in (1, 2, 3) for more in ('', '-prepared')];
# [span('fp16x3', size=n) / span(way, size=n) for way in ways for n in (4096, 8192, 16384)] < 1; [error('fp16x3',
# size=n) / error(way, size=n) for way in ways for n in (4096, 8192, 16384)] < 1 -->
#
# </details>
#
# This course's `matmul` predicts each way's time and error and takes the fastest that is accurate enough; `plan` says which.

# %% tags=["explore"]
print(plan(8192, 8192, 8192, accuracy="fp32", device="h200"))
drawing("strassen-frontier")

# %% [markdown] tags=["your-turn"]
# ## Your turn: with bfloat16 instead
#
# A float32 number has 24 significant bits, a bfloat16 number 8. *Calculate* how many bfloat16 `terms` hold a float32 number. Term i, from 0
# on, is about 2^(-8i) times the first, so term i times term j is about 2^(-8(i + j)). Leave out what is 2^-24 or less: how many
# `products` have i + j <= 2? One bfloat16 matmul is 13 times as fast as SGEMM; how many times as fast are all of them at most (`faster`)?
# <!-- so strassen: span('sgemm', size=8192) / span('bf16', size=8192) is 12.5 to 13.5 -->

# %% tags=["your-turn", "exercise:09b-terms", "calculates"]
check("09b-terms", terms=..., products=..., faster=...)

# %% [markdown] tags=["your-turn"]
# ## More: scale, multiply, scale back
#
# `scaled(a, b, multiply)` should return `a @ b`, with one call of `multiply`, a fast matmul that loses small rows' digits. This version
# returns something else, and its scaling hardly helps. Fix both, and answer `scaled=scaled`.


# %% tags=["your-turn", "exercise:09b-scaling", "makes"]
def scaled(a, b, multiply):
    rows = a.abs().amax().log2().floor().exp2()
    columns = b.abs().amax(0).log2().floor().exp2()
    return multiply(a / rows, b / columns) * rows


check("09b-scaling", scaled=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# This course's own sentences.

# %% tags=["claims"]
claims("09b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** On evenly scaled inputs TF32 costs a relative error of 3e-4: allow it where your data are less accurate.
# <!-- so strassen: error('tf32') is 2.9e-4 to 3e-4; count(error('tf32')) == 9 -->
#
# - Short numbers are fast because their multipliers are small, and sums of several short numbers can carry float32's digits.
# - A Strassen level makes errors larger, especially on badly scaled inputs.
# - Judge a fast matmul by its worst row on data like yours, and choose on the frontier of time and error.
#
# Terms: [[Strassen level]], [[relative error]], [[tensor core]], [[split product]], [[frontier]].

# %% [markdown] tags=["work"]
# ## At work
#
# Compare a faster type with float64 once, row by row, on data like yours:
#
# ```python
# import torch
# a, b = torch.randn(512, 1024), torch.randn(1024, 512)
# exact = a.double() @ b.double()
# for dtype in (torch.float32, torch.bfloat16):
#     found = (a.to(dtype) @ b.to(dtype)).double()
#     rows = (found - exact).norm(dim=1) / exact.norm(dim=1)
#     print(dtype, f"worst row {rows.max():.1e}, all {(found - exact).norm() / exact.norm():.1e}")
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb)
#
# Back: [09 · Faster than the peak?](09_strassen.ipynb)
