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
# Two GPUs have twice the arithmetic and twice the memory bandwidth. But each needs results of the other, and these must cross a link.
# **Communication** is a cost of its own, beside overhead, memory and compute.
#
# **The same batch on two GPUs: how many times as fast is it, and where is the rest lost?**

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, explore, guess, timeline

# %% [markdown] tags=["guess"]
# ## Guess: an all-reduce
#
# In an [[all-reduce]] each GPU has a buffer of numbers, and afterwards each has the sum of them all. [[NCCL]] does it with one kernel on each
# GPU. Training adds up gradients this way.
#
# [[NVLink]] joins two H200s. By the datasheet it moves 450 GB/s in each direction, and an all-reduce between two GPUs moves each byte once
# in each direction. First *calculate* how long 2 MiB take, then 8 bytes.

# %% tags=["guess"]
g = guess("An all-reduce of 2 MiB takes ... times as long as one of 8 bytes", unit="x")

# %% tags=["run"]
ways = ["all reduce", "all gather", "reduce scatter"]
explore("collective", at={"nbytes": 2**21}, lines=ways, sliders=["nbytes"], versus={"nbytes": 8}, unlock=g)

# %% tags=["compare"]
compare(g, "collective", ["all reduce"], nbytes=(8, 2**21))

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Why is the line flat for so long? Is it the link, the GPU or the host that takes this time? Double-click here and
# write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# It is the line of lesson 02: a latency, plus bytes over a bandwidth. Up to a few MiB there is only the latency. Most of it is the
# *host's*: PyTorch and NCCL take much longer to launch the kernel than the kernel takes to run ([[host overhead]]). With many MiB the
# link sets the pace.
#
# So exchange a few large buffers, not many small ones.
#
# </details>

# %% [markdown] tags=["guess"]
# ## Guess: half the samples each
#
# In [[data parallelism]] both GPUs hold all weights, and each computes the gradients of half the samples. Then an all-reduce adds the
# gradients up. PyTorch's *DDP* collects them in *buckets* of 25 MiB, and exchanges a bucket as soon as it is full, while the backward pass
# goes on.
#
# Our MLP has eight Linear layers of width 4096 in bf16: 268 MB of weights, and as many bytes of gradients. One GPU takes 64 samples, or
# two GPUs take 32 each.

# %% tags=["guess"]
w = guess("With 64 samples, two GPUs are ... times as fast as one", unit="x")

# %% tags=["run"]
at = {"network": "MLP", "batch": 32, "bucket": 25}
ways = ["one", "buckets", "flat", "alone"]
explore(
    "data_parallel", at=at, lines=ways, sliders=["batch", "network", "bucket"], versus={"buckets": "one"}, unlock=w
)

# %% tags=["compare"]
compare(w, "data_parallel", {"buckets": "one", "flat": "one", "alone": "one"}, of="speed-up", at=at)

# %% [markdown] tags=["explain"]
# Two things are lost:
#
# 1. **Smaller matmuls** (*no exchange* against *one device*). Half the samples do not take half the time: with few samples a layer
#    reads all its weights anyway ([[memory-bound]]), and the host launches as many kernels as before.
# 2. **The exchange** (*overlapped* against *no exchange*). Its bytes are those of the weights, however few the samples are.
#
# An article on recurrent networks says that smaller mini-batches lose more by the first than by the second. That holds for its
# recurrent layer, which uses each weight in all 128 steps of a sequence. An MLP uses each weight once per sample, and there the exchange weighs far
# more: move *network* and look. *How often does a step use each weight?*
#
# ## Does the exchange hide?
#
# The timeline shows both GPUs at once, 8192 samples on each. *After the backward pass* the exchange has nothing beside it. With
# buckets most of it runs beside the backward pass, but not for free: NCCL's kernels take multiprocessors and memory bandwidth from
# the matmuls, and the last bucket has nothing to hide behind. What runs beside no compute is [[exposed communication]];
# `brrr.diagnose` reports it of your own traces.

# %% tags=["explain"]
timeline("data_parallel", variants=["buckets", "after", "alone"], at=at, calls=1)

# %% [markdown] tags=["explore"]
# ## Explore: half the weights each
#
# In [[tensor parallelism]] each GPU holds half of each layer. A pair of layers widens the numbers four times and narrows them again. The
# first is cut by outputs, the second by inputs, and one all-reduce adds up the results. Its bytes grow with the samples, not with the weights.
#
# 1. With one sample, from which width on does splitting pay? Why not below?
# 2. At width 1024, how many samples does it take until two GPUs win?
# 3. In the figure above: from which batch on are two GPUs faster than one, for each network?
#
# <details><summary>Answers</summary>
#
# 1. From 8192 on. Two GPUs read the weights in half the time. That must save more than an all-reduce costs, and at small widths the
#    host's launches set the pace.
# 2. Only with 16384 samples, and by little: the matmuls grow as the results do that are exchanged.
# 3. The MLP: from 2048 samples on each GPU. The block: from 8, since it uses each weight once per token, 512 times per
#    sample. The recurrent layer: only with 512.
#
# </details>
#
# **On a computer without two GPUs** write `source="cpu"` into a figure's call. Two processes, each with half of the cores, then play the GPUs, and
# exchange through *gloo*. *Measure all points* starts them, *Cancel* ends both. The latency and the small batch that loses are
# real; an exchange can hide only where it has a core of its own: with four cores or more.

# %% tags=["explore"]
one = {"width": 8192, "batch": 1}
explore("tensor_parallel", at=one, lines=["one", "split", "alone"], sliders=["width", "batch"], versus={"split": "one"})

# %% [markdown] tags=["your-turn"]
# ## Your turn: what can hide
#
# A network has 1 GB of gradients. Two GPUs exchange them over 450 GB/s in each direction; leave the latency out. The backward pass takes
# 1.5 ms and makes ten buckets of equal size, one after the other. *Calculate* how long the exchange takes, and which part of it runs beside
# the backward pass. A bucket's exchange begins when the bucket is full and the one before it is exchanged.

# %% tags=["your-turn", "exercise:14-exchange", "calculates"]
check("14-exchange", exchange_ms=..., hidden=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: two shards
#
# `cut` gets the weights of a pair of Linear layers, as PyTorch stores them: outputs by inputs. GPU `rank` computes
# `relu(x @ up.T) @ down.T` with its shards, and the all-reduce adds both results. *Make* it right for both ranks: each may hold only half of
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
# - An exchange costs a latency, mostly the host's, plus bytes over the link's bandwidth.
# - Data parallelism exchanges as many bytes as there are weights, tensor parallelism as many as there are results. Two GPUs pay where
#   each byte that is exchanged stands for much work.
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
