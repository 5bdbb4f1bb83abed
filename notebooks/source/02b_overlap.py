# ---
# jupyter:
#   readme: {short: 'overlap', asks: 'why do three streams not help? For engineers', before: '02'}
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown] tags=["question"]
# # 02b · Why do three streams not help?
#
# Sending, computing and fetching use different parts of a GPU: one copy engine for each direction, and the multiprocessors. So
# somebody put the three on three [[stream|streams]], queues of their own, and saw hardly any benefit. **Can they happen at the
# same time at all?**
#
# For engineers. It builds on 01 and 02.

# %% tags=["question"]
from IPython.display import display

from brrr_course import check, claims, compare, explore, factory, guess, timeline

factory(detail="link")

# %% [markdown] tags=["guess"]
# ## Guess: three streams
#
# ```python
# with stream(up):   there.copy_(x, non_blocking=True)
# up.synchronize()
# with stream(work): there = sines(there)
# work.synchronize()
# with stream(down): y = there.cpu()
# down.synchronize()
# ```
#
# Against it: the same in one stream, without the waits. Sending, computing and fetching take about equally long. Without a GPU, the
# CPU queue plays its part: three workers, and a link on which copies take a set time.

# %% tags=["guess"]
g = guess("Three streams instead of one make this faster by a factor of ...", unit="x")

# %% tags=["run"]
pairs = {"streams": "serial", "source streams": "source serial"}
display(
    timeline("overlap", variants=["streams", "serial"], at={"elements": 2**24, "sines": 40}, unlock=g),
    compare(g, "overlap", pairs, of="speed-up", elements=2**24, sines=40),
)

# %% [markdown] tags=["explain", "yours"]
# **Your explanation.** Three streams, three parts of the GPU, and hardly any gain: what waits for what? Double-click here and write
# two sentences.

# %% [markdown] tags=["explain"]
# <details><summary>Our explanation</summary>
#
# Streams only say what *may* run at the same time. Here three things stand in the way:
#
# - **The host waits.** `synchronize()` holds back the thread that issues the work ([[synchronisation]]). While it waits, it issues
#   nothing. What should wait is the *compute stream*, for an [[event]] that the upload stream reaches.
# - **There is nothing to overlap with.** The first sine needs all of the array that is being sent. Only a part that has arrived
#   can be worked on while the next one is on its way: **chunks**.
# - **The wrong memory.** A copy from or to [[pageable memory]] makes the caller wait, whatever `non_blocking` says.
#
# </details>

# %% [markdown] tags=["guess"]
# ## Guess: a pipeline
#
# So: pinned memory; the array in chunks, each in one of three buffers in the GPU's memory; and for each chunk
#
# ```python
# up.wait_event(free[buffer])       # the buffer's last download has ended
# with stream(up):   buffer.copy_(chunk_of_x, non_blocking=True);  filled.record()
# work.wait_event(filled)
# with stream(work): sines_in_place(buffer);                       done.record()
# down.wait_event(done)
# with stream(down): chunk_of_y.copy_(buffer, non_blocking=True);  free[buffer].record()
# ```
#
# The host waits for nothing, not even between one call and the next.

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
# Three equal parts at the same time would be three times as fast. What takes some of it away:
#
# - **Filling and emptying.** The first chunk passes three streams before anything comes out: n chunks take n + 2 steps. In
#   a loop of calls, the next call's first chunk follows at once.
# - **[[PCIe]] is shared.** Both directions at once are a little slower than one alone; and copies and kernels use the same GPU
#   memory.
# - **[[Host overhead]].** Each chunk needs its launches. With small chunks of many kernels, issuing them takes longer than the
#   work; with large ones, the filling counts. Three streams need three buffers: with two, the upload waits for the download.
#
# Calls overlap too: each keeps the GPU busy for longer than the loop takes for a call: the [[throughput]] rises.
# `brrr.running.pipeline.Pipeline` does all this.
#
# ## And the first call?
#
# The source's other lesson is the [[warm-up]]: its very first call took far longer. Each part of a first call was timed in fresh
# processes of its own.

# %% tags=["guess"]
parts = ["import torch", "CUDA context", "memory", "copy", "first kernel", "matrix product", "convolution"]
f = guess("Put the parts in order, the longest first time at the top.", ranking=parts)

