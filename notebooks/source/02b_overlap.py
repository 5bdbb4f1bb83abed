# ---
# jupyter:
#   readme: {short: 'overlap', asks: 'why do three streams not help? For engineers', before: '02'}
#   brrr:
#     leaves: '02'
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 02b · Why do three streams not help?
#
# Side road.
# Know before: [pinned memory and copies](02_transfers.ipynb).
#
# Sending, computing and fetching use different parts of a GPU: one copy engine for each direction, and the multiprocessors. The
# article behind lesson 02's nested sine put the three on three [[stream|streams]] (queues), and saw little benefit. **Can they
# happen at the same time?**
#
# You will be able to:
#
# - say why streams alone do not overlap
# - calculate how many chunks a pipeline needs
# - fix a pipeline so that its streams overlap

# %% tags=["question"]
from brrr_course import check, claims, compare, explore, factory, guess, timeline

factory(detail="link")

# %% [markdown] tags=["guess"]
# ## Guess: three streams
#
# ```python
# with stream(up):   on_gpu.copy_(x, non_blocking=True)
# up.synchronize()
# with stream(work): on_gpu = sines(on_gpu)
# work.synchronize()
# with stream(down): y = on_gpu.cpu()
# down.synchronize()
# ```
#
# We compare it with one stream without the waits. Sending, computing and fetching take about equally long. The timeline
# shows the three streams with pinned memory; the table has the article's ordinary memory, too.

# %% tags=["guess"]
g = guess("Three streams instead of one make this faster by a factor of ...", unit="x")

# %% tags=["run"]
pairs = {"streams": "serial", "source streams": "source serial"}
display(
    timeline("overlap", variant="streams", at={"elements": 2**24, "sines": 40}, unlock=g),
    compare(g, "overlap", pairs, of="speed-up", elements=2**24, sines=40),
)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Three streams, and no gain: what waits for what? Write two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# Streams only say what *may* run at the same time. Here three things prevent it:
#
# - **The host waits.** In `synchronize()` it cannot launch ([[synchronisation]]). Only the *compute stream* needs to wait, for an
#   [[event]] that marks the end of the upload.
# - **The parts depend on each other.** The sines need the whole array. Cut it into **chunks**, and the GPU can compute one chunk
#   while the next one is sent.
# - **The wrong memory.** A copy from or to [[pageable memory]], as in the article, makes the host wait despite
#   `non_blocking=True`. Pinned memory alone is not enough: see the table.
# <!-- so overlap: at(elements=16777216, sines=40); period('serial') / period('streams') is 0.95 to 1.02 -->
#
# </details>
#
# <details><summary>What measured it</summary>
#
# ```python
# from torch.utils.benchmark import Timer  # a loop of calls, one synchronize() at its end, over their number
# x, y = torch.randn(2**24).pin_memory(), torch.empty(2**24, pin_memory=True)
# ways = {"one": one_stream, "three": three_streams}  # the lines above, with 40 sines on the GPU in place
# seconds = {name: Timer("way(x, y)", globals={"way": way, "x": x, "y": y}).blocked_autorange().median
#            for name, way in ways.items()}
# print(seconds["one"] / seconds["three"])
# ```
#
# </details>

# %% [markdown] tags=["guess"]
# ## Guess: a pipeline
#
# So: pinned memory, and chunks of 16 MB that take turns in three buffers on the GPU.
#
# ```python
# up.wait_event(free[buffer])       # the last download from this buffer is done
# with stream(up):   buffer.copy_(chunk_of_x, non_blocking=True);  filled.record()
# work.wait_event(filled)
# with stream(work): sines_in_place(buffer);                       done.record()
# down.wait_event(done)
# with stream(down): chunk_of_y.copy_(buffer, non_blocking=True);  free[buffer].record()
# ```
#
# The host runs ahead, also from one call to the next. (The hatched wait at the end of the
# timeline comes after the last call that was recorded.)

# %% tags=["guess"]
p = guess("Where the three take equally long, the pipeline beats the one stream by a factor of ...", unit="x")

# %% tags=["run"]
timeline("overlap", variants=["pipeline", "serial"], at={"elements": 2**24, "sines": 40}, unlock=p)

# %% tags=["compare"]
pairs = {
    "pipeline": "serial",
    "two buffers": "serial",
    "small chunks": "serial",
    "pipeline pageable": "serial pageable",
}
compare(p, "overlap", pairs, of="speed-up", elements=2**26, sines=40)

# %% [markdown] tags=["explain"]
# Three equal parts, running at the same time, would give a speed-up of three. Why is it less?
#
# - **Filling and emptying.** The first chunk passes three streams before anything comes out: n chunks take n + 2 steps. In a
#   loop this costs less: the next call fills the pipeline while this one empties it.
# - **Both directions at once.** [[PCIe]] has lanes for each direction, yet the two together are a little slower than each alone.
# - **[[Host overhead]].** Every chunk needs its own launches. In chunks of 4 MB they take longer than the work.
# - **Buffers.** With only two, the upload waits for a download, and the gain stays below two.
# <!-- so overlap: at(elements=67108864); period('serial') / period('pipeline-two') < 2 -->
#
# `brrr.running.pipeline.Pipeline` does this for you.

