# ---
# jupyter:
#   readme: {short: 'start here', asks: 'how do these notebooks work?', before: '–'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 00 · Start here
#
# **A GPU is built to do a lot of arithmetic at once. Is it faster than a CPU at everything?**
#
# You will be able to:
#
# - say where a CPU beats a GPU, and why
# - calculate when a [[stream|queue]] of [[kernel|kernels]] is done
# - fix a program that simulates such a queue
#
# Click into a cell and press Shift+Enter to run it, one cell after the other. You cannot break anything: this is your own copy.
# In a fresh copy, experiments start covered. Guess before you look: a wrong guess teaches more than a right one.

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, data_here, explore, factory, guess, share

data_here()

# %% [markdown] tags=["question"]
# **In a class?** Do you agree that your teacher sees your guesses and marks? Then replace `...` by `True`. It holds for one notebook:
# in the next, write `from brrr_course import share` and the same line.

# %% tags=["setup", "question"]
share(...)

# %% tags=["guess"]
g = guess("Two very small matrices are multiplied. Which takes less time?", options=["the CPU", "the GPU"])

# %% tags=["run"]
explore(
    "matmul", at={"size": 1}, lines=["cpu", "synchronized"], unlock=g, title="One multiplication: the CPU or the GPU?"
)

# %% tags=["compare"]
compare(g, "matmul", {"the CPU": "cpu", "the GPU": "synchronized"}, size=1)

# %% [markdown] tags=["explain"]
# <details><summary>What measured it</summary>
#
# ```python
# import time, torch
# for device in ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]:
#     a, wait = torch.randn(1, 1, device=device), torch.get_device_module(device).synchronize
#     for _ in range(9):  # the first calls also set things up
#         start = time.perf_counter(); c = a @ a; wait(); seconds = time.perf_counter() - start
#     print(device, seconds)
# ```
#
# </details>
#
# ## Host and GPU
#
# Your program runs on the [[host]], the computer with the CPU. The GPU is the [[device]]. An operation on the GPU
# is a [[kernel]], a function that runs there. The host [[kernel launch|launches]] it, which only puts it at the end of a
# [[stream]], a queue. The GPU takes one kernel after the other from this queue. Each kernel reads numbers from the GPU's memory,
# computes, and writes its results back. (The grey words in the picture are an analogy.)

# %% tags=["explain"]
factory()

# %% [markdown] tags=["explain"]
# In each part of a program one of four things sets the pace, its [[regime]]:
#
# - **host overhead**: the host takes longer to launch a kernel than the GPU takes to run it;
# - **memory bandwidth**: reading and writing the bytes takes longer than the arithmetic;
# - **compute**: the arithmetic takes longer than the bytes;
# - **under-filled GPU**: too little work is under way at once, so most of the GPU waits: the work is small, or each step needs the
#   result of the one before.

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** At size 1 there is a single multiplication to do. What does the GPU's time consist of? Double-click here and
# write one sentence; Shift+Enter shows it.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# Fixed costs: the host chooses a kernel, launches it, and waits until the GPU reports that it is done. The CPU just calls a function.
#
# </details>

# %% [markdown] tags=["explain"]
# ## How to read a figure
#
# Every figure and table of measurements carries a **badge**:
#
# | badge | where the numbers come from |
# | --- | --- |
# | RECORDED | measured before, on the device it names; a line between two points only joins them |
# | LIVE | measured on this computer, now |
# | PREDICTED | calculated, not measured; drawn dashed |
#
# *3 GPUs* at its end means that the points come from three GPUs of that model, some from one and some from another. A number before the name
# says that each point took so many GPUs together.
#
# How precise is a time? In the table, each time is followed by its [[interval]] within that run, from n samples. *Measured again later, times
# differ by up to ... (CPU)*: that much the line in brackets changed between two days. Two lines differ for certain only if they are further
# apart than this.
#
# Point at a word with dots below it, such as [[median]], and its meaning appears.

