# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown]
# # 01 · Why does the GPU's time look constant? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## Read two events
#
# A hundred calls share what the events and the start cost; a single one bears it alone.

# %% tags=["exercise:01-events"]
check("01-events", call_us=460 / 100, pair_us=10.6 - 460 / 100)

# %% [markdown]
# ## Build the timer
#
# One call before the first event sets everything up. Many calls share what surrounds them, and the host waits once, at the end.


# %% tags=["exercise:01-timer"]
def timer(call, synchronize, event):
    call()
    start = event()
    for _ in range(100):
        call()
    end = event()
    synchronize()
    return start.elapsed(end) / 100


check("01-timer", timer=timer)
