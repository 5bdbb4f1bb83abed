"""What the `norms` experiment runs: a normalisation of each token, checked against float64."""

import torch
from torch.nn.functional import layer_norm, rms_norm

from brrr.core.measurement import Point
from brrr_course.experiments.checked import CHUNK, PointInputs, error_against, queued, refuse_too_large, warmed
from brrr_course.experiments.norms import ITEMSIZE, cost
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
"""A few roundings of 2^-24; one of 2^-8 or 2^-11 at the end, and those of weights and shifts before it."""

EPSILON = 1e-5


class Input(PointInputs):
    """Normal numbers with weights and shifts near 1 and 0, drawn once for all variants of a point."""

    def __init__(self, tokens: int, width: int, dtype: str, device: str) -> None:
        kind = getattr(torch, dtype)
        self.x = torch.randn(tokens, width, device=device, dtype=kind)
        self.weight = (1 + torch.randn(width, device=device) / 8).to(kind)
        self.shift = (torch.randn(width, device=device) / 8).to(kind)


def workload(variant: Variant, point: Point) -> Workload:
    """The normalisation of fresh random tokens."""
    tokens, width, dtype = int(point["tokens"]), int(point["width"]), str(point["dtype"])
    device = variant.processor
    needed = 3 * ITEMSIZE[dtype] * tokens * width + 4 * 8 * min(tokens * width, CHUNK)
    refuse_too_large(needed, device, f"{variant.label} of {tokens} x {width} numbers")
    held = Input.of(tokens, width, dtype, device)
    weights = held.weight, held.shift

    def norm(x: torch.Tensor, weight: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        if variant.way == "layer norm":
            return layer_norm(x, (width,), weight, shift, EPSILON)
        return rms_norm(x, (width,), weight, EPSILON)

    error = error_against(norm, (held.x,), weights)
    made = Workload(lambda: norm(held.x, *weights), cost(variant, point), error, TOLERANCE[held.x.dtype])
    return warmed(made, device) if variant.on_gpu else queued(made)
