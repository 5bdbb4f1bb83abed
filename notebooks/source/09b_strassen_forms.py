# ---
# jupyter:
#   readme: {short: 'Strassen''s forms', asks: 'how much accuracy buys how much time? For engineers', before: '09'}
#   brrr:
#     needs: [cuda, triton, nvcc, pycuda]
# ---

# %% [markdown] tags=["question"]
# # 09b · How much accuracy buys how much time?
#
# For engineers. [[Strassen level|Levels]], forms, short types, [[split product|split products]]: most trade digits for time, and some memory besides.
# **Which trades are worth it, and which are beaten by another?**

# %% tags=["setup", "question"]
import torch
from IPython.display import display

from brrr.strassen import fuse, matmul, plan
from brrr_course import against_float64, check, claims, compare, drawing, explore, factory
from brrr_course import first_available, guess, reachable

factory("compute", detail="sm")

# %% [markdown] tags=["guess"]
# ## Guess: the last digits
#
# Levels nest: two have 49 products of a quarter of the size, three 343. A level has more than one **form**: Strassen's
# has 18 additions; Winograd's 15, by sharing partial sums.
#
# A level enlarges rounding errors. A sum of two blocks of normally distributed numbers is larger than a block by √2, so its
# products' rounding errors are too, while the result stays the same size. What becomes of the [[relative error]]?

# %% tags=["guess"]
g = guess("Two levels of Strassen's form in float32: the error is larger by a factor of ...", unit="x")

# %% tags=["run"]
drawing("strassen-errors", unlock=g)

# %% tags=["compare"]
compare(g, "strassen", of="error", level=2)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** In the table, two levels gain most in float32. Where do they gain least, and why? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# A level saves an eighth of the arithmetic and adds passes over memory. In float32 without [[tensor core|tensor cores]] the
# arithmetic takes long, and the passes are small beside it. bfloat16 does it in a fraction of that time, and moves half as
# many bytes. So there a level pays on larger matrices only.
#
# </details>
#
# Each level also multiplies the buffers of its sums by 7/4, and in short types the sums are rounded before they are multiplied, which costs
# more of the digits. The figure has both forms: their additions, more or fewer, are made in registers, inside of one pass over memory. So
# **the form with the smaller error is the better one, not the one with fewer additions**.

# %% [markdown] tags=["guess"]
# ## Guess: float32's accuracy through the tensor cores
#
# Tensor cores multiply short numbers. A split product writes each float32 number as two float16 terms, its upper and its
# lower digits, 11 bits each: three products of terms (upper by upper, upper by lower, lower by upper) are as accurate as float32, if partial
# sums move to float32 registers often enough. Three products, and by the datasheet float16 has fifteen times float32's rate.

# %% tags=["guess"]
s = guess("Split into two float16 terms, a float32 product of size 8192 is faster than SGEMM by ...", unit="x")

# %% tags=["run"]
at = reachable("strassen", size=8192)
gpus = ["fp16x3", "fp16x3 strassen 1", "torch fp16x3", "tf32", "bf16"]
splits = first_available("strassen", dict.fromkeys(gpus, "sgemm"), {"cpu fp16x3": "cpu sgemm"})
explore("strassen", at=at, show={"speedup": splits}, unlock=s)

# %% tags=["compare"]
compare(s, "strassen", splits, of="speed-up", **at)

# %% [markdown] tags=["explain"]
# **Why it works.** A float32 number is its upper term plus its lower term, except for digits that float32's own rounding would lose;
# the fourth product, lower by lower, is below them. Tensor cores drop the last digits when they add: partial sums must move to
# float32 registers before that shows. And float16's range is short: the terms are scaled by powers of two first.
#
# **Badly scaled inputs.** A sum of a large and a small block keeps few digits of the small one. The error of the whole
# matrix hides that; the worst row's does not. Dividing rows and columns by powers of two beforehand (*outer*), or along the
# sum's index (*inner*), rounds nothing and brings the sizes together. Which scaling helps which inputs?
#
# **A mask** of -1e9 in `a` that meets rows of zeros in `b` adds nothing to the result, and takes the digits of all numbers
# beside it: two terms keep a number to 2^-40 of the largest of its row. So `matmul` checks on the GPU which results may have lost digits,
# and the classical product recomputes those; the host does not wait.

