"""The product of operands in two float16 terms, as exact as float32's own: by `split_product.cu`, or by torch.

>>> a, b, out = torch.randn(64, 100), torch.randn(48, 100), torch.empty(64, 48)
>>> left, right = empty_terms(64, 100), empty_terms(48, 100)
>>> prepared_splits(SplitSource(a, left), SplitSource(b, right))()
>>> prepared_product(left, right, out)()
>>> bool((out - a @ b.T).norm() < 1e-6 * out.norm())
True

Of the four products of terms the smallest, lo lo, is left out, and three are summed, on the tensor cores of compute
capability 9.0 with a total outside (see `split_product.cu` for why). Operands are `Terms` of (count, rows, k), each row
contiguous along k; `out` is (count, m, n). How the work is cut is a `Tiling`; the copy engine reads by tensor maps,
which the driver encodes here.
"""

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch

from brrr.core.errors import UnavailableError
from brrr.gpu import is_gpu
from brrr.gpu.launching import allow_shared, fields
from brrr.gpu.nvrtc import function
from brrr.kernels.alone import CudaFile, Example, alone, giving
from brrr.strassen.launcher import Run, launched
from brrr.strassen.split.operands_kernel import SplitSource, Terms, empty_terms, prepared_splits, scaled

# ---------------------------------------------------------------------------------------------------------------------
# How the product of two-term operands is cut: tiles, steps, the ring of shared memory, which tiles a block takes.

MOST_SHARED = 232448
"""Shared memory that a block of sm_90 may have, in bytes."""

ALIGNMENT = 1024
"""Where a tile must begin, so that the pattern in which its pieces are permuted begins there."""


ROWS, DEPTH, THREADS, GROUP = 128, 64, 384, 8
"""Of a block's tile and of a step along k, of a block; bands of tiles that run side by side."""


@dataclass(frozen=True)
class Tiling:
    """How the work is cut: a tile's columns, 128 or 192, and blocks that share the right operand's tile, 1 or 2.

    >>> Tiling().slots, Tiling(columns=128).slots
    (5, 7)
    """

    columns: int = 192
    cluster: int = 1

    @property
    def slots(self) -> int:
        """As many as fit, each one term of both operands' tiles, a step deep, with two barriers of 8 bytes each."""
        return (MOST_SHARED - ALIGNMENT) // self._slot_bytes

    @property
    def shared_bytes(self) -> int:
        """All of a block's shared memory."""
        return ALIGNMENT + self.slots * self._slot_bytes

    @property
    def _slot_bytes(self) -> int:
        return (ROWS + self.columns) * DEPTH * 2 + 16

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Bands of rows, of all blocks of a cluster, and tiles across."""
        return -(-m // (ROWS * self.cluster)), -(-n // self.columns)

    def defines(self) -> tuple[str, ...]:
        """The constants that the kernel is compiled with."""
        return f"-DCOLUMNS={self.columns}", f"-DSLOTS={self.slots}", f"-DCLUSTER={self.cluster}"


class TileGrid(ctypes.Structure):
    """The kernel's argument of that name."""

    _fields_ = fields(
        i="m n steps bands column_tiles tiles group pairs",
        q="out_batch out_row left_batch left_row right_batch right_row",
    )


