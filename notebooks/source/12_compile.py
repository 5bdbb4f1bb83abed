# ---
# jupyter:
#   readme: {short: 'torch.compile', asks: 'what does it remove, and how does it come back?', before: '05, 10'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 12 · What does torch.compile remove, and how does it come back?
#
# `torch.compile` traces your function and writes its kernels. It removes passes through memory, and with a CUDA Graph launches too.
# **What does it remove, when does that pay, and which of your lines bring the overhead back?**
#
# You will be able to:
#
# - calculate after how many calls compiling has paid
# - spot the lines that cause a [[graph break]]
# - rewrite a function until one graph is left
#
# Know before: [05](05_fusion.ipynb)'s [[fusion]], [03](03_overhead.ipynb)'s *CUDA Graph*.

# %% tags=["setup", "question"]
import torch
from brrr_course import check, claims, compare, explore, guess

# %% [markdown] tags=["guess"]
# ## Guess: when has it paid?
#
# Four programs, each small and large: a chain of eight pointwise operators, a normalisation by its formula, an MLP, and a transformer
# block of matmuls and PyTorch's own `layer_norm`, `gelu` and attention. They run as written, the same in a CUDA Graph made by
# hand, under `torch.compile`, and in its mode `reduce-overhead`: compiled, in a CUDA Graph.
#
# The first call compiles. *Estimate* for the small block, whose eleven kernels wait for the host: how many seconds might compiling
# take, and how many microseconds can each later call gain?
# <!-- so compiled: kernels('eager', program='transformer block', size='small') is 11 to 11 -->

# %% tags=["guess"]
spans = ["fewer than 1000", "1000 to 10 000", "10 000 to 100 000", "more, or never"]
g = guess("Compiling the small block has paid for itself after how many calls?", options=spans)

# %% tags=["run"]
small = {"program": "transformer block", "size": "small"}
ways = ["eager", "compile", "reduce overhead", "graph"]
faster = {"compile": "eager", "reduce overhead": "compile"}
asks = "Does torch.compile gain anything?"
explore(
    "compiled", at=small, lines=ways, show="ladder", sliders=["program", "size"], versus=faster, unlock=g, title=asks
)

# %% tags=["compare"]
compare(g, "compiled", of="payback", at=small)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Move both sliders. Which programs gain, and which become slower? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# These are forward passes. *Large:* the chain and the normalisation were passes through memory, and become one kernel. MLP and
# block gain nothing: the time is in
# <!-- so compiled: at(size='large', program=['pointwise chain', 'normalisation']); kernels('compile') is 1 to 1;
# period('eager') > 4 * period('compile') -->
# matmuls and in the library's own fused kernels.
# <!-- so compiled: at(size='large', program=['MLP', 'transformer block']); period('eager') / period('compile') < 1.02
# -->
#
# *Small:* all are [[overhead-bound]]. The chain becomes one kernel and gains. MLP and block launch as many kernels as before, and the
# <!-- so compiled: at(size='small'); period('eager') > 6 * busy('eager'); count(period('eager')) is 4 to 4 -->
# <!-- so compiled: at(size='small', program=['pointwise chain', 'normalisation']); period('eager') > period('compile')
# -->
# <!-- so compiled: at(program=['MLP', 'transformer block']); kernels('eager') == kernels('compile') -->
# host takes longer for each call (it also checks [[guard|guards]]): compiling gains nothing, calls get slower.
# <!-- so compiled: at(size='small', program=['MLP', 'transformer block']); period('compile') > 1.1 * period('eager');
# host('compile') > 1.2 * host('eager') -->
# `reduce-overhead` launches them as one graph, but the guards stay. A graph made by hand has none, and is fastest.
# <!-- so compiled: at(size='small', program=['MLP', 'transformer block']); period('compile') > 1.8 *
# period('reduce-overhead') -->
# <!-- so compiled: at(size='small'); [period(way) / period('graph') for way in ('eager', 'compile', 'reduce-overhead',
# 'max-autotune')] > 3; count(period('graph')) is 4 to 4 -->
#
# A CUDA Graph needs static shapes (or a graph for each), and reads its input from a fixed place. So `reduce-overhead` copies yours there: the
# chain and the normalisation take longer with it.
# <!-- so compiled: at(program=['pointwise chain', 'normalisation']); period('reduce-overhead') > 1.6 * period('compile');
# count(period('reduce-overhead')) is 4 to 4 -->
#
# Its result too: **the next call overwrites it**. Clone what you keep.
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# import timeit, torch
# given = {"device": "cuda" if torch.cuda.is_available() else "cpu", "dtype": torch.bfloat16}
# block = torch.nn.TransformerEncoderLayer(256, 4, 1024, 0.0, "gelu", norm_first=True, **given).requires_grad_(False)
# x, fast = torch.randn(64, 256, **given), torch.compile(block)
# print("first call", timeit.timeit(lambda: fast(x).sum().item(), number=1))  # item() waits for the GPU
# print("gain a call", (timeit.timeit(lambda: block(x), number=100) - timeit.timeit(lambda: fast(x), number=100)) / 100)
# ```
#
# </details>

