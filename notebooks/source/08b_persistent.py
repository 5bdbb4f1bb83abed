# ---
# jupyter:
#   readme: {short: 'persistent RNN', asks: 'why fetch the same weights at each step? For engineers', before: '07, 06b'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 08b · Why fetch the same weights at each step?
#
# A recurrent layer multiplies its state by the same weights at each time step, and each step waits for the last. With few
# samples nearly all of a step is fetching those weights and launching the next kernel. **What if the weights stayed where they
# are used?** For engineers.

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, drawing, explore, guess, reachable, step_times

at = reachable("rnn", batch=1, hidden=1024, steps=256, cell="rnn_tanh", dtype="float32")

# %% [markdown] tags=["guess"]
# ## Guess: one sample, one thousand hidden units
#
# A tanh layer, hidden size 1024, float32, inference. Its recurrent weights are 4 MiB. The rival is cuDNN with true float32, the
# faster of what PyTorch calls and the same call in a CUDA Graph; a loop of products in a graph stands beside them. A
# [[persistent kernel]] keeps the weights on the chip: one launch for all time steps.
#
# Then run: along x the [[mini-batch]], upwards the time of 256 steps. Move *hidden size* and *cell*.

# %% tags=["guess"]
g = guess("With one sample, a step with the weights on the chip is ... times as fast as the best cuDNN's", unit="x")

# %% tags=["run"]
lines = ["persistent", "cudnn", "cudnn graph", "graph"]
explore("rnn", at=at, lines=lines, sliders=["batch", "hidden", "cell"], unlock=g)

# %% tags=["compare"]
compare(g, "rnn", of="step", cell="rnn_tanh", dtype="float32")

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** The same FLOP, the same weights, one launch: what does a step no longer do? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# It no longer fetches the weights: they stay on the chip. And no kernel starts or ends between two steps; what is left is the product
# with the state, and handing the new state to all blocks.
#
# </details>
#
# The table takes a step as a *slope*: what 256 steps take more than 64, by the steps that they have more. The launch, the
# weights' one journey and other costs that come once a call drop out. With few samples cuDNN as PyTorch calls it waits for the
# host; in a graph it does not, and that is the rival that counts.
#
# **Where the weights are.** Each [[thread block]] holds some rows of the recurrent matrix, in the [[register file]] of its
# multiprocessor and, where that does not suffice, in [[shared memory]]. A block computes its rows of each new state. In 2016
# register files were a GPU's largest memory on the chip; the claims below say whether they still are.
#
# **How blocks wait for each other.** At the next step each block needs the *whole* state, so all must exchange their rows. The
# textbook way is a [[grid barrier]]: write the state, count yourself in, wait until all have. That is several trips to the
# [[L2]] cache. Here the data say by themselves that they are there. The result's memory is filled beforehand with a pattern (a
# NaN) that no result has; a block reads until none is left ([[polling]]). Write, then read: one trip.
#
# **Why it cannot hang.** A block that waits keeps its multiprocessor. So all blocks must be there at once, and a launch with
# more of them than fit is refused.

# %% [markdown] tags=["guess"]
# ## Guess: sixty-four samples
#
# The weights are there already, and more samples share them. What do 64 samples cost?

# %% tags=["guess"]
w = guess("With 64 samples instead of one, all steps take ... times as long", unit="x")

# %% tags=["run"]
drawing("rnn-floor", batch=64, cell="rnn_tanh", dtype="float32", source="recorded:h200", unlock=w)

# %% tags=["compare"]
compare(w, "rnn", ["persistent"], **{**at, "batch": (1, 64)})

# %% [markdown] tags=["explain"]
# Three things may set the pace of a step, and the longest of them is its floor:
#
# - **the exchange**: a trip to L2 and back, which a layer with 32 hidden units shows almost alone;
# - **the state**: every block reads all of it, so blocks times samples times hidden size numbers come from L2 at each step;
# - **the arithmetic**: the same FLOP as ever, on CUDA cores, or on [[tensor core|tensor cores]] where that pays (float32 then as three
#   products of TF32, which together keep nearly all of its digits).
#
# The input's product for all steps comes before, as one large product; its share is added. Dashed lines are predicted from
# these, lines with markers are measured.
#
# With few samples the exchange is what remains. With more, traffic and arithmetic grow, and cuDNN's products fill their tiles
# better: the gain shrinks. Two levers move the state's line. *Groups*: where a copy of the weights needs only some
# of the multiprocessors, several groups of blocks hold a copy each and take a share of the samples. *Half types*: half the bytes.

# %% [markdown] tags=["explore"]
# ## Explore: half the bytes
#
# In float16 cuDNN has persistent kernels of its own, but takes them only where the batch suits it. The lines *padded* add rows of zeros to the
# batch ([[padding]]) and throw their results away.

# %% tags=["explore"]
half = reachable("rnn", batch=4, hidden=1024, steps=256, cell="lstm", dtype="float16")
padded = ["persistent", "cudnn", "cudnn pad8", "cudnn pad16"]
explore("rnn", at=half, lines=padded, sliders=["batch", "hidden", "cell"])

# %% [markdown] tags=["your-turn"]
# ## Your turn: what does a step take at least?
#
# A tanh layer, hidden size 1024, float32, 24 samples. 128 blocks each read the whole state. An exchange takes 1 µs, L2 hands out
# 5.5 TB/s, and 60 TFLOP/s are computed. *Calculate* the bytes of the state that all blocks read in a step, what a step takes at
# least (in seconds, without the input's product), and the largest batch whose reading hides behind the exchange. Then set the
# drawing to 24.

# %% tags=["your-turn", "exercise:08b-step", "calculates"]
check("08b-step", state_bytes=..., seconds=..., batch=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: when to stop
#
# A program that may run either way needs to know up to which batch to keep the weights on the chip. Write `until(ours, theirs)`: both
# map a batch to seconds a step; it returns the largest batch up to which ours is faster at *every* batch measured both ways, and 0
# where it never is.

# %% tags=["your-turn", "exercise:08b-until", "makes"]
print(step_times("lstm", "float16"))

check("08b-until", until=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# The source is *Persistent RNNs*, measured on a Titan X in 2016, beside this course's own targets against today's cuDNN. Live,
# measure the points first.

# %% tags=["claims"]
claims("08b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - What is needed again at each step should stay where it is used: registers first, then shared memory, then L2.
# - Once the weights stay, the exchange between blocks is the floor of a step, until the state's bytes or the arithmetic overtake it.
# - Persistence pays with few samples; with many, a product shares its weights anyway.
#
# Terms: [[persistent kernel]], [[register file]], [[shared memory]], [[grid barrier]], [[polling]].

# %% [markdown] tags=["work"]
# ## At work
#
# Use cuDNN's own persistent kernels: half types, and a batch padded to whole eights. For a kernel of yours, launch it so that all
# blocks run at once:
#
# ```cuda
# cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, bytes);
# cudaLaunchCooperativeKernel(kernel, each * multiprocessors, threads, args, bytes, stream);
# // and inside the kernel, between two steps:
# cooperative_groups::this_grid().sync();
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [09 · Faster than the peak?](09_strassen.ipynb) computes a product with fewer multiplications than its definition has.
#
# Back: [08 · What if each step waits for the last?](08_rnn.ipynb)
