"""An event of torch's profiler as plain values, whether it came from a session or from a saved file."""

from dataclasses import dataclass
from typing import Any, Literal

Sort = Literal["operator", "runtime", "annotation", "kernel", "copy in", "copy out", "copy", "memset", "other"]
ON_DEVICE: tuple[Sort, ...] = ("kernel", "copy in", "copy out", "copy", "memset")


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

    linked: the operator around what the device did, where a session tells. blocks: thread blocks of a kernel's grid, 0
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

    @property
    def interval(self) -> tuple[int, int]:
        """Start and end."""
        return (self.start_ns, self.end_ns)

    @property
    def on_device(self) -> bool:
        """Whether the device did it."""
        return self.sort in ON_DEVICE


def work_sort(name: str) -> Sort:
    """What the device did, by the profiler's name for it.

    >>> work_sort("Memcpy HtoD (Pageable -> Device)"), work_sort("Memset (Device)"), work_sort("gemm")
    ('copy in', 'memset', 'kernel')
    """
    if name.startswith("Memset"):
        return "memset"
    if not name.startswith("Memcpy"):
        return "kernel"
    return "copy in" if "HtoD" in name else "copy out" if "DtoH" in name else "copy"
