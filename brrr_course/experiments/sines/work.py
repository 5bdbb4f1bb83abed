"""What the `sines` experiment runs: a chain of sines in every way, checked against float64."""

import warnings
from collections.abc import Callable
from functools import cache, partial

import torch

from brrr.core.measurement import Point
from brrr_course.experiments.checked import (
    CHUNK,
    Function,
    blockwise,
    compiled,
    error_against,
    held_workload,
    refuse_too_large,
)
from brrr_course.experiments.sines import ITEMSIZE, cost
from brrr_course.experiments.unary.work import Input
from brrr_course.nouns.experiment import Run, Variant, Workload

SEEN = 3
"""TorchScript runs the first calls as they stand and fuses what it has seen; so it is called until it has."""


def chain(sines: int) -> Function:
    """So many sines, one after the other.

    >>> chain(2)(torch.zeros(1))
    tensor([0.])
    """

    def nested(x: torch.Tensor) -> torch.Tensor:
        for _ in range(sines):
            x = x.sin()
        return x

    return nested


def workload(variant: Variant, point: Point) -> Workload:
    """The variant on fresh random numbers, which the point's variants share."""
    sines, elements = int(point["sines"]), int(point["elements"])
    device = variant.processor
    needed = 4 * ITEMSIZE * elements + 4 * 8 * min(elements, CHUNK)
    refuse_too_large(needed, device, f"{variant.label} of {elements} elements")
    held = Input.of(elements, "float32", device)
    run, check = WAYS[variant.way](sines, held.x), error_against(chain(sines), (held.x,))
    return held_workload(run, cost(variant, point), check, held, torch.float32, device)


@cache
def _compiled_once(sines: int) -> Function:
    """For arrays of any size: to compile takes longer than all else here."""
    return compiled(chain(sines), dynamic=True)


def _scripted(sines: int, x: torch.Tensor) -> Run:
    """TorchScript fuses what stands written out, so the loop is."""
    body = "".join("    x = torch.sin(x)\n" for _ in range(sines))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is on its way out, and says so at every call
        nested = torch.jit.CompilationUnit(f"def nested(x):\n{body}    return x\n").nested
        for _ in range(SEEN):
            nested(x)
    return partial(nested, x)


def _line(sines: int, x: torch.Tensor) -> Run:
    from brrr.kernels.elementwise.kernel import elementwise

    return elementwise(f"y = {'sinf(' * sines}x{')' * sines}", x=x)


WAYS: dict[str, Callable[[int, torch.Tensor], Run]] = {
    "eager": lambda sines, x: partial(chain(sines), x),
    "script": _scripted,
    "compile": lambda sines, x: partial(_compiled_once(sines), x),
    "cuda": _line,
    "blocks": lambda sines, x: blockwise(chain(sines), (x,), ()),
}
