"""Exercises 10-peak and 10-regime: the FLOP that a step reaches, and a regime by four measurements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr_course.experiments import experiment as experiment_named
from brrr_course.experiments.mystery import MODELS, REGIMES, regime_of, times
from brrr_course.lessons.checking import Exercise, Mark, ask, not_above_zero
from brrr_course.nouns.source import Evidence

WIDTH, TOKENS = 1024, 8192
STEP_S, PRODUCTS_S, PEAK = 2.1e-3, 0.83e-3, 990e12
"""What the exercise states: a training step's time, that of its products in it, and the datasheet's FLOP/s."""
CLOSE = 0.03


def flop() -> float:
    """FLOP of the four products, forward and backward.

    >>> f"{flop():.3g}"
    '6.18e+11'
    """
    return 3.0 * 2 * TOKENS * 12 * WIDTH**2


def grade_peak(flop: Any, share: Any, at_most: Any) -> Mark:
    """The products' FLOP, their share of the peak over the step, and the gain if only the products remained."""
    if mark := not_above_zero(flop=flop, share=share, at_most=at_most):
        return mark
    if hint := _about_flop(flop) or _about_share(share) or _about_at_most(at_most):
        return Mark("wrong", *hint)
    reached = units.percent(_share())
    text = f"the step does {reached} of the FLOP that the GPU could do in its time."
    return Mark("right", f"{text} Without all but the products it would be {units.ratio(STEP_S / PRODUCTS_S)} as fast.")


def _share() -> float:
    return flop() / STEP_S / PEAK


PEAK_EXERCISE = Exercise("10-peak", grade_peak)


def _about_flop(answer: float) -> tuple[str, str] | None:
    right = flop()
    if math.isclose(answer, right, rel_tol=CLOSE):
        return None
    known = {
        right / 3: ("that is forward alone.", "Backward takes two products for each one."),
        right / 2: ("a multiplication and an addition are two FLOP.", "Twice tokens times weights."),
        right / 6: ("that is forward alone, in multiplications.", "Two FLOP each; backward twice as many again."),
    }
    for wrong, hint in known.items():
        if math.isclose(answer, wrong, rel_tol=CLOSE):
            return f"`flop`: {hint[0]}", hint[1]
    return (
        f"`flop` is {answer:g}.",
        "The weights are 12 w^2; each token takes 2 FLOP for each, and twice that backward.",
    )


def _about_share(answer: float) -> tuple[str, str] | None:
    if math.isclose(answer, _share(), rel_tol=CLOSE):
        return None
    if math.isclose(answer, 100 * _share(), rel_tol=CLOSE):
        return "`share`: that is in percent.", "Write it as a part of one."
    if math.isclose(answer, flop() / PRODUCTS_S / PEAK, rel_tol=CLOSE):
        return "`share`: that is while the products run.", "Divide by the whole step."
    return f"`share` is {answer:g}.", "FLOP over the step's seconds, over the peak."


def _about_at_most(answer: float) -> tuple[str, str] | None:
    if math.isclose(answer, STEP_S / PRODUCTS_S, rel_tol=CLOSE):
        return None
    if math.isclose(answer, PRODUCTS_S / STEP_S, rel_tol=CLOSE):
        return "`at_most`: that is a share.", "A gain is the time now over the time then."
    return f"`at_most` is {answer:g}.", "What is left of the step if only its products remain?"


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 10-regime: a function that tells the regime.

Rule = Callable[[float, float, float, float], Any]
CASES: dict[str, tuple[float, float, float, float]] = {
    "a CUDA Graph makes it five times as fast": (10.0, 2.0, 2.0, 2.0),
    "a CUDA Graph makes it 1.31 times as fast, and half the bytes too": (1.31, 1.0, 0.5, 2.0),
    "a CUDA Graph gains 1.1x and half the bytes 1.9x": (2.2, 2.0, 1.05, 4.0),
    "half the bytes gain 1.9x, and twice the batch is free": (2.0, 2.0, 1.05, 2.0),
    "nothing gains, and twice the batch takes 1.02x": (2.0, 2.0, 1.95, 2.04),
    "nothing gains, and twice the batch takes 1.9x": (2.0, 2.0, 1.95, 3.8),
}
"""What is tried: the times of a program as it is, as a CUDA Graph, with half the bytes, with twice the batch."""


def grade_regime(regime: Any) -> Mark:
    """`regime(eager, graph, half, double)` returns "overhead", "memory", "latency" or "compute"."""
    if not callable(regime):
        return Mark("wrong", f"`regime` is {regime!r}.", "Write the function's name: regime=regime.")
    for case, four in CASES.items():
        found, right = ask(regime, *four), regime_of(*four)
        if found not in REGIMES:
            return Mark("wrong", f"where {case}, it returns {found!r}.", f"Return one of {', '.join(REGIMES)}.")
        if found != right:
            return Mark("wrong", f"where {case}, it returns {found!r}.", f"By the rule it is {right!r}.")
    return Mark("right", f"it is right for {len(CASES)} programs. {_here()}".rstrip())


REGIME_EXERCISE = Exercise("10-regime", grade_regime)


def _here() -> str:
    """The regimes of the lesson's programs on the student's source; nothing where it has none."""
    from brrr_course.sources import source

    described = experiment_named("mystery")
    try:
        evidence = Evidence(described, source())
        found = {model: [each.median for each in times(evidence, model).values()] for model in MODELS}
    except BrrrError:
        return ""
    return f"On your source: {', '.join(f'{model} {regime_of(*four)}' for model, four in found.items())}."
