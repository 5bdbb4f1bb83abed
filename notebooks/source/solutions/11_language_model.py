# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 11 · Why does one token take so long? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## How many readers fit?
#
# A key and a value in each layer: 2 x 32 x 8 x 128 numbers of 2 bytes. What 64 GB hold, over what 8192 tokens take.

# %% tags=["exercise:11-cache"]
token_bytes = 2 * 32 * 8 * 128 * 2
check("11-cache", token_bytes=token_bytes, readers=int(64e9 / (8192 * token_bytes)))

# %% [markdown]
# ## Make the step capturable
#
# A tensor is an index as it is: torch looks the place up on the GPU.


# %% tags=["exercise:11-capture"]
def step(logits, text, place):
    text[:, place] = logits.argmax(-1, keepdim=True)
    place += 1


check("11-capture", step=step)

# %% [markdown] tags=["teaching"]
# ## 11 · Why does one token take so long?
#
# | | |
# | --- | --- |
# | Goal | Tell the regime of decode and of prefill from bytes and FLOP; say what batching costs one reader; count a KV cache. |
# | Minutes | 40 |
# | Before | Lessons 04, 05 and 10. |
# | Answers | [solutions/11_language_model.ipynb](../notebooks/solutions/11_language_model.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *The GPU is too slow for the arithmetic.* One token takes 2 FLOP for each weight; loading the weights takes hundreds of times
#    as long. <!-- definition: a multiplication and an addition -->
# 2. *32 readers take 32 times as long.* The weights are read once for all; only the keys and values add up.
#    <!-- definition: the guess -->
# 3. *The cache is small beside the weights.* For one reader it is; what counts is the tokens of all readers together.
#
# **Answers**
#
# - *Readers and context:* 75 000 tokens weigh as much as the weights. <!-- definition: the exercise -->
# - *How many readers fit:* 131072 bytes per token; 59 readers. <!-- definition: the exercise -->
# - *Make the step capturable:* `text[:, place] = logits.argmax(-1, keepdim=True)`.
#
# **To discuss.** A server waits for more readers before each step. What does a reader gain or lose, and who decides how long to
# wait? (Each step is shared by more readers, so each token is cheaper; the first token comes later.)
