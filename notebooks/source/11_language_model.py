# ---
# jupyter:
#   readme: {short: 'language model', asks: 'why does one token take so long?', before: '04, 05, 10'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 11 · Why does one token take so long?
#
# A language model writes one token at a time. For each token it reads all of its weights once. Ours has the shape of Llama 3.2 1B:
# 1.24 billion weights in bfloat16 in 16 layers; their values are random. **Why does the GPU write far fewer tokens a second than its memory allows?**
#
# You will be able to:
#
# - calculate a token's least time
# - calculate how many readers fit
# - make a step fit into a CUDA Graph
#
# Know before: [03](03_overhead.ipynb)'s *CUDA Graph*, [04](04_memory_bound.ipynb)'s *ridge point*.

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, explore, guess

# %% [markdown] tags=["guess"]
# ## Guess: one reader
#
# First *calculate*: 1.24 billion weights of 2 bytes each are read for every token, and the H200's memory moves 4.8 TB a second. How long does
# one token take at least? Then guess what PyTorch takes for the model as it is written (`brrr_course/experiments/llama.py`).
# Call each user of the model a *reader*. One reader has 2048 tokens in the [[KV cache]]: the keys and values of everything so far.

# %% tags=["guess"]
g = guess("For one reader, PyTorch in eager mode takes ... for one token", unit="s")

# %% tags=["run"]
one = {"batch": 1, "context": 2048}
parts = {"compute": "compute", "memory": "memory", "under-filled": "under-filled", "eager": "overhead"}
ends = {"batch": (1, 256), "context": (128, 2048)}
explore("decode", at=one, show={"stack": parts}, values=ends, unlock=g, title="Where does the time for one token go?")

# %% tags=["compare"]
compare(g, "decode", ["eager", "compile", "graph", "compile graph"], **one)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** All four ways read the same weights. Which time does a [[CUDA Graph]] save, and which does the compiler save on top?
# Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# Eager PyTorch launches more than 40 kernels in each of 16 layers. The host takes far longer for these launches than the GPU for the work:
# <!-- so decode: kernels('eager', batch=1, context=2048) / 16 is 40.1 to 44.9 -->
# the step is [[overhead-bound]]. (This host's times scatter: eight readers may take less time than two.) A CUDA Graph
# launches all of them at once. What is
# <!-- so decode: at(context=2048); period('eager', batch=8) < 0.8 * period('eager', batch=2) -->
# left are hundreds of short kernels. Between the matmuls stand norms, rotations, additions and copies, each too short to be limited by
# anything but its own start and end: *under-filled*. The compiler fuses these into a few. (Without a graph, it still launches them one by one.)
# Then two fifths of the time are what reading the weights would take at the full bandwidth.
# <!-- so decode: token = (bytes('graph', batch=1, context=8192) - bytes('graph', batch=1, context=2048)) / 6144;
# weights = bytes('graph', batch=1, context=2048) - 2048 * token; weights / 4.8e12 / period('compile-graph', batch=1,
# context=2048) is 0.38 to 0.43 -->
#
# The parts are what `diagnose` of lesson 10 says of each kernel. Its sliver of *compute* is attention: short calls that reach no limit.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import torch.utils.benchmark
# from brrr_course.experiments.llama import Llama, new_cache
# from brrr_course.experiments.llama_sizes import LARGE
# model = Llama(LARGE, torch.bfloat16, "cuda")
# token, cache = torch.zeros((1, 1), dtype=int, device="cuda"), new_cache(LARGE, 1, 2048, model.embedding)
# print(torch.utils.benchmark.Timer("model(token, cache, 2047)", globals=globals()).blocked_autorange())
# ```
#
# </details>
#
# Writing token by token is called [[decode]]. Its matmuls have one row for each reader, so they are [[memory-bound]]: each weight is read once,
# and used once for each reader.
#
# Now switch *batch* and *context* in the first figure. At which of its four settings is memory the largest part, once the overhead is gone?
#
# <details><summary>Answer</summary>
#
# Only with 256 readers of 2048 tokens each. Their keys and values are seven times the bytes of the weights.
# <!-- so decode: memory = [busy('to-memory', batch=n, context=at) - busy('to-compute', batch=n, context=at) for n, at
# in ((1, 128), (1, 2048), (256, 128), (256, 2048))]; others = [max(busy('to-compute', batch=n, context=at),
# busy('to-latency', batch=n, context=at) - busy('to-memory', batch=n, context=at)) for n, at in ((1, 128), (1, 2048),
# (256, 128), (256, 2048))]; memory[256, 2048] >= others[256, 2048]; count(memory >= others) == 1 -->
# <!-- so decode: token = (bytes('graph', batch=1, context=8192) - bytes('graph', batch=1, context=2048)) / 6144;
# weights = bytes('graph', batch=1, context=2048) - 2048 * token; 256 * 2048 * token / weights is 6.5 to 7.5 -->
#
# </details>

