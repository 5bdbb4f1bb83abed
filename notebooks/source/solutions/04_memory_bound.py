# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 04 · How much arithmetic is free? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## Where is the knee?
#
# Bytes and arithmetic take equally long at the peak over the bandwidth. Each step is one multiplication per element, and an element
# moves eight bytes: four read, four written.

# %% tags=["exercise:04-knee"]
check("04-knee", intensity=33.5e12 / 4.8e12, repeat=33.5e12 / 4.8e12 * 8)

# %% [markdown]
# ## Two slips
#
# A float of 32 bits has 32 / 8 = 4 bytes. And bytes per iteration times iterations per second are bytes per second.
# Divided by them, faster code would reach less. The units tell: the result must be something per second.
#
# Each element is read once and written once, hence the 2. One multiplication is one FLOP.


# %% tags=["exercise:04-slips"]
def bandwidth(elements, iterations_per_s):
    return 4 * 2 * elements * iterations_per_s


def flops(elements, repeat, iterations_per_s):
    return elements * repeat * iterations_per_s


check("04-slips", float_bytes=4, bandwidth=bandwidth, flops=flops)

# %% [markdown] tags=["teaching"]
# ## 04 · How much arithmetic is free?
#
# | | |
# | --- | --- |
# | Goal | Tell from bytes and FLOP whether a kernel waits for memory or arithmetic; predict where its time starts to grow; read a roofline. |
# | Minutes | 40 |
# | Before | Lessons 00, 01 and 03. What a byte and a floating-point number are; axes with a logarithmic scale. |
# | Answers | [solutions/04_memory_bound.ipynb](../notebooks/solutions/04_memory_bound.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *32 multiplications take 32 times as long as one.* The kernel waits for its bytes, while the arithmetic units could do far
#    more. The guess is right for the line *one operator each*: there every multiplication reads and writes all elements again.
#    <!-- definition: a wrong guess -->
# 2. *gelu takes several times as long as relu.* Its formula is long, but in float32 both wait for the same bytes. In bfloat16,
#    half the bytes, the guess is right for some operators: see the claims.
# 3. *The GPU does not reach its datasheet, so something is wrong with it.* The peak counts fused multiply-adds, two FLOP in one
#    instruction; multiplications alone can reach half of it.
#
# **Answers**
#
# - *Two slips:* a 32-bit float has 4 bytes; and the article's rates multiply by iterations per second instead of dividing by
#   them. Its conclusion (about a hundred operations for each element) stands all the same: an element is also written, and twice
#   4 bytes are the 8 that the text gives to one float.
# - *Where is the knee:* the ridge point for multiplications, 33.5 / 4.8 = 7 FLOP/B, times the eight bytes of an element: 56. The
#   claim *ridge point tells where the runtime starts to grow* compares it with the knee of every version.
#   <!-- definition: the exercise -->
# - *What the article claims:* `brrr claims repeat unary`. On its other GPU, claims about TFLOP/s that fail here may have been
#   true; claims about the shape of the curves should hold anywhere.
#
# **To discuss.** A colleague makes an activation function cheaper: half the FLOP, the same accuracy. What does a training run
# gain? (Nothing, as long as its kernel waits for bytes. It gains if one fused kernel has many such functions, if the type is half
# as wide, or if the data come from a cache. Ask for the intensity first.)
