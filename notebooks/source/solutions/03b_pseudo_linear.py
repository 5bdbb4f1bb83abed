# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown]
# # 03b · Why is the layer without a matrix product not faster? The answers

# %% tags=["setup"]
from brrr import check, find_transition, pays

# %% [markdown]
# ## Mend the benchmark
#
# The data is made once, before the clock starts; the synchronisation behind it waits until it is there. No ReLU, no
# `+ x`.


# %% tags=["exercise:03b-mend"]
def benchmark(randn, weight, bias, relu, synchronize, clock):
    x = randn(64, 256)
    synchronize()
    start = clock()
    for _ in range(100):
        x * weight + bias
    synchronize()
    return (clock() - start) / 100


check("03b-mend", benchmark=benchmark)

# %% [markdown]
# ## Where does it start to pay?
#
# Two orders cost what they cost, whatever the width. `Linear` costs one order until its work takes longer than that;
# from then on its time grows with the square of the width. It is twice as slow where its work takes four orders' time.
# The recording knows where:

# %% tags=["exercise:03b-width"]
twice = pays("pseudo eager", over="linear eager", at_least=2)
few_rows = {"batch": 128, "direction": "forward"}
found = find_transition("pseudo_linear", "width", twice, at=few_rows, source="recorded:h200")
print(found)
check("03b-width", width=found.high)
