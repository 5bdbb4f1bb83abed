# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 13b · When does multiplying in fewer bits help? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## How wide must the layer be?
#
# For each token the matmul has 2 · width² FLOP. fp8 saves half of their time in bf16: width² / peak. The cast takes 9 · width / bandwidth. Both
# are equal at a width of 9 · peak / bandwidth.

# %% tags=["exercise:13b-width"]
ridge = 989e12 / 4.8e12
check("13b-width", width=9 * ridge, compiled_width=3 * ridge)

# %% [markdown]
# ## Scales for fp8
#
# A scale can be taken out of a sum only if all its terms share it: one for each row of `a`, one for each column of `b`.


# %% tags=["exercise:13b-scales"]
def scales(a, b):
    return a.abs().amax(1, keepdim=True) / 448, b.abs().amax(0, keepdim=True) / 448


check("13b-scales", scales=scales)

# %% [markdown] tags=["teaching"]
# ## 13b · When does multiplying in fewer bits help?
#
# | | |
# | --- | --- |
# | Goal | Say for a layer and its tokens whether the multiplied type sets the pace; name what a cast costs and what a type loses. |
# | Minutes | 35 |
# | Before | Lesson 13. |
# | Answers | [solutions/13b_multiplied_bits.ipynb](../notebooks/solutions/13b_multiplied_bits.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *TF32 makes float32 faster.* Only where arithmetic sets the pace: in memory it is float32.
# 2. *fp8 is twice as fast.* By the datasheet. The activations must be scaled and cast, and near its peak the power limit slows
#    the clock.
# 3. *The cast is a detail.* It reads every activation several times, and in a narrow layer the matmul is too short to hide it.
#
# **Answers**
#
# - *How wide:* 1854, and compiled 618: bytes of the cast times FLOP/s over bytes/s. <!-- definition: the exercise -->
# - *Scales for fp8:* the largest number of each row of `a`, and of each column of `b`, over 448.
#
# **To discuss.** Where in a transformer would you not multiply in fp8, and how would you find out?
