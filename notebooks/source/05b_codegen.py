# ---
# jupyter:
#   readme: {short: 'code generation', asks: 'who writes the kernel? For engineers', before: '05'}
#   brrr:
#     leaves: '05'
#     needs: [cuda, triton]
# ---

# %% [markdown] tags=["question"]
# # 05b · Who writes the kernel?
#
# Side road.
# Know before: [05](05_fusion.ipynb)'s *fusion*, and its Triton kernel.
#
# A compiler that sees the forward and the backward pass can do more than fuse kernels: it can decide what to save. **What does it
# write, and what does it leave out?**
#
# You will be able to:
#
# - predict when computing again beats saving
# - keep only the input for the backward pass
# - read what `torch.compile` wrote

# %% tags=["setup", "question"]
import torch
from brrr import LineError, elementwise
from brrr_course import against_copy, check, claims, compare, explore, factory, generated, guess
from torch.utils.checkpoint import checkpoint

factory("memory", detail="sm")

# %% [markdown] tags=["guess"]
# ## Guess: compute it twice?
#
# ```python
# for _ in range(8):
#     x = hardswish(x)        # x * min(max(x + 3, 0), 6) / 6: a cheap activation
# x.backward(gradient)        # needs the input of each of the eight
# ```
#
# The usual way *saves* the eight inputs in memory. [[Rematerialisation]] saves only the first, and computes the others again in the
# backward pass:
#
# | computes again | against the usual way | kernels |
# | --- | --- | --- |
# | `torch.compile`, its own choice | `torch.compile` | fused |
# | `torch.utils.checkpoint` | the operators | one by one |

# %% tags=["guess"]
g = guess("Computed again and fused, forward and backward together are faster by a factor of ...", unit="x")

# %% tags=["run"]
at = {"activation": "hardswish", "depth": 8, "elements": 2**26}
recomputed = {"compile": "compile saved", "checkpoint": "eager"}
explore(
    "remat",
    at=at,
    show={"speedup": recomputed, "x": "depth"},
    unlock=g,
    predict=True,
    title="Computing again, or reading again?",
)

# %% tags=["compare"]
ways = ["eager", "checkpoint", "compile saved", "compile"]
display(compare(g, "remat", recomputed, of="speed-up", at=at), compare(g, "remat", ways, of="memory", at=at))

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** It computes more, and takes less time. How? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# A saved input moves to memory, and back. What a fused kernel computes again stays in a register. While the kernel is
# [[memory-bound]], cheap arithmetic is free, so less memory can also mean less time.
#
# Without fusion it cannot: each operator that `checkpoint` runs again moves its bytes again.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# own = torch.compile(chain, dynamic=True, options={"realize_opcount_threshold": 4})  # chain: the eight hardswishes
# saved = torch.compile(chain, dynamic=True, backend=aot_autograd(  # of torch._dynamo.backends.common
#     fw_compiler=compile_fx_inner, decompositions=select_decomp_table, partition_fn=default_partition))
# for f in (own, saved):  # x and gradient: 2**26 floats on the GPU; x.requires_grad_()
#     timer = Timer("torch.autograd.grad(f(x), x, gradient)", globals={"f": f, "x": x, "gradient": gradient})
#     print(timer.blocked_autorange().median)  # Timer: of torch.utils.benchmark. Divide the second by the first.
# ```
#
# </details>
#
# Make the chain longer: when does the gain fall far behind the dashes? Then set *activation* to the cosine, which is more arithmetic.
#
# <details><summary>Answer</summary>
#
# With eight hardswishes the gain is a sixth below the prediction, with 16 nearly half: cheap arithmetic adds up. Cosines add up sooner: with
# <!-- so remat: at(activation='hardswish', elements=67108864); off = [period('compile-saved', depth=n) /
# period('compile', depth=n) * predicted('compile', activation='hardswish', depth=n, elements=67108864) /
# predicted('compile saved', activation='hardswish', depth=n, elements=67108864) for n in (4, 8, 16)]; off[4] is 0.95 to
# 1; off[8] is 0.8 to 0.86; off[16] is 0.5 to 0.58 -->
# four, computing again already takes longer than saving, though it still saves memory.
# <!-- so remat: at(activation='cos', elements=67108864); period('compile-saved', depth=2) > period('compile', depth=2);
# period('compile-saved', depth=4) < period('compile', depth=4) -->
#
# </details>
#
# `torch.compile` decides for each value whether to save it, so that the fewest bytes cross from the forward to the backward pass.

# %% [markdown] tags=["guess"]
# ## Guess: one line of your own
#
# `elementwise` makes a kernel from one line of CUDA C++, in which each input has its name: `y = cosf(cosf(x))`.

# %% tags=["guess"]
w = guess("On 2²⁸ numbers, that line takes ... times as long as one cosine of torch", unit="x")