# %% [markdown] tags=["guess"]
# ## Guess: one line in the middle
#
# A [[graph break]] is a line that the compiler cannot take. The compiled graph ends there, Python runs the line, a new graph begins. Say
# of each line whether it breaks the graph:
#
# ```python
# print("here")                              # 1
# if h.shape[0] > 8: h = h + 1               # 2
# if h.sum() > 0: h = h + 1                  # 3
# history.append(h)                          # 4
# h = h / h.max().item()                     # 5
# h = torch.where(h.sum() > 0, h + 1, h)     # 6
# ```
#
# <details><summary>Answer</summary>
#
# 1, 3 and 5. A shape (2) is known while compiling: it becomes a guard. An append (4) is replayed after the graph, but the list's new length
# [[recompilation|recompiles]]. 6 decides on the GPU what 3 asks Python to decide.
#
# </details>
#
# Now a chain of 27 pointwise operators on 2²⁶ numbers, compiled into one kernel. Somebody adds a `print`.

# %% tags=["guess"]
b = guess("With the print, the compiled chain takes ... times as long", unit="x")

# %% tags=["run"]
printed = {"breaks": 1, "kind": "print", "elements": 2**26}
both = ["compile", "eager"]
asks = "What does a graph break cost?"
moved = ["breaks", "kind", "elements"]
explore("graph_breaks", at=printed, lines=both, sliders=moved, versus={"breaks": 0}, unlock=b, title=asks)

# %% tags=["compare"]
compare(b, "graph_breaks", ["compile"], at=printed, breaks=(0, 1))

# %% [markdown] tags=["explain"]
# A break costs two things:
#
# - **Fusion is lost.** The numbers are written before the line and read again behind it: on large arrays each break is one more pass
#   through memory.
# <!-- so graph_breaks: at(kind='print', elements=67108864); [period('compile', breaks=n) / period('compile', breaks=0) / (n + 1) for n in
# (1, 2, 4, 8)] is 0.95 to 1.2 -->
# - **Overhead is back.** On small arrays (move *numbers*) the host pays: Python, guards and one more launch. With
#   eight breaks the program is slower than as written. `.item()` waits for the GPU as well.
# <!-- so graph_breaks: at(breaks=8, elements=16384); period('compile') > period('eager'); count(period('compile')) ==
# 4; 'syncs' in flags('compile', kind='.item() in a branch') -->

