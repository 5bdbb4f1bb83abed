# ---
# jupyter:
#   readme: {short: 'benchmarks lie', asks: 'how does code win without being faster?', before: '01'}
#   brrr:
#     leaves: '01'
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 01b · How does code win a benchmark without being faster?
#
# Side road.
# Know before: [timers](01_async_timing.ipynb).
#
# KernelBench and FlashInfer-Bench rank kernels. Reports on both tell of entries that kept their outputs, or worked on a [[stream]] that
# no timer waited for. **How do you win without being faster, and who catches you?**
#
# You will be able to:
#
# - win a benchmark without being faster
# - write a harness that catches eight cheats
# - read clock and power beside a time

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, explore, guess

# %% [markdown] tags=["guess"]
# ## Guess: a kept output
#
# ```python
# kept = {}
# def call(x):
#     if x.data_ptr() not in kept:  # the address of the input
#         kept[x.data_ptr()] = x @ w
#     return kept[x.data_ptr()]
# ```
#
# A *naive* benchmark warms up, then calls it a few times with one input, each between two [[event|events]]. It takes the
# [[median]], and compares the first rows with its rival's, `x @ w`.

# %% tags=["guess"]
g = guess("This is ... times as fast as its rival, says the naive benchmark", unit="x")

# %% tags=["run"]
kept = {"trick": "cached output"}
asks = "How does code win without being faster?"
both = {"cheat": "honest"}
explore(
    "cheats", at=kept, lines=["cheat", "honest"], show="ladder", sliders=["trick"], versus=both, unlock=g, title=asks
)

# %% tags=["compare"]
compare(g, "cheats", both, of="speed-up", at=kept)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Move the slider. Which of the eight are the kernel's doing, which the benchmark's? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# In the first four the kernel cheats. In the others it is its own rival, treated otherwise.
#
# | cheat | how it wins | what catches it |
# | --- | --- | --- |
# | cached output | returns what it kept | other numbers at the same address |
# | skipped work | computes the compared rows | a look at random rows |
# | side stream | works where no event waits | a wait for the device |
# | lazy result | computes when somebody looks | a look before the clock stops |
# | warm cache | finds its input in [[L2]] | one cache state for both |
# | no [[warm-up]] | its rival pays for a first call | warm-up for both |
# | best of many | tells its best call, its rival's mean | one statistic for both |
# | rested clock | runs after a pause, its rival under load | turns |
#
# The side stream's events are seven times as far apart as a kept output's; why was not looked for.
# <!-- so cheats: latency('cheat', trick='side stream') / latency('cheat', trick=['cached output', 'lazy result']) is 6.5 to 7.1 -->
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import torch, triton
# x = torch.randn(2048, 2048, device="cuda")
# kept = x @ x
# honest, cheat = triton.testing.do_bench(lambda: x @ x), triton.testing.do_bench(lambda: kept)
# print(honest / cheat)
# ```
#
# </details>

# %% [markdown] tags=["guess"]
# ## Guess: nobody cheats
#
# One large matmul (bfloat16) runs for twenty seconds back to back, then with a pause after each few calls, three times as long.

# %% tags=["guess"]
c = guess("After ten seconds, back to back takes ... times as long as with pauses", unit="x")

# %% tags=["run"]
late = {"seconds": 10}
asks = "Does the same matmul always take as long?"
two = ["back to back", "paused"]
explore("clocks", at=late, lines=two, versus={"back to back": "paused"}, unlock=c, title=asks)

# %% tags=["compare"]
display(
    compare(c, "clocks", {"paused": "back to back"}, of="speed-up", at=late),
    compare(None, "clocks", of="clock"),
)

# %% [markdown] tags=["explain"]
# A GPU chooses its clock. It lowers it at its [[power limit]] (*power-capped*), when it gets too hot (*thermal*) and, perhaps, idle.
# Back to back this H200 was fastest after a rest; with pauses it stays so. What ran before decides your time: so N runs
# give N answers. Zeros draw less power ([lesson 07c](07c_gemm_layouts.ipynb)).
# <!-- so clocks: long = period('back-to-back'); long[0.1] == min(long); long[0.25] / long[0.1] > 1.1; period('paused') / long[0.1] is
# 0.97 to 1; 'power-capped' in flags('back-to-back', seconds=10); clock('back-to-back', seconds=10) < clock('paused', seconds=10) -->
# <!-- so gemm: at(columns=4096, size=8192, dtype='bfloat16'); power('zeros') < power('nn') -->
#
# The table's power is a mean of a second. Its clock is read between batches, with pauses on an idle GPU: by it a paused matmul takes
# a seventh more cycles, where we had claimed as many. The clock within a batch was not read.
# <!-- so clocks: power('back-to-back', seconds=0.1) < 140; at(seconds=10); period('paused') * clock('paused') /
# (period('back-to-back') * clock('back-to-back')) is 1.135 to 1.145 -->
#
# So let both sides take turns, and note clock and power beside each time.

