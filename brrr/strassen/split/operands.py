"""float32 matrices as two float16 terms by `split_operands.cu`: up to two operands a launch, GPUs from 8.0 on.

>>> run = prepared([Source(a, hi, lo, exponents)])    # doctest: +SKIP
>>> run()                                             # doctest: +SKIP

The kernel that decides whether a split product lost digits stands in the same file; `guard.py` launches it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

SOURCE, KERNEL = "strassen/split/split_operands.cu", "brrr_split_operands"
THREADS, HELD, TILE, BLOCKS = 256, 32, 64, 4
"""Threads of a block, numbers each holds of a row, a turned tile's sides, blocks that surely fit a multiprocessor."""

MOST_TASKS = 2**30
ROWS_TOGETHER = 32
"""Rows behind whose tasks others look along k, where the largest numbers at each place along k are wanted."""


@dataclass(frozen=True)
class Source:
    """A matrix x (batch, rows, k) and where its terms go: hi, lo (batch, rows, width), exponents (batch, rows), packed.

    x: contiguous along k; or along its rows, if `turned`. given: the exponents are there, and are read. peaks, inner:
    int32, a number for each place along k, for the guard of a left and of a right operand (no batch).
    """

    x: torch.Tensor
    hi: torch.Tensor
    lo: torch.Tensor
    exponents: torch.Tensor
    turned: bool = False
    given: bool = False
    peaks: torch.Tensor | None = None
    inner: torch.Tensor | None = None


class Operand(ctypes.Structure):
    """The kernel's structure of that name."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "hi", "lo", "exponents", "sizes", "counters", "peaks", "inner")),
        *((name, ctypes.c_longlong) for name in ("x_batch", "x_row")),
        *((name, ctypes.c_int) for name in ("rows", "k", "width", "turned", "given", "whole", "threads")),
        *((name, ctypes.c_int) for name in ("deep", "across", "tiles", "lag", "tasks", "together", "strips")),
    )


class Operands(ctypes.Structure):
    """The kernel's argument."""

    _fields_ = (("each", Operand * 2),)


