"""A recurrent layer's steps from a source: `step_times` by batch, and `compare_steps` with a guess."""

from __future__ import annotations

from collections.abc import Sequence

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr_course.experiments import experiment as experiment_named
from brrr_course.experiments.rnn import BATCHES
from brrr_course.experiments.rnn.steps import MAIN, At, best_cudnn, place, step
from brrr_course.lessons.comparison import checked_factor, judged
from brrr_course.lessons.guessing import Guess
from brrr_course.lessons.waiting import UNANSWERED, Comparison, fills_in
from brrr_course.nouns.source import Evidence, Source
from brrr_course.sources import source as default_source

HEADER = (
    "mini-batch", "weights on the chip", "cuDNN's best", "which of its ways", "over ours", "cuDNN in a CUDA Graph",
    "loop in a CUDA Graph",
)  # fmt: skip


def step_times(
    cell: str = "rnn_tanh", dtype: str = "float32", hidden: int = MAIN, *, source: Source | None = None
) -> dict[str, dict[int, float]]:
    """Seconds of a step by batch, to three digits: with the weights on the chip (`ours`), and cuDNN's best (`cudnn`).

    >>> sorted(step_times())
    ['cudnn', 'ours']

    Only batches that the source has both ways; none where it has none.
    """
    evidence = Evidence(experiment_named("rnn"), source or default_source())
    both = {batch: found for batch in BATCHES if (found := _both(evidence, place(cell, dtype, batch, hidden)))}
    return {
        "ours": {batch: float(f"{ours.median:.3g}") for batch, (ours, _, _) in both.items()},
        "cudnn": {batch: float(f"{theirs.median:.3g}") for batch, (_, _, theirs) in both.items()},
    }


@fills_in
def compare_steps(
    guess: Guess, cell: str = "rnn_tanh", dtype: str = "float32", batches: Sequence[int] = (1, 4, 16, 64), *,
    source: Source | None = None,
) -> Comparison:  # fmt: skip
    """A guessed factor, the best cuDNN's step over ours at the first batch, against the measured ones.

    >>> from brrr_course.lessons.guessing import guess
    >>> compare_steps(guess("The step is ... times as fast", unit="x"))
    The step is ... times as fast
    Not answered yet.
    Not answered yet: give your guess above, then run this cell again.

    A step's time is what a longer sequence takes more, by its further steps. ArgumentError for a guess that is no
    factor.
    """
    checked_factor("compare_steps", guess)
    if not guess.answered:
        return UNANSWERED
    described, origin = experiment_named("rnn"), source or default_source()
    evidence, badge = Evidence(described, origin), str(origin.badge(described))
    found = {batch: each for batch in batches if (each := _both(evidence, place(cell, dtype, batch)))}
    if not found:
        return Comparison(f"{badge} has no step of {cell} in {dtype} both ways: it takes a GPU.")
    rows = tuple(_row(evidence, batch, place(cell, dtype, batch), *each) for batch, each in found.items())
    first, (ours, _, theirs) = next(iter(found.items()))
    said = judged(guess, (theirs / ours).median)
    return Comparison(f"A step of {cell} in {dtype}, hidden size {MAIN}; at batch {first} {said}.", HEADER, rows, badge)


def _both(evidence: Evidence, at: At) -> tuple[Estimate, str, Estimate] | None:
    """Our step, and the variant and the step of the best cuDNN; None where one of them was not measured."""
    try:
        return step(evidence, "persistent", **at), *best_cudnn(evidence, at)
    except NotRecordedError:
        return None


def _row(evidence: Evidence, batch: int, at: At, ours: Estimate, variant: str, theirs: Estimate) -> tuple[str, ...]:
    label = evidence.experiment.variant(variant).label
    graphs = (_step(evidence, each, at) for each in ("cudnn-graph", "graph"))
    return str(batch), units.seconds(ours.median), units.seconds(theirs.median), label, f"{theirs / ours:x}", *graphs


def _step(evidence: Evidence, variant: str, at: At) -> str:
    try:
        return units.seconds(step(evidence, variant, **at).median)
    except NotRecordedError:
        return "–"
