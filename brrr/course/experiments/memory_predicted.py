"""What is predicted of the memory-bound experiments: `repeat`, `unary`, `working_set` and `strides`."""

from __future__ import annotations

from brrr.core.values import Point
from brrr.counting.cost import Form, OperatorCost
from brrr.course.experiments import strides as strided
from brrr.course.experiments import unary as one_each
from brrr.course.experiments import working_set as sets
from brrr.course.experiments.predicted import WHOLE, alone, kernel, moving, pointwise, reduction, run
from brrr.course.experiments.repeat.theory import COPY, FMA, ITEMSIZE, flop_a_step, operation
from brrr.course.nouns.experiment import PredictedRun, Variant

UNARY_FLOP = {"gelu": 5, "sigmoid": 4, "tanh": 1, "exp": 1, "cos": 1, "relu": 1}
"""FLOP of an element, as `brrr.cost` counts them."""
CACHED_BYTES = 2**27
"""No GPU's L2 holds an array of more."""


def repeat(variant: Variant, point: Point) -> PredictedRun | None:
    """Fused: one kernel, its steps in float32; eager: an operator a step."""
    kind, steps = operation(variant.name), int(point["repeat"])
    elements, dtype = int(point["elements"]), str(point["dtype"])
    size = ITEMSIZE[dtype]
    nbytes = float(size * elements)
    if kind == COPY:
        return alone(moving("copy_", elements, size, dtype))
    if "eager" in variant.name:
        names = ("mul", "add") if kind == FMA else ("mul",)
        by_number = Form("scalar", 1, elements)
        listed = tuple(pointwise(name, elements, size, dtype, form=by_number) for name in names) * steps
        return run(listed, 2 * nbytes, (2 if len(listed) == 1 else 3) * nbytes)
    flop = flop_a_step(kind) * steps * elements
    made = kernel([kind], flop, nbytes, nbytes, fma=kind == FMA)
    return alone(made, "compiled" if "compile" in variant.name else "eager")


def unary(variant: Variant, point: Point) -> PredictedRun | None:
    """One operator."""
    name, elements, dtype = variant.name.removeprefix("queue-"), int(point["elements"]), str(point["dtype"])
    size = one_each.ITEMSIZE[dtype]
    if name == "copy":
        return alone(moving("clone", elements, size, dtype))
    return alone(pointwise(name, elements, size, dtype, flop=UNARY_FLOP[name]))


def working_set(variant: Variant, point: Point) -> PredictedRun | None:
    """One torch operator; None for the sustained passes, since it is such passes that bandwidths are measured with."""
    how, kind = variant.name.removeprefix("queue-").split("-")
    if how == "sustained":
        return None
    nbytes = sets.set_bytes(kind, int(point["nbytes"]))
    made: dict[str, OperatorCost] = {
        "copy": moving("copy_", nbytes // 8, 4),
        "scale": pointwise("mul", nbytes // 8, 4),
        "read": reduction("sum", Form("whole", 1, nbytes // 4), 4),
    }
    return alone(made[kind])


def strides(variant: Variant, point: Point) -> PredictedRun | None:
    """One kernel that moves whole sectors of 32 bytes: all that hold a number which is touched.

    Beyond the caches the memory hands out two sectors at once, and a sector that is written in part is read before.
    A copy also writes its result, one number behind the other.
    """
    how = variant.name.removeprefix("queue-")
    sectors = float(strided.SECTOR * strided.sectors(point))
    in_memory = strided.ITEMSIZE * int(point["numbers"]) > CACHED_BYTES
    fetched = float(strided.PIECE * strided.sectors(point, strided.PIECE)) if in_memory else sectors
    if how.startswith("write"):
        read, written = fetched * _filled_in_part(how, point) if in_memory else 0.0, sectors
    else:
        read, written = fetched, float(strided.ITEMSIZE * strided.touched(point)) if how == "copy" else 0.0
    return alone(OperatorCost(f"strided {how}", 0.0, read, written, "float32", (), WHOLE))


def _filled_in_part(how: str, point: Point) -> float:
    """The share of the sectors that are written in part, as the threads of a warp fill them.

    Of neighbours none, but where a warp begins inside a sector: it shares one of its four with the warp before.
    """
    if int(point["stride"]) > 1:
        return 1.0
    straight = how == strided.WHOLE or int(point["offset"]) % (strided.SECTOR // strided.ITEMSIZE) == 0
    return 0.0 if straight else 0.25
