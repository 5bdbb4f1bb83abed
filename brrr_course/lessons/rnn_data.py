"""A recurrent layer's steps from a source, ours and the best cuDNN's, by batch."""

from contextlib import suppress

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr_course.experiments import experiment as experiment_named
from brrr_course.experiments.rnn import BATCHES, CUDNN, MAIN, At, place, step
from brrr_course.nouns.source import Evidence, Source
from brrr_course.sources import source_for


def step_times(
    cell: str = "rnn_tanh", dtype: str = "float32", hidden: int = MAIN, *, source: Source | None = None
) -> dict[str, dict[int, float]]:
    """Look up how long a step of a recurrent layer takes, by batch: with its weights on the chip, and by cuDNN.

    >>> sorted(step_times())
    ['cudnn', 'ours']

    Parameters
    ----------
    cell : {"rnn_tanh", "rnn_relu", "lstm"}
        The kind of layer.
    dtype : str
        "float32" or "float16".
    hidden : int
        The layer's width.
    source : Source, optional
        Where the measurements come from, as for `explore`.

    Returns
    -------
    dict of str to dict of int to float
        Seconds per step by batch, to three digits, for "ours" and "cudnn" (its fastest variant). Only batches measured
        for both; empty if there are none.
    """
    evidence = Evidence(experiment_named("rnn"), source_for(source, "rnn"))
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


def best_cudnn(evidence: Evidence, at: At) -> tuple[str, Estimate]:
    """The fastest of cuDNN's ways with these numbers, padded or in a CUDA Graph: its variant and its step."""
    found = {"cudnn": step(evidence, "cudnn", **at)}
    for name in CUDNN[1:]:
        with suppress(NotRecordedError):
            found[name] = step(evidence, name, **at)
    return min(found.items(), key=lambda each: each[1].median)
