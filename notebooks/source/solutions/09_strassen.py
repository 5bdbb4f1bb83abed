# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton, nvcc, pycuda]
# ---

# %% [markdown]
# # 09 · Faster than the peak? The answers

# %% tags=["setup"]
from brrr_course import check, first_available

# %% [markdown]
# ## From which size on
#
# T(n) / n² = a n + b is a straight line, and two points give it. The level's line has the smaller a and the larger b; they
# meet where the difference of b is made up for: n = (b' - b) / (a - a'). Where a' is not smaller, they never meet.


# %% tags=["exercise:09-crossover"]
def crossing(classical, strassen):
    lines = []
    for times in (classical, strassen):
        (one, first), (two, second) = sorted(times.items())
        a = (second / two**2 - first / one**2) / (two - one)
        lines.append((a, first / one**2 - a * one))
    (a, b), (a_level, b_level) = lines
    return (b_level - b) / (a - a_level) if a > a_level else float("inf")


on_gpu = first_available("strassen", ["sgemm"], ["cpu sgemm"]) == ["sgemm"]
check("09-crossover", sizes=(1024, 4096) if on_gpu else (512, 1024), crossing=crossing)

# %% [markdown]
# ## One sign, one sum
#
# C11 is A11 B11 + A12 B21. M1 = (A11 + A22)(B11 + B22) brings A22 B22 too much, and M4 = (A12 - A11) B22 brings A12 B22: M7 must
# take both away, so B22 has a minus there. In C22, M1 brings A11 B11 and A22 B11 too much, among others; M2 = (A21 + A22) B11
# takes A22 B11 and A21 B11 away, if it is subtracted: M6 = (A21 - A11)(B11 + B12) brings A21 B11 and takes A11 B11.


# %% tags=["exercise:09-sign"]
def recombine(m1, m2, m3, m4, m5, m6, m7):
    c11 = m1 + m4 - m5 + m7
    c12 = m3 + m5
    c21 = m2 + m4
    c22 = m1 - m2 + m3 + m6
    return c11, c12, c21, c22


check("09-sign", sign=-1, recombine=recombine)

# %% [markdown] tags=["teaching"]
# ## 09 · Faster than the peak?
#
# | | |
# | --- | --- |
# | Goal | Know how seven products take the place of eight and what the additions cost; tell an effective rate from an actual one; know two reasons why a published speed-up may be larger, or smaller, than the algorithm's. |
# | Minutes | 70: 20 for the first round and the steps, 20 for the network and the peak, 10 for exploring, 20 for the two exercises |
# | Before | Lessons 04 and 05: the roofline, and what fusing pointwise work saves. Products of block matrices. |
# | Answers | [solutions/09_strassen.ipynb](../notebooks/solutions/09_strassen.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *8/7, as seven products say.* It forgets the additions: pointwise work that only moves bytes. They cost little on large
#    matrices, and more than the eighth on small ones. How much is left of 8/7 is the whole question.
# 2. *A measured gain above 8/7 must be a mistake* (or the algorithm is better than its proof). It compares two things at once: the
#    algorithm and how well each product fills the machine. Seven products of half the size fill the waves of a small GPU better;
#    another choice of tiles would have had that too.
# 3. *A rate above the peak is impossible, so somebody counts wrongly.* The effective rate counts the textbook's FLOP, of which some
#    were never done. The actual rate stays below the peak, and a claim checks it.
#
# **Answers**
#
# - *The guesses:* the first on your source, in the cell that compares; the second is published, with what counting tiles and bytes
#   says in brackets. The two agree on who wins nearly everywhere; that the brackets are too high at hidden sizes of 1024 and 2048 is
#   because a library takes smaller tiles where 128 × 128 would leave multiprocessors idle.
# - *Where levels pay:* read it off the figure, on your source. Where a level gains more than 8/7, at sizes that tiles do not
#   divide, the one product leaves more of its tiles and waves empty than the seven do: tiles, not the algorithm.
# - *The source's table:* over PyTorch and over fusion in a loop's time. One level issues two kernels a layer from Python, as fusion
#   does, and reads 7/4 of the weights; on a GPU that is done with a layer sooner than Python has issued it, the launches decide,
#   not the algorithm. *StrassenMLP* takes a level only where it expects a gain, and replays a graph.
# - *The steps:* 10 additions, 7 products, 8 additions. Those on the right side are made once for a network's weights.
# - *One sign, one sum:* the seventh product has A12 - A22, and C22 = M1 - M2 + M3 + M6. What the check writes out (for example
#   2 A21 B11 too much) is the way to the answer by hand, too.
# - *From which size on:* divide each time by n²; the rest is a straight line through two points. n = (b' - b) / (a - a'). The check also
#   says where the measured lines cross. Two sizes far from the crossing give a worse estimate: launches and waves are in neither
#   term.
#
# **To discuss.** Two libraries are compared by TFLOP/s. One uses Strassen inside and reports 2n³ over the time. Is that fair? (For
# somebody who needs the product: yes, if the error is stated as well. For somebody who wants to know how well the hardware is used:
# no. The word *effective* must stand beside it.)
