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
# | Goal | Be able to win a benchmark without being faster, to write a harness that catches eight ways of doing so, and to read clock and power beside a time. |
# | Minutes | 35 |
# | Before | Lesson 01. A side road: the main road goes on without it. |
# | Answers | [solutions/01b_benchmarks_lie.ipynb](../notebooks/solutions/01b_benchmarks_lie.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *Events cannot be cheated.* It comes from lesson 01, where they were the remedy. They stand in one stream, and see no other.
# 2. *A check of the result is enough.* It comes from trusting that what is right once is right again. A kept output is right for the
#    input that was kept; a stale one in the same memory shows only when the numbers change.
# 3. *Nobody cheated, so the time is the code's.* It comes from taking the GPU for a constant. Clock and power limit belong to a time, and
#    whoever runs second finds another GPU than the first.
#
# **Answers**
#
# - *The guesses:* in the cells that compare, from the data shown. The table of clock and power says *not told* where no driver tells them.
# - *Cheat:* `gain` is 10, the number of rounds; the cheat is free, and anything that the naive harness takes for 2x as fast counts.
#   <!-- definition: the exercise -->
# - *Catch eight:* in the solution, ten lines. The mark says how many were caught, and which were not; honest code that is refused, or
#   whose gain is misjudged, counts before any cheat.
# - *Which cheat wins most:* folded under the question. The side stream wins 7x, less than the 8x that we had claimed.
#   <!-- claims: cheats.kernels-win -->
# - *Clock and power:* back to back a matmul takes 1.17x as long as with pauses. That both take as many cycles fails, at 0.876x: with
#   pauses the clock is read on an idle GPU. <!-- claims: clocks.back-to-back-slower, clocks.as-many-cycles -->
#
# **The ranking.** Students who ran `share()` send `3 of 8` and the like as their mark of `01b-harness`, and `right` for eight. `brrr class report
# FILE.csv` has it in the column `check: 01b-harness`: sort by it. Marks are made in the student's own notebook, so this ranking can be
# cheated, too; let the class say how.
# <!-- definition: the exercise -->
#
# **To discuss.** A contest measures entries one after the other on one GPU, each for a second. Name three things by which the order of
# the entries decides who wins, and what the contest should do. (Clock, heat and cache; turns, a run-up before each, an emptied cache,
# and the clock beside each time.)
#
# ---
