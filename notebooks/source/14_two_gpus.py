# ---
# jupyter:
#   readme: {short: 'two GPUs', asks: 'when are two GPUs faster than one?', before: '02, 07, 10'}
#   brrr:
#     leaves: '10'
#     needs: [cuda, two_gpus]
# ---

# %% [markdown] tags=["question"]
# # 14 · When are two GPUs faster than one?
#
# Side road.
# Know before: [copies](02_transfers.ipynb), [matmul shapes](07_gemm_shapes.ipynb), [idle GPUs](10_diagnose_your_model.ipynb).
#
# A second GPU doubles arithmetic and memory bandwidth. But each needs the other's results: **communication** costs time.
#
# **How much faster is the same batch on two GPUs, and why not twice as fast?**
#
# You will be able to:
#
# - calculate how long an exchange takes and hides
# - predict when two GPUs beat one
# - cut two layers' weights in halves

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, drawing, explore, guess, timeline

# %% [markdown] tags=["guess"]
# ## Guess: an all-reduce
#
# An [[all-reduce]] adds up the GPUs' buffers and leaves the sums on each. [[NCCL]] does it with one kernel on each GPU.
# Its two halves are a [[reduce-scatter]] and an [[all-gather]].
#
# [[NVLink]] joins the two (its switches' multicast, which could add, was off here). By an H200's datasheet it moves 450 gigabytes per second each way, and an all-reduce moves each byte once
# each way. First *calculate* how long 2 MiB takes, then 8 bytes.

# %% tags=["guess"]
g = guess("An all-reduce of 2 MiB takes ... times as long as one of 8 bytes", unit="x")

# %% tags=["run"]
ways = ["all reduce", "all gather", "reduce scatter"]
explore(
    "collective",
    at={"nbytes": 2**21},
    lines=ways,
    sliders=["nbytes"],
    versus={"nbytes": 8},
    unlock=g,
    title="How long does an all-reduce take?",
)

# %% tags=["compare"]
compare(g, "collective", ["all reduce"], nbytes=(8, 2**21))

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Why is the line flat for so long? Does link, GPU or host take this time? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# It is the *host* ([[host overhead]]): up to 1 MiB, a call takes more than three times as long as its kernel. The
# <!-- so collective: at(nbytes=most(1048576)); period('all-reduce') > 3 * kernel('all-reduce');
# count(period('all-reduce')) is 18 to 18 -->
# kernel sets the pace from 8 MiB on.
# <!-- so collective: at(nbytes=least(8388608)); period('all-reduce') < 1.1 * kernel('all-reduce');
# count(period('all-reduce')) is 8 to 8 -->
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# dist.init_process_group("nccl")  # dist: torch.distributed. NCCL_NVLS_ENABLE=0 torchrun --nproc-per-node 2 ...
# torch.cuda.set_device(dist.get_rank())
# for nbytes in (8, 2**21):
#     x = torch.zeros(nbytes // 4, device="cuda")
#     timer = torch.utils.benchmark.Timer("dist.all_reduce(x)", globals={"dist": dist, "x": x})
#     print(timer.timeit(1000).median)  # the same number of calls on both GPUs
# ```
#
# </details>
#
# ## A fixed time and a bandwidth
#
# The dashed line is a fixed time plus bytes over a bandwidth. Where it bends it lies too high: while a kernel runs, the host launches the
# next. The longer of the two sets the pace, not the sum.

# %% tags=["explain"]
drawing("exchange-line", source="recorded:h200", nbytes=2**23)

# %% [markdown] tags=["guess"]
# ## Guess: 32 samples each
#
# In [[data parallelism]] both GPUs hold the weights, and each computes the gradients of half the samples; an all-reduce adds these up.
# PyTorch's *DDP* collects them in *buckets* of 25 MiB (here, a layer each), and exchanges each once it is full, while the
# backward pass goes on.
#
# Our MLP has eight Linear layers of width 4096 in bf16: 268 MB of weights, and as much of gradients.
# <!-- so data_parallel: 8 * 4096 * 4096 * 2 is 267.5e6 to 268.5e6 -->

