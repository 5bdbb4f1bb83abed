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
# A hundred calls share what the events and the start cost. Around a single call, all of that is in the time.

# %% tags=["exercise:01-events"]
check("01-events", call_us=460 / 100, extra_us=10.6 - 460 / 100)

# %% [markdown]
# ## Build the timer
#
# One call before the first event sets everything up. Many calls share what surrounds them, and the host waits once, at the end. This
# is right because a call takes far longer than its launch: the GPU sets the pace.


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

# %% [markdown] tags=["teaching"]
# ## 01 · Why does the GPU's time look constant?
#
# | | |
# | --- | --- |
# | Goal | Know that a GPU call returns before its work is done; be able to time GPU work correctly and say what a given timer is true of; know what a first call pays for. |
# | Minutes | 45 |
# | Before | Lesson 00. Some Python: functions, loops, `time.perf_counter()`. What a matrix multiplication is, and that its work grows with the cube of the size. |
# | Answers | [solutions/01_async_timing.ipynb](../notebooks/solutions/01_async_timing.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *The clock says how long the multiplication takes* (milliseconds and more). It comes from the CPU, where a call returns when its work
#    is done. The clock says how long the launch takes, and that does not grow with the size.
# 2. *The curve is flat because the GPU has so many units that size does not matter.* A plausible story, and the article tells how one
#    comes to believe it. The test: stop the clock after `synchronize()`, and the curve is no longer flat. (At the smallest sizes it
#    stays nearly flat even then. There the story is right about the effect: it is the fixed cost of one call.)
# 3. *Synchronising after each call makes a timer right, and no sync is always the worst one.* For a small operation the ranking
#    surprises: a timer that waits counts the launch and the report of the end with the work. Each timer is true of something; ask of what.
#
# A fourth one, about the first call: *the kernel is compiled when it is first used.* torch's own kernels are loaded: compare the first
# kernel with the line *all loaded before*.
#
# **Answers**
#
# - *The guess and the ranking:* in the cells that compare. Timers whose errors are almost the same count as one
#   place, so two students with different orders can both be right.
# - *Read two events:* 460 µs over 100 calls are 4.6 µs; the pair around one call holds 6 µs more: the GPU's wait for the launch, and the
#   kernel's start.
#   <!-- definition: the exercise -->
# - *Build the timer:* one call to warm up, an event, many calls, an event; wait once; the seconds between the events over the number of
#   calls. It is right where a call takes longer than its launch, as here; on the small ReLU it would time the host, and the
#   calls belong in a CUDA graph.
# - *The first call:* folded under the question.
# - *What the article claims:* `brrr claims matmul first_call`. A claim of the article that fails on your machine is a result, not a
#   mistake of the student: its GPU, its CPU and the link between them were different ones.
#
# **To discuss.** A colleague reports that a network's `print(loss)` takes most of the training step, and wants to make printing
# faster. What do you tell them? (Printing needs the value, so it waits for everything in the queue. The time belongs to the work
# before it. How would they find out? Synchronise before the print and time both parts.)
#
# ---
