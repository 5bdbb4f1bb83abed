# ---
# jupyter:
#   readme: {short: 'two GPUs', asks: 'when are two GPUs faster than one?', before: '02, 07, 10'}
#   brrr:
#     leaves: '10'
#     needs: []
# ---

# %% [markdown] tags=["question"]
# # 14 · When are two GPUs faster than one?
#
# Side road. Read 02, 07 and 10 first.
#
# Two GPUs have twice the arithmetic and twice the memory bandwidth. But each needs results of the other: **communication** is a fourth
# cost, beside overhead, memory and compute.
#
# **The same batch on two GPUs: how many times as fast is it, and where is the rest lost?**

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, drawing, explore, guess, timeline

# %% [markdown] tags=["guess"]
# ## Guess: an all-reduce
#
# In an [[all-reduce]] each GPU has a buffer of numbers, and afterwards each has the sum of them all. [[NCCL]] does it with one kernel on each
# GPU.
#
# [[NVLink]] joins the two. By an H200's datasheet it moves 450 gigabytes per second in each direction, and an all-reduce moves each byte once each way.
# First *calculate* how long 2 MiB take, then 8 bytes.

# %% tags=["guess"]
g = guess("An all-reduce of 2 MiB takes ... times as long as one of 8 bytes", unit="x")

# %% tags=["run"]
ways = ["all reduce", "all gather", "reduce scatter"]
explore("collective", at={"nbytes": 2**21}, lines=ways, sliders=["nbytes"], versus={"nbytes": 8}, unlock=g)

# %% tags=["compare"]
compare(g, "collective", ["all reduce"], nbytes=(8, 2**21))

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Why is the line flat for so long? Link, GPU or host: which of them takes this time? Double-click here and
# write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# It is the *host* ([[host overhead]]): PyTorch and NCCL take much longer to launch the kernel than it runs. The
# link sets the pace only from tens of MiB on. So exchange a few large buffers, not many small ones.
#
# </details>
#
# ## A latency and a bandwidth
#
# The dashed line has two numbers, as in lesson 02: a latency, plus bytes over a bandwidth, fitted to calls in a loop. Where it bends
# it lies too high: while a kernel runs, the host launches the next. The longer of the two sets the pace, not the sum.

# %% tags=["explain"]
drawing("exchange-line", nbytes=2**23)

# %% [markdown] tags=["guess"]
# ## Guess: half the samples each
#
# In [[data parallelism]] both GPUs hold all weights, and each computes the gradients of half the samples, which an all-reduce adds up.
# PyTorch's *DDP* collects them in *buckets* of 25 MiB, and exchanges a bucket as soon as it is full, while the backward pass goes on.
#
# Our MLP has eight Linear layers of width 4096 in bf16: 268 MB of weights, and as much of gradients. One GPU takes 64 samples, or
# two take 32 each.

# %% tags=["guess"]
w = guess("With 64 samples, two GPUs are ... times as fast as one", unit="x")

# %% tags=["run"]
at = {"network": "MLP", "batch": 32, "bucket": 25}
ways = ["one", "buckets", "flat", "alone"]
explore(
    "data_parallel", at=at, lines=ways, sliders=["batch", "network", "bucket"], versus={"one": "buckets"}, unlock=w
)

# %% tags=["compare"]
compare(w, "data_parallel", {"buckets": "one", "flat": "one", "alone": "one"}, of="speed-up", at=at)

# %% [markdown] tags=["explain"]
# Two things are lost:
#
# 1. **Smaller matmuls** (*no exchange* against *one device*). Half the samples take more than half the time: a layer
#    reads all its weights anyway ([[memory-bound]]), and the host launches as many kernels.
# 2. **The exchange** (*overlapped* against *no exchange*). Its bytes are those of the weights, however few the samples.
#
# An article on recurrent networks says that smaller mini-batches lose more by the first. That holds for its
# recurrent layer, which uses each weight in all 128 steps of a sequence. An MLP uses it once per sample, and there the exchange weighs
# more: move *network* and look.
#
# ## Does the exchange hide?
#
# The timeline shows both GPUs, 8192 samples on each. *After the backward pass* the exchange has nothing beside it. With
# *buckets*, all but the last run beside the backward pass. That is not free: NCCL's kernels take multiprocessors and memory bandwidth
# from the matmuls. With fewer samples, DDP's own work on the host takes longer than the GPUs'. What runs beside no compute is
# [[exposed communication]]; `brrr.diagnose` finds it in your own traces.

