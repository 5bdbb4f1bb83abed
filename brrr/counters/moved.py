"""What operators moved by the hardware's counters, beside what was counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brrr import units

TOLERANCE = 0.05
_HEAD = ("operator", "written", "dtype", "counted: read", "written", "measured: read", "written", "measured / counted")


@dataclass(frozen=True)
class Moved:
    """One operator: its bytes of one call, read from and written to memory, as counted and as measured.

    >>> relu = Moved("relu", "torch.relu(x)", "float32", ("(8, 8)",), ("aten.relu",), 256, 256, 252, 268)
    >>> relu.ratio, relu.within
    (1.015625, True)
    """

    name: str
    written: str
    dtype: str
    shapes: tuple[str, ...]
    operators: tuple[str, ...]
    counted_read: float
    counted_written: float
    measured_read: float = 0.0
    measured_written: float = 0.0

    @property
    def counted(self) -> float:
        """The bytes counted, read and written."""
        return self.counted_read + self.counted_written

    @property
    def measured(self) -> float:
        """The bytes measured, read and written."""
        return self.measured_read + self.measured_written

    @property
    def ratio(self) -> float:
        """Measured over counted: 1 where the count is right."""
        return self.measured / self.counted

    @property
    def within(self) -> bool:
        """Whether the count is right within 5 %."""
        return abs(self.ratio - 1) <= TOLERANCE


@dataclass(frozen=True)
class Movements:
    """All operators measured on one device, in one run.

    `set_bytes` is the working set of each, `l2_bytes` the size of the L2; `replay` is how Nsight Compute measured:
    "application" kernel by kernel, "app-range" several calls as one range.
    """

    device: str
    driver: str
    cuda: str
    torch: str
    date: str
    brrr: str
    ncu: str
    replay: str
    l2_bytes: float
    set_bytes: float
    rows: tuple[Moved, ...]

    @property
    def within(self) -> tuple[str, ...]:
        """The operators whose count is right within 5 %."""
        return tuple(row.name for row in self.rows if row.within)

    @property
    def beyond(self) -> tuple[str, ...]:
        """The operators whose count is not."""
        return tuple(row.name for row in self.rows if not row.within)

    def __repr__(self) -> str:
        size, l2 = units.nbytes(self.set_bytes), units.nbytes(self.l2_bytes)
        by = f"{self.device}, torch {self.torch}, ncu {self.ncu} ({self.replay}), {self.date}"
        head = f"{by}\nworking sets of {size}, an L2 of {l2}; bytes of one call"
        found = f"{len(self.within)} of {len(self.rows)} counts right within {units.percent(TOLERANCE)}"
        rest = f"; not: {', '.join(self.beyond)}" if self.beyond else ""
        return "\n".join([head, "", *_aligned([_HEAD, *(_line(row) for row in self.rows)]), "", found + rest])


def _line(row: Moved) -> tuple[str, ...]:
    moved = (row.counted_read, row.counted_written, row.measured_read, row.measured_written)
    return (row.name, row.written, row.dtype, *(units.nbytes(each) for each in moved), f"{row.ratio:.3f}")


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
