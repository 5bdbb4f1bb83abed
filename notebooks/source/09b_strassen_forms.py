# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton, nvcc, pycuda]
# ---

# %% [markdown] tags=["question"]
# # 09b · How much accuracy buys how much time?
#
# For engineers. Levels, forms, short types, split products: each trades digits for time, and some memory besides.
# **Which trades are worth it, and which are beaten by another?**

# %% tags=["setup", "question"]
import torch

from brrr import check, claims, compare_speedup, explore, factory, guess, reachable
from brrr.course import compare_errors, compare_fused, drawing, first_available
from brrr.strassen import explain, fuse, matmul

factory("compute")

# %% [markdown] tags=["guess"]
# ## Guess: the last digits
#
# **Levels** nest: two have 49 products of a quarter of the size, three 343. A level has several **forms**: Strassen's has 18
# additions; Winograd's 15, by sharing partial sums; the *balanced* one more of them, and products that are more alike in
# size. A sum of large numbers whose result is small loses digits, so no level is free: it multiplies the relative error
# (Frobenius, against float64) by some factor.

# %% tags=["guess"]
g = guess(
    "With two levels of Strassen's form, a float32 product of normal numbers has an error larger by ...", unit="x"
)

# %% [markdown] tags=["run"]
# ## Run
#
# Speed and error of each number of levels, over those of the same product without levels, and its buffers.

# %% tags=["run"]
drawing("strassen-panel", unlock=g, level=2)

# %% tags=["compare"]
compare_errors(g, level=2)

# %% [markdown] tags=["explain"]
# Each level takes an eighth of the products away and adds to the passes over memory; each multiplies the buffers of its sums
# by 7/4. So levels pay until the trucks set the pace. Choose another form: its additions, more or fewer, are made in registers, inside of
# one pass over memory. There, and in a chained network, additions are as good as free. Then **the form with the smaller error
# is the better one, not the one with fewer additions**.
#
# With *bfloat16* the products take so little time that additions weigh more: levels pay on larger matrices only. And the sums of
# blocks are rounded to bfloat16 before they are multiplied, so that a level costs more of the digits.

# %% [markdown] tags=["guess"]
# ## Guess: float32's accuracy through the tensor cores
#
# Tensor cores multiply short numbers. **Split** each float32 number into two float16 terms, its upper and its lower digits:
# three products of terms (upper by upper, upper by lower, lower by upper) are as accurate as float32, if their sums leave the
# tensor core often enough. Three products, but each many times as fast.

# %% tags=["guess"]
s = guess("Split into two float16 terms, a float32 product of size 8192 is faster than SGEMM by ...", unit="x")

# %% tags=["run"]
at = reachable("strassen", size=8192)
gpus = ["fp16x3", "fp16x3 strassen 1", "torch fp16x3", "tf32", "bf16"]
splits = first_available("strassen", dict.fromkeys(gpus, "sgemm"), {"cpu fp16x3": "cpu sgemm"})
explore("strassen", at=at, show={"speedup": splits}, unlock=s)

# %% tags=["compare"]
compare_speedup(s, "strassen", splits, **at)

# %% [markdown] tags=["explain"]
# **Why it works.** A float32 number is its upper term plus its lower term, but for digits that float32's own sums lose anyway;
# the fourth product, lower by lower, is below them. Tensor cores cut off what they add up: the sums must move to float32
# registers before that shows. And float16 ends early: the terms are scaled by powers of two first.
#
# **Badly scaled inputs.** A sum of a large and a small block keeps few digits of the small one. The error of the whole
# matrix hides that; the worst row's does not. Dividing rows and columns by powers of two beforehand (*outer*), or the inner
# index (*inner*), rounds nothing and brings the sizes together. Which scaling helps which inputs?

# %% tags=["explain"]
drawing("strassen-errors", inputs="badly scaled rows")

# %% [markdown] tags=["explain"]
# **Two terms have an end, too.** They keep a number to 2^-40 of the largest of its row. Below, a mask of -1e9 in `a` meets rows of
# zeros in `b`: it adds nothing to the result, and takes the digits of all numbers beside it. So `matmul` notes where rows of `a` are
# largest and how large `b` is there, and the classical product replaces what may have lost digits: decided on the device, without
# waiting. Strassen's levels it takes only where you ask for one.

# %% tags=["explain"]
import torch

from brrr.strassen import matmul

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
# if another is faster and no less accurate. The others are the **frontier**: on it you choose, off it you lose. Move *size*,
# then *right sides*: where are levels on the frontier, and with which inner product?
#
# Where the text names two clocks, tensor cores drew so much power that the GPU slowed its clock, for each way as much as that way draws.

# %% tags=["explore"]
drawing("strassen-frontier")

# %% [markdown] tags=["explore"]
# **Somebody has to choose.** `matmul` asks how accurate the product must be, predicts time and error of every way, and takes
# the one that should be the fastest of those accurate enough; `explain` says which, and why (a claim says how near it
# comes). `fuse` makes a chain of linear layers a fused one, with
# the same parameters. It trains, too: its kernels keep each layer's output for the way back.

# %% tags=["explore"]
device = "cuda" if torch.cuda.is_available() else "cpu"
a, b = torch.randn(1024, 1024, device=device), torch.randn(1024, 1024, device=device)
wanted = a.double() @ b.double()
for accuracy in ("fp32", 1e-5, "bf16"):
    error = (matmul(a, b, accuracy=accuracy) - wanted).norm() / wanted.norm()
    print(f"{device}, asked for {accuracy}, error {error:.1e}:", explain(a, b, accuracy=accuracy), sep="\n", end="\n\n")

# %% tags=["explore"]
layers = [torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers).to(device)
compare_fused(model, fuse(model, level=1), torch.randn(128, 256, device=device))

# %% [markdown] tags=["your-turn"]
# ## Your turn: scale, multiply, scale back
#
# `scaled(a, b, multiply)` should return `a @ b`, multiplied once by `multiply`, a fast product that loses small rows. This
# one returns something else, and would help little. Mend it, then write `scaled=scaled`.


# %% tags=["your-turn", "exercise:09b-scaling"]
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