# %% [markdown] tags=["guess"]
# ## Guess: 32 readers
#
# One step writes one token for each of 32 readers. It reads the weights once for all of them, and each reader's own keys and values.

# %% tags=["guess"]
w = guess("In a CUDA Graph, a step for 32 readers takes ... times as long as for one", unit="x")

# %% tags=["run"]
many = {"batch": 32, "context": 2048}
explore(
    "decode",
    at=many,
    lines=["graph", "eager"],
    versus={"batch": 1},
    unlock=w,
    title="What do more readers cost?",
)

# %% tags=["compare"]
compare(w, "decode", ["graph", "eager"], context=2048, batch=(1, 32))

# %% [markdown] tags=["explore"]
# ## Explore: readers and context
#
# The figure shows the time of one step, in which each reader gets one token. Each token in the cache has 16 layers × 8 heads × 64 numbers, twice (a key and a value),
# in 2 bytes: 33 kB. So some 75 000 tokens weigh as much as all the weights, whoever they belong to.
# <!-- so decode: token = (bytes('graph', batch=1, context=8192) - bytes('graph', batch=1, context=2048)) / 6144;
# weights = bytes('graph', batch=1, context=2048) - 2048 * token; weights / token is 74e3 to 76e3 -->
#
# Move *context*. From how many readers on do keys and values outweigh the weights? Then set it to 32768: why do the curves end early?
#
# <details><summary>Answers</summary>
#
# With 2048 tokens each, from 37 readers on; with 32768 tokens, from 3 on. There the CUDA Graph's curve climbs: twice the readers take nearly
# <!-- so decode: token = (bytes('graph', batch=1, context=8192) - bytes('graph', batch=1, context=2048)) / 6144;
# weights = bytes('graph', batch=1, context=2048) - 2048 * token; weights / token / 2048 is 36.001 to 37; weights /
# token / 32768 is 2.001 to 3 -->
# twice as long, since nobody shares keys and values. 256 readers of 32768 tokens need 275 GB for keys and values alone.
# <!-- so decode: at(context=32768); max(doubled(period('graph'))) is 1.75 to 1.85 -->
# <!-- so decode: token = (bytes('graph', batch=1, context=8192) - bytes('graph', batch=1, context=2048)) / 6144; 256 *
# 32768 * token is 274.5e9 to 275.5e9 -->
#
# </details>

# %% [markdown] tags=["explore"]
# ## Explore: the prompt
#
# Reading the prompt is called [[prefill]]: all its tokens go through the model at once, and each weight is read once for all of them. From
# which length on does twice the prompt take nearly twice the time? Compare with the [[ridge point]].
#
# <details><summary>Answer</summary>
#
# A weight of 2 bytes takes part in 2 FLOP for each token. So the [[arithmetic intensity]] is as many FLOP per byte as there are tokens, and the ridge
# point lies near 200 tokens. (The dashed lines cross a little later: only the last token goes through the output layer.) In the CUDA Graph 256 tokens take a third longer than one; from 1024 on, twice as many take nearly twice as
# <!-- so prefill: period('graph', tokens=256) / period('graph', tokens=1) is 1.3 to 1.4 -->
# long. (The bend is a wide one: the small kernels take their share.)
# <!-- so prefill: more = doubled(period('graph')); more[512] < 1.6; [more[n] for n in (1024, 2048, 4096, 8192)] > 1.75
# -->
#
# </details>