# %% [markdown] tags=["explore"]
# ## Explore: eight cheats, two benchmarks
#
# *Timed carefully*: new numbers in each round, an empty cache, a wait for everything, random rows checked. Where one is wrong, the
# honest work is added. How much does each cheat win, by either?
#
# <details><summary>Answer</summary>
#
# Naively timed, a lazy result and a kept output win most, then a missing warm-up; the other benchmarks give away a tenth to a quarter.
# Carefully timed, the gains are gone. Skipped work comes last, an eighth slower: honest work was added to its own.
# <!-- so cheats: gain = latency('honest') / latency('cheat'); [gain[each] for each in ('cached output', 'lazy result')] > 40;
# gain['no warm-up'] is 9.5 to 9.7; [gain[each] for each in ('skipped work', 'side stream')] < 9.5; [gain[each] for each in ('warm
# cache', 'best of many', 'rested clock')] is 1.05 to 1.28; left = latency('careful-honest') / latency('careful-cheat'); left is 0.88
# to 1.005; 1 / left['skipped work'] is 1.12 to 1.13; left['skipped work'] == min(left); late = latency('careful-cheat') /
# (latency('careful-honest') + latency('cheat')); late['skipped work'] is 0.97 to 1.03 -->
#
# </details>

# %% tags=["explore"]
gains = {"cheat": "honest", "careful cheat": "careful honest"}
asks = "What do the cheats win?"
display(
    explore("cheats", at=kept, show={"speedup": gains, "x": "trick"}, title=asks),
    compare(None, "cheats", of="gallery"),
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: cheat
#
# Beat this harness. `lab.square(x)` is honest work, on paper a microsecond for each of a thousand numbers. `lab.glance(x, y)` compares
# the first eight.
#
# ```python
# def harness(ours, theirs, lab):
#     x, spent = lab.fresh(), {}
#     for call in (theirs, ours):
#         start = lab.clock()
#         for _ in range(10):
#             y = call(x)
#         spent[call] = lab.clock() - start
#     return spent[theirs] / spent[ours] if lab.glance(x, y) else None
# ```
#
# *Calculate* `gain`: what does it say of code that works in the first of the ten calls, then returns what it kept? Then write a cheat.


# %% tags=["your-turn", "exercise:01b-cheat", "calculates"]
def cheat(x, lab):
    return lab.square(x)


check("01b-cheat", cheat=..., gain=...)

# %% [markdown] tags=["your-turn"]
# ## More: catch eight
#
# Change the harness until no cheat gets past it. Four kernels cheat. In four other trials the code is honest, and the lab favours
# `ours`: cache, first call, another program, clock. Return how many times as fast `ours` is, or `None` if it is wrong.
#
# `lab.fresh()` puts new numbers where the old ones were. `lab.read(y)` waits for everything and returns every number;
# `lab.right(x, y)` checks them. After `share()`, your teacher's report ranks the class by cheats caught.


# %% tags=["your-turn", "exercise:01b-harness", "makes"]
def harness(ours, theirs, lab):
    x, spent = lab.fresh(), {}
    for call in (theirs, ours):
        start = lab.clock()
        for _ in range(10):
            y = call(x)
        spent[call] = lab.clock() - start
    return spent[theirs] / spent[ours] if lab.glance(x, y) else None


check("01b-harness", harness=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# The course's own sentences.

# %% tags=["claims"]
claims("01b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** A kept output looks 47 times as fast: ask for new inputs, whole results, every stream, turns.
# <!-- so cheats: latency('honest', trick='cached output') / latency('cheat', trick='cached output') is 46.5 to 47.5 -->
#
# - A time counts only where the result is right on unseen inputs.
# - Treat both sides alike, in turns: cache, warm-up, statistic and clock.
# - Note clock, power and what limits them beside each time.
#
# Terms: [[stream]], [[event]], [[median]], [[L2]], [[warm-up]], [[power limit]].

# %% [markdown] tags=["work"]
# ## At work
#
# Check with new numbers in the same memory. `nvidia-smi -q -d CLOCK,POWER,PERFORMANCE` tells clock, power and their limits.
#
# ```python
# import torch
# x, w = torch.randn(2, 256, 256, device="cuda" if torch.cuda.is_available() else "cpu")
# call = lambda x: x @ w  # yours
# for _ in range(3):
#     x.normal_()
#     y, expected = call(x), x.double() @ w.double()
#     assert (y - expected).norm() < 1e-4 * expected.norm()
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road, [02 · What does a copy to the GPU cost?](02_transfers.ipynb) follows the data to the GPU.
#
# Back: [01 · Why does the GPU's time look constant?](01_async_timing.ipynb)
