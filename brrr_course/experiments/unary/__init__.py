"""One operator on each element: does one that computes more take longer?

The question and the claim follow "Making Deep Learning Go Brrrr From First Principles", which says that activation
functions cost nearly alike.
"""

from __future__ import annotations

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Point, Value
from brrr.counting.cost import Cost
from brrr_course.experiments.judging import all_within, datasheet
from brrr_course.experiments.predicted import BANDWIDTH, alone, moving, pointwise
from brrr_course.nouns.claim import Judge, Verdict, not_below
from brrr_course.nouns.experiment import Axis, Experiment, Line, PredictedRun, Rate, Variant
from brrr_course.nouns.source import Evidence

ACTIVATIONS = ("relu", "gelu", "sigmoid", "tanh")
OPERATORS = (*ACTIVATIONS, "exp", "cos")
FUNCTIONS = ("copy", *OPERATORS)
ITEMSIZE = {"float32": 4, "bfloat16": 2}
ELEMENTS = (2**10, 2**14, 2**16, 2**18, 2**20, 2**22, 2**24, 2**26, 2**28)
QUEUE_MAX, ALIKE = 2**24, 0.1
FLOP = {"gelu": 5, "sigmoid": 4, "tanh": 1, "exp": 1, "cos": 1, "relu": 1}
"""FLOP of an element, as `brrr.cost` counts them."""

LARGE = 2**24
"""Claims look at the most elements measured, from here on: arrays that no cache holds."""


def supports(variant: Variant, point: Point) -> bool:
    """The CPU queue stops at QUEUE_MAX elements."""
    return variant.on_gpu or int(point["elements"]) <= QUEUE_MAX


def cost(variant: Variant, point: Point) -> Cost:
    """Each element read once and written once; an operator counts as one FLOP an element, whatever its steps."""
    elements = float(point["elements"])
    return Cost(0.0 if variant.way == "copy" else elements, 2 * ITEMSIZE[str(point["dtype"])] * elements)


def predicted(variant: Variant, point: Point) -> PredictedRun:
    """One operator."""
    name, elements, dtype = variant.way, int(point["elements"]), str(point["dtype"])
    size = ITEMSIZE[dtype]
    if name == "copy":
        return alone(moving("clone", elements, size, dtype))
    return alone(pointwise(name, elements, size, dtype, flop=FLOP[name]))


def times(evidence: Evidence, names: tuple[str, ...], dtype: str = "float32") -> tuple[int, dict[str, Estimate]]:
    """The most elements at which all were measured, and their times there; on the CPU queue for want of a GPU."""
    for prefix, least in (("", LARGE), ("queue ", 2**20)):
        try:
            curves = {name: evidence.curve(prefix + name, "elements", dtype=dtype) for name in names}
        except NotRecordedError:
            continue
        common = [int(n) for n in set.intersection(*(set(each) for each in curves.values())) if int(n) >= least]
        if common:
            return max(common), {prefix + name: curve[max(common)] for name, curve in curves.items()}
    raise NotRecordedError(f"{', '.join(names)} were not measured together on {dtype} arrays that no cache holds")


def _alike(evidence: Evidence, names: tuple[str, ...], base: str, dtype: str = "float32") -> Verdict:
    """Each one's time over that of `base`: all within a tenth."""
    elements, found = times(evidence, (base, *names), dtype)
    first = next(iter(found))
    ratios = {name: time / found[first] for name, time in found.items() if name != first}
    text = f"{dtype}, over {first} at {elements} elements: {_each(ratios)}"
    return all_within(ratios.values(), 1 - ALIKE, 1 + ALIKE, text)


def _each(ratios: dict[str, Estimate]) -> str:
    return ", ".join(f"{name} {units.ratio(ratio.median)}" for name, ratio in ratios.items())


def _activations_alike(evidence: Evidence) -> Verdict:
    return _alike(evidence, ("gelu", "sigmoid", "tanh"), "relu")


def _alike_with_half_the_bytes(evidence: Evidence) -> Verdict:
    return _alike(evidence, ("gelu", "sigmoid", "tanh"), "relu", "bfloat16")


def _as_a_copy(evidence: Evidence) -> Verdict:
    return _alike(evidence, OPERATORS, "copy")


def _near_the_bandwidth(evidence: Evidence) -> Verdict:
    """Bytes a second of the slowest over the datasheet's bandwidth: at least 80 %."""
    limit = datasheet(evidence).memory_bytes_per_s
    elements, found = times(evidence, OPERATORS)
    name, slowest = max(found.items(), key=lambda each: each[1].median)
    reached = 2 * ITEMSIZE["float32"] * elements / limit / slowest
    text = f"the slowest, {name}, moves {reached:%} of the bandwidth at {elements} elements"
    return Verdict(not_below(reached, 0.8), text)


def of_float32(evidence: Evidence, names: tuple[str, ...]) -> tuple[int, dict[str, Estimate]]:
    """The elements, and each one's time on bfloat16 over that on as many float32."""
    elements, wide = times(evidence, names)
    point: dict[str, Value] = {"elements": elements, "dtype": "bfloat16"}
    return elements, {line: evidence.get(line, **point) / time for line, time in wide.items()}


def _half_the_time(*names: str) -> Judge:
    """Operators on bfloat16 over float32, as many elements: all 0.45x to 0.55x."""

    def judge(evidence: Evidence) -> Verdict:
        elements, ratios = of_float32(evidence, names)
        text = f"bfloat16 over float32 at {elements} elements: {_each(ratios)}"
        return all_within(ratios.values(), 0.45, 0.55, text)

    return judge


def _arithmetic_shows(evidence: Evidence) -> Verdict:
    """Gelu and cos on bfloat16 over float32, as many elements: both above 0.6x."""
    elements, ratios = of_float32(evidence, ("cos", "gelu"))
    text = f"bfloat16 over float32 at {elements} elements: {_each(ratios)}"
    return all_within(ratios.values(), 0.6, 1.1, text)


JUDGES: dict[str, Judge] = {
    "activations-alike": _activations_alike,
    "alike-with-half-the-bytes": _alike_with_half_the_bytes,
    "as-a-copy": _as_a_copy,
    "near-the-bandwidth": _near_the_bandwidth,
    "half-the-bytes": _half_the_time("copy", "relu", "exp"),
    "half-the-bytes-gelu": _half_the_time("gelu", "sigmoid", "tanh"),
    "arithmetic-shows": _arithmetic_shows,
}

EXPERIMENT = Experiment(
    name="unary",
    title="One operator on each element",
    question="Does an operator that computes more take longer?",
    axes=(
        Axis("elements", ELEMENTS, label="elements", quick=(2**10, 2**16, 2**20)),
        Axis("dtype", tuple(ITEMSIZE), label="type of the elements", scale="category", quick=("float32",)),
    ),
    variants=(
        *(Variant(name, name, "cuda") for name in FUNCTIONS),
        *(Variant(f"queue-{name}", name, "cpu-queue", way=name, stands_in_for=name) for name in FUNCTIONS),
    ),
    field="busy_s",
    lines=tuple(Line(f"{name} latency", name, "latency_s", f"{name}, one call", False) for name in ("relu", "gelu")),
    package=__name__,
    supports=supports,
    cost=cost,
    predicts=predicted,
    judges=JUDGES,
    anchors=({"elements": 2**16, "dtype": "float32"}, {"elements": 2**26, "dtype": "float32"}),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(BANDWIDTH,),
)  # fmt: skip
