# ---
# jupyter:
#   brrr:
#     needs: [cuda, triton, pycuda]
# ---

# %% [markdown]
# # 09 · Faster than the peak? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## From which size on
#
# T(n) / n² = a n + b is a straight line, and two points give it. Call those of the curve with a level a' and b': a' is smaller,
# because there is less arithmetic, and b' is larger, because the sums touch each element. The lines meet at
# n = (b' - b) / (a - a'). Where a' is not smaller, they never meet.


# %% tags=["exercise:09-crossover"]
def crossing(classical, strassen):
    lines = []
    for times in (classical, strassen):
        (one, first), (two, second) = sorted(times.items())
        a = (second / two**2 - first / one**2) / (two - one)
        lines.append((a, first / one**2 - a * one))
    (a, b), (a_level, b_level) = lines
    return (b_level - b) / (a - a_level) if a > a_level else float("inf")


check("09-crossover", sizes=(1024, 4096), crossing=crossing)

# %% [markdown]
# ## One wrong sign
#
# The result's block is C22 = A21 B12 + A22 B22. M1 = (A11 + A22)(B11 + B22) also contains A11 B11, A11 B22 and A22 B11, which must
# cancel. M2 = (A21 + A22) B11 cancels A22 B11 if it is subtracted. That leaves - A21 B11, which M6 = (A21 - A11)(B11 + B12)
# cancels, together with A11 B11. M3 = A11 (B12 - B22) cancels A11 B22, and - A11 B12 of M6. So C22 = M1 - M2 + M3 + M6.


# %% tags=["exercise:09-sign"]
def recombine(m1, m2, m3, m4, m5, m6, m7):
    c11 = m1 + m4 - m5 + m7
    c12 = m3 + m5
    c21 = m2 + m4
    c22 = m1 - m2 + m3 + m6
    return c11, c12, c21, c22


check("09-sign", recombine=recombine)

# %% [markdown] tags=["teaching"]
# ## 09 · Faster than the peak?
#
# | | |
# | --- | --- |
# | Goal | Know how seven multiplications replace eight and what the additions cost; tell an effective rate from an actual one; know why a speed-up may be larger, or smaller, than the algorithm's. |
# | Minutes | 35 |
# | Before | Lesson 07: tiles and waves, and with it 04, the roofline. How to multiply matrices block by block. |
# | Answers | [solutions/09_strassen.ipynb](../notebooks/solutions/09_strassen.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *8/7, because seven replace eight.* This forgets the additions, pointwise work that only moves bytes. They cost little on
#    large matrices, and more than the saved eighth on small ones.
# 2. *A measured gain above 8/7 must be a mistake.* The comparison also changes which kernels the library uses. Seven matmuls of
#    half the size may fill the waves better.
# 3. *A rate above the peak is impossible, so somebody counts wrongly.* The effective rate counts the textbook's FLOP, some of
#    which were never done. The actual rate stays below the peak, as a claim checks.
#
# **Answers**
#
# - *Where a level pays off:* where one level gains more than 8/7, SGEMM's own rate dips: the size does not suit its tiles and
#   waves as well.
# - *The article's network:* one level is two kernels per layer, as many as in the fused network, and it reads 7/4 of the weights.
#   `speedup_table("strassen")` has all points, timed in a loop, where Python's launches decide on narrow layers. `StrassenMLP`
#   uses a level only where it expects a gain, and replays a CUDA graph.
# - *The steps:* 10 additions, 7 multiplications, 8 additions. For a network's weights the additions on the right side are made
#   once.
# - *One wrong sign:* C22 = M1 - M2 + M3 + M6. The check writes out what is wrong (for example 2 A21 B11 too much), which is how
#   to find it by hand.
# - *From which size on:* divide each time by n²; what is left is a straight line through two points, so n = (b' - b) / (a - a').
#   The check says where the measured lines cross. Sizes far from there give a worse estimate: launches and waves are in neither
#   term.
#
# **To discuss.** Two libraries are compared by TFLOP/s. One uses Strassen inside and reports 2n³ over the time. Is that fair? (To
# compare results: yes, if the error is stated too. To compare how well the hardware is used: no. The number must be called
# *effective*.)