# %% [markdown] tags=["explore"]
# ## Explore: forty calls
#
# A [[guard]] is a check before each call: are shapes, types and Python numbers those that were compiled for? If not, it is a
# [[recompilation]]. Each of forty calls has another batch. Calls of half a second or more compile.
#
# 1. How many calls compile with `dynamic=False`, and why no more?
# 2. By default, which call compiles last? What did `torch.compile` learn there?
# 3. In one curve a number among the arguments changes, not the batch. What happens?
#
# <details><summary>Answers</summary>
#
# 1. Eight. That is torch's limit: then it runs new shapes as written, and only its log tells.
# <!-- so recompiles: spikes = [count(latency(way) > 0.5) for way in ('static', 'auto', 'mark', 'number')];
# spikes['static'] is 8 to 8; [from_on(latency(way) < 0.03) for way in ('static', 'auto', 'mark', 'number')] is 2 to 9;
# latency('static', call=least(10)) > 1.5 * latency('auto', call=least(10)) -->
# 2. The second. A size that has changed is made dynamic: the new program fits all batches. `mark_dynamic` says so before
# <!-- so recompiles: [count(latency(way) > 0.5) for way in ('auto', 'number')] is 2 to 2; [latency(way, call=n) for
# way in ('auto', 'number') for n in (1, 2)] > 0.5 -->
#    the first call.
# <!-- so recompiles: count(latency('mark') > 0.5) == 1; latency('mark', call=1) > 0.5 -->
# 3. It becomes dynamic, like a size. (A module's own number, `self.step`, would be a constant: pass it in.)
#
# </details>

# %% tags=["explore"]
told = ["static", "auto", "mark", "number", "eager"]
asks = "When does torch.compile compile again?"
explore("recompiles", at={"call": 2}, lines=told, sliders=["call"], versus={"call": 40}, title=asks)

# %% [markdown] tags=["your-turn"]
# ## Your turn: does it pay?
#
# A training step takes 250 ms, compiled 200 ms. The first call compiles for 90 s. *Calculate*: after how many steps has it paid? A test
# run has 1000 steps: how many seconds does it lose?

# %% tags=["your-turn", "exercise:12-payback", "calculates"]
check("12-payback", steps=..., lost_s=...)

# %% [markdown] tags=["your-turn"]
# ## More: one graph
#
# `step` scales numbers back if their root mean square is above 1, and prints. The print may go. `step` is right, but `torch.compile`
# makes several graphs of it. *Fix* it until one is left, then write `step=step`.


# %% tags=["your-turn", "exercise:12-fullgraph", "makes"]
def step(x):
    size = x.square().mean().sqrt().item()
    if size > 1:
        print("scaled back")
        x = x / size
    return torch.tanh(x)


check("12-fullgraph", step=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# We wrote these down before we measured.

# %% tags=["claims"]
claims("12")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** Compile a chain of pointwise operators on large arrays if it runs thousands of times: that paid its first call back on an H200 and an H100.
# <!-- so compiled: at(program='pointwise chain', size='large'); latency('first-cold') / (period('eager') - period('compile')) is
# 800 to 1300 -->
# <!-- so compiled@h100: at(program='pointwise chain', size='large'); latency('first-cold') / (period('eager') - period('compile')) is
# 2300 to 2900 -->
#
# - `torch.compile` fuses single operators; the launches left go with a CUDA Graph, whose result the next call overwrites.
# - Divide the first call's seconds by what each later call gains, and measure that gain: it may be none.
# - A graph break costs a pass through memory and a launch; a failed guard costs a compilation, and after eight, new shapes run as written.
#
# Terms: [[graph break]], [[guard]], [[recompilation]], [[fusion]], [[overhead-bound]].

# %% [markdown] tags=["work"]
# ## At work
#
# `TORCH_LOGS=graph_breaks,recompiles` names the line of each, and the guard that failed. `fullgraph=True` makes a break an error.
#
# ```python
# import torch
# def step(x):
#     return torch.relu(x) * 2
#
# print(torch._dynamo.explain(step)(torch.randn(8, 8)).graph_break_count)
# fast, x = torch.compile(step, fullgraph=True), torch.randn(8, 8)
# torch._dynamo.mark_dynamic(x, 0)
# torch.testing.assert_close(fast(x), step(x))
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [11 · Why does one token take so long?](11_language_model.ipynb) compiles a language model.
#
# Back: [15 · Why is my GPU idle although the model is fast?](15_feeding.ipynb)
