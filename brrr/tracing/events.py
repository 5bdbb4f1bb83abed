"""An event of torch's profiler as plain values, whether it came from a session or from a saved file."""

import re
from dataclasses import dataclass
from typing import Any, Literal

Sort = Literal[
    "operator", "runtime", "annotation", "kernel", "copy in", "copy out", "peer copy", "copy", "memset", "other"
]  # fmt: skip
LINKED: tuple[Sort, ...] = ("copy in", "copy out", "peer copy")
"""Copies that cross a link, between host and device or between two devices: no kernel's work."""
ON_DEVICE: tuple[Sort, ...] = ("kernel", *LINKED, "copy", "memset")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What an operator was called with, argument by argument: sizes, strides, types, and numbers as text."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    types: tuple[str, ...]
    numbers: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One event: `thread` of the host, or `stream` and `device`; `correlation` joins a runtime call with its work.

    linked: the operator around what the device did, by its own correlation. blocks: thread blocks of a kernel's grid, 0
    where nobody tells; nbytes: of a copy.
    """

    name: str
    sort: Sort
    start_ns: int
    end_ns: int
    thread: int = 0
    device: int = 0
    stream: int = 0
    correlation: int = 0
    linked: int = 0
    blocks: int = 0
    nbytes: int = 0
    inputs: Inputs | None = None
    sequence: int = -1

    @property
    def interval(self) -> tuple[int, int]:
        """Start and end."""
        return (self.start_ns, self.end_ns)

    @property
    def on_device(self) -> bool:
        """Whether the device did it."""
        return self.sort in ON_DEVICE


_COPY = re.compile(r"(?:memcpy|copy)[\W_]*(host|[hmdasp])\w*?(?:to|2)_?(host|[hmdasp])")
"""From where to where: H and M are the host's memory (M of SYCL), P is a peer."""
_WAITS = re.compile(r"(?i)synchronize|queueFinish|eventWait$")


def work_sort(name: str, category: str = "") -> Sort:
    """What the device did, by the profiler's name for it, and by its category in a file.

    >>> work_sort("Memcpy HtoD (Pageable -> Device)"), work_sort("Memcpy D2M"), work_sort("Memcpy PtoP")
    ('copy in', 'copy out', 'peer copy')
    >>> work_sort("Memset (Device)"), work_sort("gemm")
    ('memset', 'kernel')
    """
    if name.startswith("Memset") or category.endswith("memset"):
        return "memset"
    if not (name.startswith("Memcpy") or category.endswith("memcpy")):
        return "kernel"
    found = _COPY.search(name.lower())
    ends = [end[0] for end in found.groups()] if found else []
    inside = [end in "hm" for end in ends]
    if "p" in ends or "peer" in name.lower():
        return "peer copy"
    return "copy in" if inside == [True, False] else "copy out" if inside == [False, True] else "copy"


def waits(name: str) -> bool:
    """Whether a call of an accelerator's runtime waits for the device.

    >>> waits("cudaStreamSynchronize"), waits("urQueueFinish"), waits("cudaStreamWaitEvent")
    (True, True, False)
    """
    return _WAITS.search(name) is not None
