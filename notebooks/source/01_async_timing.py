# ---
# jupyter:
#   readme: {short: 'async timing', asks: 'why does the GPU''s time look constant?', before: '00'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 01 · Why does the GPU's time look constant?
#
# Somebody timed matrix multiplications on a GPU, from tiny to huge, with Python's clock. The curve was almost flat. **What did that
# clock measure?**
#
# You will be able to:
#
# - say what a clock without a wait measures
# - choose the timer for a question
# - build one from [[event|events]] and [[warm-up]]
#
# Know before: [00](00_start_here.ipynb)'s [[kernel launch]].

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, drawing, explore, factory, guess

factory()

# %% [markdown] tags=["guess"]
# ## Guess: what does the clock say?
#
# ```python
# start = time.perf_counter()
# c = a @ b                     # 2048 × 2048, already in the GPU's memory
# seconds = time.perf_counter() - start
# ```
#
# One curve stops the clock as above, the other after `synchronize()`, which waits until the GPU's [[stream|queue]] is empty.

# %% tags=["guess"]
g = guess("For 2048 × 2048 matrices, this clock says ...", unit="s")

# %% tags=["run"]
clocks = {"unsynchronized": "synchronized"}
asks = "What does a clock that does not wait miss?"
explore("matmul", at={"size": 2048}, lines=["unsynchronized", "synchronized"], unlock=g, versus=clocks, title=asks)

# %% tags=["compare"]
compare(g, "matmul", ["unsynchronized", "synchronized"], size=2048)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Why does the first curve hardly rise? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# The call is [[asynchronous]]. `a @ b` only puts a [[kernel launch]] into the GPU's queue, its [[stream]], and returns. On an H200 this
# takes about ten microseconds, for a small matrix as for a large one.
# <!-- so matmul: launch = host('gpu', size=most(16384)); launch is 6.5e-6 to 13.5e-6; last(keys(launch)) is 16384 to
# 16384 -->
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import time, torch
# a, b = torch.randn(2, 2048, 2048, device="cuda")
# for _ in range(9):  # the first calls also set things up
#     torch.cuda.synchronize(); start = time.perf_counter()
#     c = a @ b; launched = time.perf_counter() - start
#     torch.cuda.synchronize(); print(launched, time.perf_counter() - start)
# ```
#
# </details>
#
# The next line that needs the result (`print(c)`, `c.cpu()`, `loss.item()`) waits for the queued work ([[synchronisation]]), and looks
# slow. The time is the work's: without this line, the next such line waits. A wait's own cost is the gap behind it: the queue is empty,
# so the GPU is idle until the next launch. If kernels are short, read the loss only every hundred steps.
#
# To time the work, synchronise **before you start the clock**, so that the queue is empty, and again **before you stop it**.
#
# The life of one call, drawn to scale:
#
# - `host_s`: the launch, on the host.
# - `kernel_s`: the kernel alone.
# - `period_s`: one call of a loop without waits ([[throughput]]). It is close to the longer of the two above.
# <!-- so timers: at(function='relu-64x1024', cache='hot'); period('measure') / host('measure') is 0.95 to 1.05 -->
# - `latency_s`: one call and the wait for its result ([[latency]]): the launch, its trip to the GPU, the kernel, and the report back
#   that it is done.
# - *between the [[event|events]]*: an event is a mark in the queue, where the GPU notes the time.

# %% tags=["explain"]
drawing("call-life", function="relu-64x1024")

# %% [markdown] tags=["guess"]
# ## Guess: which timer is closest?
#
# Timers that people use, on a small ReLU. The truth is `kernel_s`.
#
# - **no sync**: stops the clock when the call returns
# - **no [[warm-up]]**: times the very first call, and waits for its end
# - **sync each call**: warms up, waits after each call, takes the median
# - **event pair each call**: the same with an event before and behind each call
# - **transfers included**: as *sync each call*, but copies the input to the GPU and the result back
#
# *Cache hot*: the data were just used.

# %% tags=["guess"]
timers = ["no sync", "no warm-up", "sync each call", "event pair each call", "transfers included"]
r = guess("Put the timers in order, the one closest to the truth first.", ranking=timers)

# %% tags=["run"]
operators = ["relu-64x1024", "copy-1KB", "copy-1MB", "softmax-4096x4096"]
products = ["gemm-128", "gemm-512", "gemm-1024", "gemm-4096", "product-128", "product-512", "product-1000"]
kept = {"function": operators + products}
small = {"function": "relu-64x1024", "cache": "hot"}
naive = {"no sync": "measure"}
truth = {"ratio": "measure"}
asks = "How far off are these timers?"
explore(
    "timers", at=small, lines=timers, sliders=["function"], values=kept, show=truth, versus=naive, unlock=r, title=asks
)

# %% tags=["compare"]
compare(r, "timers", timers, truth="measure", at=small)