# %% [markdown] tags=["explore"]
# Move the slider of the first figure to the right, and read the bold line above it. From which size on is the GPU faster? What
# does its time consist of at either end?
#
# <details><summary>Answer, for the recording</summary>
#
# Up to size 128 the CPU is faster, from 256 on the GPU (for certain from 512 on). At the left end the GPU's time is fixed cost, and
# <!-- so matmul: faster = latency('gpu') < latency('cpu'); from_on(faster) is 256 to 256; count(faster) ==
# count(latency('cpu', size=least(256))); from_on(latency('cpu') > 1.9 * latency('gpu')) is 512 to 512;
# latency('gpu', size=most(128)) > 1.9 * latency('cpu', size=most(128)); flat = latency('gpu', size=most(128)); max(flat) < 1.4 * min(flat) -->
# changes little with the size. At the right end it is compute, and grows with the size.
#
# </details>

# %% [markdown] tags=["your-turn"]
# ## Your turn: a hundred kernels
#
# The host needs 10 µs to launch a kernel. The GPU needs 2 µs to run it, and runs it while the host launches the next one. A program
# launches **100 kernels**. *Calculate* the microseconds from the start of the first launch to the end of the last kernel.
#
# Replace the `...` by your number and run the cell. It marks your answer, and gives a hint.
# Solutions are in `notebooks/solutions` in the repository.

# %% tags=["your-turn", "exercise:00-launches", "calculates"]
check("00-launches", microseconds=...)

# %% [markdown] tags=["your-turn"]
# ## More: kernels of any length
#
# `finished` gets two lists: how long each launch takes the host, and how long each kernel runs. It should return the time at which
# the last kernel is done. But it has a bug: it lets kernels run before they are launched. Fix it, then write `finished=finished`.


# %% tags=["your-turn", "exercise:00-queue", "makes"]
def finished(launches_us, kernels_us):
    launched = done = 0
    for number, launch in enumerate(launches_us):
        launched = launched + launch
        done = done + kernels_us[number]
    return done


check("00-queue", finished=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# Here each lesson shows what somebody claimed, whether the measurements agree, and what follows for you. A claim *holds*,
# *fails*, or is *undecided* if the measurements are not precise enough. *Needed* is what a value must reach for the claim
# to hold. *Claim written after the data*: its measurements already existed. The *CPU queue* stands in for a GPU where there is none.

# %% tags=["claims"]
claims("00", source="recorded:h200")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Leave on the CPU a matrix product that it does in less than about 15 µs: called alone from PyTorch, each takes this H200 longer.
# <!-- so matmul: min(latency('gpu')) is 14.5e-6 to 15.5e-6; latency('cpu', size=[1, 64, 128]) < min(latency('gpu')) -->
#
# - A GPU operation is a kernel in a queue: the host launches it and goes on.
# - The slower one sets the pace: the host that launches kernels, or the GPU that runs them.
# - A kernel's own time is set by its bytes, its arithmetic, or by how much of the GPU it fills.
#
# Terms: [[host]], [[device]], [[kernel]], [[kernel launch]], [[stream]], [[regime]].

# %% [markdown] tags=["work"]
# ## At work
#
# Is there a GPU, and does PyTorch use it?
#
# ```python
# import torch
# device = "cuda" if torch.cuda.is_available() else "cpu"
# if device == "cuda":
#     print(torch.cuda.get_device_name(), torch.version.cuda)
# x = torch.randn(1024, 1024, device=device)
# print((x @ x).device, torch.__version__)
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [01 · Why does the GPU's time look constant?](01_async_timing.ipynb) times matrix multiplications, and falls into a trap. The
# whole course; a lesson on the right says first what to read before it, and leads back:
#
# ```text
# main road                   side roads
# 00 start here
# 01 timing                   01b benchmarks that lie
# 02 copies                   02b overlapping copies
# 03 overhead
# 04 memory and roofline      04b caches, 04c a layer without matmul
# 05 fusion                   05b generated code, 06 and 06b small layers
# 07 matmul shapes            07c layouts, 08 and 08b recurrent networks, 09 and 09b Strassen
# 10 your own model           10b memory, 13 and 13b fewer bits, 14 two GPUs
# 15 feeding the GPU
# 12 torch.compile
# 11 a language model         11b attention
# 16 memory
# ```
