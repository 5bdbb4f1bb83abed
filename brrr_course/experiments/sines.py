"""k sines of each element, one operator after the other or as one kernel: how long does fusion gain what the bytes say?

The chain of "GPU Performance: Parallel Processing vs Overhead" (2024), there of four sines, in other lengths.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, partial

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr_course.experiments.checked import blockwise, compiled, error_against, held_workload, must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import BANDWIDTH, alone, how_of, kernel, pointwise, run
from brrr_course.experiments.unary import Elements
from brrr_course.nouns.experiment import Axis, Experiment, Function, PredictedRun, Rate, Run, Variant, Workload

ITEMSIZE = 4
LENGTHS = (1, 2, 4, 8, 16, 32)
ELEMENTS = (2**10, 2**20, 2**26)


def cost(variant: Variant, point: Point) -> Cost:
    """A sine counts one FLOP; each element is read and written once, by k operators k times (`eager_bytes`).

    >>> cost(EXPERIMENT.variant("eager"), {"sines": 4, "elements": 1000}).eager_bytes
    32000.0
    """
    sines, once = int(point["sines"]), 2.0 * ITEMSIZE * int(point["elements"])
    return Cost(
        sines * once / (2 * ITEMSIZE), once, eager_bytes=sines * once if variant.implementation == "eager" else once
    )


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """k operators, or one kernel made of them."""
    sines, n = int(point["sines"]), int(point["elements"])
    nbytes = float(ITEMSIZE * n)
    if variant.implementation == "eager":
        return run((pointwise("sin", n, ITEMSIZE),) * sines, 2 * nbytes, (3 if sines > 1 else 2) * nbytes)
    return alone(kernel(["sin"] * sines, sines * n, nbytes, nbytes), how_of(variant.implementation))


EXPERIMENT = Experiment(
    title="A chain of sines",
    question="How long does fusion gain what the bytes say?",
    axes=(
        Axis("sines", LENGTHS, label="sines, one after the other", quick=(1, 4, 32)),
        Axis("elements", ELEMENTS, label="elements", quick=(2**10, 2**20), most={"cpu": 2**20}),
    ),
    variants=(
        Variant("eager", "one operator each"),
        Variant("script", "fused, torch.jit.script"),
        Variant("compile", "fused, torch.compile"),
        Variant("cuda", "fused, a line of CUDA C++"),
        Variant("cpu-eager", "CPU, one operator each", "cpu", implementation="eager", stands_in_for=("eager",)),
        Variant("cpu-blocks", "CPU, a block at a time", "cpu", implementation="blocks",
                stands_in_for=("script", "compile", "cuda")),
    ),
    field="busy_s",
    package=__name__,
    anchors=({"sines": 4, "elements": 2**26},),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(BANDWIDTH,),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `sines` experiment runs: a chain of sines in every way, checked against float64.

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
    must_fit(4 * ITEMSIZE * elements, device, f"{variant.label} of {elements} elements", elements)
    held = Elements.of(elements, "float32", device)
    run, check = IMPLEMENTATIONS[variant.implementation](sines, held.x), error_against(chain(sines), (held.x,))
    return held_workload(run, check, held, torch.float32, device)


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


IMPLEMENTATIONS: dict[str, Callable[[int, torch.Tensor], Run]] = {
    "eager": lambda sines, x: partial(chain(sines), x),
    "script": _scripted,
    "compile": lambda sines, x: partial(_compiled_once(sines), x),
    "cuda": _line,
    "blocks": lambda sines, x: blockwise(chain(sines), (x,), ()),
}