# %% tags=["guess"]
w = guess("With 64 samples, two GPUs are ... times as fast as one", unit="x")

# %% tags=["run"]
at = {"network": "MLP", "batch": 32, "bucket": 25}
ways = ["one", "buckets", "flat", "alone"]
explore(
    "data_parallel",
    at=at,
    lines=ways,
    sliders=["batch", "network", "bucket"],
    versus={"buckets": "one"},
    unlock=w,
    title="Is the exchange hidden behind the backward pass?",
)

# %% tags=["compare"]
compare(w, "data_parallel", {"buckets": "one", "flat": "one", "alone": "one"}, of="speed-up", at=at)

# %% [markdown] tags=["explain"]
# Time is lost in two ways:
#
# 1. **Halving the samples saves nothing** (*no exchange* against *one device*): the host launches as many kernels as before, and
#    sets the pace. Each layer still reads its weights ([[memory-bound]]).
# <!-- so data_parallel: at(network='MLP', batch=32, bucket=25); period('alone') > 0.95 * period('one'); host('one') >
# 0.95 * period('one'); period('one') > 3 * busy('one') -->
#    A `DataLoader`'s batch is a GPU's own: with a `DistributedSampler` each makes half the steps, so compare samples a second.
# 2. **The exchange** (*all at once* against *no exchange*) moves the gradients, however few the samples. *Overlapping* adds host work.
# <!-- by definition: each weight has one gradient -->
# <!-- so data_parallel: at(network='MLP', batch=32, bucket=25); period('flat') < period('buckets') -->
#
# By the GPU's own time, the recurrent layer loses more to slower matmuls: its gradients are few. The MLP loses more to DDP's exchange:
# move *network*.
# <!-- so data_parallel: at(batch=32, bucket=25); matmuls = [period('alone', network=each) - period('one', network=each)
# / 2 for each in ('MLP', 'recurrent layer')]; exchange = [period('buckets', network=each) - period('alone',
# network=each) for each in ('MLP', 'recurrent layer')]; matmuls['recurrent layer'] > exchange['recurrent layer'];
# matmuls['MLP'] < exchange['MLP']; period('flat', network='MLP') - period('alone', network='MLP') < matmuls['MLP'];
# [busy(way, network='recurrent layer') < period(way, network='recurrent layer') / 2 for way in ('one', 'alone')];
# [host(way, network='recurrent layer') > period(way, network='recurrent layer') / 2 for way in ('one', 'alone')] -->
#
# ## Does the exchange hide?
#
# The timeline shows both GPUs, 8192 samples on each. *Overlapped*, most exchanges run beside the backward pass. Yet less than half of
# their time is gained: NCCL's kernels need multiprocessors too, so the matmuls beside them take longer.
# <!-- so data_parallel: at(network='MLP', batch=8192, bucket=25); period('alone') < period('buckets');
# period('buckets') < period('after'); period('after') - period('buckets') < 0.5 * (period('after') - period('alone'))
# -->
#
# What overlaps no compute is [[exposed communication]]. (In the third timeline GPU 1 began earlier.)

# %% tags=["explain"]
timeline("data_parallel", variants=["buckets", "after", "alone"], at={**at, "batch": 8192}, calls=1)

# %% [markdown] tags=["explore"]
# ## Explore: half the weights each
#
# In [[tensor parallelism]] each GPU holds half of each layer. Here a pair of layers goes to four times the width and back. The
# first is cut by outputs, the second by inputs, and one all-reduce adds up the outputs: samples times width.
#
# 1. With one sample, from which width on does splitting pay? Why not below?
# 2. At width 1024, how many samples does it take until two GPUs win?
# 3. In the data-parallel figure: from which batch on are two GPUs faster, for each network?
#
# <details><summary>Answers</summary>
#
# 1. From 8192 on. Below, the host sets the split's pace: the all-reduce adds a launch.
# <!-- so tensor_parallel: from_on(period('one', batch=1) > period('split', batch=1)) is 8192 to 8192;
# count(period('one', batch=1) > period('split', batch=1)) == 2 -->
# 2. Only with 16384, by little: the exchange grows with the samples.
# <!-- so tensor_parallel: at(width=1024); gain = period('one') / period('split'); count(gain > 1) == 1; gain[16384] is
# 1 to 1.3 -->
# 3. The MLP: from 2048 samples on each GPU. The block: from 8, as a sample has 512 tokens. The recurrent layer: only with 512.
# <!-- so data_parallel: at(bucket=25); pays = [first(keys(where(period('one', network=each), period('buckets',
# network=each) < period('one', network=each)))) for each in ('MLP', 'transformer block', 'recurrent layer')];
# pays['MLP'] is 2048 to 2048; pays['transformer block'] is 8 to 8; pays['recurrent layer'] is 512 to 512 -->
#
# </details>
#
# **Without two GPUs** choose *live on this CPU* above a figure: two processes then play GPUs.

