"""What one operator takes: issuing it, moving its bytes, doing its arithmetic; start and end of its kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brrr.counting.cost import Matmul, OperatorCost
from brrr.errors import ArgumentError
from brrr.peaks.peaks import short
from brrr.roofline.basis import Basis
from brrr.roofline.clocks import Step
from brrr.roofline.streams import level_rate, memory_s
from brrr.roofline.tiles import full_rate, product_s

HOST_CLASS: Mapping[str, str] = {
    "view": "view", "copy": "copy", "pointwise": "pointwise", "reduction": "reduction", "softmax": "softmax",
    "norm": "norm", "matmul": "matmul", "fused": "pointwise",
    "scan": "reduction", "loss": "reduction", "pooling": "reduction", "index": "pointwise", "random": "pointwise",
    "convolution": "matmul", "attention": "matmul", "recurrent": "matmul", "unknown": "pointwise",
}  # fmt: skip
"""Which measured host cost counts for which kind of operator."""

MATRIX_DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp64", "int8")
WHOLE = "whole"
"""The kind of a cost that does not tell its operators."""
COMPUTED_IN = {"fp16": "fp32", "bf16": "fp32", "fp8": "fp32"}
"""Plain arithmetic on the short types is done in float32."""


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """The predicted times of one operator, in seconds.

    `memory_s` and `compute_s` are those of its bytes and of its FLOP alone; `device_s` is the larger of them and the
    start and end of its kernel (on a CPU: the call), None where nothing runs on the device. `known` is False where its
    FLOP are unknown, so that `compute_s` is too short.
    """

    name: str
    host_s: float
    memory_s: float
    compute_s: float
    device_s: float | None
    known: bool = True

    @property
    def work_s(self) -> float:
        """The part that moves bytes or does arithmetic: the longer of the two."""
        return max(self.memory_s, self.compute_s)

    @property
    def step(self) -> Step:
        """As the two clocks see it."""
        return Step(self.host_s, self.device_s)


def operator_time(
    each: OperatorCost, basis: Basis, working_set: float, *, tf32: bool = False, host_s: float | None = None
) -> OperatorTime:
    """The times of one operator; `host_s` replaces the host cost of its class."""
    host = basis.value(f"host.{host_class(each, basis)}") if host_s is None else host_s
    if each.kind == "view":
        return OperatorTime(each.name, host, 0.0, 0.0, None if basis.is_gpu else host)
    start = basis.value("kernel.floor") if basis.is_gpu else host
    moving = memory_s(basis, each.read_bytes, each.written_bytes, working_set, _stream_start_s(basis))
    computing = compute_s(each, basis, tf32)
    return OperatorTime(each.name, host, moving, computing, start + max(moving, computing), each.flop is not None)


def _stream_start_s(basis: Basis) -> float:
    """What a measured stream holds besides moving bytes: a kernel's start and end; on a CPU, calling torch's copy."""
    if not basis.curves:
        return 0.0
    return basis.value("kernel.floor") if basis.is_gpu else basis.value("host.copy")


def host_class(each: OperatorCost, basis: Basis) -> str:
    """The class whose host cost counts; a class of its own that was not measured becomes a note."""
    if each.kind == "pointwise" and each.name.endswith("_") and basis.has("host.in-place"):
        return "in-place"
    found = HOST_CLASS.get(each.kind, "pointwise")
    if found != each.kind and each.kind not in ("fused", WHOLE):
        basis.note(f"issuing {each.kind} operators counts as issuing {found} ones")
    return found


def compute_s(each: OperatorCost, basis: Basis, tf32: bool) -> float:
    """Seconds of arithmetic: matrix products at their own rate, anything else at that of plain operations."""
    if each.matmuls:
        return sum(matmul_s(product, basis, tf32) for product in each.matmuls)
    if not each.flop:
        return 0.0
    if each.kind == WHOLE:
        return each.flop / best_rate(basis, matrix_dtype(each.dtype, tf32))
    rate = plain_rate(basis, short(each.dtype))
    return each.flop / rate if rate else 0.0


def plain_rate(basis: Basis, dtype: str) -> float | None:
    """FLOP/s of operations that are no fused multiply-adds; None, with a note, where nobody knows it."""
    dtype = COMPUTED_IN.get(dtype, dtype)
    if basis.has(f"arithmetic.{dtype}.mul"):
        return basis.value(f"arithmetic.{dtype}.mul")
    if basis.has(f"arithmetic.{dtype}.fma"):
        basis.note("plain operations count at half the rate of fused multiply-adds, which are 2 FLOP each")
        return basis.value(f"arithmetic.{dtype}.fma") / 2
    basis.note(f"the rate of plain {dtype} arithmetic is not known on {basis.device}: its term is left out")
    return None


def best_rate(basis: Basis, dtype: str) -> float:
    """The best FLOP/s of a data type on any unit: of products of matrices, or of fused multiply-adds."""
    names = [name for name in (f"matmul.{dtype}", f"arithmetic.{dtype}.fma") if basis.has(name)]
    values = {
        name: basis.curves[name].best.value if name in basis.curves else basis.figures[name].value for name in names
    }
    return basis.value(max(values, key=values.__getitem__, default=f"matmul.{dtype}"))


def matmul_s(product: Matmul, basis: Basis, tf32: bool) -> float:
    """Seconds of arithmetic of a product: by tiles and waves on a GPU, at the rate of its size on a CPU."""
    name = f"matmul.{matrix_dtype(product.dtype, tf32)}"
    measured = basis.curves.get(name)
    if not basis.is_gpu:
        return product.flop / (_rate_of_size(basis, name, product) if measured else basis.value(name))
    if basis.sm_count is None:
        basis.note("the number of multiprocessors is not known, so products of matrices count without tiles and waves")
    else:
        basis.note("which share of the full rate a small tile reaches is assumed, not measured")
    rate, memory = basis.value(name), memory_rate(basis)
    if measured is not None:
        rate = full_rate(measured.best_point[0], rate, basis.sm_count, memory)
    return product_s(product, basis.sm_count, rate, memory)


def _rate_of_size(basis: Basis, name: str, product: Matmul) -> float:
    """The measured rate of the square product with as many FLOP."""
    curve = basis.curves[name]
    rate = curve.at((float(product.m) * product.n * product.k) ** (1 / 3))
    return basis.use(name, rate, curve.best)


def memory_rate(basis: Basis) -> float:
    """B/s of the memory itself."""
    if "copy" not in basis.curves:
        return basis.value("copy")
    return level_rate(basis.curves["copy"], basis.curves["copy"].points[-1][0])


def matrix_dtype(dtype: str, tf32: bool) -> str:
    """A product's data type as the peaks have it.

    >>> matrix_dtype("float8_e5m2", False), matrix_dtype("float32", True)
    ('fp8', 'tf32')
    """
    name = "fp8" if "float8" in dtype else short(dtype)
    if name not in MATRIX_DTYPES:
        raise ArgumentError("predict", "dtype", dtype, f"one of {', '.join(MATRIX_DTYPES)} for products of matrices")
    return "tf32" if tf32 and name == "fp32" else name
