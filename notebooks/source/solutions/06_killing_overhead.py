# ---
# jupyter:
#   brrr:
#     needs: [cuda, pycuda, nvmath, triton]
# ---

# %% [markdown]
# # 06 · How much of the time is PyTorch itself? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## Where is the divide?
#
# hidden² · 4 bytes over the bandwidth is the GPU's time, and it is to be the host's.

# %% tags=["exercise:06-divide"]
hidden = (20e-6 * 4.2e12 / 4) ** 0.5
check("06-divide", hidden=hidden, quarter=hidden / 2)

# %% [markdown]
# ## What breaks a capture?
#
# `.item()` brings a number to Python, so Python waits for the GPU, and the `if` is decided once and for all. Without it
# the number stays where it is, and one formula holds in both cases: whatever is below 1 divides by 1.


# %% tags=["exercise:06-capture"]
def network(x, layers):
    for w, b in layers:
        x = (x @ w.t() + b).relu()
        x = x / x.square().mean().sqrt().clamp(min=1)
    return x


check("06-capture", network=network)
