# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 16 · Where does the memory go? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## The largest batch
#
# Four numbers of 4 bytes for each parameter stay, whatever the batch. What they leave, over what 2048 tokens take.

# %% tags=["exercise:16-fit"]
fixed_gb = 1.5e9 * (4 + 4 + 8) / 1e9
check("16-fit", fixed_gb=fixed_gb, batch=int((80 - fixed_gb) * 1e9 / (2048 * 5e6)))

# %% [markdown]
# ## What keeps it alive?
#
# `.item()` makes a number, which has no graph; and nothing goes back twice, so no graph need be retained. (On a GPU `.item()` waits: add up
# `loss.detach()` there, and read it once.)


# %% tags=["exercise:16-alive"]
def train(model, optimizer, batches):
    total = 0
    for x in batches:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = total + loss.item()
    return total / len(batches)


check("16-alive", train=train)

# %% [markdown] tags=["teaching"]
# ## 16 · Where does the memory go?
#
# | | |
# | --- | --- |
# | Goal | Split a step's memory into its parts, calculate whether it fits, and say what frees which part at which price. |
# | Minutes | 35 |
# | Before | Lessons 02 and 11; 05b for rematerialisation. |
# | Answers | [solutions/16_memory.ipynb](../notebooks/solutions/16_memory.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *The parameters are the largest part.* With AdamW they are a quarter of what is fixed; activations grow with the tokens.
#    <!-- definition: 4 of 16 bytes -->
# 2. *bf16 autocast halves the memory.* Parameters, gradients and state stay in float32, and so do norms and the loss.
# 3. *`empty_cache` makes room for my tensors.* What it gives back was free for them anyway.
#
# **Answers**
#
# - *Where are the gradients?* There are none yet at this peak: it comes with the loss, before the backward pass makes one.
# - *The largest batch:* 24 GB; 5 sequences. <!-- definition: the exercise -->
# - *What keeps it alive:* `loss.item()`, and `backward()` without `retain_graph`.
#
# **To discuss.** A step needs one and a half times the GPU's memory. Which would you try first: half the batch, checkpointing,
# another optimizer, LoRA, offloading, a second GPU? (What is the largest part, and what does each cost in time, or in what the
# model learns?)