def operand(source: Source, blocks: int) -> Operand:
    """How an operand is cut into tasks for so many blocks; `sizes` and `counters` are still missing.

    >>> import torch
    >>> terms = torch.empty(1, 300, 104), torch.empty(1, 300, 104), torch.empty(1, 300)
    >>> cut = operand(Source(torch.empty(1, 300, 100), *terms), 528)
    >>> cut.threads, cut.tasks, cut.whole
    (32, 38, 1)
    """
    x, hi = source.x, source.hi
    (batch, rows, k), width = x.shape, hi.shape[2]
    along = x.stride(2) if source.turned else x.stride(1)
    whole = x.data_ptr() % 16 == 0 and along % 4 == 0 and (x.stride(0) % 4 == 0 or batch == 1)
    pointers = [each.data_ptr() for each in (x, hi, source.lo, source.exponents)]
    marks = [None if each is None else each.data_ptr() for each in (source.peaks, source.inner)]
    made = Operand(
        *pointers, None, None, *marks, x.stride(0), along, rows, k, width, source.turned, source.given, whole
    )
    made.threads = row_threads(width)
    made.deep, made.across = -(-width // TILE), -(-rows // TILE)
    made.tiles = batch * made.deep * made.across
    made.lag = min(made.tiles, made.deep + blocks)  # at least a strip: a tile waits for tasks before it alone
    by_rows = batch * -(-rows // (THREADS // made.threads))
    if source.inner is not None and not source.turned:
        made.together, made.strips = ROWS_TOGETHER * made.threads // THREADS, -(-k // (4 * THREADS))
        by_rows = -(-by_rows // made.together) * (made.together + made.strips)
    made.tasks = (made.tiles if source.given else 2 * made.tiles) if source.turned else by_rows
    return made


def row_threads(width: int) -> int:
    """Threads that hold a row together.

    >>> row_threads(8), row_threads(2048), row_threads(100000)
    (32, 64, 256)
    """
    return next((threads for threads in (32, 64, 128) if threads * HELD >= width), THREADS)


def operands(sources: Sequence[Source], blocks: int) -> tuple[Operands, torch.Tensor | None]:
    """The kernel's argument, and the zeros in which it counts, where it does; operands that are turned come first."""
    import torch

    ordered = sorted(sources, key=lambda each: not each.turned)
    made = [operand(each, blocks) for each in ordered]
    rooms = [_room(source, cut) for source, cut in zip(ordered, made, strict=True)]
    counts = torch.zeros(sum(rooms), dtype=torch.int32, device=sources[0].x.device) if any(rooms) else None
    at = counts.data_ptr() if counts is not None else 0
    for source, cut, room in zip(ordered, made, rooms, strict=True):
        cut.sizes, cut.counters = at, at + 4 * source.x.shape[0] * cut.rows
        at += 4 * room
    return Operands((Operand * 2)(*made)), counts


def _room(source: Source, cut: Operand) -> int:
    """Numbers of an operand's counts: columns, and strips of them."""
    counts = source.turned and not source.given
    return int(source.x.shape[0] * (cut.rows + cut.across)) if counts else 0


def fits(sources: Sequence[Source]) -> bool:
    """Whether the kernel can do it: the GPU, and the count of tasks."""
    import torch

    device = sources[0].x.device
    able = sources[0].x.is_cuda and torch.cuda.get_device_capability(device) >= (8, 0)
    return able and sum(operand(each, 1).tasks for each in sources) < MOST_TASKS


def prepared(sources: Sequence[Source]) -> Callable[[], None]:
    """A function of no arguments that splits one or two operands on torch's current stream; nothing is checked.

    It must not run on two streams at one time: what it counts lies in memory of its own.
    """
    import torch

    from brrr.gpu.launching import PreparedLaunch, on_current_stream
    from brrr.gpu.nvrtc import function as function_of

    device = sources[0].x.device.index
    blocks = BLOCKS * int(torch.cuda.get_device_properties(device).multi_processor_count)
    argument, counts = operands(sources, blocks)
    function = function_of(SOURCE, KERNEL, device)
    grid = min(blocks, sum(each.tasks for each in argument.each))
    launch = PreparedLaunch(function, (grid, 1, 1), (THREADS, 1, 1), [argument])
    return on_current_stream(launch, device, tuple(sources), counts)


# ---------------------------------------------------------------------------------------------------------------------
# Exponents for sums of blocks that are split into two float16 terms, in one launch of `split_operands.cu`.

EXPONENTS = "brrr_split_exponents"


class Summed(ctypes.Structure):
    """The kernel's argument of that name."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "exponents")),
        ("x_row", ctypes.c_longlong),
        *((name, ctypes.c_int) for name in ("rows", "k", "block_rows", "groups", "gain", "whole")),
    )


def summed_rows(x: torch.Tensor, block_rows: int, groups: int, gain: int) -> Summed:
    """x (rows, k) in so many blocks of rows, which are summed; the exponents' address is still missing."""
    stride, (rows, k) = x.stride(0), x.shape
    whole = x.data_ptr() % 16 == 0 and (stride % 4 == 0 or rows == 1)
    return Summed(x.data_ptr(), None, stride, rows, k, block_rows, groups, gain, whole)


def exponents_fit(x: torch.Tensor) -> bool:
    """Whether the kernel reads it: float32 on a GPU from compute capability 8.0 on, its rows contiguous."""
    import torch

    along = x.dtype == torch.float32 and (x.stride(1) == 1 or x.shape[1] == 1)
    return along and x.is_cuda and torch.cuda.get_device_capability(x.device) >= (8, 0)


def prepared_exponents(x: torch.Tensor, out: torch.Tensor, groups: int, gain: int) -> Callable[[], None]:
    """A function of no arguments that finds int32 exponents (rows of a block,), packed; nothing is checked."""
    from brrr.gpu.launching import PreparedLaunch, on_current_stream
    from brrr.gpu.nvrtc import function as function_of

    argument, device = summed_rows(x, out.shape[0], groups, gain), x.device.index
    argument.exponents = out.data_ptr()
    function = function_of(SOURCE, EXPONENTS, device)
    launch = PreparedLaunch(function, (out.shape[0], 1, 1), (THREADS, 1, 1), [argument])
    return on_current_stream(launch, device, x, out)
