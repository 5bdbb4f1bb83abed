# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 04b · What does the warehouse hand out?
#
# For engineers. The datasheet gives one bandwidth. But a small set of numbers may wait in a **cache** beside the factory,
# and the warehouse hands out no single numbers, only whole boxes. **When is memory faster than its datasheet, and when is
# it many times slower?**

# %% tags=["setup", "question"]
from brrr import check, claims, explore, factory, guess, reachable
from brrr.course import compare_growth

factory("memory")

# %% [markdown] tags=["guess"]
# ## Guess: a small warehouse next door
#
# Between the memory and the multiprocessors lies the **L2 cache**. A kernel copies within its working set again and
# again: once a set far larger than the L2, once one that fits into a quarter of it.

# %% tags=["guess"]
g = guess("Within the L2, a copy moves ... times as many bytes a second", unit="x")

# %% tags=["run"]
at = reachable("working_set", nbytes=3 * 2**22)
explore("working_set", at=at, lines=["copy", "read", "torch copy"], show="rate", unlock=g)

# %% tags=["compare"]
compare_growth(g, "working_set", ["copy", "torch copy"], of="rate", nbytes=(2**30, 3 * 2**22))

# %% [markdown] tags=["explain"]
# Follow the *sustained* lines from the left. Small sets lie in the cache. Then comes a cliff, and behind it the plain of
# the memory, where the dashed line of the datasheet begins. A copy reads one half of its set and writes the other; what
# is written must one day leave the cache, so its cliff need not stand at the very size on the datasheet.
#
# The line of **one torch operator** shows what a program sees. On small sets, a kernel's start and end take longer than
# its bytes, and the cache helps little. Where the set is large enough to hide them and still fits, you may see a hump: an
# operator on what the operator before it has left in the cache is faster than the datasheet's memory.

# %% [markdown] tags=["guess"]
# ## Guess: one number in eight
#
# ```python
# x[::8].sum()       # x: 2^28 float32, far more than any cache holds
# ```
#
# An eighth of the numbers is read, and nothing else.

# %% tags=["guess"]
s = guess("Reading one float in eight takes ... times as long as reading all", unit="x")

# %% [markdown] tags=["run"]
# The figure shows *useful* bytes a second: those of numbers that somebody asked for.

# %% tags=["run"]
there = reachable("strides", stride=8, offset=[0], numbers=2**28)
explore("strides", at=there, lines=["read", "write", "copy"], show="rate", unlock=s)

# %% tags=["compare"]
compare_growth(s, "strides", ["read", "copy", "write"], **{**there, "stride": (1, 8)})

# %% [markdown] tags=["explain"]
# Memory comes in boxes, **sectors** of 32 bytes: eight floats. Whoever wants one number gets the box. The 32 threads of a
# **warp** ask together: if they want neighbours, eight of them share each box, and their reads are **coalesced**. With
# a stride of eight, each thread needs a box of its own, and seven eighths of what the trucks carry is thrown away.
#
# The grey dashes say what follows if the memory hands out single sectors; those in the line's colour, if it hands out
# two at once. At wide strides they part. Which ones does the measurement follow?
#
# **Writes** are worse. A box that is only partly overwritten must be fetched first, changed, and brought back: a read for
# every write.

# %% [markdown] tags=["explore"]
# ## Explore: a crooked start
#
# Now all numbers, but beginning with the second one, as in `x[1:]`. Reads do not care: the box that two warps share is
# still in the cache for the second. For writes, each warp begins and ends in the middle of a box. In the last line one
# thing is changed: the first warp leaves a few of its threads idle, so that all warps after it begin with a box.

# %% tags=["explore"]
starts = ["read", "write", "write whole"]
crooked = reachable("strides", stride=1, offset=[1], numbers=2**28)
explore("strides", at=crooked, lines=starts, show={"y": "rate", "x": "offset"}, sliders=["offset", "numbers"])

# %% [markdown] tags=["your-turn"]
# ## Your turn: let neighbours read neighbours
#
# A warp of 32 threads reads 512 floats in 16 steps. `place(thread, step)` says which one a thread reads in which step.
# Each thread has a stretch of its own: natural on a CPU, where each core has its own cache, and dear here. Mend it so
# that every number is still read once, with as few sectors as can be. Then write `place=place`.


# %% tags=["your-turn", "exercise:04b-mend"]
def place(thread, step):
    return thread * 16 + step


check("04b-mend", place=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: which share is of use?
#
# One float in every `stride` is read from a long array; the memory hands out pieces of `piece` bytes. Write the share of
# the bytes handed out that is of use: 1 at stride 1. Try `share(8, 32)` in your head first. Then write `share=share`.


# %% tags=["your-turn", "exercise:04b-share"]
def share(stride, piece):
    return 1 / stride


check("04b-share", share=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# No source said these: they are this course's own sentences, judged on your source. Live, measure the points first.

# %% tags=["claims"]
claims("04b")
