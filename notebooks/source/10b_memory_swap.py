# ---
# jupyter:
#   readme: {short: 'memory swap', asks: 'what does a faster memory buy?', before: '04b, 07, 10'}
#   brrr:
#     leaves: '10'
#     needs: []
# ---

# %% [markdown] tags=["question"]
# # 10b · What does a faster memory buy?
#
# A [[regime]] is found by changing one thing. Here somebody else changed it: the H200 is the H100 with another memory. Both have 132
# multiprocessors at the same clock, and the same limit of power. The [[DRAM bandwidth]] is 4.8 TB a second in place of 3.35, and the
# [[L2]] is larger by a fifth. Run the same kernel on both, divide the times, and you have its regime without any model. **Which of your
# calls would gain?**

# %% tags=["setup", "question"]
from IPython.display import display

from brrr_course import check, claims, compare, drawing, guess

# %% [markdown] tags=["guess"]
# ## Guess: eight calls
#
# Each runs on one GPU and then on the other. Only the kernels' own time counts, so the host has no part in it. Each call is repeated on
# the same numbers, so what fits in the cache is there.

# %% tags=["guess"]
asked = {
    "copy 8500x9461 bfloat16": "A copy that moves 322 MB",
    "copy 184x16384 bfloat16": "A copy that moves 12 MB, again and again",
    "matmul 2x24576x8192 bfloat16 nt": "A matmul of two rows by a weight matrix of 403 MB",
    "matmul 4096x4096x8192 bfloat16 nn": "A matmul of 4096 x 8192 by 8192 x 4096",
    "layer_norm 15351x984 float32": "Layer norms of 15351 rows of 984 numbers",
    "rms_norm 342484x47 float32": "RMS norms of 342484 rows of 47 numbers",
    "attention_causal 1x20x4001x128 bfloat16": "Causal attention over 4001 tokens, 20 heads",
    "softmax_columns 509x307 float32": "A softmax down each of 307 columns of 509 numbers",
}

# %% tags=["guess"]
options = ["hardly at all", "by a part of that", "by all of it, or nearly"]
guesses = {call: guess(f"{what} gets faster ...", options=options) for call, what in asked.items()}

# %% tags=["run"]
first, last = next(iter(asked)), list(guesses.values())[-1]
drawing("memory-swap", call=first, unlock=last)

# %% tags=["compare"]
for call, guessed in guesses.items():
    display(compare(guessed, "memory_swap", of="swap", call=call))

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Two copies, two matmuls: why is one of each pair where it is? And both norms? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# The large copy streams through DRAM, and so does the matmul of two rows: it reads each weight once and uses it twice. The small copy
# never leaves the L2 after its first call. The large matmul uses each number thousands of times, and its arithmetic sets the pace; what it
# gains all the same is no memory but a clock: read both under the picture. Power is the reason we know of. Both norms move more than a
# cache holds and gain next to nothing: a row is read to its end before any of it can be written, its threads wait for each other, and they
# wait as long on either GPU.
#
# </details>
#
# A call's time is a part that shrinks with the memory and a part that does not. If the memory takes the share *m* of the time on the
# slower GPU, the time on the faster one is *1 - m + m / gain*. So the ratio of the two times tells *m*. We call two thirds or more
# [[memory-bound]], a third or less something else, and what lies between a mix. A ratio cannot tell what that something else is:
# arithmetic, latency or launches. For that, change the clock, the batch or the [[FLOP]] (lesson 10).
#
# Two caveats. A ratio crosses machines here, which the course allows for the kernels' own times alone. And the drivers, or the libraries'
# choice of a kernel, could differ; the badge names the software of both.

# %% [markdown] tags=["explore"]
# ## Explore: between two caches
#
# The upright lines are the two L2 caches. Move to the calls of the group *fits one cache or hardly*: there the H200 may read from its
# cache what the H100 must fetch from DRAM, so that the ratio can exceed the bandwidths'. Then look for calls that move hundreds
# of megabytes and gain nothing: "it touches much memory" is no regime.
#
# <details><summary>Which are they?</summary>
#
# Large products, and kernels that fall far short of the bandwidth for reasons of their own: short rows, odd widths, a transpose. The line
# under the picture says what the predictor thought of each.
#
# </details>

# %% tags=["explore"]
drawing("memory-swap", call="cast 882400x11 float32")

# %% [markdown] tags=["your-turn"]
# ## Your turn: is the upgrade worth it?
#
# On an H100 the memory takes 60 % of a training step, everything else 40 %. *Calculate* how many times as fast the step is on an H200 (its
# memory is 1.43 times as fast), and how many times as fast it could be at most with any memory.

# %% tags=["your-turn", "exercise:10b-upgrade", "calculates"]
check("10b-upgrade", h200=..., at_most=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: the other way round
#
# Write `share(slow, fast, gain)`: two measured times of a call and the ratio of the bandwidths in, the memory's share of the slow time out,
# as a part of one.

# %% tags=["your-turn", "exercise:10b-share", "makes"]
check("10b-share", share=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# All four were fixed when the H200's times were there and the H100's were not.

# %% tags=["claims"]
claims("10b", source="recorded:h100")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - The ratio of two times on the same chip with two memories is the memory's share, with no model in between.
# - Bytes moved are not bytes waited for: a working set in the L2 gains nothing from DRAM.
# - An upgrade speeds up one part of a step, and the other part bounds what you get.
#
# Terms: [[regime]], [[DRAM bandwidth]], [[L2]], [[memory-bound]].

# %% [markdown] tags=["work"]
# ## At work
#
# No second GPU? Slow one part of yours down. With its clock at two thirds, what stays as fast waits for memory:
#
# ```bash
# nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw --format=csv
# sudo nvidia-smi --lock-gpu-clocks=1320,1320
# python step.py
# sudo nvidia-smi --reset-gpu-clocks
# python step.py
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Your own model, with this question in mind; [00 · Start here](00_start_here.ipynb) has the map of all lessons.
#
# Back: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb)
