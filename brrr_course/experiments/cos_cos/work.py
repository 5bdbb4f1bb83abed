"""What the `cos_cos` experiment runs: two cosines in every way, and one, checked against float64."""

import torch

from brrr.core.measurement import Point
from brrr_course.experiments.checked import CHUNK, error_against, held_workload, refuse_too_large
from brrr_course.experiments.cos_cos import ITEMSIZE, cost
from brrr_course.experiments.fusion.work import WAYS, Work
from brrr_course.experiments.unary.work import Input
from brrr_course.nouns.experiment import Variant, Workload


def cos_cos(x: torch.Tensor) -> torch.Tensor:
    """Apply the cosine twice, to each element.

    >>> round(float(cos_cos(torch.zeros(1))), 4)
    0.5403

    Parameters
    ----------
    x : torch.Tensor
        Of any shape.

    Returns
    -------
    torch.Tensor
        ``x.cos().cos()``, of the same shape.
    """
    return x.cos().cos()


ONE, TWO = Work(torch.cos, ""), Work(cos_cos, "", "y = cosf(cosf(x))", "cos_cos")


def workload(variant: Variant, point: Point) -> Workload:
    """The variant on fresh random numbers, which the point's variants share."""
    elements, dtype = int(point["elements"]), str(point["dtype"])
    device = variant.processor
    needed = 4 * ITEMSIZE[dtype] * elements + 4 * 8 * min(elements, CHUNK)
    refuse_too_large(needed, device, f"{variant.label} of {elements} elements")
    held = Input.of(elements, dtype, device)
    way, work = ("eager", ONE) if variant.way == "one" else (variant.way, TWO)
    run, check = WAYS[way](work, {"x": held.x}, {}), error_against(work.operators, (held.x,))
    return held_workload(run, cost(variant, point), check, held, held.x.dtype, device)
