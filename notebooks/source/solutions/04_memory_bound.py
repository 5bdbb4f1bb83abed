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
# Both limits meet where peak over intensity is the bandwidth. One multiplication an element and step, and eight bytes an
# element: four read, four written.

# %% tags=["exercise:04-knee"]
check("04-knee", intensity=33.5e12 / 4.8e12, repeat=33.5e12 / 4.8e12 * 8)

# %% [markdown]
# ## Two slips
#
# A float of 32 bits has 32 / 8 = 4 bytes. And bytes an iteration times iterations a second are bytes a second; divided by
# them, faster code would reach less. The units tell: they must come out as something a second.
#
# Each element is read once and written once, hence the 2. One multiplication is one FLOP.


# %% tags=["exercise:04-slips"]
def bandwidth(elements, iterations_per_s):
    return 4 * 2 * elements * iterations_per_s


def flops(elements, repeat, iterations_per_s):
    return elements * repeat * iterations_per_s


check("04-slips", float_bytes=4, bandwidth=bandwidth, flops=flops)
