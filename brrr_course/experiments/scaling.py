"""Double the batch: a chain of small operators and a skinny matrix product, each at a batch and at twice that batch.

The test and its exception follow "Making Deep Learning Go Brrrr From First Principles", section "Overhead" and its
footnote: if twice the batch takes hardly longer, the work is bound by overhead; but a [B, D] x [D, D] product with a
small B reads the same weights for any B, so there it proves nothing. Both batches are variants of one point: their
ratio never crosses two runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, matmul_cost
from brrr_course.experiments.checked import error_against, must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant, Workload

BATCHES = (1, 4, 16, 64, 256, 1024, 4096, 16384)
OPERATORS = 8
WIDTH, CPU_WIDTH = 4096, 256
"""Numbers in a row of the chain: on a CPU few, so that there too a row is less than a call's overhead."""
DIMENSION = 4096
MOST = {"chain": 16384, "gemm": 4096}
MOST_ON_CPU = {"chain": 16384, "gemm": 64}
ITEMSIZE = 4


def width(variant: Variant) -> int:
    """Numbers in a row of the variant's input."""
    if variant.operation == "gemm":
        return DIMENSION
    return WIDTH if variant.on_gpu else CPU_WIDTH


def rows(variant: Variant, point: Point) -> int:
    """The batch that the variant runs: the point's, or twice that."""
    return int(point["batch"]) * (2 if variant.implementation == "double" else 1)


def supports(variant: Variant, point: Point) -> bool:
    """Each kind of work ends where it has shown what it has to show."""
    return int(point["batch"]) <= (MOST if variant.on_gpu else MOST_ON_CPU)[variant.operation]


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a call."""
    batch = rows(variant, point)
    if variant.operation == "gemm":
        return matmul_cost(batch, DIMENSION, DIMENSION, ITEMSIZE)
    count = float(OPERATORS * batch * width(variant))
    return Cost(count, 2 * ITEMSIZE * count)


KINDS = (("chain", f"{OPERATORS} pointwise operators"), ("gemm", f"a product with {DIMENSION} x {DIMENSION} weights"))
TWICE = (("", "", ""), ("-double", " doubled", ", twice the batch"))


def _variants() -> Iterator[Variant]:
    for kind, label in KINDS:
        for end, name, twice in TWICE:
            variant = Variant(f"{kind}{end}", f"{label}{twice}", implementation="double" if end else "once",
                              operation=kind,
                              line=f"{kind}{name}")  # fmt: skip
            yield variant
            yield replace(variant, name=f"cpu-{variant.name}", label=f"{variant.label}, on the CPU", device="cpu",
                          line="", stands_in_for=(variant.line,))  # fmt: skip


EXPERIMENT = Experiment(
    title="Twice the batch",
    question="Does twice the batch take twice as long?",
    axes=(Axis("batch", BATCHES, label="batch (rows of the input)", quick=(1, 64, 4096)),),
    variants=tuple(_variants()),
    field="period_s",
    lines=tuple(Line(f"{kind} busy", kind, "busy_s", f"{label}: GPU busy", shown=False) for kind, label in KINDS),
    package=__name__,
    anchors=({"batch": 64},),
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `scaling` experiment runs: a chain of pointwise operators, and a product with a square of weights.

TOLERANCE = {"chain": 1e-5, "gemm": 1e-4}
BIAS = 0.125


def workload(variant: Variant, point: Point) -> Workload:
    """The chain or the product, on a fresh random batch (and He-scaled weights)."""
    from brrr.roofline.calibrate.part import product_error

    batch, device = rows(variant, point), variant.processor
    must_fit(5 * 4 * batch * width(variant), device, f"scaling {batch}")
    x = torch.randn(batch, width(variant), device=device)
    if variant.operation == "gemm":
        weights = torch.randn(DIMENSION, DIMENSION, device=device) * (2 / DIMENSION) ** 0.5
        return Workload(lambda: x @ weights, product_error(x, weights), TOLERANCE["gemm"])
    return Workload(lambda: chain(x), error_against(chain, (x,)), TOLERANCE["chain"])


def chain(x: torch.Tensor) -> torch.Tensor:
    """Pointwise operators, a ReLU and an addition in turn.

    >>> chain(torch.tensor([-1.0, 1.0])).tolist()
    [0.5, 1.5]
    """
    for _ in range(OPERATORS // 2):
        x = torch.relu(x) + BIAS
    return x
