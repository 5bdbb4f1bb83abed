"""float32 matrices as two float16 terms: by `split_operands.cu`, up to two operands a launch, or by torch.

>>> x, terms = torch.tensor([[3.0, 0.1]]), empty_terms(1, 2)
>>> prepared_splits(SplitSource(x, terms))()
>>> hi, lo, e = terms
>>> torch.ldexp(hi.double() + lo.double(), e)[0, :, :2].allclose(x.double(), rtol=2**-23)
True

x = (hi + lo) 2^e. hi is x 2^-e rounded to float16, 11 bits; lo is what is left, rounded to 11 more.

Range. Each row (along k) has an e of its own, so that its largest number lies from 2^14 to 2^15:

- no finite float32 overflows, and rows of very different size are all exact;
- a number is exact to 2^-23 of itself down to 2^-16 of its row's largest, and below that to 2^-39 of the largest: in a
  row whose numbers differ by more, the small ones lose digits, as they do in a sum with the large ones;
- infinity and NaN are kept in hi, with a lo of 0: their whole row (or column) of the product is infinite or NaN, and
  may be NaN where float32's product is infinite, since infinity meets terms of zero or of another sign. Other rows are
  as they should be;
- subnormal numbers are scaled as others are. A product out of float32's range is infinite, or rounded to a subnormal.

The kernels that find the exponents of sums and that decide whether a split product lost digits (`guard.py`) stand in
the same file.
"""

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch

from brrr.gpu.launching import fields
from brrr.gpu.nvrtc import function
from brrr.kernels.alone import CudaFile, Example, alone
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


def empty_terms(rows: int, k: int, device: str | torch.device = "cpu") -> Terms:
    """Room for the terms of a matrix.

    >>> empty_terms(3, 5).hi.shape
    torch.Size([1, 3, 8])
    """
    hi, lo = torch.empty((2, 1, rows, -(-k // 8) * 8), dtype=torch.float16, device=device)
    return Terms(hi, lo, torch.empty((1, rows), dtype=torch.int32, device=device))


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

    _fields_ = fields(
        P="x hi lo exponents sizes counters peaks inner", q="x_row",
        i="rows k width turned whole threads deep across tiles lag tasks together strips",
    )  # fmt: skip


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


def prepared_splits(*sources: SplitSource) -> Run:
    """A function of no arguments that splits one or two operands, on torch's current stream.

    By CUDA C++ (compute capability 8.0 on, both in one launch), else by torch. It reads and writes the tensors given,
    and counts in memory of its own: a run must not overlap with another of the same.
    """
    filled = [each for each in sources if each.out.hi.numel()]
    if not (filled and fits(filled[0].x) and all(each.lies for each in filled)):
        return partial(split_in_torch, filled)
    device = filled[0].x.device.index
    blocks = BLOCKS * int(torch.cuda.get_device_properties(device).multi_processor_count)
    argument, counts = operands(filled, blocks)
    kernel, tasks = function(SOURCE, "brrr_split_operands", device), sum(cut.tasks for cut in argument.each)
    return launched(kernel, device, min(blocks, tasks), THREADS, [argument], tuple(filled), counts)


def split_in_torch(sources: Sequence[SplitSource]) -> None:
    """The same by torch's operators: what the kernel is compared with."""
    for source in sources:
        x, made = source.x, source.out
        made.exponents.copy_(places_of(x) - 15)  # the largest number lies from 2^14 to 2^15
        numbers = scaled(x, -made.exponents[0].unsqueeze(-1))
        hi = numbers.half()
        lo = torch.where(hi.isfinite(), numbers - hi.float(), 0.0).half()
        for term, values in ((made.hi, hi), (made.lo, lo)):
            term[..., : x.shape[1]] = values
            term[..., x.shape[1] :] = 0


def places_of(x: torch.Tensor) -> torch.Tensor:
    """For each row the e, int32, of which its largest finite number is below 2^e; of zeros and subnormal ones -126.

    >>> places_of(torch.tensor([[3.0, -5.0], [0.0, float("inf")]]))
    tensor([   3, -126], dtype=torch.int32)
    """
    sizes = torch.where(x.isfinite(), x, 0.0).abs().float()
    largest = sizes.amax(1) if x.numel() else sizes.new_zeros(x.shape[0])
    return (largest.contiguous().view(torch.int32) >> 23) - 126


def scaled(x: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """x 2^e in two steps, since 2^e alone may be out of float32's range.

    >>> scaled(torch.tensor([2.0**-149]), torch.tensor([140])).log2().item()
    -9.0
    """
    e = e.clamp(-252, 252)
    half = e >> 1
    first, second = (((each + 127) << 23).to(torch.int32).view(torch.float32) for each in (half, e - half))
    return x * first * second


# ---------------------------------------------------------------------------------------------------------------------
# Exponents for sums of blocks that are split into two float16 terms, in one launch.


class Summed(ctypes.Structure):
    """The kernel's argument of that name."""

    _fields_ = fields(P="x exponents", q="x_row", i="rows k block_rows groups gain whole")


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


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.strassen.split.operands_kernel`.


def examples(device: str, n: int = 8192) -> Iterator[Example]:
    """Splitting a matrix that lies along k and one that lies across, in one launch."""
    x, terms = torch.randn(2, n, n, device=device), [empty_terms(n, n, device) for _ in range(2)]
    split = prepared_splits(SplitSource(x[0], terms[0]), SplitSource(x[1].t(), terms[1]))

    def both() -> torch.Tensor:
        split()
        return torch.cat([torch.ldexp(hi.double() + lo.double(), e[..., None]) for hi, lo, e in terms])

    exact = torch.stack((x[0], x[1].t())).double()
    yield Example("two terms of both matrices", 0.0, 2.0 * x.nbytes, split, exact, 1e-6, checked=both)


if __name__ == "__main__":
    alone(examples, CudaFile(SOURCE, architectures=("sm_80", "sm_90")))
