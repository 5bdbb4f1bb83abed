"""Double the batch: a chain of small operators and a skinny matrix product, each at a batch and at twice that batch.

The test and its exception follow "Making Deep Learning Go Brrrr From First Principles", section "Overhead" and its
footnote: if twice the batch takes hardly longer, the work is bound by overhead; but a [B, D] x [D, D] product with a
small B reads the same weights for any B, so there it proves nothing. Both batches are variants of one point: their
ratio never crosses two runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Point
from brrr.counting.cost import Cost, matmul_cost
from brrr_course.experiments.judging import Curve, curve
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_above, weakest
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant
from brrr_course.nouns.source import Evidence

BATCHES = (1, 4, 16, 64, 256, 1024, 4096, 16384)
OPERATORS = 8
WIDTH, CPU_WIDTH = 4096, 256
"""Numbers in a row of the chain: on a CPU few, so that there too a row is less than a call's overhead."""
DIMENSION = 4096
MOST = {("cuda", "chain"): 16384, ("cuda", "gemm"): 4096, ("cpu", "chain"): 16384, ("cpu", "gemm"): 64}
ITEMSIZE = 4
HARDLY = 1.1
"""The source's "only 10 % more"."""
IN_PROPORTION = 1.8
WAITING, WORKING = 0.3, 0.2
"""A device idle for so much of the time waits for its orders; one idle for less than a fifth does not.

Where twice the work still hides behind the same orders the work is at most about half of the time; a kernel's own start
and end, which do not double, take a part of the other half.
"""


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


def _variants() -> Iterator[Variant]:
    for kind, label in KINDS:
        for end, name, twice in TWICE:
            variant = Variant(f"{kind}{end}", f"{label}{twice}", "cuda", way="double" if end else "once", kind=kind,
                              line=f"{kind}{name}")  # fmt: skip
            yield variant
            yield replace(variant, name=f"cpu-{variant.name}", label=f"{variant.label}, on the CPU", device="cpu",
                          line="", stands_in_for=variant.line)  # fmt: skip


# ---- how the times grow ----


def _growths(evidence: Evidence, kind: str) -> dict[int, Estimate]:
    """For each batch how many times as long twice the batch takes."""
    small, large = _curve(evidence, kind), _curve(evidence, f"{kind} doubled")
    return {batch: large[batch] / small[batch] for batch in sorted(set(small) & set(large))}


def _curve(evidence: Evidence, line: str) -> Curve:
    return curve(evidence, line, "batch")


def _idle(evidence: Evidence, kind: str) -> dict[int, float]:
    """For each batch the share of the loop's time in which the device does nothing."""
    busy, period = (
        {int(batch): time.median for batch, time in evidence.curve(line, "batch").items()}
        for line in (f"{kind} busy", kind)
    )
    return {batch: max(0.0, 1 - busy[batch] / period[batch]) for batch in busy if batch in period}


def _doubling_tells(evidence: Evidence) -> Verdict:
    """Where twice the batch takes at most 10 % longer the device must idle; where twice as long, it must not."""
    growths, idle = _growths(evidence, "chain"), _idle(evidence, "chain")
    hardly = [batch for batch, growth in growths.items() if growth.median <= HARDLY and batch in idle]
    grown = [batch for batch, growth in growths.items() if growth.median >= IN_PROPORTION and batch in idle]
    if not hardly or not grown:
        raise NotRecordedError("there is no batch that hardly grows, or none that grows in proportion")
    right = all(idle[batch] >= WAITING for batch in hardly) and all(idle[batch] < WORKING for batch in grown)
    text = f"up to batch {max(hardly)} doubling takes at most {units.ratio(HARDLY)} as long and the GPU is idle for "
    text += f"{units.percent(min(idle[b] for b in hardly), 2)} or more; from {min(grown)} on it takes twice as long "
    return Verdict("holds" if right else "fails", text + f"and idles {units.percent(max(idle[b] for b in grown), 2)}")


def _first_and_last(evidence: Evidence) -> Verdict:
    """The growth at the smallest batch, 0.9x to 1.1x, and at the largest, 1.6x to 2.4x."""
    growths = _growths(evidence, "chain")
    if len(growths) < 2:
        raise NotRecordedError("fewer than two batches were measured")
    first, last = growths[min(growths)], growths[max(growths)]
    text = f"twice the batch takes {units.ratio(first.median)} as long at {min(growths)}, "
    text += f"{units.ratio(last.median)} at {max(growths)}"
    return Verdict(weakest((band_verdict(first, 0.9, 1.1, "").status, band_verdict(last, 1.6, 2.4, "").status)), text)


def _skinny(evidence: Evidence) -> Verdict:
    """Two rows of a product for one take at most 1.1x as long although the device works all the time."""
    growths, idle = _growths(evidence, "gemm"), _idle(evidence, "gemm")
    if 1 not in growths or 1 not in idle:
        raise NotRecordedError("a product of one row and of two was not measured")
    others = [b for b, growth in growths.items() if 1 < b < DIMENSION and growth.median <= HARDLY and idle[b] < WORKING]
    text = f"two rows for one take {growths[1]:x} as long, and the GPU is idle for {units.percent(idle[1], 2)}; "
    text += f"a doubling takes {HARDLY:g}x at most at batch {', '.join(map(str, others)) or 'none'}"
    return Verdict(not_above(growths[1], HARDLY) if idle[1] < WORKING else "fails", text)


JUDGES: dict[str, Judge] = {
    "doubling-tells": _doubling_tells,
    "overhead-then-work": _first_and_last,
    "skinny-exception": _skinny,
}

EXPERIMENT = Experiment(
    name="scaling",
    title="Twice the batch",
    question="Does twice the batch take twice as long?",
    axes=(Axis("batch", BATCHES, label="batch (rows of the input)", quick=(1, 64, 4096)),),
    variants=tuple(_variants()),
    field="period_s",
    lines=tuple(
        Line(f"{kind} busy", kind, "busy_s", f"{label}: the GPU working", shown=False) for kind, label in KINDS
    ),
    package=__name__,
    supports=supports,
    cost=cost,
    judges=JUDGES,
    anchors=({"batch": 64},),
)
