"""What is predicted of the experiments on fusion: `cos_cos`, `fusion` and `remat`."""

from __future__ import annotations

from brrr.core.values import Point
from brrr.counting.cost import Form, OperatorCost
from brrr.course.experiments import cos_cos as cosines
from brrr.course.experiments import remat as again
from brrr.course.experiments.fusion.theory import ITEMSIZE, WIDTH, flop, kind_of, moved
from brrr.course.experiments.predicted import How, alone, kernel, pointwise, product, reduction, run, view
from brrr.course.nouns.experiment import PredictedRun, Variant

RESULTS = {"kept": 2}
"""Arrays that a piece of work writes, where it is not one."""
HARDSWISH_FLOP = (5, 7)
"""FLOP of an element of a hardswish, and of its gradient, as `brrr.cost` counts them."""
FORM_FLOP = {"softmax": 5, "norm": 7}
"""FLOP of an element in torch's own operator, as `brrr.cost` counts them."""


def cos_cos(variant: Variant, point: Point) -> PredictedRun | None:
    """Two operators, one kernel made of both, or one cosine."""
    how = variant.name.removeprefix("cpu-")
    elements, dtype = int(point["elements"]), str(point["dtype"])
    size = cosines.ITEMSIZE[dtype]
    cosine = pointwise("cos", elements, size, dtype)
    nbytes = float(size * elements)
    if how == "one":
        return alone(cosine)
    if how == "eager":
        return run((cosine, cosine), 2 * nbytes, 3 * nbytes)
    return alone(kernel(["cos", "cos"], 2 * elements, nbytes, nbytes, dtype), _how(how))


def fusion(variant: Variant, point: Point) -> PredictedRun | None:
    """The operators one by one, torch's own operator, or one kernel with the compulsory bytes.

    A compiler leaves the product of the linear layer as it is, a kernel of its own.
    """
    kind, how = kind_of(variant.name), variant.name.rsplit("-", 1)[-1]
    elements, dtype = int(point["elements"]), str(point["dtype"])
    size = ITEMSIZE[dtype]
    once = float(size * moved(kind, elements)[1])
    if how == "eager" or kind == "linear":
        listed = operators(kind, elements, dtype)
        return run(listed, once, once + size * elements * (0 if kind == "kept" else 1), _how(how))
    written = size * elements * RESULTS.get(kind, 1)
    if how == "library":
        return alone(_library(kind, elements, dtype, size))
    return alone(kernel(_names(kind, elements, dtype), flop(kind, elements), once - written, written, dtype), _how(how))


def operators(kind: str, elements: int, dtype: str) -> tuple[OperatorCost, ...]:
    """What torch runs one by one, in order; the tests hold them against `brrr.cost`."""
    n, w, rows, size = elements, WIDTH, elements // WIDTH, ITEMSIZE[dtype]

    def each(name: str, reads: int = n, numbers: int = n, form: Form | None = None) -> OperatorCost:
        return pointwise(name, numbers, size, dtype, reads=reads, form=form)

    def broadcast(name: str, smaller: int) -> OperatorCost:
        return each(name, n + smaller, form=Form("broadcast", rows, w))

    def over_rows(name: str, flop: int | None = None) -> OperatorCost:
        return reduction(name, Form("rows", rows, w), size, dtype, flop)

    scaled, small = each("mul", form=Form("scalar", 1, n)), each("add", rows, rows, Form("scalar", 1, rows))
    relu = each("relu")
    return {
        "bias": (broadcast("add", w), relu),
        "pseudo": (broadcast("mul", w), broadcast("add", w)),
        "chain": (scaled, each("add", 2 * n), relu),
        "norm": (over_rows("mean", n), broadcast("sub", rows), each("mul"), over_rows("mean", n), small,
                 each("rsqrt", rows, rows), broadcast("mul", rows), broadcast("mul", w), broadcast("add", w)),
        "softmax": (over_rows("amax"), broadcast("sub", rows), each("exp"), over_rows("sum"), broadcast("div", rows)),
        "kept": (each("cos"), each("cos")),
        "linear": (view("t"), product("addmm", rows, w, w, size, dtype, bias=w, transposed=(False, True)), relu),
    }[kind]  # fmt: skip


def _names(kind: str, elements: int, dtype: str) -> list[str]:
    return _own_names(operators(kind, elements, dtype))


def _library(kind: str, elements: int, dtype: str, size: int) -> OperatorCost:
    extra = 2 * WIDTH if kind == "norm" else 0
    name, of = ("aten.native_layer_norm", "norm") if kind == "norm" else ("aten._softmax", "softmax")
    read, written = float(size * (elements + extra)), float(size * elements)
    form = Form("rows", elements // WIDTH, WIDTH)
    return OperatorCost(name, float(FORM_FLOP[kind] * elements), read, written, dtype, ((elements,),), of, form=form)


def remat(variant: Variant, point: Point) -> PredictedRun | None:
    """Forward and backward: operators one by one, with a part of them twice, or two kernels.

    Fused, what is saved is written once and read once, or computed again in the backward kernel.
    """
    how, depth, n = again.way(variant), int(point["depth"]), int(point["elements"])
    activation = str(point["activation"])
    nbytes = float(again.ITEMSIZE * n)
    saved = again.saved_arrays(how, depth)
    most = (saved + 4) * nbytes
    forth, back = STEPS[activation](n)
    if how in ("eager", "checkpoint"):
        return run(forth * (2 * depth if how == "checkpoint" else depth) + back * depth, 4 * nbytes, most + nbytes)
    forward = kernel(_own_names(forth) * depth, _flop(forth) * depth, nbytes, nbytes * (1 + saved))
    steps = forth * (0 if how == "compile-saved" else depth - 1) + back * depth
    # fma: what counts as a whole is not merged with its neighbour
    backward = kernel(_own_names(steps), _flop(steps), nbytes * (2 + saved), nbytes, fma=True)
    return run((forward, backward), 4 * nbytes, most, "compiled")


Operators = tuple[OperatorCost, ...]


def _hardswish(n: int) -> tuple[Operators, Operators]:
    """One hardswish, and its gradient from its input and the gradient that comes from above."""
    size, (forth, back) = again.ITEMSIZE, HARDSWISH_FLOP
    backward = pointwise("hardswish_backward", n, size, reads=2 * n, flop=back)
    return (pointwise("hardswish", n, size, flop=forth),), (backward,)


def _cosine(n: int) -> tuple[Operators, Operators]:
    """One cosine; its gradient is minus its sine times the gradient that comes from above."""
    size = again.ITEMSIZE
    back = (pointwise("sin", n, size), pointwise("neg", n, size), pointwise("mul", n, size, reads=2 * n))
    return (pointwise("cos", n, size),), back


STEPS = {"hardswish": _hardswish, "cos": _cosine}


def _flop(listed: Operators) -> float:
    return sum(each.flop or 0.0 for each in listed)


def _own_names(listed: Operators) -> list[str]:
    return [each.name.removeprefix("aten.") for each in listed]


def _how(way: str) -> How:
    return "compiled" if way.startswith("compile") else "eager"
