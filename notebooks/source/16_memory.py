# ---
# jupyter:
#   readme: {short: 'memory', asks: 'where does the memory go, and will it fit?', before: '02, 11'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 16 · Where does the memory go?
#
# A model that is small on disk can fill a GPU in training. **What holds the memory at the worst moment of a step, and will it fit?**
#
# You will be able to:
#
# - name the parts of a step's memory
# - calculate whether a step fits
# - find what keeps memory alive
#
# Know before: [11](11_language_model.ipynb)'s [[KV cache]].

# %% tags=["setup", "question"]
import torch

from brrr import array, predict
from brrr_course import check, claims, compare, explore, guess

# %% [markdown] tags=["guess"]
# ## Guess: the largest part
#
# A decoder of 341 million weights (on a CPU a small one), trained with AdamW in float32. Its [[peak memory]] is a stack:
#
# - **parameters**, and a **gradient** for each;
# - the **[[optimiser's state]]**: AdamW keeps two running means for each parameter;
# - **[[saved activations|activations]]**: what the forward pass keeps for the backward pass;
# - **temporaries**: what an operator needs only now.

# %% tags=["guess"]
options = ["parameters", "optimiser's state", "activations", "temporaries"]
g = guess("Eight sequences of 2048 tokens: at the peak, the largest part is", options=options)

# %% tags=["run"]
at = {"way": "AdamW", "batch": 8, "sequence": 2048}
parts = {
    "parameters": "parameters", "gradients": "gradients", "state": "optimiser's state", "activations": "activations",
    "cache": "keys and values", "peak": "temporaries", "reserved": "reserved, unallocated",
}  # fmt: skip
explore("footprint", at=at, show={"stack": parts, "y": "bytes"}, unlock=g, title="What does a step hold at its peak?")

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Double the batch: which parts double, and which stay? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# In float32 a parameter is 4 bytes, its gradient 4, its state 8: with AdamW 16 bytes for each parameter, whatever the batch. Activations
# <!-- by arithmetic: 4 + 4 + 2 * 4 -->
# grow with the tokens, batch × sequence. With few tokens the fixed parts are larger, with many the activations.
# <!-- so footprint: at(way='AdamW', sequence=2048); eight = peak_bytes('activations', batch=8) - peak_bytes('state', batch=8);
# (peak_bytes('activations', batch=16) - peak_bytes('state', batch=16)) / eight is 1.99 to 2.01; eight > 5 * peak_bytes('state', batch=8);
# peak_bytes('activations', batch=1, sequence=512) < 1.01 * peak_bytes('state', batch=1, sequence=512) -->
#
# While gradients grow, activations go. With many tokens the peak comes with the loss, before any gradient.
# <!-- so footprint: at(way='AdamW'); peak_bytes('gradients', batch=8, sequence=2048) / peak_bytes('parameters', batch=8, sequence=2048) is 1 to 1;
# peak_bytes('gradients', batch=1, sequence=512) / peak_bytes('parameters', batch=1, sequence=512) is 2 to 2.1 -->
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# torch.cuda.reset_peak_memory_stats()  # model, optimizer, tokens: as in your program, after a first step
# model(tokens).sum().backward()
# optimizer.step()
# print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
# ```
#
# </details>
#
# Move *way* through the stack:
#
# | way | what shrinks | what stays |
# | --- | --- | --- |
# | SGD | no state | activations |
# | bf16 autocast | activations, not to half: norms and the loss stay wide | parameters and state, in float32 |
# | [[checkpointing]] | activations: one input for each layer | the fixed parts |
# | LoRA | gradients and state, nearly gone | parameters, most activations |
# | inference | no gradients, state or activations | parameters, here in bf16 |
# | decoding | the same | parameters, and the KV cache |
#
# <!-- so footprint: at(batch=8, sequence=2048); kept = peak_bytes('activations', way='AdamW') - peak_bytes('state', way='AdamW');
# peak_bytes('state', way='SGD') <= 1.001 * peak_bytes('parameters', way='SGD'); [(peak_bytes('activations', way=way) - peak_bytes('state', way=way)) /
# kept for way in ('SGD',)] is 0.99 to 1.01; [(peak_bytes('activations', way=way) - peak_bytes('state', way=way)) / kept for way in ('bf16 autocast',
# 'LoRA')] is 0.73 to 0.75; [peak_bytes('state', way=way) / peak_bytes('state', way='AdamW') for way in ('bf16 autocast', 'checkpointing')] is 0.999
# to 1.001; [(peak_bytes('activations', way='checkpointing') - peak_bytes('state', way='checkpointing')) / kept] is 0.1 to 0.12; peak_bytes('state', way='LoRA') <=
# 1.01 * peak_bytes('parameters', way='LoRA'); [peak_bytes('activations', way=way) / peak_bytes('parameters', way=way) for way in ('inference',
# 'decoding')] is 1 to 1.001; [2 * peak_bytes('parameters', way=way) / peak_bytes('parameters', way='AdamW') for way in ('inference', 'decoding')] is
# 0.999 to 1.001 -->
#
# The **KV cache** grows with readers × tokens, and outgrows the parameters.
# <!-- so footprint: at(way='decoding', batch=32); (peak_bytes('cache', sequence=8192) - peak_bytes('state', sequence=8192)) /
# peak_bytes('parameters', sequence=8192) is 37 to 38; (peak_bytes('cache', sequence=8192) - peak_bytes('state', sequence=8192)) /
# (peak_bytes('cache', sequence=2048) - peak_bytes('state', sequence=2048)) is 3.99 to 4.01 -->
# A server's `gpu_memory_utilization` is the share
# of the GPU that it may take: what parameters leave becomes cache.

