"""Double the batch: a chain of small operators and a skinny matrix product, each at a batch and at twice that batch.

The test and its exception follow "Making Deep Learning Go Brrrr From First Principles", section "Overhead" and its
footnote: if twice the batch takes hardly longer, the work is bound by overhead; but a [B, D] x [D, D] product with a
small B reads the same weights for any B, so there it proves nothing. Both batches are variants of one point: their
ratio never crosses two runs.
"""

from __future__ import annotations

from collections.abc import Callable

from brrr.core.measurement import DeviceKind, Field, Point
from brrr.counting.cost import Cost, matmul_cost
from brrr.gpu import is_gpu
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant, stand_in

BATCHES = (1, 4, 16, 64, 256, 1024, 4096, 16384)
OPERATORS = 8
WIDTH, CPU_WIDTH = 4096, 256
"""Numbers in a row of the chain: on a CPU few, so that there too a row is less than a call's overhead."""
DIMENSION = 4096
MOST = {("cuda", "chain"): 16384, ("cuda", "gemm"): 4096, ("cpu", "chain"): 16384, ("cpu", "gemm"): 64}
ITEMSIZE = 4


def width(variant: Variant) -> int:
    """Numbers in a row of the variant's input."""
    if variant.kind == "gemm":
        return DIMENSION
    return WIDTH if variant.on_gpu else CPU_WIDTH


def rows(variant: Variant, point: Point) -> int:
    """The batch that the variant runs: the point's, or twice that."""
    return int(point["batch"]) * (2 if variant.way == "double" else 1)


def supports(variant: Variant, point: Point) -> bool:
    """Each kind of work ends where it has shown what it has to show."""
    return int(point["batch"]) <= MOST[variant.processor, variant.kind]


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a call."""
    batch = rows(variant, point)
    if variant.kind == "gemm":
        return matmul_cost(batch, DIMENSION, DIMENSION, ITEMSIZE)
    count = float(OPERATORS * batch * width(variant))
    return Cost(count, 2 * ITEMSIZE * count)


KINDS = (("chain", f"{OPERATORS} pointwise operators"), ("gemm", f"a product with {DIMENSION} x {DIMENSION} weights"))
TWICE = (("", "", ""), ("-double", " doubled", ", twice the batch"))
PLACES: tuple[tuple[DeviceKind, str, Callable[..., Line], str], ...] = (
    ("cuda", "", Line, ""), ("cpu", "cpu-", stand_in, ", on the CPU"),
)  # fmt: skip


def _variants() -> tuple[Variant, ...]:
    return tuple(
        Variant(f"{prefix}{kind}{end}", f"{label}{twice}{where}", device, way="double" if end else "once", kind=kind)
        for device, prefix, _, where in PLACES
        for kind, label in KINDS
        for end, _, twice in TWICE
    )


def _lines() -> tuple[Line, ...]:
    """The loop's time of each variant, and (`NAME busy`) the device's own; `queue NAME` is the CPU's in place of it."""
    fields: tuple[tuple[Field, str, str], ...] = (("period_s", "", ""), ("busy_s", " busy", ": the GPU working"))
    return tuple(
        make(f"{kind}{name}{busy}", f"{prefix}{kind}{end}", field, f"{label}{twice}{where}{of}", shown=not busy)
        for field, busy, of in fields
        for device, prefix, make, where in PLACES
        for kind, label in KINDS
        for end, name, twice in TWICE
        if not busy or is_gpu(device)
    )


EXPERIMENT = Experiment(
    name="scaling",
    title="Twice the batch",
    question="Does twice the batch take twice as long?",
    axes=(Axis("batch", BATCHES, label="batch (rows of the input)", quick=(1, 64, 4096)),),
    variants=_variants(),
    lines=_lines(),
    package=__name__,
    supports=supports,
    cost=cost,
    anchors=({"batch": 64},),
)
