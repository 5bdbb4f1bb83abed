# ---
# jupyter:
#   readme: {short: 'language model', asks: 'why does one token take so long?', before: '04, 05, 10'}
#   brrr:
#     recorded: h100
#     needs: []
# ---

# %% [markdown] tags=["question"]
# # 11 · Why does one token take so long?
#
# A language model writes one token at a time. For each token it reads all of its weights once. Ours has the shape of Llama 3.2 1B:
# 1.24 billion weights in bfloat16, 16 layers, and random numbers for weights. **Why does its GPU write far fewer tokens a second than its memory allows?**

# %% tags=["setup", "question"]
from brrr_course import check, claims, compare, explore, guess

# %% [markdown] tags=["guess"]
# ## Guess: one reader
#
# First *calculate*: 1.24 billion weights of 2 bytes each are read for every token, and the memory moves 3.35 TB a second. How long does
# one token take at least? Then guess what PyTorch takes, as the model is written (`brrr_course/experiments/decode/llama.py`). One
# reader has 2048 tokens in the [[KV cache]]: the keys and values of everything so far.

# %% tags=["guess"]
g = guess("For one reader, PyTorch in eager mode takes ... for one token", unit="s")

# %% tags=["run"]
ways = ["eager", "compile", "graph", "compile graph"]
one = {"batch": 1, "context": 2048}
explore("decode", at=one, lines=ways, show="ladder", sliders=[], unlock=g)

# %% tags=["compare"]
compare(g, "decode", ways, **one)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** The weights are the same in all four ways. Where did the time go that a CUDA Graph saves, and where what the compiler
# saves on top? Double-click here and write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# Eager PyTorch launches about 40 kernels in each of 16 layers. The host needs longer for these launches than the GPU for the work: the
# step is [[overhead-bound]]. A [[CUDA Graph]] launches all of them at once. What is left are hundreds of tiny kernels, and each takes
# its start and its end: latency. The compiler fuses them into few, so that most of the time goes into reading weights:
# the step is nearly [[memory-bound]].
#
# </details>
#
# Writing token by token is called [[decode]]. Its matmuls have one row for each reader, so the weights are what costs: every
# weight is read, and used once for each reader.

# %% [markdown] tags=["guess"]
# ## Guess: 32 readers
#
# One step writes one token for each of 32 readers. It reads the weights once for all of them, and each reader's own keys and values.

# %% tags=["guess"]
w = guess("In a CUDA Graph, a step for 32 readers takes ... times as long as for one", unit="x")

# %% tags=["run"]
explore("decode", at=one, lines=["eager", "graph"], unlock=w)

# %% tags=["compare"]
compare(w, "decode", ["graph", "eager"], context=2048, batch=(1, 32))

# %% [markdown] tags=["explore"]
# ## Explore: readers and context
#
# Move *context*. When do the keys and values outweigh the weights? Each token has 16 layers x 8 heads x 64 numbers, twice (a key and a value),
# in 2 bytes: 32 kB. Some 75 000 tokens weigh as much as all the weights, whoever they belong to.
#
# Then set the context to 32768 and look at the right end of *batch*. Why is there no point?
#
# <details><summary>Answers</summary>
#
# With 2048 tokens each, from 37 readers on; with 32768 tokens, from 3 on. At the right end 256 readers of 32768 tokens need 275 GB for
# keys and values alone.
#
# </details>

# %% [markdown] tags=["explore"]
# ## Explore: the prompt
#
# Reading the prompt is called [[prefill]]: all its tokens go through the model at once. Each weight is read once and used for all of them. From
# how many tokens on do twice as many take about twice as long? Compare with the [[ridge point]]: 990 TFLOP/s over 3.35 TB/s.
#
# <details><summary>Answer</summary>
#
# A weight of 2 bytes takes part in 2 FLOP for each token. So the [[arithmetic intensity]] is as many FLOP per byte as there are tokens, and the ridge
# point lies near 300 tokens. Below it the weights' bytes set the pace, above it the arithmetic.
#
# </details>

# %% tags=["explore"]
explore("prefill", at={"tokens": 128}, lines=["eager", "graph"])

# %% [markdown] tags=["your-turn"]
# ## Your turn: how many readers fit?
#
# *Calculate*: a model has 32 layers with 8 heads of keys and values each, 128 numbers a head, in bfloat16. Its weights take 16 GB of a
# GPU's 80 GB. How many bytes does a token take in the cache? How many readers with 8192 tokens each fit beside the weights?

# %% tags=["your-turn", "exercise:11-cache", "calculates"]
check("11-cache", token_bytes=..., readers=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: make the step capturable
#
# Behind the model comes this: choose each reader's most likely word, write it into the text, move on. A CUDA Graph cannot hold it, for
# `.item()` waits for the GPU. *Fix* it: `place` is a tensor with one number, and must stay one.
#
# ```python
# def step(logits, text, place):
#     text[:, place.item()] = logits.argmax(-1)
#     place += 1
# ```

# %% tags=["your-turn", "exercise:11-capture", "makes"]
check("11-capture", step=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# We wrote down all sentences before anything was measured.

# %% tags=["claims"]
claims("11")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - One model has every regime: decode for one reader is overhead-bound in eager mode and memory-bound in a graph, prefill is compute-bound.
# - Readers served together share one reading of the weights; each brings its own keys and values.
# - Count the tokens in the cache: they decide what a step costs, and how many readers fit.
#
# Terms: [[KV cache]], [[decode]], [[prefill]], [[overhead-bound]], [[memory-bound]].

# %% [markdown] tags=["work"]
# ## At work
#
# A cache of fixed size, and a compiled step in a CUDA Graph. Servers such as vLLM do both, and fill each step with many readers.
#
# ```python
# cache = StaticCache(config=model.config, max_cache_len=4096)
# step = torch.compile(model, mode="reduce-overhead", fullgraph=True)
# with torch.inference_mode():
#     logits = step(input_ids=prompt, past_key_values=cache).logits      # prefill
#     word = logits[:, -1:].argmax(-1)
#     logits = step(input_ids=word, past_key_values=cache).logits        # decode
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# This is the end of the main road: go back to [10 · What holds *your* model back?](10_diagnose_your_model.ipynb) and ask it of your own model.
