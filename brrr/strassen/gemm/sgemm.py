"""Products of float32 matrices in true float32, many at a time, by CUDA C++ of our own: `out[p] = left[p] @ right[p]`.

>>> multiply(left, right, out, right_transposed=True)    # doctest: +SKIP
>>> waves(7, 2048, 2048, TILINGS[0], 132)
6.79

No matrix unit takes part, so the fastest there can be is one multiply-add a lane and cycle. Two things keep a kernel
from it: instructions that are none, and multiply-adds that wait. The kernel holds 8 x 16 sums a thread, so that 6 loads
of 16 bytes serve 128 multiply-adds. It takes any sizes, and copies 4 bytes at a time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from brrr.core.errors import ArgumentError, UnavailableError

if TYPE_CHECKING:
    import torch

DEEPEST = 2**24
"""The largest k: inside a tile, offsets of rows are counted in 32 bits."""

TILE_START_CYCLES = 6000
"""What a tile costs beside its sums, about: its first copies, and its results on their way out."""

LAST_WAVE = 0.6
"""A wave of which a share s of a multiprocessor's blocks is there takes s to this power: they run faster alone."""


@dataclass(frozen=True)
class Tiling:
    """A block's tile, rows x columns; how many of the k it takes a step; its stages; blocks of one multiprocessor.

    A thread has 8 rows and `across` columns. persistent: as many blocks as run at once, each taking tiles in turn.
    group: rows of tiles that follow each other down before the next column. fences: 1, 2 and 4 add up to where loads
    from shared memory may not be put off. bursts: how many times a step some copies are issued; it divides depth, at
    least twice. share: multiply-adds a lane and cycle where all multiprocessors are busy, for the choice between
    tilings.
    """

    rows: int
    columns: int
    depth: int
    across: int = 16
    stages: int = 4
    blocks: int = 1
    persistent: bool = True
    group: int = 8
    fences: int = 3
    bursts: int = 4
    share: float = 0.75

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows * self.columns // (8 * self.across)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: each row of its stages is 16 bytes wider than the tile.

        >>> Tiling(128, 256, 8, stages=6).shared_bytes
        75264
        """
        return self.stages * self.depth * (self.rows + self.columns + 8) * 4

    def defines(self, right_transposed: bool, quads_out: bool, tail: bool) -> tuple[str, ...]:
        """The compiler's options."""
        return (
            f"-DBM={self.rows}", f"-DBN={self.columns}", f"-DBK={self.depth}", f"-DTN={self.across}",
            f"-DSTAGES={self.stages}", f"-DBLOCKS={self.blocks}", f"-DRIGHT_TRANSPOSED={int(right_transposed)}",
            f"-DQUADS_OUT={int(quads_out)}", f"-DTAIL={int(tail)}", f"-DFENCES={self.fences}",
            f"-DBURSTS={self.bursts}",
        )  # fmt: skip


TILINGS = (
    Tiling(128, 256, 16, persistent=False, group=16, bursts=8, share=0.765),
    Tiling(128, 128, 8, blocks=2, stages=6, persistent=False, share=0.745),
    Tiling(64, 128, 8, blocks=4, stages=6, persistent=False, share=0.67),
)
"""Those to choose from, for any sizes. The shares were measured on an H200."""


def multiply(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, *, right_transposed: bool) -> torch.Tensor:
    """`out[p] = left[p] @ right[p]`, or `@ right[p].T`; returns out. Arguments and errors as those of `prepared`."""
    prepared(left, right, out, right_transposed=right_transposed)()
    return out


def prepared(
    left: torch.Tensor,
    right: torch.Tensor,
    out: torch.Tensor,
    *,
    right_transposed: bool,
    tiling: Tiling | None = None,
) -> Callable[[], None]:
    """A function of no arguments that launches the kernel on torch's current stream; it must not outlive the tensors.

    left: (p, m, k), right: (p, k, n), or (p, n, k) where right_transposed; out: (p, m, n): float32, contiguous, on one
    GPU, and out shares no memory with the others. Any sizes; columns that are a multiple of 4 are written faster.
    tiling: instead of the one that is chosen. ArgumentError for any other tensors; UnavailableError without a GPU from
    sm_80 on.
    """
    products, m, n, k = check(left, right, out, right_transposed)
    if not out.numel():
        return _nothing
    if not k:  # an empty sum
        return lambda: _zero(out)
    index = int(left.device.index)
    chosen = tiling or choose(products, m, n, k, multiprocessors(index))
    tiles = tiles_of(products, m, n, chosen)
    quads_out = n % 4 == 0 and out.data_ptr() % 16 == 0
    function = _function(chosen, right_transposed, quads_out, k % chosen.depth != 0, index)
    grid = min(tiles, multiprocessors(index) * chosen.blocks) if chosen.persistent else tiles
    sizes = (products, m, n, k, chosen.group)
    return _launch(function, grid, chosen.threads, chosen.shared_bytes, (left, right, out), sizes)


