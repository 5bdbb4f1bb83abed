# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton]
# ---

# %% [markdown]
# # 05 · What does fusion save? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## The small part of the FLOP
#
# A product of (tokens, a) by (a, b) has 2 · tokens · a · b FLOP. Of arrays of tokens × width, a layer norm reads one and writes
# one, an addition reads two and writes one, and the GELU's have four times the width.

# %% tags=["exercise:05-transformer"]
width, tokens = 1024, 8192
flop = 2 * tokens * (4 * width**2 + 2 * width * 4 * width)
nbytes = (2 * 2 + 2 * 3 + 2 * 4) * tokens * width * 2
rest, products = nbytes / 4.2e12, flop / 660e12
check("05-transformer", flop=flop, nbytes=nbytes, share=rest / (rest + products))

# %% [markdown]
# ## Three passes as one
#
# What the next operation needs stays in a variable: a register.


# %% tags=["exercise:05-passes"]
def gated(memory, n):
    for i in range(n):
        total = memory.read("x", i) + memory.read("b", i)
        memory.write("y", i, max(total, 0.0) * memory.read("g", i))


check("05-passes", gated=gated)