# %% [markdown] tags=["guess"]
# ## Guess: the price of recomputing
#
# Checkpointing keeps each layer's input, and computes the rest again in the backward pass. Calculate first: a backward pass is
# about two forward passes of work.

# %% tags=["guess"]
w = guess("With checkpointing, a step takes ... times as long", unit="x")

# %% tags=["run"]
explore(
    "footprint",
    at={**at, "way": "checkpointing"},
    lines=["peak"],
    show={"y": "time", "x": "batch"},
    sliders=["way", "batch"],
    versus={"way": "AdamW"},
    unlock=w,
    title="What does less memory cost?",
)

# %% tags=["compare"]
compare(w, "footprint", ["peak"], batch=8, sequence=2048, way=("AdamW", "checkpointing"))

# %% [markdown] tags=["explain"]
# One more forward pass on top of three would be a third more. It is a quarter here: head, loss and optimiser run once.
# <!-- so footprint: at(batch=8, sequence=2048); period('peak', way='checkpointing') / period('peak', way='AdamW') is 1.24 to 1.28 -->
# Fused, cheap operators cost less
# ([05b](05b_codegen.ipynb)); *offloading* moves state or activations to the host, at the link's pace ([02](02_transfers.ipynb)).
#
# ## Reserved, but not allocated
#
# `cudaMalloc` is slow, so PyTorch's [[caching allocator]] keeps freed memory for its next tensors. `nvidia-smi` shows what is *reserved*;
# tensors hold what is *allocated*. A request needs one free piece large enough. When lengths change from step to step,
# gaps remain that are too small: [[fragmentation]] (*lengths vary* in the stack).
# <!-- so footprint: at(batch=8, sequence=2048); peak_bytes('reserved', way='lengths vary') / peak_bytes('peak', way='lengths vary') is 1.55 to 1.65;
# peak_bytes('reserved', way='AdamW') / peak_bytes('peak', way='AdamW') is 1 to 1.01; peak_bytes('peak', way='lengths vary') / peak_bytes('peak',
# way='AdamW') is 0.99 to 1.01 -->
#
# `empty_cache()` gives the driver back what is wholly free. It closes no gap and lowers no peak.
# Padding to a few lengths helps, or `PYTORCH_ALLOC_CONF=expandable_segments:True`.

