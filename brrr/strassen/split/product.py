"""The product of operands in two float16 terms by `split_product.cu`, on GPUs of compute capability 9.0.

>>> run = prepared(left_hi, left_lo, None, right_hi, right_lo, None, out)    # doctest: +SKIP
>>> run()                                                                   # doctest: +SKIP

Operands are (batch, rows, k), each row contiguous along k; `out` is (batch, m, n). How the work is cut is a
`Tiling` (split_product_plan.py); the copy engine reads by tensor maps, which the driver encodes here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.gpu.launching import PreparedLaunch, allow_shared, on_current_stream
from brrr.gpu.nvrtc import function as function_of

if TYPE_CHECKING:
    import torch


# ---------------------------------------------------------------------------------------------------------------------
# How the product of two-term operands is cut: tiles, steps, the ring of shared memory, which tiles a block takes.

MOST_SHARED = 232448
"""Shared memory that a block of sm_90 may have, in bytes."""

ALIGNMENT = 1024
"""Where a tile must begin, so that the pattern in which its pieces are permuted begins there."""


@dataclass(frozen=True)
class Tiling:
    """How the work is cut.

    >>> Tiling().rows, Tiling().slots, Tiling(columns=128).slots, Tiling(depth=32).slots
    (128, 5, 7, 11)

    consumers: warpgroups that multiply, 64 rows each; columns: 128 or 192; depth: of a step along k, 32 or 64; chunk:
    how deep a sum grows in the tensor core before it is added to the total, a multiple of depth; cluster: blocks that
    share the right operand's tile, 1 or 2; group: bands of rows of tiles that run side by side; stagger: the consumers
    add to their totals at different times, and the first sums of some are shorter.
    """

    consumers: int = 2
    columns: int = 192
    depth: int = 64
    chunk: int = 64
    cluster: int = 1
    group: int = 8
    stagger: bool = True

    def __post_init__(self) -> None:
        allowed = {"consumers": (2, 3), "columns": (128, 192), "depth": (32, 64), "cluster": (1, 2)}
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise ArgumentError("Tiling", name, getattr(self, name), f"one of {values}")
        if self.consumers == 3 and self.columns == 192:
            raise ArgumentError("Tiling", "columns", 192, "128 with 3 consumers: the sums of 192 fit no registers")
        if self.chunk < self.depth or self.chunk % self.depth:
            raise ArgumentError("Tiling", "chunk", self.chunk, f"a positive multiple of the depth, {self.depth}")
        if self.group < 1:
            raise ArgumentError("Tiling", "group", self.group, "1 or more")

    @property
    def rows(self) -> int:
        """Of a block's tile."""
        return 64 * self.consumers

    @property
    def slot_bytes(self) -> int:
        """One term of both operands' tiles, a step deep."""
        return (self.rows + self.columns) * self.depth * 2

    @property
    def slots(self) -> int:
        """As many as fit, with two barriers of 8 bytes each."""
        return (MOST_SHARED - ALIGNMENT) // (self.slot_bytes + 16)

    @property
    def shared_bytes(self) -> int:
        """All of a block's shared memory."""
        return ALIGNMENT + self.slots * (self.slot_bytes + 16)

    @property
    def threads(self) -> int:
        """The warpgroups that multiply, and one that loads."""
        return 128 * (self.consumers + 1)

    def defines(self) -> tuple[str, ...]:
        """The constants that the kernel is compiled with."""
        named = {"CONSUMERS": self.consumers, "COLUMNS": self.columns, "DEPTH": self.depth, "SLOTS": self.slots}
        named |= {"CHUNK": self.chunk // self.depth, "CLUSTER": self.cluster, "STAGGER": int(self.stagger)}
        return tuple(f"-D{name}={value}" for name, value in named.items())


class Problem(ctypes.Structure):
    """The kernel's argument of that name."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("m", "n", "steps", "bands", "column_tiles", "tiles", "group", "pairs")),
        *((name, ctypes.c_longlong) for name in ("out_batch", "out_row", "left_batch", "left_row", "right_batch")),
        ("right_row", ctypes.c_longlong),
    )


def problem(
    tiling: Tiling,
    shape: tuple[int, int, int, int],
    out: tuple[int, int],
    left: tuple[int, int],
    right: tuple[int, int],
) -> Problem:
    """How a product is cut: shape (batch, m, n, k); strides of out and of both operands' exponents (of batch, of row).

    >>> found = problem(Tiling(), (2, 300, 500, 65), (150000, 500), (0, 0), (0, 0))
    >>> found.steps, found.bands, found.column_tiles, found.tiles, found.pairs
    (2, 3, 3, 18, 1)
    """
    batch, m, n, k = shape
    bands, columns = -(-m // (tiling.rows * tiling.cluster)), -(-n // tiling.columns)
    pairs = all(stride % 2 == 0 for stride in out)
    cut = (m, n, -(-k // tiling.depth), bands, columns, batch * bands * columns, tiling.group, pairs)
    return Problem(*cut, *out, *left, *right)


LONG = 100
"""Rounds of narrow tiles from which on the GPU is as fast as its power allows, whatever the last round leaves idle."""

ROUND = 1.05
"""A round of narrow tiles by its columns' time: wide tiles read less for each product."""


def chosen(batch: int, m: int, n: int, multiprocessors: int = 132) -> Tiling:
    """The tiling whose rounds of tiles, one tile a multiprocessor, take the least time.

    >>> [chosen(1, n, n).columns for n in (1024, 2048, 4096, 8192, 16384)], chosen(1, 16384, 16384).cluster
    ([128, 128, 128, 192, 128], 2)

    A round lasts as long as a tile is wide, so that a last round with few tiles counts in full: at 2048, 256 narrow
    tiles are two rounds of 128 columns, 176 wide ones two of 192. In LONG products narrow tiles in clusters of two were
    the fastest on an H200 at its power limit.
    """
    wide, narrow = Tiling(), Tiling(columns=128)
    if rounds(narrow, batch, m, n, multiprocessors) >= LONG:
        return Tiling(columns=128, cluster=2)
    times = [rounds(each, batch, m, n, multiprocessors) * each.columns for each in (wide, narrow)]
    return wide if times[0] <= ROUND * times[1] else narrow


def rounds(tiling: Tiling, batch: int, m: int, n: int, multiprocessors: int = 132) -> int:
    """Tiles that the busiest multiprocessor computes.

    >>> rounds(Tiling(), 1, 2048, 2048), rounds(Tiling(), 1, 8192, 8192)
    (2, 21)
    """
    tiles = int(problem(tiling, (batch, m, n, 1), (0, 0), (0, 0), (0, 0)).tiles)
    return -(-tiles * tiling.cluster // (multiprocessors // tiling.cluster * tiling.cluster))


SOURCE, KERNEL = "strassen/split/split_product.cu", "brrr_split_product"


def prepared(
    left_hi: torch.Tensor,
    left_lo: torch.Tensor,
    left_exponents: torch.Tensor | None,
    right_hi: torch.Tensor,
    right_lo: torch.Tensor,
    right_exponents: torch.Tensor | None,
    out: torch.Tensor,
    tiling: Tiling | None = None,
    debug: bool = False,
) -> Callable[[], None]:
    """A function of no arguments that launches the product on torch's current stream; it must not outlive the tensors.

    Terms: float16 (batch, rows, k); out: float32 (batch, m, n), its rows contiguous; none is empty. Exponents: int32
    (batch, rows), of any strides, or None for zeros. debug: a wait that lasts for about a second ends the kernel with
    an error.
    ArgumentError for tensors that do not fit; UnavailableError where the GPU is not of compute capability 9.0.
    """
    terms = {"left_hi": left_hi, "left_lo": left_lo, "right_hi": right_hi, "right_lo": right_lo}
    check_operands(terms, {"left": left_exponents, "right": right_exponents}, out)
    batch, m, k = left_hi.shape
    n = right_hi.shape[1]
    tiling, device = tiling or chosen(batch, m, n), out.device.index
    nothing = zero_exponent(device)
    exponents = [nothing if each is None else each for each in (left_exponents, right_exponents)]
    strides = [(0, 0) if each is nothing else (each.stride(0), each.stride(1)) for each in exponents]
    cut = problem(tiling, (batch, m, n, k), (out.stride(0), out.stride(1)), *strides)
    cut.pairs = int(cut.pairs and out.data_ptr() % 8 == 0)
    rows = (tiling.rows, tiling.rows, tiling.columns // tiling.cluster, tiling.columns // tiling.cluster)
    maps = [tensor_map(term, high, tiling.depth) for term, high in zip(terms.values(), rows, strict=True)]
    pointers = [ctypes.c_void_p(each.data_ptr()) for each in (out, *exponents)]
    launch = _launch(tiling, cut, [*maps, *pointers, cut], device, debug)
    return on_current_stream(launch, device, *terms.values(), *exponents, out)


def _launch(tiling: Tiling, cut: Problem, values: list[Any], device: int, debug: bool) -> Any:
    import torch

    function = compiled(tiling, device, debug)
    at_once = int(torch.cuda.get_device_properties(device).multi_processor_count) // tiling.cluster
    blocks = min(cut.tiles, at_once) * tiling.cluster
    cluster = tiling.cluster if tiling.cluster > 1 else 0
    return PreparedLaunch(function, (blocks, 1, 1), (tiling.threads, 1, 1), values, tiling.shared_bytes, cluster)


@lru_cache(maxsize=64)
def compiled(tiling: Tiling, device: int, debug: bool = False) -> Any:
    """The kernel for a tiling, loaded; wgmma and setmaxnreg are sm_90a's, which the plain sm_90 has not."""
    import torch

    if torch.cuda.get_device_capability(device) != (9, 0):
        name = torch.cuda.get_device_name(device)
        raise UnavailableError(f"split_product: {name} has no wgmma of sm_90a; how='torch' runs there")
    options = (*tiling.defines(), *(("-DHANG_CYCLES=2000000000",) if debug else ()))
    function = function_of(SOURCE, KERNEL, device, options, suffix="a")
    allow_shared(function, tiling.shared_bytes)
    return function


def tensor_map(term: torch.Tensor, rows: int, depth: int) -> Any:
    """The driver's description of an operand for the copy engine, as a kernel's argument.

    Its matrices stand one below the other: (batch * rows, k). A box is rows x depth; what lies beyond reads as zero.
    """
    from cuda.bindings import driver

    batch, high, wide = term.shape
    swizzle = driver.CUtensorMapSwizzle
    swizzled = swizzle.CU_TENSOR_MAP_SWIZZLE_128B if depth == 64 else swizzle.CU_TENSOR_MAP_SWIZZLE_64B
    made = aligned_bytes(128, 64)
    status = _library().cuTensorMapEncodeTiled(
        ctypes.byref(made),
        int(driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16),
        2,
        ctypes.c_void_p(term.data_ptr()),
        (ctypes.c_uint64 * 2)(wide, batch * high),
        (ctypes.c_uint64 * 1)(term.stride(1) * term.element_size()),
        (ctypes.c_uint32 * 2)(depth, rows),
        (ctypes.c_uint32 * 2)(1, 1),
        int(driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
        int(swizzled),
        int(driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B),
        int(driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
    )
    if status:
        raise UnavailableError(f"CUDA refused a tensor map of {tuple(term.shape)}, a box of {rows} x {depth}: {status}")
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


def check_operands(
    terms: dict[str, torch.Tensor], exponents: dict[str, torch.Tensor | None], out: torch.Tensor
) -> None:
    """ArgumentError for what the kernel cannot read: it sees addresses and strides, and nothing else."""
    import torch

    first = terms["left_hi"]
    for name, term in terms.items():
        side = terms["left_hi" if name.startswith("left") else "right_hi"]
        fits = term.ndim == 3 and term.dtype == torch.float16 and term.device == out.device and term.is_cuda
        if not fits or term.shape != side.shape or (term.shape[0], term.shape[2]) != (first.shape[0], first.shape[2]):
            given = f"{term.dtype} {tuple(term.shape)} on {term.device}"
            raise ArgumentError(
                "split_product", name, given, "float16 (batch, rows, k) on out's GPU, all of one batch and k"
            )
        packed = term.stride(0) == term.stride(1) * term.shape[1] or term.shape[0] == 1
        along = term.stride(2) == 1 and term.stride(1) % 8 == 0 and term.data_ptr() % 16 == 0
        if term.numel() and not (packed and along and term.shape[0] * term.shape[1] < 2**31):
            expected = "rows one below the other, contiguous, at multiples of 16 bytes"
            raise ArgumentError("split_product", name, f"strides {term.stride()}", expected, "`split` makes such terms")
    shape = (first.shape[0], first.shape[1], terms["right_hi"].shape[1])
    if out.dtype != torch.float32 or out.shape != shape or (out.numel() and out.stride(2) != 1):
        given = f"{out.dtype} {tuple(out.shape)}, strides {out.stride()}"
        raise ArgumentError("split_product", "out", given, f"float32 {shape}, its rows contiguous")
    for side_name, each in exponents.items():
        expected_shape = terms[f"{side_name}_hi"].shape[:2]
        if each is not None and (
            each.dtype != torch.int32 or each.shape != expected_shape or each.device != out.device
        ):
            given = f"{each.dtype} {tuple(each.shape)} on {each.device}"
            raise ArgumentError("split_product", f"{side_name}_exponents", given, f"int32 {tuple(expected_shape)}")


@lru_cache(maxsize=16)
def zero_exponent(device: int) -> torch.Tensor:
    """One zero, which serves all rows by a stride of 0."""
    import torch

    return torch.zeros(1, dtype=torch.int32, device=f"cuda:{device}")
