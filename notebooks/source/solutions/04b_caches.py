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
# | Goal | Tell under-filled from memory-bound; calculate the bytes that must be in flight; know when memory is faster than its datasheet (L2) and when many times slower (strides, sectors written in part). |
# | Minutes | 45 |
# | Before | Lesson 04. A side road. |
# | Answers | [solutions/04b_caches.ipynb](../notebooks/solutions/04b_caches.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *132 blocks take 132 times as long as one, or at least several times.* While multiprocessors and memory stand idle, more
#    blocks cost nothing.
#    <!-- definition: a wrong guess -->
# 2. *Full occupancy is full bandwidth.* What counts is bytes in flight: many warps are one way to have them, several loads in
#    each thread the other.
# 3. *Reading one number in eight takes an eighth of the time.* Memory moves whole sectors, and a stride of eight floats touches
#    each of them.
#
# **Answers**
#
# - *Eight loads stay below the prediction:* it assumes the latency of one load. A round of eight takes longer, even in one block:
#   starting and adding them takes time, and so do the kernel's start and end.
# - *Single sectors or two at once:* the claim *One number in sixteen takes as long as one in eight* decides it. Stride 32 lies
#   between pairs and whole lines; the recording does not say why.
# - *Misaligned access:* reads do not suffer, writes do, and a write whose warps begin with a sector does not. This last case,
#   which changes only which threads are idle, proves the explanation.
# - *How many loads in flight:* bandwidth times latency, 1.92 MB; over 132 multiprocessors, 2048 threads and 4 bytes that is 1.8,
#   so 2. The measured line for two loads ends a little below the bandwidth: loads take longer when more are in flight.
#   <!-- definition: the exercise -->
# - *Let neighbours read neighbours:* `return step * 32 + thread`. Any order is right in which each step reads 32 numbers of four
#   whole sectors and every number is read once.
# - *What holds:* `brrr claims occupancy working_set strides`. All sentences are the course's own.
#
# **To discuss.** A table has 32 columns of float32, stored row by row, and a kernel sums one column. What does it pay for, and
# which two cures are there? (The stride is 128 bytes, of which it uses one float. Store the table column by column, or compute
# all sums in one pass over the rows. And if another kernel reads whole rows? One of the two pays, or the table is kept twice.)
