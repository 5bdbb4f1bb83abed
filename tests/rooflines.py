"""Made-up peaks with round numbers, so that every prediction can be worked out by hand."""

from typing import Any

from peaks_made_up import curve, peak

from brrr.counting.cost import Matmul, OperatorCost
from brrr.roofline.peak import Curve, Peak
from brrr.roofline.peaks import Peaks

MICRO = 1e-6

GPU_TIMES = {
    "host.pointwise": 5.0, "host.in-place": 4.0, "host.reduction": 6.0, "host.softmax": 6.0, "host.norm": 8.0,
    "host.matmul": 7.0, "host.view": 1.0, "host.copy": 5.0, "host.compiled": 20.0, "host.graph-replay": 6.0,
    "kernel.floor": 1.0, "gap.stream": 1.0, "gap.graph": 0.5,
}  # fmt: skip
CPU_TIMES = {f"host.{name}": 1.0 for name in ("pointwise", "reduction", "matmul", "view", "copy", "softmax", "norm")}


def gpu(**changed: Any) -> Peaks:
    """A GPU with 4 TB/s at any size, 40 TFLOP/s of FMA, 800 TFLOP/s of bf16 products; an H200's 132 multiprocessors."""
    measured = {name: peak(value * MICRO, "s") for name, value in GPU_TIMES.items()}
    measured |= {"arithmetic.fp32.fma": peak(40e12, "FLOP/s"), "arithmetic.fp32.mul": peak(20e12, "FLOP/s")}
    products = Curve("size", ((8448.0, peak(800e12, "FLOP/s")),))  # whole waves of 256 x 128 tiles: 33 x 66 over 132
    singles = Curve("size", ((8448.0, peak(40e12, "FLOP/s")),))
    curves = {"copy": curve({1e6: 4e12}), "matmul.bf16": products, "matmul.fp32": singles}
    return Peaks("NVIDIA H200", "cuda", "2000-01-01", **{"measured": measured, "curves": curves, **changed})


def cpu(**changed: Any) -> Peaks:
    """A CPU with 100 GB/s in its cache and 50 GB/s behind it, 20 GFLOP/s plain and 400 GFLOP/s of products."""
    measured = {name: peak(value * MICRO, "s") for name, value in CPU_TIMES.items()}
    measured |= {"arithmetic.fp32.mul": peak(20e9, "FLOP/s"), "arithmetic.fp32.fma": peak(40e9, "FLOP/s")}
    products = Curve("size", ((256.0, peak(200e9, "FLOP/s")), (1024.0, peak(400e9, "FLOP/s"))))
    curves = {"copy": curve({1e6: 100e9, 8e6: 100e9, 64e6: 50e9}), "matmul.fp32": products}
    return Peaks("Some CPU", "cpu", "2000-01-01", **{"measured": measured, "curves": curves, **changed})


def without(peaks: Peaks, *names: str) -> dict[str, Any]:
    """The measured figures but for some."""
    return {"measured": {name: value for name, value in peaks.measured.items() if name not in names}}


def pointwise(nbytes: float, flop: float | None = 0.0, name: str = "aten.mul", dtype: str = "float32") -> OperatorCost:
    """An operator that reads half of its bytes and writes the other half."""
    return OperatorCost(name, flop, nbytes / 2, nbytes / 2, dtype, ((1,),))


def product(m: int, n: int, k: int, dtype: str = "bfloat16", itemsize: int = 2) -> OperatorCost:
    """A product of matrices."""
    found = Matmul(m, n, k, 1, dtype)
    read, written = itemsize * k * (m + n), itemsize * m * n
    return OperatorCost("aten.mm", found.flop, read, written, dtype, ((m, k), (k, n)), "matmul", (found,))


def view() -> OperatorCost:
    """A view: nothing runs on the device."""
    return OperatorCost("aten.view", 0.0, 0.0, 0.0, "float32", ((1,),), "view")


def assumed(time_s: float) -> Peak:
    """A time that was not measured."""
    return Peak.stated(time_s, "s", "assumed")
