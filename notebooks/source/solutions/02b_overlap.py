# ---
# jupyter:
#   brrr:
#     needs: [cuda]
# ---

# %% [markdown]
# # 02b · Why do three streams not help? The answers

# %% tags=["setup"]
from brrr_course import check

# %% [markdown]
# ## How many chunks?
#
# `(n + 2) / n <= 1.1` means `n >= 20`. With 0.02 s more per step the time is `(n + 2) (1/n + 0.02)`, or
# `1.04 + 2/n + 0.02 n`. It is shortest where the last two terms are equal, at `n = sqrt(2 / 0.02)`.

# %% tags=["exercise:02b-chunks"]
check("02b-chunks", enough=20, best=10)

# %% [markdown]
# ## Fix the pipeline
#
# Each stream waits for one event: the upload for its buffer's last download, the others for the stream before. The host waits
# once, at the end.


# %% tags=["exercise:02b-pipeline"]
def pipeline(chunks, buffers, upload, compute, download):
    free = [None] * buffers
    for chunk in range(chunks):
        buffer = chunk % buffers
        upload.wait(free[buffer])
        upload.submit(chunk, buffer)
        compute.wait(upload.record())
        compute.submit(chunk, buffer)
        download.wait(compute.record())
        download.submit(chunk, buffer)
        free[buffer] = download.record()
    download.synchronize()


check("02b-pipeline", pipeline=pipeline)

# %% [markdown] tags=["teaching"]
# ## 02b · Why do three streams not help?
#
# | | |
# | --- | --- |
# | Goal | Be able to say what must be true before two things on a GPU overlap, to find the wait that prevents it, and to build a pipeline that overlaps. |
# | Minutes | 35 |
# | Before | Lesson 02. A side road: the main road goes on without it. |
# | Answers | [solutions/02b_overlap.ipynb](../notebooks/solutions/02b_overlap.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *Three streams make it three times as fast.* It comes from reading a stream as a worker. It is a queue, and here each queue
#    gets its work only when the one before is empty: the host waits in between.
# 2. *Without the `synchronize()` calls it would overlap.* It comes from seeing the first obstacle only. With events in their place
#    the host is free, but the first sine still needs all of the array that is being sent. Nothing overlaps without chunks; and
#    from pageable memory the copy itself makes the host wait, whatever `non_blocking` says.
# 3. *The more chunks the better.* It comes from the formula (n + 2)/n alone. Each chunk also needs its launches, and below a certain
#    size the launches take longer than the work. The line of the small chunks shows it.
#
# **Answers**
#
# - *The guesses:* in the cells that compare, from the data shown; the timelines show why.
# - *Fix the pipeline:* the upload waits for the event behind its buffer's last download, computing for the upload's, the download
#   for computing's; the host waits once, at the end. A schedule without the buffers' events is right as long as no stream is slow, and
#   overwrites a chunk as soon as one is. That is why the exercise also runs with slow streams.
# - *How many chunks:* 20 (18 reaches 90 % of the best rate, which is another question), and 10, the square root of 2/0.02.
#   <!-- definition: the exercise -->
# - *What the article claims:* `brrr claims overlap`. Its streams bring little, as it says. It also says that they could help
#   where transfers dominate; that is judged as well, and its own code tells why they do not.
# - *Where does the pipeline pay:* folded under the question.
#
# **To discuss.** A data loader sends the next batch while the network trains on this one. Which of the three conditions does it meet
# by itself, and which must you take care of? (Batches are the chunks. Pinned memory is an option of the loader, and
# `non_blocking=True` one of the copy. The third is that nothing in the training step waits: a `loss.item()` in every step takes
# the overlap away.)
#
# ---