# %% tags=["explain"]
timeline("data_parallel", variants=["buckets", "after", "alone"], at={**at, "batch": 8192}, calls=1)

# %% [markdown] tags=["explore"]
# ## Explore: half the weights each
#
# In [[tensor parallelism]] each GPU holds half of each layer. Here a pair of layers goes to four times the width and back. The
# first is cut by outputs, the second by inputs, and one all-reduce adds up the results: its bytes grow with the samples, not the weights.
#
# 1. With one sample, from which width on does splitting pay? Why not below?
# 2. At width 1024, how many samples does it take until two GPUs win?
# 3. For each network in the figure above: from which batch on are two GPUs faster?
#
# <details><summary>Answers</summary>
#
# 1. From 8192 on: reading half of the weights must save more than an all-reduce costs.
# 2. Only with 16384, and by little: the matmuls grow with the samples, but so does the exchange.
# 3. The MLP: from 2048 samples on each GPU. The block: from 8, since it uses each weight in all 512 tokens of a
#    sample. The recurrent layer: only with 512.
#
# </details>
#
# **Without two GPUs** choose *live on this CPU* above a figure. Two processes, each with half of the cores, then play the GPUs, and
# exchange through *gloo*. *Measure all points* starts them, *Cancel* ends both. An exchange hides only where it has a core of its
# own: with four or more.

# %% tags=["explore"]
one = {"width": 8192, "batch": 1}
explore("tensor_parallel", at=one, lines=["one", "split", "alone"], sliders=["width", "batch"], versus={"one": "split"})

# %% [markdown] tags=["your-turn"]
# ## Your turn: what can hide
#
# Two GPUs exchange 1 GB of gradients over 450 GB/s in each direction; leave the latency out. The backward pass takes 1.5 ms and fills ten
# equal buckets, one after the other. A bucket's exchange begins when it is full and the one before is exchanged. *Calculate*
# how long the exchange takes, and which part of it runs beside the backward pass.

# %% tags=["your-turn", "exercise:14-exchange", "calculates"]
check("14-exchange", exchange_ms=..., hidden=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: two shards
#
# `cut` gets the weights of a pair of Linear layers, as PyTorch stores them: outputs by inputs. GPU `rank` computes
# `relu(x @ up.T) @ down.T` with its shards, and the all-reduce adds both results. *Make* the shards: each GPU may hold half of
# the weights. Then write `cut=cut`.


# %% tags=["your-turn", "exercise:14-shards", "makes"]
def cut(up, down, rank):
    return up.chunk(2, dim=1)[rank], down.chunk(2, dim=0)[rank]


check("14-shards", cut=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# All were written down before the data.

# %% tags=["claims"]
claims("14")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - A small exchange costs a latency, nearly all of it the host's; a large one costs its bytes over the link's bandwidth.
# - Data parallelism exchanges the weights' gradients, tensor parallelism the results: two GPUs pay where much work is done for each byte.
# - An exchange beside compute is hidden, but takes a part of the GPU.
#
# Terms: [[all-reduce]], [[NCCL]], [[NVLink]], [[data parallelism]], [[tensor parallelism]], [[exposed communication]].

# %% [markdown] tags=["work"]
# ## At work
#
# `torchrun --nproc-per-node 2 train.py` starts a process for each GPU, `NCCL_DEBUG=INFO` says what NCCL chose, and
# [nccl-tests](https://github.com/NVIDIA/nccl-tests) measures the link. More than two GPUs are not measured here.
#
# ```python
# import torch, torch.distributed as dist
# dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29514", rank=0, world_size=1)  # torchrun: dist.init_process_group("nccl")
# model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8), bucket_cap_mb=25)
# with model.no_sync():                 # add gradients up over several backward passes, exchange none
#     model(torch.ones(4, 8)).sum().backward()
# model(torch.ones(4, 8)).sum().backward()  # this one exchanges
# dist.destroy_process_group()
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road: [11 · Why does one token take so long?](11_language_model.ipynb), with every regime in one language model.
#
# Back: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb)