# %% tags=["explore"]
explore(
    "prefill", at={"tokens": 128}, lines=["graph", "eager"], versus={"tokens": 1}, title="How long does a prompt take?"
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: how many readers fit?
#
# *Calculate*: a model has 32 layers with 8 heads of keys and values each, 128 numbers a head, in bfloat16. Its weights take 16 GB of a
# GPU's 80 GB (10⁹ bytes each). How many bytes does a token take in the cache? How many readers with 8192 tokens each fit beside the weights?

# %% tags=["your-turn", "exercise:11-cache", "calculates"]
check("11-cache", token_bytes=..., readers=...)

# %% [markdown] tags=["your-turn"]
# ## More: make the step capturable
#
# Behind the model comes this: choose each reader's most likely word, write it into the text, move on. A CUDA Graph cannot hold it:
# `.item()` waits for the GPU, and the graph would use the same column for ever. `logits` is (readers, words), `text` (readers, length);
# `place` has shape (1,) and must stay a tensor. *Fix* it (a tensor can be an index), then write `step=step`.
#
# ```python
# def step(logits, text, place):
#     text[:, place.item()] = logits.argmax(-1)
#     place += 1
# ```

# %% tags=["your-turn", "exercise:11-capture", "makes"]
check("11-capture", step=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# We wrote down all sentences before anything was measured.

# %% tags=["claims"]
claims("11")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Cut no prompt finer than 128 tokens: on an H200, they take a 1B model at most a fifth longer than one.
# <!-- so prefill: period('graph', tokens=most(128)) / period('graph', tokens=1) <= 1.2 -->
#
# - One model has every regime: decode for one reader is overhead-bound in eager mode, and *under-filled* and *memory* share its time in a graph; with
#   many readers it is memory-bound; a long prefill is compute-bound.
# - Readers served together share one reading of the weights; each brings its own keys and values.
# - Beyond some number, tokens in the cache cost more than the weights; and they decide how many readers fit.
#
# Terms: [[KV cache]], [[decode]], [[prefill]], [[overhead-bound]], [[memory-bound]].

# %% [markdown] tags=["work"]
# ## At work
#
# A cache of fixed size, and a compiled step in a CUDA Graph, for one layer of attention. Servers such as vLLM replay graphs too, keep the
# cache in pages, and fill each step with many readers.
#
# ```python
# import torch, torch.nn.functional as F
# device = "cuda" if torch.cuda.is_available() else "cpu"
# qkv, cache = torch.nn.Linear(256, 768, device=device).requires_grad_(False), torch.zeros(2, 8, 4096, 32, device=device)
# torch._dynamo.mark_static_address(cache)  # a graph may write to it
# def step(x, at):  # the token at this place: its keys and values go into the cache
#     q, cache[0, :, at], cache[1, :, at] = qkv(x).view(3, 8, 1, 32)
#     return F.scaled_dot_product_attention(q, *cache, attn_mask=torch.arange(4096, device=device)[None] <= at)
# y = torch.compile(step, mode="reduce-overhead")(torch.randn(256, device=device), torch.tensor([0], device=device))
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# The main road ends here, before your own model; [00 · Start here](00_start_here.ipynb) has the map. Side road:
# [11b · When does fusion need a new algorithm?](11b_attention.ipynb) takes attention apart.
#
# Back: [12 · What does torch.compile remove, and how does it come back?](12_compile.ipynb)
