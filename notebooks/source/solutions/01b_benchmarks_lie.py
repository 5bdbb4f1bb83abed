# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown]
# # 01b · How does code win a benchmark without being faster? The answers

# %% tags=["setup"]
from statistics import median

from brrr_course import check

# %% [markdown]
# ## Cheat
#
# Ten honest calls against one: ten times as fast, and with a hundred rounds a hundred times. Computing only the first eight numbers, or
# returning an object that computes when somebody looks, wins more.

# %% tags=["exercise:01b-cheat"]
kept = {}


def cheat(x, lab):
    if id(x) not in kept:
        kept[id(x)] = lab.square(x)
    return kept[id(x)]


check("01b-cheat", cheat=cheat, gain=10)

# %% [markdown]
# ## Catch eight
#
# New numbers for each call catch the kept output and the warm cache; `lab.read` before the clock stops, the side stream and the lazy
# result; `lab.right`, the skipped work; turns and the median, a first call, somebody else's program, and a clock that is low at first.


# %% tags=["exercise:01b-harness"]
def harness(ours, theirs, lab):
    spent = {theirs: [], ours: []}
    for _ in range(20):
        for call in spent:
            x, start = lab.fresh(), lab.clock()
            y = lab.read(call(x))
            spent[call].append(lab.clock() - start)
            if not lab.right(x, y):
                return None
    return median(spent[theirs]) / median(spent[ours])


check("01b-harness", harness=harness)

# %% [markdown] tags=["teaching"]
# ## 01b · How does code win a benchmark without being faster?
#
# | | |
# | --- | --- |
# | Goal | Win a benchmark without being faster; write a harness that catches eight ways of doing so; read clock and power beside a time. |
# | Minutes | 35 |
# | Before | Lesson 01. A side road. |
# | Answers | [solutions/01b_benchmarks_lie.ipynb](../notebooks/solutions/01b_benchmarks_lie.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *Events cannot be cheated.* They were lesson 01's remedy. But an event sees only its own stream.
# 2. *One check of the result is enough.* A kept output is right for the input it was kept from; a stale one in the same memory
#    shows only when the numbers change.
# 3. *Nobody cheated, so the time is the code's.* It also depends on clock and power limit: whoever runs second finds a different
#    GPU.
#
# **Answers**
#
# - *Cheat:* `gain` is 10, the number of rounds. Any cheat counts that the naive harness takes for 2x as fast.
#   <!-- definition: the exercise -->
# - *Catch eight:* ten lines in the solution. The mark says which were not caught; but first the harness must accept honest code
#   and judge its gain correctly.
# - *Which cheat wins most:* the side stream wins 7x, less than the 8x that we had claimed.
#   <!-- claims: cheats.kernels-win -->
# - *Clock and power:* back to back, a matmul takes 1.17x as long as with pauses. The claim that both take as many cycles fails,
#   at 0.876x: with pauses the clock is read on an idle GPU. The table says *not told* where no driver reports clock and power.
#   <!-- claims: clocks.back-to-back-slower, clocks.as-many-cycles -->
#
# **The ranking.** `brrr class report FILE.csv` has the marks of students who ran `share()`: `3 of 8` and the like, or `right` for
# eight. Sort by its column `check: 01b-harness`. Marks are made in the student's own notebook, so this ranking can be cheated,
# too; let the class say how.
# <!-- definition: the exercise -->
#
# **To discuss.** A contest measures entries one after the other on one GPU, each for a second. Name three ways in which the order
# decides who wins, and what to do about them. (Clock, heat and cache. Take turns, run up and empty the cache before each, and
# show the clock beside each time.)
