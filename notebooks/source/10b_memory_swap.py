# ---
# jupyter:
#   readme: {short: 'memory swap', asks: 'what does a faster memory buy?', before: '04b, 07, 10'}
#   brrr:
#     leaves: '10'
#     cpu: false
#     needs: [cuda, two_boards]
# ---

# %% [markdown] tags=["question"]
# # 10b · What does a faster memory buy?
#
# Side road.
# Know before: [caches](04b_caches.ipynb), [shapes](07_gemm_shapes.ipynb), [diagnosis](10_diagnose_your_model.ipynb).
#
# The H200 is the H100 with a faster memory: as many multiprocessors, the same top clock and power limit, but a [[DRAM bandwidth]] of 4.8 TB a
# second in place of 3.35. Run a kernel on both: the ratio of the times tells its [[regime]]. **Which of your calls would gain?**
# <!-- so memory_swap: sheet('h100', 'memory_bytes_per_s') is 3.35e12 to 3.35e12; sheet('h200', 'memory_bytes_per_s') is
# 4.8e12 to 4.8e12; [sheet(device, 'sm_count') for device in ('h100', 'h200')] is 132 to 132; [sheet('h100', each) /
# sheet('h200', each) for each in ('tdp_w', 'boost_clock_hz')] is 1 to 1 -->
#
# You will be able to:
#
# - tell a regime from times on two GPUs
# - calculate what a faster memory gains a step
# - tell bytes moved from bytes waited for

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, drawing, guess

# %% [markdown] tags=["guess"]
# ## Guess: two calls
#
# Each call runs again and again on the same numbers. Only the kernels' own time counts. The first answer is right up to a factor of 1.11,
# the third from 1.25 on.

# %% tags=["guess"]
options = ["hardly at all", "by a part of 1.43x", "by 1.43x, or nearly"]
copy, matmul = "copy 184x16384 bfloat16", "matmul 2x24576x8192 bfloat16 nt"
g = guess("A copy that moves 12 MB gets faster ...", options=options)
w = guess("A matmul of two rows by a weight matrix of 403 MB gets faster ...", options=options)

# %% tags=["run"]
drawing("memory-swap", call="copy 8500x9461 bfloat16", unlock=w)

# %% tags=["compare"]
display(
    compare(g, "memory_swap", of="swap", call=copy),
    compare(w, "memory_swap", of="swap", call=matmul),
)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Why does the matmul gain more than the copy? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# After its first call the copy stays in the [[L2]], so a faster DRAM helps it little. The matmul streams through DRAM: it reads each weight
# once, for two rows.
# <!-- so memory_swap@h100: swapped()['matmul 2x24576x8192 bfloat16 nt'] > gain(); swapped()['copy 184x16384 bfloat16'] <
# 1.11 -->
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import torch  # the same on both GPUs: the column "Self CUDA" has the kernels' own time
# x = torch.randn(8500, 9461, device="cuda" if torch.cuda.is_available() else "cpu").bfloat16()
# with torch.profiler.profile() as told:
#     for _ in range(10):
#         y = x.clone()
# print(told.key_averages().table(row_limit=5))
# ```
#
# </details>
#
# **From a ratio to a share.** Let *m* be the memory's share of the time on the slower GPU. At the same clock only that part shrinks, by the
# bandwidths' ratio, *gain*. So the faster GPU takes *1 - m + m / gain* of that time: the ratio of both times tells *m*. From two thirds
# on we call the kernel [[memory-bound]].

# %% [markdown] tags=["explore"]
# ## Explore: who else gains?
#
# Move the slider above to `matmul 4096x4096x8192 bfloat16 nn`. It uses each number thousands of times: does it gain? Which calls
# move much and gain little?
#
# <details><summary>Answers</summary>
#
# That one gains nothing: arithmetic sets its time. (In an earlier recording it seemed to gain, since the clocks differed.)
# <!-- so memory_swap@h100: swapped()['matmul 4096x4096x8192 bfloat16 nn'] < 1.1 -->
# A matmul of size 4909 moves much and gains little. So does a softmax of rows of 6299 numbers, which stays well below the bandwidth.
# <!-- so memory_swap@h100: swapped()['softmax 16608x6299 bfloat16'] < 1.1; swapped()['matmul 4909x4909x4909 bfloat16
# nt'] < 1.1 -->
#
# </details>

# %% [markdown] tags=["your-turn"]
# ## Your turn: is the upgrade worth it?
#
# On an H100 the memory takes 60 % of a training step. *Calculate* how many times as fast the step is on an H200, whose memory is 1.43 times
# as fast, and how many times as fast it could be at most with any memory.

# %% tags=["your-turn", "exercise:10b-upgrade", "calculates"]
check("10b-upgrade", h200=..., at_most=...)

# %% [markdown] tags=["your-turn"]
# ## More: the other way round
#
# Write a function `share(slow, fast, gain)`: from two times of a call and the ratio of the bandwidths, the memory's share of the slow time.

# %% tags=["your-turn", "exercise:10b-share", "makes"]
check("10b-share", share=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# A call *streams* if it moves each number through DRAM once and its arithmetic takes less time than that.

# %% tags=["claims"]
claims("10b", source="recorded:h100")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Buy bandwidth for calls that stream: on an H200 each ran at least 1.38 times as fast as on an H100.
# <!-- so memory_swap@h100: swapped('streams') is 1.38 to 1.53 -->
#
# - The ratio of two times, with two memories and one clock, gives the memory's share.
# - Moving bytes is not waiting for bytes: a working set in the L2 gains little from a faster DRAM.
# <!-- so memory_swap@h100: swapped('cached') is 0.95 to 1.14 -->
# - An upgrade speeds up one part of a step; the other part limits the gain.
#
# Terms: [[regime]], [[DRAM bandwidth]], [[L2]], [[memory-bound]].

# %% [markdown] tags=["work"]
# ## At work
#
# No second GPU? Lower your GPU's clock to two thirds. What takes as long as before waits for memory:
#
# ```bash
# python step.py
# sudo nvidia-smi --lock-gpu-clocks=1320,1320
# nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw --format=csv
# python step.py
# sudo nvidia-smi --reset-gpu-clocks
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road: [15 · Why is my GPU idle although the model is fast?](15_feeding.ipynb)
#
# Back: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb)
