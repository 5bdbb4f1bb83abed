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
# | Goal | Know that a GPU call returns before its work is done; time GPU work correctly, say what a timer is true of, and what a first call pays for. |
# | Minutes | 45 |
# | Before | Lesson 00. Some Python: functions, loops, `time.perf_counter()`. What a matrix multiplication is, and that its work grows with the cube of the size. |
# | Answers | [solutions/01_async_timing.ipynb](../notebooks/solutions/01_async_timing.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *The clock says how long the multiplication takes* (milliseconds and more). It does on a CPU. Here the call returns at once:
#    the clock sees only the launch, which does not grow with the size.
# 2. *The curve is flat because the GPU has so many units that size does not matter.* The article tells how one comes to believe
#    it. Stop the clock after `synchronize()`, and the curve rises, except at the smallest sizes: they show a call's fixed cost.
# 3. *Synchronising after each call makes a timer right, and no sync is always the worst one.* For a small operation, waiting adds
#    the launch and the report of the end. Each timer is true of something; ask of what.
#
# A fourth one, about the first call: *the kernel is compiled when it is first used.* torch's own kernels are only loaded: see the
# line *all loaded before*.
#
# **Answers**
#
# - *The ranking:* timers with almost equal errors share a place, so different orders can be right.
# - *Read two events:* 460 µs over 100 calls is 4.6 µs a call. The pair around one call adds 6 µs: the GPU's wait for the launch,
#   and the kernel's start.
#   <!-- definition: the exercise -->
# - *Build the timer:* one call to warm up, an event, many calls, an event, one wait; then the time between the events over the
#   number of calls. Right where a call takes longer than its launch; the small ReLU needs a CUDA graph, or this times the host.
# - *What the article claims:* `brrr claims matmul first_call`. A claim that fails on your machine is a result, not the student's
#   mistake: the article had another GPU, CPU and link.
#
# **To discuss.** A colleague's `print(loss)` takes most of the training step, and they want to make printing faster. What do you
# tell them? (Printing needs the value, so it waits for everything in the queue. To see that, synchronise before the print and
# time both parts.)