# %% tags=["explore"]
one = {"width": 8192, "batch": 1}
explore(
    "tensor_parallel",
    at=one,
    lines=["one", "split", "alone"],
    sliders=["width", "batch"],
    versus={"one": "split"},
    title="When does a layer split over two GPUs gain?",
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: what can hide
#
# Two GPUs exchange 1 GB of gradients at 450 GB/s each way; ignore the fixed time. The backward pass takes 1.5 ms and fills ten
# equal buckets at equal intervals. An exchange begins once its bucket is full and the previous exchange is done. *Calculate*
# how long the exchange takes, and what share of it, from 0 to 1, runs beside the backward pass.

# %% tags=["your-turn", "exercise:14-exchange", "calculates"]
check("14-exchange", exchange_ms=..., hidden=...)

# %% [markdown] tags=["your-turn"]
# ## More: two shards
#
# `cut` gets the weights of a pair of Linear layers, as PyTorch stores them: outputs by inputs. GPU `rank` computes
# `relu(x @ up.T) @ down.T` with its shards, and the all-reduce adds both. *Make* the right shards: each GPU may hold only half of
# the weights. Then write `cut=cut`.


# %% tags=["your-turn", "exercise:14-shards", "makes"]
def cut(up, down, rank):
    return up.chunk(2, dim=1)[rank], down.chunk(2, dim=0)[rank]


check("14-shards", cut=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# This course's sentences, and one article's.

# %% tags=["claims"]
claims("14")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Between two H200s, in a loop of Python's, exchange at least 8 MiB per all-reduce: below, a call takes about as long whatever its bytes.
# <!-- so collective: period('all-reduce', nbytes=least(8388608)) < 1.1 * kernel('all-reduce', nbytes=least(8388608));
# period('all-reduce', nbytes=4194304) > 1.1 * kernel('all-reduce', nbytes=4194304); max(period('all-reduce',
# nbytes=most(4194304))) < 1.2 * period('all-reduce', nbytes=8) -->
#
# - A small exchange costs a fixed time, most of it the host's; a large one costs its bytes over the link's bandwidth.
# - Data parallelism exchanges gradients, tensor parallelism outputs: two GPUs pay where they set the pace and do much work per exchanged byte.
# - An overlapped exchange slows compute: less time is gained than hidden.
#
# Terms: [[all-reduce]], [[NCCL]], [[NVLink]], [[data parallelism]], [[tensor parallelism]], [[exposed communication]].

# %% [markdown] tags=["work"]
# ## At work
#
# `torchrun --nproc-per-node 2 train.py` starts a process for each GPU, `NCCL_DEBUG=INFO` says what NCCL chose, and
# [nccl-tests](https://github.com/NVIDIA/nccl-tests) measures the link.
#
# ```python
# import torch, torch.distributed as dist
# dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29514", rank=0, world_size=1)  # torchrun: dist.init_process_group("nccl")
# model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8), bucket_cap_mb=25, gradient_as_bucket_view=True)
# with model.no_sync():                 # add gradients up over several backward passes, exchange none
#     model(torch.ones(4, 8)).sum().backward()
# model(torch.ones(4, 8)).sum().backward()  # this one exchanges
# dist.destroy_process_group()
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road: [15 · Why is my GPU idle although the model is fast?](15_feeding.ipynb)
#
# Back: [10 · What holds *your* model back?](10_diagnose_your_model.ipynb)