# %% [markdown] tags=["explain"]
# Each timer is right about something:
#
# - *no sync*: `host_s`.
# - *no warm-up*: the set-up, which a first call pays for.
# - *sync each call*: `latency_s`.
# - *event pair each call*: more than launch plus kernel. The GPU reaches the first event at once, then **waits for the host**: for
# <!-- so timers: at(function='relu-64x1024', cache='hot'); span('event-pair') > 1.2 * (host('measure') +
# kernel('measure')) -->
#   the launch, and for its trip to the GPU.
# - *transfers included*: a caller whose data are still in the CPU's memory.
#
# On a long kernel (*gemm-4096*) *sync each call* and *event pair* come within a twentieth.
# <!-- so timers: at(function='gemm-4096', cache='hot'); latency('sync-each-call') / kernel('measure') is 0.95 to 1.05;
# span('event-pair') / kernel('measure') is 0.95 to 1.05 -->
#
# **The remedy**: put many calls between *two* events, and divide by their number. But if a kernel is shorter than its launch, such a loop times
# the host. **Keep the host out**: a [[CUDA Graph]] puts many launches into one.
#
# ```python
# x = torch.randn(64, 1024, device="cuda")
# graph = torch.cuda.CUDAGraph()
# with torch.cuda.graph(graph):  # records 100 launches, runs none
#     for _ in range(100):
#         y = torch.relu(x)
# graph.replay()  # to warm up; then again, between two events
# ```
#
# Below, `torch.utils.benchmark` is such a loop, `do_bench_cudagraph` (Triton's) such a graph; `measure` asks the profiler. The graph
# reads more than `measure`: it includes the gap from one kernel to the next.
# <!-- so timers: at(function='relu-64x1024', cache='hot'); span('do-bench-cudagraph') / kernel('measure') is 1.2 to
# 1.5 -->

# %% tags=["explain"]
fair = ["measure", "torch.utils.benchmark", "do_bench_cudagraph"]
usual = {"torch.utils.benchmark": "measure"}
asks = "Which timer sees the kernel alone?"
explore("timers", at=small, lines=fair, sliders=[], values=kept, versus=usual, unlock=r, title=asks)

# %% [markdown] tags=["explore"]
# ## Explore: the first call
#
# What does a first call pay for? We timed its parts, each in a fresh process: making the [[CUDA context]] (the GPU's side of your
# process), asking the driver for memory, running the first kernel, the first call of a library (*matrix product*, *convolution*).
# Which takes longest? In the line *all loaded before*, the context loads every kernel beforehand.
# <!-- by what CUDA_MODULE_LOADING=EAGER does -->
#
# <details><summary>Answer, for the recording</summary>
#
# By its median the context takes longest, then a library's set-up. The first kernel must be loaded: with all kernels
# <!-- so first_call: first = latency('cuda-first'); first['CUDA context'] >= max(first); [first[part] for part in
# ('matrix product', 'convolution')] > 10 * first['first kernel'] -->
# loaded before, it takes at most half again as long as the second time.
# <!-- so first_call: at(part='first kernel'); latency('cuda-eager') < 1.5 * latency('cuda-again') -->
#
# A new shape, such as a smaller last batch, can pay again: for other kernels, new memory, compilation. So warm up with the operators
# **and shapes** that you time, repeat until the time no longer changes, and report the median.
#
# </details>

# %% tags=["explore"]
calls = ["first", "again", "eager"]
asks = "What does a first call wait for?"
explore("first_call", lines=calls, versus={"part": "CUDA context"}, title=asks)

# %% [markdown] tags=["your-turn"]
# ## Your turn: read two events
#
# After a warm-up, two events around 100 calls are 460 µs apart, and around a single call 10.6 µs. A launch takes the host 3 µs, so in
# the loop the GPU sets the pace. *Calculate* how long one call of the loop takes (`call_us`), and how much of the 10.6 µs is something
# else (`extra_us`).

# %% tags=["your-turn", "exercise:01-events", "calculates"]
check("01-events", call_us=..., extra_us=...)

# %% [markdown] tags=["your-turn"]
# ## More: build the timer
#
# Return the seconds that one `call()` takes. The first `call()` also sets things up. `event()` puts an event into the queue;
# `start.elapsed(end)` gives the seconds between two events, once `synchronize()` has waited for them. Then write `timer=timer`.
#
# (A call takes half a millisecond, far longer than its launch.)


# %% tags=["your-turn", "exercise:01-timer", "makes"]
def timer(call, synchronize, event):
    start = event()
    call()
    end = event()
    synchronize()
    return start.elapsed(end)


check("01-timer", timer=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# From *GPU Performance: Parallel Processing vs Overhead* (2024), measured on an A100. *Modules* hold the kernels. The last claim
# fails because one of its timers is closer.

# %% tags=["claims"]
claims("01")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** If a clock says the same, here about 10 µs, for small and large matmuls on an H200, it has timed the launch.
# <!-- so matmul: mean(host('gpu')) is 9.5e-6 to 10.5e-6; host('gpu') < 19e-6 -->
#
# - A call returns when its work is queued, so a clock without `synchronize()` times the host.
# - Warm up, then put many calls between two events, in a CUDA Graph if a kernel is shorter than its launch.
# - Say which time you mean: the launch, the kernel, one call of a loop, or the wait for one result.
#
# Terms: [[asynchronous]], [[kernel launch]], [[stream]], [[synchronisation]], [[event]], [[warm-up]].

# %% [markdown] tags=["work"]
# ## At work
#
# A loop with warm-up and waits. Capture shorter kernels as a CUDA Graph, and time its replay.
#
# ```python
# import torch
# from torch.utils.benchmark import Timer
#
# device = "cuda" if torch.cuda.is_available() else "cpu"
# x = torch.randn(2048, 2048, device=device)
# timer = Timer("x @ x", globals={"x": x})
# print(timer.blocked_autorange(min_run_time=1))
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [02 · What does a copy to the GPU cost?](02_transfers.ipynb) follows the data to the GPU.
#
# Back: [00 · Start here](00_start_here.ipynb)
