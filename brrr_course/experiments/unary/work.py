"""What the `unary` experiment runs: one operator on each element, checked against float64."""

from collections.abc import Callable

import torch

from brrr.core.measurement import Point
from brrr_course.experiments.checked import CHUNK, PointInputs, error_against, queued, refuse_too_large, warmed
from brrr_course.experiments.unary import ITEMSIZE, cost
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 4e-3}
"""A few roundings of 2^-24; one of 2^-8 at the end."""

Operator = Callable[[torch.Tensor], torch.Tensor]


class Input(PointInputs):
    """Normal numbers, drawn once for all variants of a point."""

    def __init__(self, elements: int, dtype: str, device: str) -> None:
        self.x = torch.randn(elements, device=device, dtype=getattr(torch, dtype))


OPERATORS: dict[str, Operator] = {
    "copy": torch.clone, "relu": torch.relu, "gelu": torch.nn.functional.gelu, "sigmoid": torch.sigmoid,
    "tanh": torch.tanh, "exp": torch.exp, "cos": torch.cos,
}  # fmt: skip


def workload(variant: Variant, point: Point) -> Workload:
    """The operator on fresh random numbers."""
    elements, dtype = int(point["elements"]), str(point["dtype"])
    device = variant.processor
    needed = 3 * ITEMSIZE[dtype] * elements + 4 * 8 * min(elements, CHUNK)
    refuse_too_large(needed, device, f"{variant.label} of {elements} elements")
    operator, held = OPERATORS[variant.way], Input.of(elements, dtype, device)
    error = error_against(operator, (held.x,))
    made = Workload(lambda: operator(held.x), cost(variant, point), error, TOLERANCE[held.x.dtype])
    return warmed(made, device) if variant.on_gpu else queued(made)