def tile_grid(tiling: Tiling, left: Terms, right: Terms, out: torch.Tensor) -> TileGrid:
    """How the product of terms into `out` (count, m, n) is cut.

    >>> left, right = (Terms(torch.empty(2, rows, 72), torch.empty(0), torch.empty(2, rows)) for rows in (300, 500))
    >>> found = tile_grid(Tiling(), left, right, torch.empty(2, 300, 500))
    >>> found.steps, found.bands, found.column_tiles, found.tiles, found.pairs
    (2, 3, 3, 18, 1)
    """
    count, m, n = out.shape
    bands, columns = tiling.tiles(m, n)
    pairs = all(each % 2 == 0 for each in (*out.stride()[:2], out.data_ptr() // 4))
    cut = (m, n, -(-left.hi.shape[2] // DEPTH), bands, columns, count * bands * columns, GROUP, pairs)
    return TileGrid(*cut, *out.stride()[:2], *left.exponents.stride(), *right.exponents.stride())


LONG = 100
"""Rounds of narrow tiles from which on the GPU is as fast as its power allows, whatever the last round leaves idle."""

ROUND = 1.05
"""A round of narrow tiles by its columns' time: wide tiles read less for each product."""


def chosen(count: int, m: int, n: int) -> Tiling:
    """The tiling whose rounds of tiles, one tile a multiprocessor, take the least time.

    >>> [chosen(1, n, n).columns for n in (1024, 2048, 4096, 8192, 16384)], chosen(1, 16384, 16384).cluster
    ([128, 128, 128, 192, 128], 2)

    A round lasts as long as a tile is wide, so that a last round with few tiles counts in full: at 2048, 256 narrow
    tiles are two rounds of 128 columns, 176 wide ones two of 192. In LONG products narrow tiles in clusters of two were
    the fastest on an H200 at its power limit.
    """
    wide, narrow = Tiling(), Tiling(columns=128)
    if rounds(narrow, count, m, n) >= LONG:
        return Tiling(columns=128, cluster=2)
    times = [rounds(each, count, m, n) * each.columns for each in (wide, narrow)]
    return wide if times[0] <= ROUND * times[1] else narrow


def rounds(tiling: Tiling, count: int, m: int, n: int, multiprocessors: int = 132) -> int:
    """Tiles that the busiest multiprocessor computes.

    >>> rounds(Tiling(), 1, 2048, 2048), rounds(Tiling(), 1, 8192, 8192)
    (2, 21)
    """
    tiles = count * math.prod(tiling.tiles(m, n))
    return -(-tiles * tiling.cluster // (multiprocessors // tiling.cluster * tiling.cluster))


SOURCE = "strassen/split/split_product.cu"


def prepared_product(left: Terms, right: Terms, out: torch.Tensor, tiling: Tiling | None = None) -> Run:
    """left @ right^T into `out`, float32 (m, n) or (count, m, n), rows contiguous: a function of no arguments.

    By the kernel, on torch's current stream, where there is one; nothing is checked.
    """
    out = out.unsqueeze(0) if out.dim() == 2 else out
    if not out.numel() or not left.hi.numel():
        return out.zero_
    if not has_kernel(out.device):
        return partial(multiply_in_torch, left, right, out)
    tiling, device = tiling or chosen(*out.shape), out.device.index
    grid = tile_grid(tiling, left, right, out)
    boxes = ((left, ROWS), (right, tiling.columns // tiling.cluster))
    maps = [tensor_map(term, rows) for each, rows in boxes for term in (each.hi, each.lo)]
    pointers = [ctypes.c_void_p(each.data_ptr()) for each in (out, left.exponents, right.exponents)]
    at_once = int(torch.cuda.get_device_properties(device).multi_processor_count) // tiling.cluster
    blocks, cluster = min(grid.tiles, at_once) * tiling.cluster, tiling.cluster if tiling.cluster > 1 else 0
    given, shared = [*maps, *pointers, grid], tiling.shared_bytes
    kernel, held = compiled(tiling, device), (left, right, out)
    return launched(kernel, device, blocks, THREADS, given, *held, shared_bytes=shared, cluster=cluster)


def has_kernel(device: torch.device) -> bool:
    """Whether terms are multiplied by CUDA C++ there: compute capability 9.0.

    >>> has_kernel(torch.device("cpu"))
    False
    """
    return is_gpu(device) and torch.cuda.get_device_capability(device) == (9, 0)


def multiply_in_torch(left: Terms, right: Terms, out: torch.Tensor) -> None:
    """Three float32 products of the terms, which are exact in float32."""
    a_hi, a_lo, b_hi, b_lo = (each.float() for each in (left.hi, left.lo, right.hi, right.lo))
    total = a_hi @ b_lo.transpose(1, 2) + a_lo @ b_hi.transpose(1, 2) + a_hi @ b_hi.transpose(1, 2)
    out.copy_(scaled(total, left.exponents.unsqueeze(2) + right.exponents.unsqueeze(1)))


@lru_cache(maxsize=64)
def compiled(tiling: Tiling, device: int) -> Any:
    """The kernel for a tiling, loaded; wgmma and setmaxnreg are sm_90a's, which the plain sm_90 has not."""
    kernel = function(SOURCE, "brrr_split_product", device, tiling.defines(), suffix="a")
    allow_shared(kernel, tiling.shared_bytes)
    return kernel


FLOAT16, NO_INTERLEAVE, SWIZZLE_128B, L2_256B, ZEROS = 6, 0, 3, 3, 0
"""Of cuda.h's enumerations that begin with CU_TENSOR_MAP_."""


def tensor_map(term: torch.Tensor, rows: int) -> Any:
    """The driver's description of an operand for the copy engine, as a kernel's argument.

    Its matrices stand one below the other: (count * rows, k). A box is rows x DEPTH; what lies beyond reads as zero.
    """
    count, high, wide = term.shape
    made = aligned_bytes(128, 64)
    status = _library().cuTensorMapEncodeTiled(
        ctypes.byref(made), FLOAT16, 2, ctypes.c_void_p(term.data_ptr()), (ctypes.c_uint64 * 2)(wide, count * high),
        (ctypes.c_uint64 * 1)(term.stride(1) * term.element_size()), (ctypes.c_uint32 * 2)(DEPTH, rows),
        (ctypes.c_uint32 * 2)(1, 1), NO_INTERLEAVE, SWIZZLE_128B, L2_256B, ZEROS,
    )  # fmt: skip
    if status:
        raise UnavailableError(f"CUDA refused a tensor map of {tuple(term.shape)}, a box of {rows} x {DEPTH}: {status}")
    return made


def aligned_bytes(count: int, alignment: int) -> Any:
    """Bytes at a multiple of an alignment.

    >>> ctypes.addressof(aligned_bytes(128, 64)) % 64
    0

    The driver wants its maps so; cuda-bindings, whose own object lies at multiples of 16, does not see to it.
    """
    room = bytearray(count + alignment)
    whole = (ctypes.c_ubyte * len(room)).from_buffer(room)
    return (ctypes.c_ubyte * count).from_buffer(room, -ctypes.addressof(whole) % alignment)


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """The driver itself, which is loaded already."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise UnavailableError(f"split_product: the NVIDIA driver's library is not here ({error})") from None


# ---------------------------------------------------------------------------------------------------------------------
# By itself: `python -m brrr.strassen.split.product_kernel`.


def examples(device: str, n: int = 8192) -> Iterator[Example]:
    """Multiplying the terms of two matrices."""
    (a, b, out), (left, right) = torch.randn(3, n, n, device=device), (empty_terms(n, n, device) for _ in range(2))
    prepared_splits(SplitSource(a, left), SplitSource(b, right))()
    product, exact = giving(out, prepared_product(left, right, out)), a.double() @ b.double().T
    if has_kernel(out.device):
        yield Example("product of terms", 3 * 2.0 * n**3, 3.0 * out.nbytes, product, exact, 1e-6, "fp16")


if __name__ == "__main__":
    alone(examples, CudaFile(SOURCE, Tiling().defines(), architectures=("sm_90a",)))
