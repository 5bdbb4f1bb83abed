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

# %% [markdown] tags=["teaching"]
# ## 04b · When does memory keep up?
#
# | | |
# | --- | --- |
# | Goal | Tell under-filled from memory-bound; calculate the bytes that must be in flight; know when memory is faster than its datasheet (L2) and when it is many times slower (strides, sectors written in part). |
# | Minutes | 45 |
# | Before | Lesson 04. A side road: the main road goes on without it. |
# | Answers | [solutions/04b_caches.ipynb](../notebooks/solutions/04b_caches.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *132 blocks take as many times as long, or at least several times.* It comes from a processor that works through its tasks one by one.
#    As long as multiprocessors stand idle, and the memory too, more blocks cost nothing.
# 2. *Full occupancy is full bandwidth.* It comes from profilers that show occupancy as a percentage, as if it were a mark. What counts
#    are bytes in flight; warps are one way to have them, several loads in each thread are the other.
# 3. *To read one number in eight takes an eighth of the time.* It comes from counting what is wanted instead of what moves. Memory
#    moves whole sectors, and with a stride of eight floats each of them is touched.
#
# **Answers**
#
# - *The guesses:* in the cells that compare, from the data shown.
# - *Eight loads stay below the prediction:* the prediction takes the latency of one load in one block. A round of eight loads takes longer
#   than that, even with one block alone: starting and adding them takes time, and so do the kernel's start and end.
# - *Single sectors or two at once:* the claim *One number in sixteen takes as long as one in eight* decides it. Stride 32 lies between
#   pairs and whole lines; nothing that was recorded says why.
# - *Misaligned access:* reads do not mind, writes do, and a write whose warps begin with a sector does not. The last one is the proof
#   of the explanation: it changes nothing but which threads are idle.
# - *How many loads in flight:* bandwidth times latency, 1.92 MB; over 132 multiprocessors, 2048 threads and 4 bytes that is 1.8,
#   so 2. The measured line for two loads ends a little below the bandwidth, since loads take longer when more of them are in flight.
#   <!-- definition: the exercise -->
# - *Let neighbours read neighbours:* `return step * 32 + thread`. Any order is right in which each step reads 32 numbers of four whole
#   sectors and every number is read once.
# - *What holds:* `brrr claims occupancy working_set strides`. All sentences are the course's own.
#
# **To discuss.** A table of a million users has 32 columns of float32, stored row by row, and a kernel sums one column. What does it
# pay for, and which two cures are there? (A stride of 128 bytes: of each piece of memory one float is of use. Store it column by
# column, or compute all the sums that are ever wanted in one pass over the rows. And if another kernel reads whole rows? Then one of
# the two pays, or the table is kept twice.)
#
# ---
