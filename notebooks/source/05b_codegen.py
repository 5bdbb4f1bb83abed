# ---
# jupyter:
#   readme: {short: 'code generation', asks: 'who writes the kernel? For engineers', before: '05'}
#   brrr:
#     needs: [cuda, triton]
# ---

# %% [markdown] tags=["question"]
# # 05b · Who writes the kernel?
#
# For engineers. A compiler that sees a whole program may do more than join kernels: it may decide what is kept at all.
# **What does it write, what does it leave out, and can you do it yourself in one line?**

# %% tags=["setup", "question"]
import torch
from IPython.display import display

from brrr import LineError, elementwise
from brrr_course import against_copy, check, claims, compare, explore, factory
from brrr_course import first_available, generated, guess, reachable, tl, triton

factory("memory", detail="sm")

# %% [markdown] tags=["guess"]
# ## Guess: do it twice?
#
# ```python
# for _ in range(8):
#     x = hardswish(x)        # x * min(max(x + 3, 0), 6) / 6: a cheap activation
# x.backward(gradient)        # needs the input of each of the eight
# ```
#
# The usual way *saves* those inputs in memory. The other is [[rematerialisation]]: save the first one only, and compute the
# others again in the backward pass. `torch.compile` fuses both; it is told to save all, or left to choose.
#
# `torch.utils.checkpoint` computes again too, but operator by operator. Its base is the operators with all inputs saved.
# On a CPU, only that pair is measured.

# %% tags=["guess"]
g = guess("Computed again and fused, forward and backward together are faster by a factor of ...", unit="x")

# %% tags=["run"]
at = reachable("remat", activation=["hardswish"], depth=8, elements=2**26)
again = {"compile": "compile saved", "checkpoint": "eager"}
again = first_available("remat", again, {"cpu checkpoint": "cpu eager"})
explore("remat", at=at, show={"speedup": again, "x": "depth"}, unlock=g)

# %% tags=["compare"]
ways = ["eager", "checkpoint", "compile saved", "compile"]
ways = first_available("remat", ways, [f"cpu {way}" for way in ways[:2]])
display(compare(g, "remat", again, of="speed-up", **at), compare(g, "remat", ways, of="memory", **at))

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** More is computed, and it can still take less time. How? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# A saved input moves twice: to memory, and back when it is needed. What is computed again in a register does not move. As
# long as the kernel is [[memory-bound]], cheap arithmetic costs nothing: less memory can be less time, too.
#
# </details>
#
# Make the chain longer: from where on does the gain fall behind the dashes, as even cheap arithmetic adds up? Move *activation* to
# the cosine: accurate cosines, sines, and the cosines again are so much arithmetic that the memory is saved as before, and the time
# need not be. Without fusion nothing is gained in time: `checkpoint` repeats operators, and each of those moves its bytes.
#
# So whether to save or to compute again is a calculation, which `torch.compile` makes for each value. It cuts the graph of
# forward and backward pass where the fewest bytes cross from one to the other.

# %% [markdown] tags=["guess"]
# ## Guess: one line of your own
#
# `elementwise` makes a kernel of one line of CUDA C++, with each input by its name: `y = cosf(cosf(x))`.

# %% tags=["guess"]
w = guess("On 2^28 numbers, that line takes ... times as long as one cosine of torch", unit="x")

# %% tags=["run"]
there = reachable("cos_cos", elements=2**28, dtype=["float32"])
lines = first_available("cos_cos", ["one", "cuda", "triton", "compile"], ["cpu one", "cpu blocks"])
explore("cos_cos", at=there, lines=lines, show="rate", unlock=w)

# %% tags=["compare"]
over = first_available("cos_cos", {"one": "cuda"}, {"cpu one": "cpu blocks"})
compare(w, "cos_cos", over, of="speed-up", **there)

# %% [markdown] tags=["explain"]
# This is what stands around the line. Every thread has two loads of 16 bytes in flight, so that many bytes are under way
# ([[Little's law]]); neighbouring threads take neighbouring words ([[coalesced access]]). Nothing of it knows what the line
# computes.
#
# And below it is what `torch.compile` wrote: Triton for a GPU, C++ with vectors for a CPU. Find in the first one load, two
# cosines, one store. Where in the softmax are the five operators, and how often is a row loaded?

# %% tags=["explain"]
x = torch.randn(2**20, device="cuda" if torch.cuda.is_available() else "cpu")
print(elementwise("y = cosf(cosf(x))", x=x).source)
display(generated("cos_cos"), generated("softmax"))

# %% [markdown] tags=["explore"]
# ## Explore: write a line
#
# Mend this one, then write any other: `y = x > 0 ? x : 0.1f * x`, or one with a second input. How close does it come
# to a copy? How many cosines does it take until it does not?

# %% tags=["explore"]
try:
    display(against_copy(elementwise("y = x * tanf(log1pf(epxf(x)))", x=x)))
except LineError as error:
    print(error)

# %% [markdown] tags=["your-turn"]
# ## Your turn: count the bytes
#
# `torch.relu(x + b) * g`, where `x` and `g` have 4096 rows of 1024 float32 and `b` has 1024. *Calculate* how many bytes the three
# operators move, one by one, and how many one fused kernel: reads and writes.

# %% tags=["your-turn", "exercise:05-bytes", "calculates"]
check("05-bytes", eager=..., fused=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: fuse three operators in Triton
#
# `fused(x, scale, r)` should return `torch.relu(x * scale + r)` for arrays of any size, in one kernel. This one forgets
# something, and reads past the end. Mend it, then write `fused=fused`. On a GPU it must reach 90 % of what the bytes
# predict; without one, Triton's interpreter checks the result.


# %% tags=["your-turn", "exercise:05-fuse", "makes"]
@triton.jit
def kernel(x, r, y, scale, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets) * scale)


def fused(x, scale, r):
    kernel[(triton.cdiv(x.numel(), 1024),)](x, r, y := torch.empty_like(x), scale, x.numel(), BLOCK=1024)
    return y


check("05-fuse", fused=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# From *Making Deep Learning Go Brrrr From First Principles* and this course's own expectations, on your source. Live,
# measure the points first.

# %% tags=["claims"]
claims("05b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - What is computed again inside a fused kernel costs no traffic, so saving memory can save time.
# - A good element-wise kernel reads each number once, in wide neighbouring words, with many loads in flight.
# - Read what the compiler wrote: count its loads and its stores.
#
# Terms: [[rematerialisation]], [[memory-bound]], [[Little's law]], [[coalesced access]].

# %% [markdown] tags=["work"]
# ## At work
#
# Compute a block's activations again in the backward pass, and leave the rest to the compiler. `TORCH_LOGS=output_code` prints
# what it wrote.
#
# ```python
# import torch
# from torch.utils.checkpoint import checkpoint
# block = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512))
# x = torch.randn(64, 512, requires_grad=True)
# y = checkpoint(block, x, use_reentrant=False)  # saves x alone
# y.sum().backward()
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [06 · How much of the time is PyTorch itself?](06_killing_overhead.ipynb) goes on with small layers.
#
# Back: [05 · What does fusion save?](05_fusion.ipynb)
