"""What the `cos_cos` experiment runs: two cosines in every way, and one, checked against float64."""

from collections.abc import Callable

import torch

from brrr.core.measurement import Point
from brrr_course.experiments.checked import CHUNK, blockwise, compiled, error_against, held_workload, refuse_too_large
from brrr_course.experiments.cos_cos import ITEMSIZE, cost
from brrr_course.experiments.unary.work import Input
from brrr_course.nouns.experiment import Run, Variant, Workload

LINE = "y = cosf(cosf(x))"


def cos_cos(x: torch.Tensor) -> torch.Tensor:
    """The cosine of the cosine."""
    return x.cos().cos()


def workload(variant: Variant, point: Point) -> Workload:
    """The variant on fresh random numbers, which the point's variants share."""
    elements, dtype = int(point["elements"]), str(point["dtype"])
    device = variant.processor
    needed = 4 * ITEMSIZE[dtype] * elements + 4 * 8 * min(elements, CHUNK)
    refuse_too_large(needed, device, f"{variant.label} of {elements} elements")
    held = Input.of(elements, dtype, device)
    function = torch.cos if variant.way == "one" else cos_cos
    run, check = WAYS[variant.way](held.x), error_against(function, (held.x,))
    return held_workload(run, cost(variant, point), check, held, held.x.dtype, device)


def _compiled(x: torch.Tensor) -> Run:
    fused = compiled(cos_cos)
    return lambda: fused(x)


def _triton(x: torch.Tensor) -> Run:
    from brrr.kernels import fused

    return lambda: fused.cos_cos(x)


def _cuda(x: torch.Tensor) -> Run:
    from brrr.kernels.elementwise.kernel import elementwise

    return elementwise(LINE, x=x)


WAYS: dict[str, Callable[[torch.Tensor], Run]] = {
    "eager": lambda x: lambda: cos_cos(x),
    "one": lambda x: lambda: torch.cos(x),
    "blocks": lambda x: blockwise(cos_cos, (x,), ()),
    "compile": _compiled,
    "triton": _triton,
    "cuda": _cuda,
}
