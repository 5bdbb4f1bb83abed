"""What the claims on a recurrent layer whose weights stay on the chip call beside the notation's own functions."""

from contextlib import suppress
from typing import Any

from brrr.core.errors import NotRecordedError
from brrr_course.experiments.rnn.floor import floor_of
from brrr_course.experiments.rnn.steps import CUDNN, place, step
from brrr_course.nouns.expression import Table, fastest
from brrr_course.nouns.source import Evidence

__all__ = ["cudnn", "floor", "held", "step"]


def cudnn(evidence: Evidence, **at: Any) -> Any:
    """A step of cuDNN's fastest way with these numbers, padded or in a CUDA Graph; a table over the axes left open.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("rnn"), Recorded("h200"))
    >>> print(cudnn(evidence, **place("lstm", "float16", 4)))
    2.07 µs (2.06 to 2.09 µs, n=7)
    """
    found = dict.fromkeys(CUDNN, Table((), {}))
    for name in CUDNN:
        with suppress(NotRecordedError):
            found[name] = step(evidence, name, **at)
    return fastest(*found.values(), needed=1)


def floor(evidence: Evidence, **at: Any) -> float:
    """Seconds that a step takes at least.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("rnn"), Recorded("h200"))
    >>> floor(evidence, **place()) < step(evidence, "persistent", **place()).median
    True
    """
    return floor_of(evidence, at).total_s


def held(evidence: Evidence, *, cell: str, dtype: str, hidden: int, batch: int) -> float:
    """The share of a layer's weights that lie in registers, by its plan; nothing is said of kernels that never ran.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("rnn"), Recorded("h200"))
    >>> held(evidence, cell="lstm", dtype="float32", hidden=1024, batch=4)
    0.5
    """
    from brrr.kernels.recurrent.plan import plan

    step(evidence, "persistent", **place(cell, dtype, batch, hidden))
    made = plan(cell, hidden=hidden, batch=batch, dtype=dtype)
    weights = made.flop // 2 // batch * (4 if dtype == "float32" else 2)
    return min(1.0, 4 * made.weight_registers * made.threads * made.group_blocks / weights)
