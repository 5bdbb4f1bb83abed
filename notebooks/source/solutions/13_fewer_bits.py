# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 13 · When do fewer bits help? The answers

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
# ## Scales for fp8
#
# A scale can be taken out of a sum only if all its terms share it: one for each row of `a`, one for each column of `b`.


# %% tags=["exercise:13-scales"]
def scales(a, b):
    return a.abs().amax(1, keepdim=True) / 448, b.abs().amax(0, keepdim=True) / 448


check("13-scales", scales=scales)

# %% [markdown] tags=["teaching"]
# ## 13 · When do fewer bits help?
#
# | | |
# | --- | --- |
# | Goal | Say for a layer, its tokens and a type which bytes and which FLOP change; place it on the roofline of its type; name what a conversion costs and what it loses. |
# | Minutes | 60: 15 for the first guess, 10 for the drawing, 20 for many tokens and the int8 weights, 15 for the two exercises |
# | Before | Lessons 04, 07 and 10. |
# | Answers | [solutions/13_fewer_bits.ipynb](../notebooks/solutions/13_fewer_bits.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *A quarter of the bits, four times as fast.* Scales and zeros are bytes too, and widening is work. With many tokens the weights'
#    bytes no longer count.
# 2. *fp8 is twice as fast.* By the datasheet. The activations must be scaled and cast, and near its peak the power limit slows the clock.
# 3. *TF32 makes float32 faster.* Only where arithmetic sets the pace: in memory it is float32.
#
# **Answers**
#
# - *The guesses:* in the cells that compare, from the recording.
# - *Weights in int8:* folded in the lesson. <!-- definition: the exercise -->
# - *Where int4 loses:* 16.8 MB; from 6 tokens on. <!-- definition: the exercise -->
# - *Scales for fp8:* the largest number of each row of `a`, and of each column of `b`, over 448.
#
# **To discuss.** A server answers one reader at night and two hundred at noon. In which type should it keep its weights, and could it
# change with the load?
