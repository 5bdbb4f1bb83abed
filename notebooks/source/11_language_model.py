# ---
# jupyter:
#   readme: {short: 'language model', asks: 'why does one token take so long?', before: '04, 05, 10'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 11 · Why does one token take so long?
#
# A language model writes one token at a time, and reads its weights for each. Ours has the shape of Llama 3.2 1B: 1.24 billion weights
# in bfloat16. **Why does the GPU write far fewer tokens a second than its memory allows?**
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
# First *calculate*: each token reads 1.24 billion weights of 2 bytes, and the H200's memory moves 4.8 TB a second. How long does
# one token take at least? Then guess what PyTorch takes.
#
# Call each user of the model a *reader*. One reader has 2048 tokens in the [[KV cache]]: the keys and values of everything so far,
# which each token would else compute again.

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
# **Your explanation.** The four ways read the same weights. Which time does a [[CUDA Graph]] save, and which does the compiler save on top?
# Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# Eager PyTorch launches more than 40 kernels in each of 16 layers. The host takes far longer for these launches than the GPU for the work:
# <!-- so decode: kernels('eager', batch=1, context=2048) / 16 is 40.1 to 44.9 -->
# the step is [[overhead-bound]].
#
# A CUDA Graph launches them together. Many are short: norms, rotations, additions and copies between the matmuls. They
# leave the GPU *under-filled*. The compiler fuses these, and leaves fewer than half as many kernels. Of that step's time,
# <!-- so decode: at(batch=1, context=2048); kernels('compile-graph') < kernels('graph') / 2; host('eager') > 5 * busy('to-latency') -->
# reading the weights at the full bandwidth would take two fifths.
# <!-- so decode: token = (bytes('graph', batch=1, context=8192) - bytes('graph', batch=1, context=2048)) / 6144;
# weights = bytes('graph', batch=1, context=2048) - 2048 * token; weights / 4.8e12 / period('compile-graph', batch=1,
# context=2048) is 0.38 to 0.43 -->
#
# In the figure *compute* is the whole time of kernels that arithmetic limits, by lesson 10's `diagnose`.
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
# Writing token by token is called [[decode]]. Its matmuls have one row for each reader: a weight is read once, and used once for each
# reader. With few readers these matmuls are [[memory-bound]], even where the step is not. So weights in 8 or 4 bits can help decode, if one
# kernel unpacks and multiplies; not a long prompt, whose arithmetic stays ([13](13_fewer_bits.ipynb)). Where a
# separate kernel widens int8 first, each weight moves 5 bytes in place of 2: slower, but the model may fit only so.
# <!-- so bits: at(tokens=1, inputs='ordinary'); busy('int8-widened') > 1.5 * busy('bf16') -->
#
# With 256 readers of 2048 tokens each, memory is the largest of the GPU's parts: their keys and values are seven times the bytes of the weights.
# <!-- so decode: memory = [busy('to-memory', batch=n, context=at) - busy('to-compute', batch=n, context=at) for n, at
# in ((1, 128), (1, 2048), (256, 128), (256, 2048))]; others = [max(busy('to-compute', batch=n, context=at),
# busy('to-latency', batch=n, context=at) - busy('to-memory', batch=n, context=at)) for n, at in ((1, 128), (1, 2048),
# (256, 128), (256, 2048))]; memory[256, 2048] >= others[256, 2048]; count(memory >= others) == 1 -->
# <!-- so decode: token = (bytes('graph', batch=1, context=8192) - bytes('graph', batch=1, context=2048)) / 6144;
# weights = bytes('graph', batch=1, context=2048) - 2048 * token; 256 * 2048 * token / weights is 6.5 to 7.5 -->

