"""What is predicted, on request, of the earlier experiments: those whose cost is that of a few known operators.

What goes over the link to the GPU, a first call, and additions by Python or NumPy are not predicted.
"""

from __future__ import annotations

from brrr.core.values import Point
from brrr.counting.cost import Form, OperatorCost
from brrr.course.experiments import adds as additions_of
from brrr.course.experiments import nested_sine as sines_of
from brrr.course.experiments import run_ahead as chains
from brrr.course.experiments.predicted import How, alone, kernel, pointwise, product, reduction, run, view
from brrr.course.experiments.pseudo_linear.theory import costs, sizes
from brrr.course.nouns.experiment import PredictedRun, Variant

ITEMSIZE = 4


def matmul(variant: Variant, point: Point) -> PredictedRun | None:
    """The product alone."""
    if variant.name not in ("cpu", "gpu", "queue"):
        return None
    size = int(point["size"])
    return alone(product("mm", size, size, size, ITEMSIZE))


def adds(variant: Variant, point: Point) -> PredictedRun | None:
    """torch's additions of a call one after the other, and the products that show the device's peak."""
    if additions_of.is_peak(variant):
        size = additions_of.CPU_PEAK_SIZE if variant.device == "cpu" else additions_of.PEAK_SIZE
        short = variant.name == "peak-bf16"
        return alone(product("mm", size, size, size, 2 if short else 4, "bfloat16" if short else "float32"))
    if variant.name not in ("torch-cpu", "torch-cuda", "queue"):
        return None
    elements = int(point["elements"])
    add = pointwise("add", elements, ITEMSIZE, reads=2 * elements)
    return run((add,) * additions_of.additions(elements), add.bytes, add.bytes)


def run_ahead(variant: Variant, point: Point) -> PredictedRun | None:
    """Twenty products with a number, one by one or as a CUDA Graph."""
    elements = int(point["elements"])
    multiply = pointwise("mul", elements, ITEMSIZE, form=Form("scalar", 1, elements))
    how: How = "graph" if variant.name == "graph" else "eager"
    return run((multiply,) * chains.OPERATORS, multiply.bytes, 1.5 * multiply.bytes, how)


def nested_sine(variant: Variant, point: Point) -> PredictedRun | None:
    """Four sines, one by one or fused; None where data is sent or random numbers are drawn."""
    elements = int(point["elements"])
    nbytes = float(ITEMSIZE * elements)
    if variant.name in ("gpu-compiled", "gpu-scripted"):
        fused = kernel(["sin"] * sines_of.SINES, sines_of.SINES * elements, nbytes, nbytes)
        return alone(fused, "compiled" if variant.name == "gpu-compiled" else "eager")
    if variant.name not in ("gpu", "cpu", "queue-gpu"):
        return None
    return run((pointwise("sin", elements, ITEMSIZE),) * sines_of.SINES, 2 * nbytes, 3 * nbytes)


def pseudo_linear(variant: Variant, point: Point) -> PredictedRun | None:
    """The layer's operators, forward or with its gradients; fused by hand or by a compiler, its kernels."""
    width, batch, backward = sizes(point)
    layer, _, how = variant.name.removeprefix("queue-").partition("-")
    work = costs(point)[layer == "pseudo"]
    rows = ITEMSIZE * float(batch * width)
    listed = _linear(width, batch, backward) if layer == "linear" else _pseudo(width, batch, backward)
    as_graph: How = "graph" if how.endswith("graph") and variant.device == "cuda" else "eager"
    if layer == "linear" or how in ("eager", "graph"):
        return run(listed, work.bytes, work.bytes + (rows if layer == "pseudo" else 0), as_graph)
    if backward and not how.startswith("triton"):
        return None  # what a compiler makes of both sums at once is its own choice
    launched: How = "graph" if as_graph == "graph" else "compiled"  # a launch by Triton costs the host as much as that
    return run(_pseudo_fused(width, batch, backward), work.bytes, work.bytes, launched)


def _linear(width: int, batch: int, backward: bool) -> tuple[OperatorCost, ...]:
    forward = (view("t"), product("addmm", batch, width, width, ITEMSIZE, bias=width, transposed=(False, True)))
    if not backward:
        return forward
    to_input = product("mm", batch, width, width, ITEMSIZE)
    to_weight = product("mm", width, width, batch, ITEMSIZE, transposed=(True, False))
    to_bias = reduction("sum", Form("columns", width, batch), ITEMSIZE)
    back = (view("t"), to_input, view("t"), to_weight, view("t"), to_bias, view("view"), view("t"))
    return (*forward, *back)


def _pseudo(width: int, batch: int, backward: bool) -> tuple[OperatorCost, ...]:
    n, form = batch * width, Form("broadcast", batch, width)
    multiply = pointwise("mul", n, ITEMSIZE, reads=n + width, form=form)
    forward = (multiply, pointwise("add", n, ITEMSIZE, reads=n + width, form=form))
    if not backward:
        return forward
    to_bias = reduction("sum", Form("columns", width, batch), ITEMSIZE)
    by_input = pointwise("mul", n, ITEMSIZE, reads=2 * n)
    return (*forward, to_bias, view("view"), by_input, multiply, to_bias, view("view"))


def _pseudo_fused(width: int, batch: int, backward: bool) -> tuple[OperatorCost, ...]:
    """One kernel forward; backward another that reads g and x once and writes dx, dw and db."""
    n = float(batch * width)
    forward = kernel(["mul", "add"], 2 * n, ITEMSIZE * (n + 2 * width), ITEMSIZE * n)
    if not backward:
        return (forward,)
    read, written = ITEMSIZE * (2 * n + width), ITEMSIZE * (n + 2 * width)
    # fma: what counts as a whole is not merged with its neighbour
    back = kernel(["mul", "mul", "sum", "sum"], 4 * n, read, written, fma=True)
    return (forward, back)
