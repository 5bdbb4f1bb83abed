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
# `(n + 2) / n <= 1.1` means `n >= 20`. With 0.02 s more a step the time is `(n + 2) (1/n + 0.02)`, or
# `1.04 + 2/n + 0.02 n`: shortest where the two last terms are equal, at `n = sqrt(2 / 0.02)`.

# %% tags=["exercise:02b-chunks"]
check("02b-chunks", enough=20, best=10)

# %% [markdown]
# ## Mend the pipeline
#
# Each lane waits for one event: the upload for its buffer's last download, the others for the lane before. The host waits
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