# %% [markdown] tags=["guess"]
# ## Guess: 32 readers
#
# One step writes one token for each of 32 readers. They share the weights; each has keys and values of its own.

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
# A token in the cache is a key and a value, each 16 layers × 8 heads × 64 numbers of 2 bytes: 33 kB. So some 75 000 tokens weigh as
# much as the weights.
# <!-- so decode: token = (bytes('graph', batch=1, context=8192) - bytes('graph', batch=1, context=2048)) / 6144;
# weights = bytes('graph', batch=1, context=2048) - 2048 * token; weights / token is 74e3 to 76e3 -->
#
# Move *context* in the figure above. From how many readers on do keys and values outweigh the weights?
#
# <details><summary>Answer</summary>
#
# With 2048 tokens each, from 37 readers on; with 32768, from 3 on.
# <!-- so decode: token = (bytes('graph', batch=1, context=8192) - bytes('graph', batch=1, context=2048)) / 6144;
# weights = bytes('graph', batch=1, context=2048) - 2048 * token; weights / token / 2048 is 36.001 to 37; weights /
# token / 32768 is 2.001 to 3 -->
#
# </details>

# %% [markdown] tags=["explore"]
# ## Explore: the prompt
#
# Reading the prompt is called [[prefill]]: its tokens go through the model at once, and share each weight that is read. From
# which length on does twice the prompt take about twice the time? Compare with the [[ridge point]].
#
# <details><summary>Answer</summary>
#
# A weight of 2 bytes takes part in 2 FLOP for each token. So the [[arithmetic intensity]] is as many FLOP per byte as there are tokens. The ridge
# point, 990 TFLOP over 4.8 TB a second, lies near 200 tokens. The step reaches neither peak there: 256 tokens take a third longer than one. From
# <!-- so prefill: 990e12 / 4.8e12 is 190 to 210; at(tokens=256); flop('graph') / period('graph') / 990e12 < 0.3; bytes('graph') /
# period('graph') / 4.8e12 < 0.3 -->
# <!-- so prefill: period('graph', tokens=256) / period('graph', tokens=1) is 1.3 to 1.4 -->
# 1024 on, twice as many take about twice as long, or more.
# <!-- so prefill: more = doubled(period('graph')); more[512] < 1.6; [more[n] for n in (1024, 2048, 4096, 8192)] is 1.75 to 2.4 -->
#
# </details>
#
# Attention compares N tokens with N: a matrix of N × N numbers, which `scaled_dot_product_attention` keeps out of memory. For short
# prompts that gains little: attention has about N / (6 · width) of the other matmuls' FLOP. Use `is_causal=True`: your own mask may exclude the
# <!-- by arithmetic: 4 N w of 24 w² for each token, in a block with four times as many features -->
# fastest kernel. In decode one token asks: no N × N, the cost is reading the cache. In
# training, its backward pass calculates the scores again instead of storing them.
# <!-- by what scaled_dot_product_attention's fused kernels do -->

# %% tags=["explore"]
explore("prefill", at={"tokens": 128}, lines=["graph"], versus={"tokens": 1}, title="How long does a prompt take?")

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
# We wrote these down before we measured.

# %% tags=["claims"]
claims("11")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** In a CUDA Graph on an H200, read a 1B model's prompt in pieces of 1024 tokens or more: in pieces of 128, 2048 take four times as long.
# <!-- so prefill: 16 * period('graph', tokens=128) / period('graph', tokens=2048) is 3.8 to 4.4; 2 * period('graph', tokens=1024) < 1.25 *
# period('graph', tokens=2048); 4 * period('graph', tokens=512) > 1.4 * period('graph', tokens=2048) -->
#
# - One model has every regime: decode for one reader is overhead-bound in eager mode and mostly under-filled in a graph, with many
#   readers memory-bound; a long prefill is compute-bound.
# <!-- so decode: at(batch=1, context=2048); busy('to-latency') - busy('to-memory') > busy('to-latency') / 2 -->
# - Readers served together share one reading of the weights; each brings its own keys and values.
# - Beyond some number, tokens in the cache cost more than the weights; and they decide how many readers fit.
#
# Terms: [[KV cache]], [[decode]], [[prefill]], [[overhead-bound]], [[memory-bound]].

# %% [markdown] tags=["work"]
# ## At work
#
# A cache of fixed size and a compiled step in a CUDA Graph.
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
# Go on with [16 · Where does the memory go?](16_memory.ipynb). Side road:
# [11b · When does fusion need a new algorithm?](11b_attention.ipynb) takes attention apart.
#
# Back: [12 · What does torch.compile remove, and how does it come back?](12_compile.ipynb)
