# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 13 · When do weights in fewer bits help? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## Where int4 loses
#
# 8192 / 8 blocks read 8192 activations of 2 bytes each: 16.8 MB a token. int4 saves 134.2 - 35.7 = 98.6 MB of weights, which five tokens
# do not use up, and six do.

# %% tags=["exercise:13-crossover"]
activation_bytes = 8192 / 8 * 8192 * 2
check("13-crossover", activation_bytes=activation_bytes, loses_from=6)

# %% [markdown]
# ## How many bytes?
#
# Eight bits are a byte, and there is a scale and a zero for each group.


# %% tags=["exercise:13-bytes"]
def weight_bytes(width, bits, group):
    return width**2 * (bits / 8 + 4 / group)


check("13-bytes", weight_bytes=weight_bytes)

# %% [markdown] tags=["teaching"]
# ## 13 · When do weights in fewer bits help?
#
# | | |
# | --- | --- |
# | Goal | Say which bytes change with the type in which weights are stored; place a layer on the roofline; name what widening costs. |
# | Minutes | 40 |
# | Before | Lessons 04, 07 and 10. |
# | Answers | [solutions/13_fewer_bits.ipynb](../notebooks/solutions/13_fewer_bits.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *A quarter of the bits, four times as fast.* Scales and zeros are bytes too, and widening is work.
# 2. *int4 gains as long as the layer is memory-bound.* The roofline says so, for a kernel that reads each byte once. PyTorch's
#    reads the activations again in each block.
# 3. *Fewer bytes are never slower.* With many tokens the weights' bytes no longer count, and widening them still does.
#
# **Answers**
#
# - *Where int4 loses:* 16.8 MB; from 6 tokens on. <!-- definition: the exercise -->
# - *How many bytes:* width squared times (bits / 8 + 4 / group). <!-- definition: the exercise -->
#
# **To discuss.** A server answers one reader at night and two hundred at noon. In which type should it keep its weights, and
# could it change with the load?
