"""What FLOP and bytes say about a linear layer and its element-wise stand-in: costs, and the two theoretical speed-ups.

A layer of width n maps a batch of B rows. Linear: `y = x Wᵀ + b`, with n² weights. Pseudo: `y = x * w + b`, with n.
Forward with backward adds the gradients of the input and of all parameters.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, Form, OperatorCost
from brrr.gpu.datasheet import Hardware
from brrr.roofline.device_model import model_of
from brrr_course.experiments.predicted import How, kernel, pointwise, product, reduction, run, view
from brrr_course.nouns.experiment import PredictedRun, Variant

FORWARD, BOTH = "forward", "forward+backward"
ITEMSIZE = 4


def linear_cost(width: int, batch: int, *, backward: bool = False) -> Cost:
    """FLOP and bytes of the linear layer: one matrix product forward, two more backward.

    >>> linear_cost(1024, 1024)
    2.15 GFLOP, 12.6 MB, 171 FLOP/B
    """
    rows, square = float(batch) * width, float(width) * width
    if not backward:
        return Cost(2 * batch * square + rows, ITEMSIZE * (2 * rows + square + width))
    return Cost(6 * batch * square + 2 * rows, ITEMSIZE * (5 * rows + 3 * square + 2 * width))


def pseudo_cost(width: int, batch: int, *, backward: bool = False) -> Cost:
    """FLOP and bytes of the element-wise layer, each tensor moved once: what one fused kernel needs.

    Backward: dx = g w, dw = sum of g x, db = sum of g.

    >>> pseudo_cost(1024, 1024)
    2.1 MFLOP, 8.4 MB, 0.25 FLOP/B
    """
    rows = float(batch) * width
    if not backward:
        return Cost(2 * rows, ITEMSIZE * (2 * rows + 2 * width))
    return Cost(6 * rows, ITEMSIZE * (5 * rows + 4 * width))


def sizes(point: Point) -> tuple[int, int, bool]:
    """Width, batch and whether the backward pass belongs to it."""
    return int(point["width"]), int(point["batch"]), point.get("direction") == BOTH


def costs(point: Point) -> tuple[Cost, Cost]:
    """The cost of the linear and of the pseudo layer at a point."""
    width, batch, backward = sizes(point)
    return linear_cost(width, batch, backward=backward), pseudo_cost(width, batch, backward=backward)


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a variant at a point; all linear variants cost the same, and all pseudo ones."""
    return costs(point)[variant.kind == "pseudo"]


def speedup_by_flop(hardware: Hardware | None, point: Point) -> float:
    """By counting operations alone, the stand-in is faster by the width."""
    return float(point["width"])


def speedup_by_roofline(hardware: Hardware | None, point: Point) -> float | None:
    """The ratio of both layers' times at the datasheet's limits; None without a datasheet.

    A time is the larger of FLOP over the fp32 peak and bytes over the memory's bandwidth (S. Williams et al., 2009).
    """
    if hardware is None:
        return None
    model = model_of(hardware)
    linear, pseudo = (model.roof_s(each.flop, each.bytes) for each in costs(point))
    return linear / pseudo


# ---- what is predicted: the layer operator by operator, or fused ----


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The layer's operators, forward or with its gradients; fused by hand or by a compiler, its kernels."""
    width, batch, backward = sizes(point)
    layer, how = variant.kind, variant.way
    work = costs(point)[layer == "pseudo"]
    rows = ITEMSIZE * float(batch * width)
    listed = _linear(width, batch, backward) if layer == "linear" else _pseudo(width, batch, backward)
    as_graph: How = "graph" if how.endswith("graph") and variant.on_gpu else "eager"
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