def choose(products: int, m: int, n: int, k: int, multiprocessors: int) -> Tiling:
    """The tiling with the least time by `cycles`.

    >>> choose(49, 2048, 2048, 2048, 132) == TILINGS[0], choose(1, 128, 128, 4096, 132).columns
    (True, 128)
    """
    return min(TILINGS, key=lambda tiling: cycles(products, m, n, k, tiling, multiprocessors))


def cycles(products: int, m: int, n: int, k: int, tiling: Tiling, multiprocessors: int) -> float:
    """About how long the products take: whole waves of tiles, each k deep, and what is left over.

    >>> round(cycles(132, 128, 256, 4096, TILINGS[0], 132) / (128 * 256 * 4096 / 128), 2)
    1.31
    """
    slots = multiprocessors * tiling.blocks
    whole, rest = divmod(tiles_of(products, m, n, tiling), slots)
    last = float((-(-rest // multiprocessors) / tiling.blocks) ** LAST_WAVE)
    each = tiling.rows * tiling.columns * k / (128 * tiling.share) + TILE_START_CYCLES / tiling.blocks
    return (whole + last) * tiling.blocks * each


def tiles_of(products: int, m: int, n: int, tiling: Tiling) -> int:
    """Tiles of all products.

    >>> tiles_of(7, 2048, 2048, TILINGS[0])
    896
    """
    return products * -(-m // tiling.rows) * -(-n // tiling.columns)


def waves(products: int, m: int, n: int, tiling: Tiling, multiprocessors: int) -> float:
    """How many times the GPU is filled with tiles; what is missing to a whole number is lost.

    >>> waves(1, 4096, 4096, TILINGS[0], 132)
    3.88
    """
    return round(tiles_of(products, m, n, tiling) / (multiprocessors * tiling.blocks), 2)


@lru_cache(maxsize=16)
def multiprocessors(device_index: int) -> int:
    """How many multiprocessors a GPU has."""
    import torch

    return int(torch.cuda.get_device_properties(device_index).multi_processor_count)


def check(
    left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, right_transposed: bool
) -> tuple[int, int, int, int]:
    """Products, m, n and k of tensors that the kernel can take; errors as `prepared` has them."""
    import torch

    from brrr.strassen.operands import check_batch

    sizes = check_batch("sgemm.multiply", left, right, out, right_transposed)
    for name, tensor in (("left", left), ("right", right), ("out", out)):
        if tensor.dtype != torch.float32:
            raise ArgumentError("sgemm.multiply", name, str(tensor.dtype), "float32")
    if sizes[3] > DEEPEST or sizes[2] > 2**30 or sizes[1] > 2**30:
        raise ArgumentError("sgemm.multiply", "left", tuple(left.shape), f"k of at most {DEEPEST}, m and n of 2**30")
    if tiles_of(*sizes[:3], TILINGS[-1]) >= 2**31:
        raise ArgumentError("sgemm.multiply", "out", tuple(out.shape), "fewer than 2**31 tiles")
    if not left.is_cuda:
        raise UnavailableError("sgemm: the tensors are on the CPU, and the kernel needs an NVIDIA GPU; use .cuda()")
    if torch.cuda.get_device_capability(left.device) < (8, 0):
        raise UnavailableError("sgemm: asynchronous copies into shared memory need a GPU of compute capability 8.0")
    return sizes


@lru_cache(maxsize=128)
def _function(tiling: Tiling, right_transposed: bool, quads_out: bool, tail: bool, device_index: int) -> Any:
    """The kernel for a tiling, loaded, with leave for its shared memory; UnavailableError where no block of it fits."""
    from brrr.gpu.launching import active_blocks, allow_shared
    from brrr.gpu.nvrtc import function as function_of

    function = function_of(
        "strassen/gemm/sgemm.cu", "brrr_sgemm", device_index, tiling.defines(right_transposed, quads_out, tail)
    )
    allow_shared(function, tiling.shared_bytes)
    if not active_blocks(function, tiling.threads, tiling.shared_bytes):
        raise UnavailableError(f"sgemm: no block of {tiling.threads} threads and {tiling.shared_bytes} bytes fits")
    return function


def _launch(
    function: Any, grid: int, threads: int, shared: int, tensors: tuple[torch.Tensor, ...], sizes: tuple[int, ...]
) -> Callable[[], None]:
    from brrr.gpu.launching import PreparedLaunch, on_current_stream

    values = [*(ctypes.c_void_p(each.data_ptr()) for each in tensors), *(ctypes.c_int(size) for size in sizes)]
    launch = PreparedLaunch(function, (grid, 1, 1), (threads, 1, 1), values, shared)
    return on_current_stream(launch, int(tensors[0].device.index))


def _nothing() -> None:
    """An empty result."""


def _zero(out: torch.Tensor) -> None:
    out.zero_()
