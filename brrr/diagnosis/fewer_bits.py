"""Fewer bits for products of 16: of the weights alone, where they set the pace, or of the whole product in fp8.

Predicted is torch's own kernel for each kind, by itself: how far the present kernel is from its roofline tells nothing
of another one. Weights come from the memory again in each step that touches more than a cache holds.
"""

from collections.abc import Iterator, Mapping

from brrr.core import units
from brrr.counting.cost import Matmul, OperatorCost
from brrr.diagnosis.assess import Assessed
from brrr.diagnosis.evidence import Evidence, Remedy

KINDS: Mapping[str, tuple[str, float, float, str]] = {
    "weights alone in int4": ("aten._weight_int4pack_mm", 0.5 + 4 / 128, 2.0, "bfloat16"),
    "weights alone in int8": ("aten._weight_int8pack_mm", 1.0, 2.0, "bfloat16"),
    "the whole product in fp8": ("aten._scaled_mm", 1.0, 1.0, "float8_e4m3fn"),
}
"""torch's operator, its bytes for a weight (in int4 128 share a scale and a zero) and for a number of the activations,
and the type that it multiplies."""


def fewer_bits(found: Evidence) -> Remedy | None:
    """The kind that fits best, for the layers that it makes faster; in inference, where weights stay as they are."""
    calls = [(each, one) for each in found.calls if (one := _of_layer(each)) is not None]
    if found.model is None or not found.gpu or not calls or any(each.call.phase != "forward" for each in found.calls):
        return None
    touched = sum(each.nbytes for each in found.by_step[0])
    gains = {
        name: found.faster(
            sum(max(0.0, each.work_s - found.predicted_s(_as(one, *kind), touched)) for each, one in calls)
        )
        for name, kind in KINDS.items()
    }
    share = units.percent(found.share * sum(each.work_s for each, _ in calls) / found.wall_s)
    said = ", ".join(f"{name} {units.ratio(gains[name])}" for name in sorted(gains, key=lambda name: -gains[name]))
    return Remedy("fewer bits", max(gains.values()), f"{share} of the time multiplies in 16 bits. Predicted: {said}.")


def _of_layer(each: Assessed) -> Matmul | None:
    """The product of a matrix by weights in 16 bits, as far as a trace tells: it is no batch of matrices."""
    made = each.call.cost.matmuls if each.call.cost is not None and each.call.cost.kind == "matmul" else ()
    return next((one for one in made[:1] if one.batch == 1 and one.dtype in ("bfloat16", "float16")), None)


def _as(one: Matmul, operator: str, weight: float, activation: float, dtype: str) -> Iterator[OperatorCost]:
    """The product so; what is to have one byte is cast in each call, by a compiled kernel that reads it twice."""
    numbers, shapes = float(one.m * one.k), ((one.m, one.k), (one.k, one.n), (one.m, 1), (1, one.n))
    if activation < 2:
        yield OperatorCost("cast", 4 * numbers, 4 * numbers, numbers, "bfloat16", shapes[:1], "fused")
    read, product = activation * numbers + weight * one.k * one.n, Matmul(one.m, one.n, one.k, 1, dtype, (False, True))
    yield OperatorCost(operator, one.flop, read, 2.0 * one.m * one.n, dtype, shapes, "matmul", (product,))
