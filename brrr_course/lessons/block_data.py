"""A transformer block's operators by class, and three programs' regimes: `compare_classes` and `compare_regimes`."""

from __future__ import annotations

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Value
from brrr_course.experiments import experiment as experiment_named
from brrr_course.experiments.block import AS_BERT, CLASSES, flop
from brrr_course.experiments.judging import datasheet
from brrr_course.experiments.mystery import regime_of, times
from brrr_course.lessons.comparison import checked_factor, judged
from brrr_course.lessons.guessing import Guess
from brrr_course.lessons.waiting import UNANSWERED, Comparison, fills_in
from brrr_course.nouns.source import Evidence, Source
from brrr_course.sources import source as default_source

HEADER = ("operators", "share of the FLOP", "share of the device's time", "FLOP a second", "the products' over theirs")


@fills_in
def compare_classes(guess: Guess, *, source: Source | None = None, **at: Value) -> Comparison:
    """A guessed factor, FLOP a second of the products over those of the norms, against the measured one.

    >>> from brrr_course.lessons.guessing import guess
    >>> compare_classes(guess("The products reach ... times as many FLOP a second", unit="x"))
    The products reach ... times as many FLOP a second
    Not answered yet.
    Not answered yet: give your guess above, then run this cell again.

    The table has every class of operators of a training step, as wide as BERT where `at` names no other. ArgumentError
    for a guess that is no factor.
    """
    checked_factor("compare_classes", guess)
    if not guess.answered:
        return UNANSWERED
    described, origin = experiment_named("block"), source or default_source()
    evidence, point = Evidence(described, origin), {**AS_BERT, **at}
    try:
        badge = str(origin.badge(described))
        taken = {name: evidence.get(name, **point) for name in CLASSES}
        step = evidence.get("step", **point)
    except NotRecordedError:
        return Comparison(f"{origin.name} has no block taken apart: it takes a GPU.")
    counted = {name: flop(name, point) for name in CLASSES}
    rates = {name: counted[name] / taken[name] for name in CLASSES}
    rows = tuple(_row(name, counted, taken, rates) for name in CLASSES)
    said = judged(guess, (rates["products"] / rates["norms"]).median)
    peak = _of_peak(evidence, sum(counted.values()), step)
    return Comparison(f"{said[:1].upper()}{said[1:]}. {peak}".rstrip(), HEADER, rows, badge)


def _row(
    name: str, counted: dict[str, float], taken: dict[str, Estimate], rates: dict[str, Estimate]
) -> tuple[str, ...]:
    share = taken[name].median / sum(each.median for each in taken.values())
    over = units.ratio((rates["products"] / rates[name]).median)
    done = units.percent(counted[name] / sum(counted.values()))
    return name, done, units.percent(share), units.quantity(rates[name].median, "FLOP/s"), over


def _of_peak(evidence: Evidence, done: float, step: Estimate) -> str:
    try:
        hardware = datasheet(evidence)
    except NotRecordedError:
        return ""
    share = done / step.median / hardware.peak("bf16", "tensor cores")
    return f"The whole step does {units.percent(share)} of the FLOP that the datasheet allows in its time."


# ---------------------------------------------------------------------------------------------------------------------
# Three programs: the regimes by the lesson's rule.


@fills_in
def compare_regimes(guess: Guess, model: str, *, source: Source | None = None) -> Comparison:
    """A guessed regime of one of the three programs against what its four measurements say.

    >>> from brrr_course.lessons.guessing import guess
    >>> compare_regimes(guess("Program A is limited by", options=["overhead", "latency"]), "A")
    Program A is limited by
    Not answered yet.
    Not answered yet: give your guess above, then run this cell again.
    """
    if not guess.answered:
        return UNANSWERED
    described, origin = experiment_named("mystery"), source or default_source()
    try:
        badge, found = str(origin.badge(described)), times(Evidence(described, origin), model)
    except NotRecordedError:
        return Comparison(f"{origin.name} has no program {model}: it takes a GPU.")
    eager, graph, half, double = (each.median for each in found.values())
    rows = (
        ("without the host, as a CUDA Graph", units.ratio(eager / graph), "overhead"),
        ("half the bytes", units.ratio(graph / half), "memory"),
        ("twice the batch takes", units.ratio(double / graph), "latency"),
    )
    said = judged(guess, regime_of(eager, graph, half, double))
    return Comparison(f"Program {model}: {said}.", ("what is changed", "gain, or growth", "it would be"), rows, badge)