# %% [markdown] tags=["explore"]
# ## Explore: will it fit?
#
# The dashes are the GPU's memory. Which batch is the largest that fits, for each way? And at *sequence* 512?
#
# <details><summary>Answer</summary>
#
# With AdamW and SGD, 32 sequences are out of memory: above the dashes, and red in the stack. At 512 tokens they fit: activations count
# tokens, so four sequences weigh as much as one of 2048.
# <!-- so footprint: at(batch=32, way=['AdamW', 'SGD']); 'out of memory' in flags('peak', sequence=2048); 'out of memory' not in flags('peak',
# sequence=512); 'out of memory' not in flags('peak', sequence=2048, batch=16); 'out of memory' not in flags('peak', sequence=2048, way=['bf16 autocast',
# 'checkpointing', 'LoRA', 'inference', 'decoding']); (peak_bytes('activations', sequence=512) - peak_bytes('state', sequence=512)) /
# (peak_bytes('activations', sequence=2048, batch=8) - peak_bytes('state', sequence=2048, batch=8)) is 0.99 to 1.01 -->
#
# </details>

# %% tags=["explore"]
explore(
    "footprint",
    at=at,
    lines=["peak", "activations", "state"],
    show={"y": "bytes", "x": "batch"},
    versus={"batch": 1},
    title="Will it fit?",
)

# %% [markdown] tags=["explore"]
# On any machine, `predict` counts the stack before anything runs.
#
# On an H200 it was within a hundredth for all of twelve programs; asked on a CPU, within a tenth for eleven ([table](../docs/predictor_memory.md)).
# <!-- by data/recordings/h200/memory, as tests/tools/test_judge.py finds -->

# %% tags=["explore"]
layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
predict(layer, array((8, 2048, 1024)), device="h200", backward=True).memory

# %% [markdown] tags=["your-turn"]
# ## Your turn: the largest batch
#
# A model of 1.5 billion parameters is trained with AdamW in float32 on a GPU with 80 GB (10⁹ bytes each). Gradients add up over batches,
# beside the activations. Each token's activations and temporaries take 5 MB. *Calculate* how many GB parameters, gradients and state take,
# and how many sequences of 2048 tokens fit.

# %% tags=["your-turn", "exercise:16-fit", "calculates"]
check("16-fit", fixed_gb=..., batch=...)

# %% [markdown] tags=["your-turn"]
# ## More: what keeps it alive?
#
# This loop needs more memory at each step: `total` holds the loss, the loss its graph, the graph the activations. *Fix* `train`: it must
# return the same mean loss as a number, and keep no step's graph. Then write `train=train`.


# %% tags=["your-turn", "exercise:16-alive", "makes"]
def train(model, optimizer, batches):
    total = 0
    for x in batches:
        loss = model(x).square().mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        total = total + loss
    return total / len(batches)


check("16-alive", train=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# Written down before a GPU measured them.

# %% tags=["claims"]
claims("16")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** To train with AdamW in float32, plan 16 bytes for each parameter, 12 before its gradient comes, and add the activations of all tokens.
# <!-- so footprint: at(way='AdamW'); 4 * peak_bytes('state', batch=1, sequence=512) / peak_bytes('parameters', batch=1, sequence=512) is 16 to
# 16.2; 4 * peak_bytes('state', batch=8, sequence=2048) / peak_bytes('parameters', batch=8, sequence=2048) is 12 to 12.01 -->
#
# - A peak is one moment: with many tokens the loss's, with few the optimiser's.
# - Checkpointing trades time for activations, LoRA removes gradients and state, inference keeps neither.
# - Out of memory with gigabytes reserved and unallocated is fragmentation, which `empty_cache` does not cure.
# <!-- by what empty_cache gives back: whole segments -->
#
# Terms: [[peak memory]], [[optimiser's state]], [[saved activations]], [[checkpointing]], [[caching allocator]], [[fragmentation]], [[KV cache]].

# %% [markdown] tags=["work"]
# ## At work
#
# Ask the allocator after each phase; `_record_memory_history` and `_dump_snapshot` of `torch.cuda.memory` draw each block.
#
# ```python
# import torch
# model = torch.nn.Linear(1024, 1024)
# optimizer = torch.optim.AdamW(model.parameters())
# model(torch.randn(64, 1024)).sum().backward()
# optimizer.step()
# state = [each for of in optimizer.state.values() for each in of.values()]
# print(sum(each.nbytes for each in [*model.parameters(), *state]), "bytes of parameters and state")
# print(torch.cuda.memory_summary(abbreviated=True) if torch.cuda.is_available() else "no GPU's allocator here")
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# The main road ends here; [00 · Start here](00_start_here.ipynb) has the map.
#
# Back: [11 · Why does one token take so long?](11_language_model.ipynb)
