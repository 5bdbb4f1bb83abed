"""float32 matrices as two float16 terms by `split_operands.cu`: up to two operands a launch, GPUs from 8.0 on.

>>> run = prepared([SplitSource(a, terms)])    # doctest: +SKIP
>>> run()                                 # doctest: +SKIP

The kernels that find the exponents of sums and that decide whether a split product lost digits (`guard.py`) stand in
the same file.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from brrr.gpu.nvrtc import function
from brrr.strassen.launcher import Run, launched

SOURCE = "strassen/split/split_operands.cu"
THREADS, HELD, TILE, BLOCKS = 256, 32, 64, 4
"""Threads of a block, numbers each holds of a row, a turned tile's sides, blocks that surely fit a multiprocessor."""

ROWS_TOGETHER = 32
"""Rows behind whose tasks others look along k, where the largest numbers at each place along k are wanted."""


class Terms(NamedTuple):
    """Matrices as two terms along k: hi and lo (count, rows, width), exponents (count, rows).

    k of each row's `width` numbers count, the rest are zeros up to a multiple of eight.
    """

    hi: torch.Tensor
    lo: torch.Tensor
    exponents: torch.Tensor


@dataclass(frozen=True)
class SplitSource:
    """A matrix x (rows, k) and where its terms go; peaks, inner: what the guard wants noted of a left and of a right
    operand, int32, one for each place along k, zeros before (`guard.py`).
    """

    x: torch.Tensor
    out: Terms
    peaks: torch.Tensor | None = None
    inner: torch.Tensor | None = None

    @property
    def turned(self) -> bool:
        """Whether it lies along its rows, and not along k."""
        return self.x.stride(1) != 1 and self.x.shape[1] != 1

    @property
    def lies(self) -> bool:
        """Whether the kernel can read it: it lies along one axis or the other."""
        return not self.turned or self.x.stride(0) == 1 or self.x.shape[0] == 1


class Operand(ctypes.Structure):
    """The kernel's structure of that name."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "hi", "lo", "exponents", "sizes", "counters", "peaks", "inner")),
        ("x_row", ctypes.c_longlong),
        *((name, ctypes.c_int) for name in ("rows", "k", "width", "turned", "whole", "threads")),
        *((name, ctypes.c_int) for name in ("deep", "across", "tiles", "lag", "tasks", "together", "strips")),
    )


class Operands(ctypes.Structure):
    """The kernel's argument."""

    _fields_ = (("each", Operand * 2),)


def operand(source: SplitSource, blocks: int) -> Operand:
    """How an operand is cut into tasks for so many blocks; `sizes` and `counters` are still missing.

    >>> terms = Terms(torch.empty(1, 300, 104), torch.empty(1, 300, 104), torch.empty(1, 300))
    >>> cut = operand(SplitSource(torch.empty(300, 100), terms), 528)
    >>> cut.threads, cut.tasks, cut.whole
    (32, 38, 1)
    """
    x, (rows, k), width, turned = source.x, source.x.shape, source.out.hi.shape[2], source.turned
    along = x.stride(1) if turned else x.stride(0)
    marks = [None if each is None else each.data_ptr() for each in (source.peaks, source.inner)]
    pointers = [each.data_ptr() for each in (x, *source.out)]
    made = Operand(*pointers, None, None, *marks, along, rows, k, width, turned, _whole(x, along))
    made.threads = row_threads(width)
    made.deep, made.across = -(-width // TILE), -(-rows // TILE)
    made.tiles = made.deep * made.across
    made.lag = min(made.tiles, made.deep + blocks)  # at least a strip: a tile waits for tasks before it alone
    by_rows = -(-rows // (THREADS // made.threads))
    if source.inner is not None and not turned:
        made.together, made.strips = ROWS_TOGETHER * made.threads // THREADS, -(-k // (4 * THREADS))
        by_rows = -(-by_rows // made.together) * (made.together + made.strips)
    made.tasks = 2 * made.tiles if turned else by_rows
    return made


def _whole(x: torch.Tensor, stride: int) -> bool:
    """Whether four numbers of a line may be read at once."""
    return x.data_ptr() % 16 == 0 and stride % 4 == 0


def row_threads(width: int) -> int:
    """Threads that hold a row together.

    >>> row_threads(8), row_threads(2048), row_threads(100000)
    (32, 64, 256)
    """
    return next((threads for threads in (32, 64, 128) if threads * HELD >= width), THREADS)


def operands(sources: Sequence[SplitSource], blocks: int) -> tuple[Operands, torch.Tensor | None]:
    """The kernel's argument, and the zeros in which it counts, where it does; operands that are turned come first."""
    made = [operand(each, blocks) for each in sorted(sources, key=lambda each: not each.turned)]
    rooms = [each.rows + each.across if each.turned else 0 for each in made]  # counts of columns, and of strips of them
    counts = torch.zeros(sum(rooms), dtype=torch.int32, device=sources[0].x.device) if any(rooms) else None
    at = counts.data_ptr() if counts is not None else 0
    for cut, room in zip(made, rooms, strict=True):
        cut.sizes, cut.counters = at, at + 4 * cut.rows
        at += 4 * room
    return Operands((Operand * 2)(*made)), counts


def fits(*given: torch.Tensor) -> bool:
    """Whether kernels of this file run where they lie: a GPU from compute capability 8.0 on."""
    return all(each.is_cuda and torch.cuda.get_device_capability(each.device) >= (8, 0) for each in given)


def prepared(sources: Sequence[SplitSource]) -> Run:
    """A function of no arguments that splits one or two operands on torch's current stream; nothing is checked.

    It must not run on two streams at one time: what it counts lies in memory of its own.
    """
    device = sources[0].x.device.index
    blocks = BLOCKS * int(torch.cuda.get_device_properties(device).multi_processor_count)
    argument, counts = operands(sources, blocks)
    kernel, tasks = function(SOURCE, "brrr_split_operands", device), sum(cut.tasks for cut in argument.each)
    return launched(kernel, device, min(blocks, tasks), THREADS, [argument], tuple(sources), counts)


# ---------------------------------------------------------------------------------------------------------------------
# Exponents for sums of blocks that are split into two float16 terms, in one launch.


class Summed(ctypes.Structure):
    """The kernel's argument of that name."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "exponents")),
        ("x_row", ctypes.c_longlong),
        *((name, ctypes.c_int) for name in ("rows", "k", "block_rows", "groups", "gain", "whole")),
    )


def summed_rows(x: torch.Tensor, out: torch.Tensor, groups: int, gain: int) -> Summed:
    """x (rows, k) in so many blocks of rows, which are summed, and the exponents, one for each row of a block."""
    stride, (rows, k) = x.stride(0), x.shape
    whole = _whole(x, 0 if rows == 1 else stride)
    return Summed(x.data_ptr(), out.data_ptr(), stride, rows, k, out.shape[0], groups, gain, whole)


def prepared_exponents(x: torch.Tensor, out: torch.Tensor, groups: int, gain: int) -> Run:
    """A function of no arguments that finds int32 exponents (rows of a block,), packed; nothing is checked."""
    argument, device = summed_rows(x, out, groups, gain), x.device.index
    kernel = function(SOURCE, "brrr_split_exponents", device)
    return launched(kernel, device, out.shape[0], THREADS, [argument], x, out)
