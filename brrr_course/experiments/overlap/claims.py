"""What the claims on overlap ask beside the notation: where computing takes as long as sending, and timelines."""

from brrr.core.errors import NotRecordedError
from brrr_course.experiments.judging import traced
from brrr_course.nouns.expression import Table, middle
from brrr_course.nouns.source import Evidence

__all__ = ["balanced", "traced"]

BALANCE = 1.4
"""Computing and sending count as equally long within this factor."""


def balanced(evidence: Evidence, axis: str) -> int:
    """The elements, or the sines, where computing takes as long as sending: the largest array, the closest sines.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources import source
    >>> balanced(Evidence(experiment("overlap"), source("recorded:h200")), "sines")
    40

    NotRecordedError where no number of sines comes within a factor of 1.4.
    """
    parts = [_period(evidence, name) for name in ("upload", "compute", "pipeline", "serial")]
    elements = max(set.intersection(*({key[0] for key in part.values} for part in parts)), default=None)
    sending, working, *_ = ({key[1]: middle(t) for key, t in part.values.items() if key[0] == elements}
                            for part in parts)  # fmt: skip
    off = {sines: max(working[sines] / sending[sines], sending[sines] / working[sines])
           for sines in working.keys() & sending.keys()}  # fmt: skip
    sines = min(off, key=lambda each: off[each], default=None)
    if sines is None or off[sines] > BALANCE:
        raise NotRecordedError(f"at {elements} elements no number of sines takes as long as sending")
    return int((elements if axis == "elements" else sines) or 0)


def _period(evidence: Evidence, variant: str) -> Table:
    return evidence.table(variant, "period_s", {})
