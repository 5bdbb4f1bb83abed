"""The fastest of several ways to multiply blocks, tried once for each shape.

>>> fastest("7 x 2 x 2 x 2", {"first": lambda: 1.0, "second": lambda: 0.5}, lambda run: run())
'second'
>>> forget()
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from brrr.errors import UnavailableError

if TYPE_CHECKING:
    import torch

LEAST_GAIN = 0.98
"""A way that is not faster by that much is no reason to leave the one before it."""

LONG_S = 2e-3
"""A product that takes so long is timed one launch at a time."""

Run = Callable[[], Any]
Name = TypeVar("Name", bound=Hashable)
_CHOSEN: dict[Hashable, Any] = {}


def fastest(key: Hashable, ways: Mapping[Name, Run], seconds: Callable[[Run], float]) -> Name:
    """The name of the fastest way, timed by `seconds`, and remembered by its key; the first is the one to beat."""
    if key not in _CHOSEN:
        _CHOSEN[key] = _least(ways, seconds)
    name: Name = _CHOSEN[key]
    return name


def forget() -> None:
    """Empties the memory, so that each shape is tried again."""
    _CHOSEN.clear()


def prepared_fastest(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, right_transposed: bool) -> Run:
    """cuBLAS or our own kernel, whichever is faster for float32 of this shape; arguments are checked before.

    The first call for a shape launches each a few times, into `out`. While a graph is captured nothing can be timed:
    for a shape that is new then, it is the library, and the first call afterwards tries.
    """
    from brrr.kernels.cublas_lt import capturing

    tensors = (left, right, out)
    whole = tuple(each.data_ptr() % 16 == 0 for each in tensors)
    key = (left.device.index, tuple(left.shape), tuple(right.shape), right_transposed, whole)
    if key in _CHOSEN:
        return _prepared(_CHOSEN[key], tensors, right_transposed)
    library = _library(tensors, right_transposed)
    if capturing() or not out.numel() * left.shape[2]:
        return library
    ways = {False: library, **_ours(tensors, right_transposed)}
    found: Run = ways[fastest(key, ways, partial(seconds_of, index=int(left.device.index)))]
    return found


def seconds_of(run: Run, index: int) -> float:
    """The device's time for a launch on a GPU's current stream, the least of a few tries; the first is not counted."""
    import torch

    from brrr.kernels.cublas_lt import seconds

    with torch.cuda.device(index):
        run()
        least = min(_once(run), _once(run))
        stream = int(torch.cuda.current_stream().cuda_stream)
    return least if least > LONG_S else seconds(run, stream, index)


def _once(run: Run) -> float:
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e-3


def _prepared(ours: bool, tensors: tuple[torch.Tensor, ...], right_transposed: bool) -> Run:
    from brrr.kernels.sgemm import prepared

    if not ours:
        return _library(tensors, right_transposed)
    left, right, out = tensors
    return prepared(left, right, out, right_transposed=right_transposed)


def _library(tensors: tuple[torch.Tensor, ...], right_transposed: bool) -> Run:
    """cuBLAS's product; torch's, which is cuBLAS's too, where it cannot be called directly."""
    from brrr.strassen.products import prepared_batched

    left, right, out = tensors
    try:
        return prepared_batched(left, right, out, right_transposed=right_transposed, how="cublas")
    except UnavailableError:
        return prepared_batched(left, right, out, right_transposed=right_transposed, how="torch")


def _ours(tensors: tuple[torch.Tensor, ...], right_transposed: bool) -> dict[bool, Run]:
    """Our own kernel, where it runs here."""
    try:
        return {True: _prepared(True, tensors, right_transposed)}
    except UnavailableError:
        return {}


def _least(ways: Mapping[Name, Run], seconds: Callable[[Run], float]) -> Name:
    first, *others = ways
    best, least = first, seconds(ways[first])
    for name in others:
        taken = seconds(ways[name])
        if taken < LEAST_GAIN * least:
            best, least = name, taken
    return best
