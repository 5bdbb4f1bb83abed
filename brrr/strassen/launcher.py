"""Launches as functions of no arguments, and the one that all kernels here are launched by.

>>> found = []
>>> run_all([lambda: found.append(1), lambda: found.append(2)])
>>> found
[1, 2]
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from brrr.gpu.launching import PreparedLaunch, on_current_stream

Run = Callable[[], Any]
"""A prepared call."""


def run_all(made: Iterable[Run]) -> None:
    """Each step, in order."""
    for step in made:
        step()


def launched(
    kernel: Any, device: int, blocks: int, threads: int, values: Sequence[Any], *held: object, shared_bytes: int = 0,
    cluster: int = 0,
) -> Run:  # fmt: skip
    """A kernel's launch on torch's current stream at each call; values: its arguments, which know `held` by address."""
    launch = PreparedLaunch(kernel, (blocks, 1, 1), (threads, 1, 1), values, shared_bytes, cluster)
    return on_current_stream(launch, device, *held)
