"""The product of operands in two float16 terms by `split_product.cu`, on GPUs of compute capability 9.0.

>>> run = prepared(left_hi, left_lo, None, right_hi, right_lo, None, out)    # doctest: +SKIP
>>> run()                                                                   # doctest: +SKIP

Operands are (batch, rows, k), each row contiguous along k; `out` is (batch, m, n). How the work is cut is a
`Tiling` (split_product_plan.py); the copy engine reads by tensor maps, which the driver encodes here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.gpu.nvrtc import function as function_of
from brrr.gpu.prepared import PreparedLaunch, allow_shared, on_current_stream
from brrr.strassen.split.product_plan import Problem, Tiling, chosen, problem

if TYPE_CHECKING:
    import torch

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

    Terms: float16 (batch, rows, k); out: float32 (batch, m, n), its rows contiguous. Exponents: int32 (batch, rows), of
    any strides, or None for zeros. debug: a wait that lasts for about a second ends the kernel with an error.
    ArgumentError for tensors that do not fit; UnavailableError where the GPU is not of compute capability 9.0.
    """
    terms = {"left_hi": left_hi, "left_lo": left_lo, "right_hi": right_hi, "right_lo": right_lo}
    check_operands(terms, {"left": left_exponents, "right": right_exponents}, out)
    batch, m, k = left_hi.shape
    n = right_hi.shape[1]
    if not out.numel():
        return _nothing
    if not k:
        return partial(_zero, out)
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
        raise UnavailableError(f"split_product: {name} has no wgmma of sm_90a; how='triton' or 'torch' runs there")
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


def _nothing() -> None:
    """An empty result."""


def _zero(out: torch.Tensor) -> None:
    out.zero_()
