"""Pieces of work operator by operator and fused: does fusion gain what the bytes say?

The question and two claims follow "Making Deep Learning Go Brrrr From First Principles": fusion of element-wise
operators, fusion onto a reduction. Arrays have rows of 1024; each way of a piece of work runs on the same numbers.
"""

from __future__ import annotations

from brrr.core import units
from brrr.core.measurement import Point, Value
from brrr.gpu import is_cpu
from brrr_course.experiments.fusion.theory import (
    ITEMSIZE,
    KINDS,
    bytes_ratio,
    cost,
    predicted,
    predicted_ratio,
)
from brrr_course.experiments.judging import best, counted, datasheet, gains
from brrr_course.experiments.predicted import BANDWIDTH
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_below, opposite, weakest
from brrr_course.nouns.experiment import Axis, Experiment, Line, Rate, Variant
from brrr_course.nouns.source import Evidence

# ---- what fusion gains by the bytes that it saves, and where it gains nothing ----

FUSED_WAYS = ("compile", "triton", "cuda")
POINTWISE, ALONG_ROWS = ("bias", "pseudo", "chain"), ("norm", "softmax")
TINY = 2**10


def _reaches(evidence: Evidence, kinds: tuple[str, ...], *, as_predicted: bool = True) -> Verdict:
    """The best fused way of each kind gains what the bytes predict, within 20 %, or anything; the worst decides."""
    parts, verdicts = [], []
    for kind in kinds:
        size, found = gains(evidence, kind, FUSED_WAYS)
        way, gain = best(found)
        expected = bytes_ratio(kind, size)
        verdicts.append(band_verdict(gain / expected, 0.8, 1.2, kind).status if as_predicted else not_below(gain, 1.0))
        parts.append(f"{KINDS[kind]} {gain:x} by {way}, predicted {units.ratio(expected)}")
    return Verdict(weakest(verdicts), "; ".join(parts))


def _pointwise(evidence: Evidence) -> Verdict:
    return _reaches(evidence, POINTWISE)


def _reductions(evidence: Evidence) -> Verdict:
    return _reaches(evidence, ALONG_ROWS, as_predicted=False)


def _reductions_by_bytes(evidence: Evidence) -> Verdict:
    return _reaches(evidence, ALONG_ROWS)


def _kept(evidence: Evidence) -> Verdict:
    """The gain where the intermediate is needed: within a tenth of 4/3."""
    size, found = gains(evidence, "kept", FUSED_WAYS)
    way, gain = best(found)
    expected = bytes_ratio("kept", size)
    text = f"{gain:x} by {way}; predicted {units.ratio(expected)}, where an intermediate kept to itself gives 2x"
    return band_verdict(gain, 0.9 * expected, 1.1 * expected, text)


def _arithmetic(evidence: Evidence) -> Verdict:
    """The best fused linear layer gains at most 1.15x."""
    size, found = gains(evidence, "linear", FUSED_WAYS)
    way, gain = best(found)
    expected = predicted_ratio(datasheet(evidence), "linear", size)
    at_most = units.ratio(expected) if expected else "unknown"
    text = f"{gain:x} by {way}; the bytes alone allow {units.ratio(bytes_ratio('linear', size))}"
    return band_verdict(gain, 0.0, 1.15, f"{text}, the roofline {at_most}")


def _tiny(evidence: Evidence) -> Verdict:
    """On a thousand elements the measured gain is more than a quarter off what the bytes predict."""
    point: dict[str, Value] = {"elements": TINY, "dtype": "float32"}
    expected = bytes_ratio("chain", TINY)
    gain = evidence.get("chain eager period", **point) / evidence.get("chain compile period", **point)
    text = f"{gain:x} by compile in a loop at {counted(TINY)}; predicted {units.ratio(expected)}"
    return Verdict(opposite(band_verdict(gain / expected, 0.75, 1.25, text).status), text)


JUDGES: dict[str, Judge] = {
    "as-the-bytes-say": _pointwise,
    "onto-a-reduction": _reductions,
    "onto-a-reduction-bytes": _reductions_by_bytes,
    "kept-gains-less": _kept,
    "arithmetic-gains-nothing": _arithmetic,
    "tiny-is-overhead": _tiny,
}


__all__ = ["EXPERIMENT", "cost", "supports"]

ELEMENTS = (2**10, 2**14, 2**18, 2**20, 2**22, 2**24, 2**26)
CPU_MAX = 2**22
COMPILED = {"float32": (2**10, 2**14, 2**18, 2**20, 2**22, 2**24, 2**26), "bfloat16": (2**10, 2**26)}
"""torch.compile makes a new kernel for each size, which takes seconds."""

LABELS = {"eager": "one operator each", "compile": "torch.compile", "triton": "Triton", "cuda": "a line of CUDA C++",
          "blocks": "a block at a time"}  # fmt: skip
WAYS: dict[str, tuple[str, ...]] = {
    "bias": ("eager", "compile", "triton", "cuda"),
    "pseudo": ("eager", "compile", "triton", "cuda"),
    "chain": ("eager", "compile", "triton", "cuda"),
    "norm": ("eager", "compile", "triton"),
    "softmax": ("eager", "compile", "triton"),
    "kept": ("eager", "compile", "triton"),
    "linear": ("eager", "compile"),
}
CPU_KINDS = ("bias", "pseudo", "chain", "norm", "softmax")
"""Where a block of rows can go through all operators while it stays in the cache."""


def supports(variant: Variant, point: Point) -> bool:
    """The CPU stops at CPU_MAX elements, torch.compile takes the sizes in COMPILED."""
    elements = int(point["elements"])
    if is_cpu(variant.device):
        return elements <= CPU_MAX
    return variant.way != "compile" or elements in COMPILED[str(point["dtype"])]


def _variant(kind: str, way: str, *, cpu: bool = False) -> Variant:
    """The chain is shown at first, the others on request: all at once would be two dozen lines."""
    name, label = f"{kind}-{way}", f"{KINDS[kind]}, {LABELS[way]}"
    shown = kind == "chain"
    if cpu:
        return Variant(f"cpu-{name}", f"CPU, {label}", "cpu", way=way, kind=kind, shown=shown)
    return Variant(name, label, "cuda", way=way, kind=kind, shown=shown)


EXPERIMENT = Experiment(
    name="fusion",
    title="Operators one by one, and fused",
    question="Does fusion gain what the bytes say?",
    axes=(
        Axis("elements", ELEMENTS, label="elements, in rows of 1024", quick=(2**10, 2**18, 2**20)),
        Axis("dtype", tuple(ITEMSIZE), label="type of the elements", scale="category", quick=("float32",)),
    ),
    variants=(
        *(_variant(kind, way) for kind, ways in WAYS.items() for way in ways),
        *(_variant(kind, way, cpu=True) for kind in CPU_KINDS for way in ("eager", "blocks")),
    ),
    field="busy_s",
    lines=(
        Line("chain eager period", "chain-eager", "period_s", "scale, add and ReLU, one operator each, in a loop",
             shown=False),
        Line("chain compile period", "chain-compile", "period_s", "scale, add and ReLU, torch.compile, in a loop",
             shown=False),
    ),
    package=__name__,
    supports=supports,
    cost=cost,
    predicts=predicted,
    judges=JUDGES,
    anchors=({"elements": 2**14, "dtype": "float32"}, {"elements": 2**26, "dtype": "float32"}),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(
        BANDWIDTH,
    ),
)  # fmt: skip
