"""`largest_batch`: the most of something that fits into a device's memory, before anything runs."""

from collections.abc import Callable
from typing import Any

from brrr.core.callables import require_callable
from brrr.core.errors import ArgumentError, extras
from brrr.roofline.device_model import Where, model_of
from brrr.roofline.memory import CONTEXT_BYTES, memory_of
from brrr.roofline.predicting import counted

MOST = 2**40


@extras("largest_batch")
def largest_batch(
    make: Callable[[int], Any], *, device: Where = None, memory_bytes: float | None = None, backward: bool = False
) -> int:
    """Predict the largest batch whose work fits into a device's memory; 0 where not even one does.

    >>> import torch, brrr
    >>> layer = torch.nn.Linear(4096, 4096)
    >>> round(largest_batch(lambda n: (layer, brrr.array((n, 4096))), device="datasheet:a100"), -5)
    2600000

    Nothing runs, and no GPU is needed. Some eight batches are counted; a larger one that fits is at most 2 % larger.

    Parameters
    ----------
    make : callable
        Of a number it makes the work for as many: a callable, or a tuple of one and its arguments.
    device : str, Peaks or Hardware, optional
        As for `predict`.
    memory_bytes : float, optional
        What torch's allocator may take. By default all that the device has beside the context.
    backward : bool
        Include the gradients, as for `predict`.

    Returns
    -------
    int
        The largest number of which `make`'s work fits.

    Raises
    ------
    ArgumentError
        If `make` is no callable, or nobody knows how much memory the device has.
    TraceError
        If the work cannot be counted without running it.
    """
    require_callable("largest_batch", "make", make, "a callable of a number", "Write lambda n: (model, array(n)).")
    model = model_of(device)
    if memory_bytes is None:
        known = model.hardware.memory_bytes if model.hardware and model.is_gpu else None
        if known is None:
            expected = "a GPU whose datasheet tells its memory"
            raise ArgumentError("largest_batch", "device", model.device, expected, "Or give memory_bytes.")
        memory_bytes = known - CONTEXT_BYTES
    fits, too_many, rows, last, last_bytes = 0, 0, 1, 0, 0
    while not too_many or too_many - fits > max(1, fits // 64):
        made = make(rows)
        fn, *args = made if isinstance(made, tuple) else (made,)
        memory = memory_of(counted(fn, tuple(args), {}, backward, model), model, memory_bytes)
        if memory is None or rows > MOST:
            raise ArgumentError("largest_batch", "make", make, "work that takes more memory for more")
        fits, too_many = (rows, too_many) if memory.fits else (fits, rows)
        slope = (memory.peak_bytes - last_bytes) / (rows - last)  # memory grows by the row
        last, last_bytes = rows, memory.peak_bytes
        rows += int((memory_bytes - last_bytes) / slope) if slope > 0 else 7 * rows
        rows = max(rows, fits + fits // 64 + 1)
        if too_many and rows >= too_many - too_many // 100:
            rows = max((fits + too_many) // 2, too_many - too_many // 50 - 1)
    return fits