# %% tags=["run"]
explore("first_call", lines=["first", "again", "no compiler", "eager"], unlock=f)

# %% tags=["compare"]
compare(f, "first_call", ["first", "cpu first"], of="part")

# %% [markdown] tags=["explain"]
# One series is the first call in a fresh process, the other any later call. The *context* is the GPU's side of the process: once a
# process, and no warm-up in the program can make it shorter. A *kernel* must be loaded before it runs for the first time, a
# *library* makes its handle, the *allocator* asks the driver for memory that it then keeps.
#
# Is anything compiled? Two more lines tell, for the first sine: in one, the driver's compiler was switched off; in the other, all
# kernels were loaded together with the context. (Without a GPU, you see what a CPU's first call costs.)
#
# ## Explore: where does the pipeline pay?
#
# How many times faster than one stream, for more and more sines of each number. Where is the peak, and why there? What
# happens to it with small arrays, with pageable memory, with chunks too small, with a buffer too few?

# %% tags=["explore"]
lines = ["pipeline", "streams", "two buffers", "small chunks", "large chunks"]
gains = {**dict.fromkeys(lines, "serial"), "pipeline pageable": "serial pageable"}
explore("overlap", at={"elements": 2**26, "sines": 40}, show={"speedup": gains, "x": "sines"})

# %% [markdown] tags=["your-turn"]
# ## Your turn: how many chunks?
#
# Sending, computing and fetching each take 1 s for the whole array, so n chunks take (n + 2) steps of 1/n s. *Calculate* how many
# are **enough** for a time at most 10 % above that of endlessly many. Now let each chunk cost 0.02 s more in each step. Which number
# is **best**?

# %% tags=["your-turn", "exercise:02b-chunks", "calculates"]
check("02b-chunks", enough=..., best=...)

# %% [markdown] tags=["your-turn"]
# ## Your turn: mend the pipeline
#
# This one computes the right result, one chunk after the other. A stream's `submit(chunk, buffer)` issues its work, `record()`
# returns an event, `wait(event)` lets the stream wait for it (`wait(None)` does nothing), `synchronize()` lets the host wait. It
# runs on a simulated machine, with streams of different speeds. A chunk stays in its buffer; a buffer may be filled again when
# its last download has ended; and when you return, all must be there. Then write `pipeline=pipeline`.


# %% tags=["your-turn", "exercise:02b-pipeline", "makes"]
def pipeline(chunks, buffers, upload, compute, download):
    for chunk in range(chunks):
        for stream in (upload, compute, download):
            stream.submit(chunk, chunk % buffers)
            stream.synchronize()


check("02b-pipeline", pipeline=...)

# %% [markdown] tags=["claims"]
# ## What held
#
# The story is from *GPU Performance: Parallel Processing vs Overhead* (2024), measured on an A100. Each sentence is judged
# on your source. Live, measure the points first.

# %% tags=["claims"]
claims("02b")

# %% [markdown] tags=["remember"]
# ## Remember
#
# - Streams overlap only what does not depend on one another, so cut the work into chunks.
# - Let streams wait for events, and the host for nothing until the end.
# - The first call pays for the context, for loading kernels and for handles, none of which is the work.
#
# Terms: [[stream]], [[synchronisation]], [[event]], [[pageable memory]], [[host overhead]], [[warm-up]].

# %% [markdown] tags=["work"]
# ## At work
#
# Send the next batch on a stream of its own, from pinned memory, while this one is computed:
#
# ```python
# import torch
# x, up = torch.randn(2**24).pin_memory(), torch.cuda.Stream()
# with torch.cuda.stream(up):
#     batch = x.to("cuda", non_blocking=True)
# torch.cuda.current_stream().wait_stream(up)  # the GPU waits, the host does not
# batch.record_stream(torch.cuda.current_stream())  # so its memory is not given away too early
# y = batch.sin()
# ```

# %% [markdown] tags=["next"]
# ## Next
#
# [03 · When does the GPU wait for the host?](03_overhead.ipynb) looks at what issuing work costs.
#
# Back: [02 · What does a copy to the GPU cost?](02_transfers.ipynb)
