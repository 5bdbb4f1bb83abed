# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 02 · What does the way to the factory cost?
#
# Somebody timed a simple function on a CPU and on a GPU, with all that a user waits for, and found the CPU faster.
# The GPU has its own memory: what it works on must be sent there, and the result must be fetched.
# **Was it the factory, or the way?**

# %% tags=["setup"]
import numpy as np

from brrr import check, claims, compare, explore, factory, guess, timeline

# %% tags=["question"]
factory()

# %% [markdown] tags=["guess"]
# ## Guess: how long is the way?
#
# The warehouse in the picture is the GPU's memory. Your data lie in the CPU's memory: a warehouse in **another town**.
# Between the towns runs a road of its own, the *link* (PCIe in most machines).
#
# Without a GPU, the toy accelerator plays its part: it copies from your memory to your memory, on a worker thread.

# %% tags=["guess"]
g = guess("To send 67 MB (2^26 bytes) to the GPU takes ...", unit="s")

# %% [markdown] tags=["run"]
# ## Run
#
# The figure shows the bandwidth: how many bytes arrive in a second when copies follow each other. Dashed is what the
# link's datasheet promises. If the badge says LIVE, press *Measure all points*.

# %% tags=["run"]
there = ["up pageable", "up pinned", "down pageable", "down pinned", "both pinned", "device"]
explore("transfers", at={"nbytes": 2**26}, lines=there, show="rate", unlock=g)

# %% tags=["compare"]
compare(g, "transfers", ["up pageable", "up pinned", "device"], nbytes=2**26)

# %% [markdown] tags=["explain"]
# Three things decide how much arrives:
#
# - **How much goes at once.** A truck must be ordered, loaded and sent off, however little is on it. Small copies pay
#   for that and for little else; only large ones come near what the road can carry.
# - **Where the goods wait.** The trucks load only at a ramp with a fixed address: *pinned* memory, which the operating
#   system may not move. Ordinary memory is *pageable*. From there, the driver first carries the goods to a ramp of its
#   own, piece by piece, and the caller waits. Pinning is slow: pin once and use the memory again and again.
# - **Which road.** Compare with the line of the GPU's own memory, the road between warehouse and factory.
#
# The toy accelerator has a ramp as well: *through a staging buffer* is its pageable memory.

# %% [markdown] tags=["guess"]
# ## Guess: who wins?
#
# ```python
# y = x.to("cuda")                 # 2^24 random numbers
# y = sin(sin(sin(sin(y))))        # work that the GPU is very good at
# y = y.cpu()
# ```
#
# Against it, the CPU runs the second line alone.

# %% tags=["guess"]
options = ["the CPU", "the GPU, sent there and back", "the GPU, sent from and to pinned memory"]
w = guess("Which has the result first?", options=options)

# %% tags=["run"]
sines = ["cpu", "with transfers", "pinned", "without transfers"]
explore("nested_sine", at={"elements": 2**24}, lines=sines, unlock=w)

# %% tags=["compare"]
named = dict(zip(options, sines[:3], strict=True))
compare(w, "nested_sine", named, elements=2**24)

# %% [markdown] tags=["explain"]
# The fourth line has the data in the GPU's memory already. What lies between it and the other GPU lines is the way,
# and nothing else. Move the slider: at small sizes it is the fixed cost of the trips, at large sizes the bytes. (The
# toy accelerator computes on the same cores as your CPU. It cannot win by work; all that it shows is the way.)
#
# A **timeline** shows who was busy when. Find the copy there, the four sines, the copy back. Which of them would you
# make faster first?

# %% tags=["explain"]
timeline("nested_sine", variant="gpu-transfers", at={"elements": 2**24}, unlock=w)

# %% [markdown] tags=["explore"]
# ## Explore: the smallest trip
#
# How long does a *single* copy take, from the call until the bytes are there? Start with the smallest, and move the
# slider up. Until which size does it make no difference how much is on the truck?

# %% tags=["explore"]
once = ["up pageable once", "up pinned once", "down pinned once"]
explore("transfers", at={"nbytes": 2**10}, lines=once)

# %% [markdown] tags=["your-turn"]
# ## Your turn: when does the way pay?
#
# A function computes not four sines of each number, but *k*, one after the other. From which *k* on is the GPU faster
# than the CPU, although the data are sent there and fetched (from pageable memory)?
#
# Take three times from the data table of the figure with the sines, at the largest size where all three are measured:
# *CPU*, *GPU with transfers*, *GPU without transfers*. The way costs the same for every *k*. (If it shows no GPU, choose
# the recording as its source.)

# %% tags=["your-turn", "exercise:02-sines"]
check("02-sines", sines=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: mend the trips
#
# `process` gets a list of small arrays and returns their nested sines, each as an array. `factory.send(array)` carries
# an array there, `factory.sin(goods)` works on what is there, `factory.fetch(goods)` carries it back. The results are
# right, but everything is always on the road. Mend it with as few trips as possible, then write `process=process`.


# %% tags=["your-turn", "exercise:02-road"]
def process(parts, factory):
    results = []
    for part in parts:
        for _ in range(4):
            part = factory.fetch(factory.sin(factory.send(part)))
        results.append(part)
    return results


check("02-road", process=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# The story is from *GPU Performance: Parallel Processing vs Overhead* (2024), measured on an A100. Each sentence is judged
# on your source. Live, measure the points first.

# %% tags=["claims"]
claims("02")
