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