# %% [markdown] tags=["explore"]
# ## Explore: where does the pipeline pay?
#
# Speed-up over one stream, with more and more sines per number. Where is the peak, and why there? What happens with small arrays,
# with pageable memory, with the wrong chunks?
#
# <details><summary>Answer</summary>
#
# - The peak is at 40 sines: there computing takes about as long as sending. With few, only the two copies
# <!-- so overlap: at(elements=67108864); gain = period('serial') / period('pipeline'); gain[40] >= max(gain);
# count(gain) == 8 -->
#   overlap: the speed-up is nearly two. With many, computing takes most of the time, and little is left to hide.
# - Up to 2²⁰ numbers the pipeline nearly always loses: its launches take longer than the work.
# <!-- so overlap: at(elements=[262144, 1048576]); loses = period('serial') < period('pipeline'); count(loses) == 15;
# count(period('serial')) == 16 -->
# - Pageable copies make the host wait: no gain. (The bump at 8 sines is an outlier.)
# <!-- so overlap: at(elements=67108864, sines=[1, 4, 16, 32, 40, 64, 128]); period('serial-pageable') <
# period('pipeline-pageable') -->
# - Small chunks need many launches, so many sines make them slow. Large chunks fill the pipeline slowly.
#
# </details>

# %% tags=["explore"]
gains = {
    "pipeline": "serial",
    "streams": "serial",
    "two buffers": "serial",
    "small chunks": "serial",
    "large chunks": "serial",
    "pipeline pageable": "serial pageable",
}
asks = "What do overlapping copies gain?"
explore("overlap", at={"elements": 2**26, "sines": 40}, show={"speedup": gains, "x": "sines"}, title=asks)

# %% [markdown] tags=["your-turn"]
# ## Your turn: how many chunks?
#
# Sending, computing and fetching each take 1 s for the whole array, so n chunks take (n + 2) steps of 1/n s. *Calculate* how many
# chunks are **enough** to take at most 10 % longer than endlessly many. Now each chunk costs 0.02 s more in each step: which number is
# **best**?

# %% tags=["your-turn", "exercise:02b-chunks", "calculates"]
check("02b-chunks", enough=..., best=...)

# %% [markdown] tags=["your-turn"]
# ## More: fix the pipeline
#
# This one works on one chunk after the other. Make the streams overlap. Each stream has `submit(chunk, buffer)`, which launches its
# work; `record()`, which returns an event; `wait(event)` for the stream to wait (`wait(None)` does nothing); and `synchronize()`
# for the host to wait.
#
# Refill a buffer only after its download. When you return, everything must have arrived. The check simulates streams of
# different speeds. Then write `pipeline=pipeline`.


# %% tags=["your-turn", "exercise:02b-pipeline", "makes"]
def pipeline(chunks, buffers, upload, compute, download):
    for chunk in range(chunks):
        for stream in (upload, compute, download):
            stream.submit(chunk, chunk % buffers)
            stream.synchronize()


check("02b-pipeline", pipeline=...)

# %% [markdown] tags=["claims"]
# ## Which claims held
#
# The article is *GPU Performance: Parallel Processing vs Overhead* (2024), measured on an A100. We judge it by the data shown here.

# %% tags=["claims"]
claims("02b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# > **Rule.** On an H200, where upload, compute and download of 67 million numbers take equally long, three streams gain 2.7x with pinned chunks.
# <!-- so overlap: at(sines=40); gain = period('serial') / period('pipeline'); gain[67108864] is 2.65 to 2.75;
# gain[268435456] is 2.65 to 2.75; period('serial-pageable', elements=67108864) < period('pipeline-pageable',
# elements=67108864) -->
#
# - Streams overlap only independent work, so cut the work into chunks.
# - Let streams wait for events, and the host only at the end.
# - Choose the chunks: small ones need many launches, large ones fill the pipeline slowly.
#
# Terms: [[stream]], [[synchronisation]], [[event]], [[pageable memory]], [[host overhead]].

# %% [markdown] tags=["work"]
# ## At work
#
# Send the next batch while the GPU computes. (Without a GPU, `x` is where it is needed.)
#
# ```python
# import torch
# batch = x = torch.randn(2**24, pin_memory=torch.cuda.is_available())
# if x.is_pinned():
#     with torch.cuda.stream(upload := torch.cuda.Stream()):
#         batch = x.to("cuda", non_blocking=True)
#     torch.cuda.current_stream().wait_stream(upload)  # the GPU waits, the host does not
#     batch.record_stream(torch.cuda.current_stream())  # do not reuse its memory too early
# y = batch.sin()
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# Back on the road, [03 · When does the GPU wait for the host?](03_overhead.ipynb) looks at what a launch costs.
#
# Back: [02 · What does a copy to the GPU cost?](02_transfers.ipynb)
