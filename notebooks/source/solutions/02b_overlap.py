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
# | Goal | Say what must be true before two things on a GPU overlap; find the wait that prevents it; build a pipeline that overlaps. |
# | Minutes | 35 |
# | Before | Lesson 02. A side road. |
# | Answers | [solutions/02b_overlap.ipynb](../notebooks/solutions/02b_overlap.ipynb) |
#
# **Three usual wrong guesses**
#
# 1. *Three streams make it three times as fast.* A stream is a queue, not a worker. Here the host waits in between, so each queue
#    gets work only when the one before is empty.
# 2. *Without the `synchronize()` calls it would overlap.* With events in their place the host is free, but the first sine still
#    needs the whole array. Nothing overlaps without chunks; and from pageable memory the copy itself makes the host wait,
#    whatever `non_blocking` says.
# 3. *The more chunks the better.* So says (n + 2)/n, but each chunk needs launches, which below a certain size take longer than
#    the work (see the line of the small chunks).
#
# **Answers**
#
# - *Fix the pipeline:* the upload waits for the event behind its buffer's last download, computing for the upload's, the download
#   for computing's; the host waits once, at the end. Without the buffers' events a slow stream has its chunk overwritten, so the
#   exercise also runs with slow streams.
# - *How many chunks:* 20 (18 reaches 90 % of the best rate, which is another question), and 10, the square root of 2/0.02.
#   <!-- definition: the exercise -->
# - *What the article claims:* `brrr claims overlap`. Its streams bring little, as it says. That they could help where transfers
#   dominate is judged as well; its own code shows why they do not.
#
# **To discuss.** A data loader sends the next batch while the network trains on this one. Which of the three conditions does it
# meet by itself? (Batches are the chunks. You must ask the loader for pinned memory and the copy for `non_blocking=True`, and
# nothing in the step may wait: a `loss.item()` in every step prevents the overlap.)