# %% tags=["run"]
there = {"elements": 2**28, "dtype": "float32"}
explore(
    "cos_cos",
    at=there,
    lines=["one", "cuda", "triton", "compile"],
    show="rate",
    unlock=w,
    versus={"cuda": "one"},
    title="How close does each come to a single cosine?",
)

# %% tags=["compare"]
compare(w, "cos_cos", {"one": "cuda"}, of="speed-up", at=there)

# %% [markdown] tags=["explain"]
# A good kernel around that line reads each number once, lets neighbouring threads read neighbours ([[coalesced access]]), and has many
# bytes in flight ([[Little's law]]; both in lesson 04b). At 2²² numbers, one cosine beats the datasheet: they fit into the L2 cache.
#
# ## Read what the compiler wrote
#
# `torch.compile` writes such kernels in Triton. In the first one below, find one load, two cosines, one store. (2²⁰ numbers fill the
# last block, so its mask is `None`.) In the softmax, where are the five operators, and how often is a row loaded?
#
# <details><summary>Answer</summary>
#
# A row is loaded once (`tmp0`). Then come maximum (`tmp6`), difference (`tmp7`), exponential (`tmp8`), sum (`tmp12`) and quotient
# (`tmp15`). `tmp13` and `tmp14` compute the difference and the exponential again.
#
# </details>

# %% tags=["explain"]
display(generated("cos_cos"), generated("softmax"))

# %% [markdown] tags=["explore"]
# ## Explore: write a line
#
# Fix this one, then write others, such as `y = x > 0 ? x : 0.1f * x`. On a GPU you see how close it comes to a copy. How many sines
# in a row make it slower?
#
# <details><summary>Answer</summary>
#
# `epxf` should be `expf`. In lesson 05's chain, two sines take as long as one; four take over one and a half times as long: their
# <!-- so sines: at(elements=67108864); busy('cuda', sines=2) / busy('cuda', sines=1) is 0.97 to 1.03; busy('cuda',
# sines=4) / busy('cuda', sines=1) is 1.5 to 2 -->
# arithmetic no longer hides behind the bytes.
#
# </details>

# %% tags=["explore"]
x = torch.randn(2**20, device="cuda" if torch.cuda.is_available() else "cpu")
try:
    display(against_copy(elementwise("y = x * tanf(log1pf(epxf(x)))", x=x)))
except LineError as error:
    print(error)

# %% [markdown] tags=["your-turn"]
# ## Your turn: count the bytes
#
# `torch.relu(x + b) * g`, where `x` and `g` have 4096 rows of 1024 float32, and `b` has 1024. *Calculate* how many bytes the three
# operators read and write one by one, and how many one fused kernel does.

# %% tags=["your-turn", "exercise:05b-bytes", "calculates"]
check("05b-bytes", eager=..., fused=...)

# %% [markdown] tags=["your-turn"]
# ## More: keep only the input
#
# `again(x)` should give what `chain(x)` gives, with the same gradient. Between forward and backward pass it may keep only `x` and the
# result. `checkpoint(function, x, use_reentrant=False)` returns `function(x)`, and runs `function` again when the backward pass needs
# what lies in between. Change `again`, then write `again=again`. `check` counts the arrays that are kept.


# %% tags=["your-turn", "exercise:05b-again", "makes"]
def chain(x):
    for _ in range(8):
        x = torch.nn.functional.hardswish(x)
    return x


def again(x):
    return chain(x)


check("05b-again", again=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# From *Making Deep Learning Go Brrrr From First Principles* and this course, judged on the data shown here.

# %% tags=["claims"]
claims("05b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Recompute cheap activations where a compiler fuses them: a chain of eight takes less time, and less memory by a factor of 4.5.
# <!-- so remat: at(activation='hardswish', depth=8, elements=67108864); peak_bytes('compile-saved') /
# peak_bytes('compile') is 4.45 to 4.55; period('compile') < period('compile-saved') -->
#
# - What is computed again inside a fused kernel moves no bytes, so saving memory can save time.
# - A good element-wise kernel reads each number once, by neighbouring threads, with many loads in flight.
# - Read what the compiler wrote: count its loads and its stores.
#
# Terms: [[rematerialisation]], [[memory-bound]], [[Little's law]], [[coalesced access]].

# %% [markdown] tags=["work"]
# ## At work
#
# Recompute a block's activations in the backward pass, and let the compiler do the rest. `TORCH_LOGS=output_code` prints what it
# wrote.
#
# ```python
# import torch
# from torch.utils.checkpoint import checkpoint
# block = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512))
# x = torch.randn(64, 512, requires_grad=True)
# y = checkpoint(block, x, use_reentrant=False)  # keeps only x for the backward pass
# y.sum().backward()
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road, [07 · What does one more column cost?](07_gemm_shapes.ipynb) looks into matrix multiplications.
#
# Back: [05 · What does fusion save?](05_fusion.ipynb)
