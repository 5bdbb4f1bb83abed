"""`largest_batch`: the most of something that fits into a device's memory, before anything runs."""

from collections.abc import Callable
from typing import Any

from brrr.core.callables import require_callable
from brrr.core.errors import ArgumentError, extras
from brrr.roofline.device_model import Where, model_of
from brrr.roofline.memory import Memory, memory_of
from brrr.roofline.predicting import predict

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

    Nothing runs, and no GPU is needed. Some twenty batches are counted.

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
    require_callable(
        "largest_batch", "make", make, "a callable of a number", "Write lambda n: (model, array((n, 512)))."
    )
    model = model_of(device)
    if memory_bytes is None and not (model.hardware and model.hardware.memory_bytes and model.is_gpu):
        raise ArgumentError(
            "largest_batch", "device", model.device, "a GPU whose datasheet is known", "Or memory_bytes."
        )

    def needed(batch: int) -> Memory | None:
        made = make(batch)
        fn, *args = made if isinstance(made, tuple) else (made,)
        return memory_of(predict(fn, *args, device=device, backward=backward).cost, model, memory_bytes)

    fits, too_many = 0, 1
    while (found := needed(too_many)) is None or found.fits:
        fits, too_many = too_many, 2 * too_many
        if too_many > MOST:
            raise ArgumentError("largest_batch", "make", make, "work that takes more memory for more")
    while too_many - fits > max(1, fits // 256):
        middle = (fits + too_many) // 2
        found = needed(middle)
        fits, too_many = (middle, too_many) if found is None or found.fits else (fits, middle)
    return fits