# %% tags=["explain"]
drawing("strassen-errors", inputs="badly scaled rows")

# %% tags=["explain"]
a, b = torch.randn(256, 1024), torch.randn(1024, 256)
a[:, ::8], b[::8] = -1e9, 0.0
scale = a.abs().amax(1, keepdim=True) / 2**15
hi = (a / scale).half().float()
two = (hi + (a / scale - hi).half().float()) * scale
exact = a.double() @ b.double()
for name, y in {"a in two terms": two @ b, "matmul": matmul(a, b, inner="fp16x3", level=0), "float32": a @ b}.items():
    print(f"{name}: the worst row is off by {float(((y - exact).norm(dim=1) / exact.norm(dim=1)).max()):.0e}")

# %% [markdown] tags=["explore"]
# ## Explore: the frontier
#
# Time alone says little: put the error beside it. Each marker is a way of multiplying. A way is **dominated**, small and hollow,
# if another is faster and no less accurate. The others are the [[frontier]]: on it you choose, off it you lose. Move *size*,
# then *right sides*: where are levels on the frontier, and with which product inside? Where the text names two clocks, tensor cores
# drew so much power that the GPU slowed its clock, by an amount that depends on the way.
#
# **Somebody has to choose.** `matmul` asks how accurate the product must be, predicts time and error of every way, and takes
# the fastest of those accurate enough, a level only where it gains clearly; `plan` says which, and why. `fuse` makes a chain of linear layers a
# fused one, with the same parameters. The fused model can be trained.

# %% tags=["explore"]
display(drawing("strassen-frontier"))
for accuracy in ("fp32", 1e-5, "bf16"):
    print(f"asked for {accuracy}:", plan(8192, 8192, 8192, accuracy=accuracy, device="h200"), sep="\n", end="\n\n")
layers = [torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU()]
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(*layers).to(device)
against_float64(model, fuse(model, level=1), torch.randn(128, 256, device=device))

# %% [markdown] tags=["your-turn"]
# ## Your turn: with bfloat16 instead
#
# A float32 number has 24 significant bits, a bfloat16 number 8, and float32's range. *Calculate* how many bfloat16 terms it needs;
# how many products of two terms are left, if term i, from 0 on, is 2^(-8i) times the first and products of 2^-24 and less are dropped; and how
# many times as fast as SGEMM with 51 TFLOP/s that can be at most, on tensor cores with 770 TFLOP/s.

# %% tags=["your-turn", "exercise:09b-terms", "calculates"]
check("09b-terms", terms=..., products=..., faster=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: scale, multiply, scale back
#
# `scaled(a, b, multiply)` should return `a @ b`, multiplied once by `multiply`, a fast product that loses small rows. This
# one returns something else, and would help little. Mend it, then write `scaled=scaled`.


# %% tags=["your-turn", "exercise:09b-scaling", "makes"]
def scaled(a, b, multiply):
    rows = a.abs().amax().log2().floor().exp2()
    columns = b.abs().amax(0).log2().floor().exp2()
    return multiply(a / rows, b / columns) * rows


check("09b-scaling", scaled=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# These are this course's own sentences, judged on your source. Live, measure the points first.

# %% tags=["claims"]
claims("09b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - Tensor cores can carry float32's digits: split each number, multiply the terms, and add up in float32.
# - A level costs digits, more in short types, and pays later where the arithmetic is faster.
# - Judge a fast product by its worst row and on badly scaled inputs, and choose on the frontier of time and error.
#
# Terms: [[Strassen level]], [[relative error]], [[tensor core]], [[split product]], [[frontier]].

# %% [markdown] tags=["work"]
# ## At work
#
# How many digits do you lose? Compare with float64 once, on inputs as yours, row by row:
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
# [10 · What holds *your* model back?](10_diagnose_your_model.ipynb) takes a whole model apart. Every lesson's lines stand in
# docs/cheatsheet.md.
#
# Back: [09 · Faster than the peak?](09_strassen.ipynb)
