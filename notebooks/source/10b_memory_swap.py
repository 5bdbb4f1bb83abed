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
# Side road. Read 04b, 07 and 10 first.
#
# You find a [[regime]] by changing one thing. Here somebody else changed it: the H200 is the H100 with a different memory. Both have 132
# multiprocessors at the same clock, and the same power limit. But the [[DRAM bandwidth]] is 4.8 TB a second in place of 3.35, and the
# [[L2]] is a fifth larger. Run the same kernel on both and divide the times: if nothing else differs, the ratio tells its regime. **Which
# <!-- so memory_swap: sheet('h100', 'memory_bytes_per_s') is 3.35e12 to 3.35e12; sheet('h200', 'memory_bytes_per_s') is
# 4.8e12 to 4.8e12; sheet('h200', 'l2_bytes') / sheet('h100', 'l2_bytes') is 1.2 to 1.2; [sheet(device, 'sm_count') for
# device in ('h100', 'h200')] is 132 to 132; [sheet('h100', each) / sheet('h200', each) for each in ('tdp_w',
# 'boost_clock_hz')] is 1 to 1 -->
# of your calls would gain?**

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, drawing, guess

# %% [markdown] tags=["guess"]
# ## Guess: eight calls
#
# Each call runs on one GPU and then on the other. Only the kernels' own time counts, so the host has no part in it. Each call is repeated
# on the same numbers: what fits into the L2 stays there. Up to a factor of 1.11 counts as *hardly at all*, from 1.25 on as *nearly*.

# %% tags=["guess"]
asked = {
    "copy 8500x9461 bfloat16": "A copy that moves 322 MB",
    "copy 184x16384 bfloat16": "A copy that moves 12 MB, again and again",
    "matmul 2x24576x8192 bfloat16 nt": "A matmul of two rows by a weight matrix of 403 MB",
    "matmul 4096x4096x8192 bfloat16 nn": "A matmul of 4096 x 8192 by 8192 x 4096",
    "layer_norm 15351x984 float32": "A layer norm of 15351 rows of 984 numbers",
    "rms_norm 342484x47 float32": "An RMS norm of 342484 rows of 47 numbers",
    "attention_causal 1x20x4001x128 bfloat16": "Causal attention over 4001 tokens, 20 heads",
    "softmax_columns 509x307 float32": "A softmax down each of 307 columns of 509 numbers",
}

# %% tags=["guess"]
options = ["hardly at all", "by a part of 1.43x", "by 1.43x, or nearly"]
guesses = {call: guess(f"{what} gets faster ...", options=options) for call, what in asked.items()}

# %% tags=["run"]
last = guesses["softmax_columns 509x307 float32"]
drawing("memory-swap", call="copy 8500x9461 bfloat16", unlock=last)

# %% tags=["compare"]
for call, guessed in guesses.items():
    display(compare(guessed, "memory_swap", of="swap", call=call))

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** There are two copies and two matmuls: why is one of each pair where it is? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# The large copy streams through DRAM. So does the matmul of two rows: it reads each weight once and uses it twice. The small copy
# never leaves the L2 after its first call. The large matmul uses each number thousands of times, so arithmetic sets its pace. It gains
# all the same, but not from the memory: on the H100 its clock was lower, as a GPU's is at its power limit. Move to that call, and the line
# above the picture has both clocks.
#
# </details>
#
# Both norms move more than a cache holds, and gain next to nothing. On either GPU they stay well below the bandwidth, so something
# <!-- so memory_swap@h100: [swapped()[each] for each in ('layer_norm 15351x984 float32', 'rms_norm 342484x47 float32')]
# < 1.1 -->
# else sets their pace. We did not measure what.
#
# **From a ratio to a share.** One part of a call's time shrinks with the memory, the other part does not. Let *m* be the memory's share of
# the time on the slower GPU. Then the faster one takes *1 - m + m / gain* of that time. So the ratio of the two times tells *m*. From two
# thirds on we call the kernel [[memory-bound]], up to a third something else, and in between a mix. A ratio
# cannot tell what the rest is: arithmetic, latency or launches. For that, change the clock, the batch or the [[FLOP]] (lesson 10).
#
# This holds only if nothing but the memory differs. The large matmul shows what happens otherwise: its gain comes from the clock, but the
# drawing mistakes it for the memory's and calls half of the time memory. So look at both clocks first. And the matmul of two rows gains *more* than the
# memory's bandwidth; we did not find out why.
# <!-- so memory_swap@h100: swapped()['matmul 2x24576x8192 bfloat16 nt'] > 1.05 * gain() -->
#
# Two caveats. First, times of two machines are divided here, which this course does only with kernels' own times. Second, drivers could
# differ, or the library's choice of a kernel. The badge names the software of both.

# %% [markdown] tags=["explore"]
# ## Explore: between two caches
#
# The two upright lines are the L2 caches of both GPUs. Move to the calls *close to the size of the caches*. The H200 may find in its larger
# cache what the H100 must fetch from DRAM. Do they gain more than the bandwidths' ratio? Then look for calls that move more than
# 100 MB and gain little: which are they?
#
# <details><summary>Answers</summary>
#
# None of these calls gains more than the bandwidths' ratio, but the best of them get close. One call far to the right gains much more, an RMS
# <!-- so memory_swap@h100: best = max(swapped('between')); best / gain() is 0.95 to 1 -->
# norm of 50024 rows: on the H100 it stays further below the bandwidth than on the H200. We did not look for the cause.
# <!-- so memory_swap@h100: swapped()['rms_norm 50024x4096 bfloat16'] > 1.6; gain() < 1.6 -->
#
# Much memory and little gain: large matmuls, and kernels that stay below the bandwidth, such as a softmax of rows
# of 6299 numbers. Moving much memory is no regime.
# <!-- so memory_swap@h100: swapped()['softmax 16608x6299 bfloat16'] < 1.1 -->
#
# </details>

# %% tags=["explore"]
drawing("memory-swap", call="cast 882400x11 float32")

# %% [markdown] tags=["your-turn"]
# ## Your turn: is the upgrade worth it?
#
# On an H100 the memory takes 60 % of a training step, everything else 40 %. *Calculate* how many times as fast the step is on an H200, whose
# memory is 1.43 times as fast, and how many times as fast it could be at most with any memory.

# %% tags=["your-turn", "exercise:10b-upgrade", "calculates"]
check("10b-upgrade", h200=..., at_most=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: the other way round
#
# Write a function `share(slow, fast, gain)`. It takes two measured times of a call and the ratio of the bandwidths, and returns the
# memory's share of the slow time, from 0 to 1.

# %% tags=["your-turn", "exercise:10b-share", "makes"]
check("10b-share", share=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# We wrote down all four sentences when we had the H200's times, but not yet the H100's. A call *streams* if it
# moves each number through DRAM once and its arithmetic takes less time than that. The last claim leaves out mixes, and what a cache may
# hold.

# %% tags=["claims"]
claims("10b", source="recorded:h100")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - The ratio of two times, on one chip with two memories and at the same clock, gives the memory's share.
# - Moving bytes is not waiting for bytes: a working set in the L2 gains nothing from a faster DRAM.
# - An upgrade speeds up one part of a step, and the other part limits what you get.
#
# Terms: [[regime]], [[DRAM bandwidth]], [[L2]], [[memory-bound]].

# %% [markdown] tags=["work"]
# ## At work
#
# No second GPU? Slow one part of yours down. With its clock at two thirds, what takes as long as before waits for memory:
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
# Back on the road: [12 · What does torch.compile remove, and how does it come back?](12_compile.ipynb)
#
# Back: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb)
