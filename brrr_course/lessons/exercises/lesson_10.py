"""Exercise 10-regime: a function that tells a regime by four measurements."""

from typing import Any

from brrr.core.errors import BrrrError
from brrr_course.experiments import experiment as experiment_named
from brrr_course.experiments.mystery import MODELS, REGIMES, regime_of, times
from brrr_course.lessons.marks import Wrong, ask, exercise
from brrr_course.nouns.source import Evidence

CASES: dict[str, tuple[float, float, float, float]] = {
    "a CUDA Graph makes it five times as fast": (10.0, 2.0, 2.0, 2.0),
    "a CUDA Graph makes it 1.31 times as fast, and half the bytes too": (1.31, 1.0, 0.5, 2.0),
    "a CUDA Graph gains 1.1x and half the bytes 1.9x": (2.2, 2.0, 1.05, 4.0),
    "half the bytes gain 1.9x, and twice the batch is free": (2.0, 2.0, 1.05, 2.0),
    "nothing gains, and twice the batch takes 1.02x": (2.0, 2.0, 1.95, 2.04),
    "nothing gains, and twice the batch takes 1.9x": (2.0, 2.0, 1.95, 3.8),
    "a CUDA Graph gains 1.2x, half the bytes 1.25x over the graph": (2.4, 2.0, 1.6, 4.0),
    "a CUDA Graph gains 1.25x, and twice the batch takes 1.3x as long as the graph": (2.5, 2.0, 1.95, 2.6),
    "nothing gains, and twice the batch takes 1.12x": (2.0, 2.0, 1.95, 2.24),
    "nothing gains, and twice the batch takes 1.2x": (2.0, 2.0, 1.95, 2.4),
}
"""What is tried: the times of a program as it is, as a CUDA Graph, with half the bytes, with twice the batch."""


@exercise("10-regime")
def regime(regime: Any) -> str:
    """`regime(eager, graph, half, double)` returns "overhead", "memory", "under-filled" or "compute"."""
    for case, four in CASES.items():
        found, right = ask(regime, *four), regime_of(*four)
        if found not in REGIMES:
            raise Wrong(f"where {case}, it returns {found!r}.", f"Return one of {', '.join(REGIMES)}.")
        if found != right:
            raise Wrong(f"where {case}, it returns {found!r}.", f"By the rule it is {right!r}.")
    return f"it is right for {len(CASES)} programs. {_here()}".rstrip()


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
