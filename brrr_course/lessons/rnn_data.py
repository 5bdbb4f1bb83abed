"""A recurrent layer's steps from a source, ours and the best cuDNN's, by batch."""

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr_course.experiments import experiment as experiment_named
from brrr_course.experiments.rnn import BATCHES
from brrr_course.experiments.rnn.steps import MAIN, At, best_cudnn, place, step
from brrr_course.nouns.source import Evidence, Source
from brrr_course.sources import source as default_source


def step_times(
    cell: str = "rnn_tanh", dtype: str = "float32", hidden: int = MAIN, *, source: Source | None = None
) -> dict[str, dict[int, float]]:
    """Seconds of a step by batch, to three digits: with the weights on the chip (`ours`), and cuDNN's best (`cudnn`).

    >>> sorted(step_times())
    ['cudnn', 'ours']

    Only batches that the source has both ways; none where it has none.
    """
    evidence = Evidence(experiment_named("rnn"), source or default_source())
    both = {batch: found for batch in BATCHES if (found := both_steps(evidence, place(cell, dtype, batch, hidden)))}
    return {
        "ours": {batch: float(f"{ours.median:.3g}") for batch, (ours, _, _) in both.items()},
        "cudnn": {batch: float(f"{theirs.median:.3g}") for batch, (_, _, theirs) in both.items()},
    }


def both_steps(evidence: Evidence, at: At) -> tuple[Estimate, str, Estimate] | None:
    """Our step, and the variant and the step of the best cuDNN; None where one of them was not measured."""
    try:
        return step(evidence, "persistent", **at), *best_cudnn(evidence, at)
    except NotRecordedError:
        return None
