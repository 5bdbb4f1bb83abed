# ---
# jupyter:
#   brrr:
#     needs: []
# ---

# %% [markdown]
# # 04b · When does memory keep up? The answers

# %% tags=["setup"]
from math import ceil

from brrr_course import check

# %% [markdown]
# ## How many loads in flight?
#
# By Little's law the bytes in flight are bandwidth times latency. At full occupancy all multiprocessors together hold
# 132 × 2048 threads, and each load of each of them asks for 4 bytes.

# %% tags=["exercise:04b-little"]
bytes_in_flight = 4.8e12 * 400e-9
check("04b-little", bytes_in_flight=bytes_in_flight, loads=ceil(bytes_in_flight / (132 * 2048 * 4)))

# %% [markdown]
# ## Let neighbours read neighbours
#
# In each step the 32 threads read 32 numbers in a row: four sectors, all of each used.


# %% tags=["exercise:04b-mend"]
def place(thread, step):
    return step * 32 + thread


check("04b-mend", place=place)
