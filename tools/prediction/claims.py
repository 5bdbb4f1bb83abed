"""What is claimed of predictions, judged on every row: the median and the 90th percentile of the error by class.

The error is the absolute difference of predicted and measured time, over the measured one. None of the cases was used
to calibrate the device, and no constant was fitted to them; docs/predictor.md says what their first evaluation found,
and what was mended after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Field
from brrr_course.nouns.claim import Status, Verdict
from brrr_course.nouns.source import Evidence
from tools.prediction.cases import Kind

if TYPE_CHECKING:
    from tools.prediction.rows import PredictedRow

ENOUGH: dict[Kind, int] = {"stream": 160, "product": 500, "chain": 100}
"""So many rows of a class are needed for a verdict; chains count once for each way of running them."""
BOUNDS_ENOUGH = 100
NAMED = 3
"""How many of the worst rows a verdict names."""


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies, by linear interpolation between neighbours.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.9)
    3.7
    """
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return round(ordered[low] + (place - low) * (ordered[high] - ordered[low]), 12)


def rows(evidence: Evidence, kind: Kind | None = None, field: Field | None = None) -> list[PredictedRow]:
    """The rows of a class and a field; NotRecordedError where there are none."""
    from tools.prediction.rows import rows_of

    every = rows_of(evidence.experiment, evidence.source)
    found = [row for row in every if kind in (None, row.case.kind) and field in (None, row.field)]
    if not found:
        raise NotRecordedError(f"{field or 'no time'} of no {kind or 'case'} was measured and predicted")
    return found


def errors_text(found: Sequence[PredictedRow]) -> str:
    """Median and 90th percentile of the error, and the worst rows with their signs."""
    middle, high = (percentile([abs(row.error) for row in found], share) for share in (0.5, 0.9))
    worst = sorted(found, key=lambda row: abs(row.error), reverse=True)[:NAMED]
    named = ", ".join(f"{row.case.name} {row.how} ({row.error:+.0%})" for row in worst)
    shown = f"median {units.percent(middle, 2)}, 90th percentile {units.percent(high, 2)}"
    return f"{shown} of {len(found)} rows; worst: {named}"


def _within(kind: Kind, field: Field, median: float, high: float) -> Callable[[Evidence], Verdict]:
    """Whether the errors of a class stay within both limits."""

    return lambda evidence: within(rows(evidence, kind, field), median, high, ENOUGH[kind])


def within(found: Sequence[PredictedRow], median: float, high: float, needed: int) -> Verdict:
    """Whether the errors of some rows stay within both limits."""
    errors = [abs(row.error) for row in found]
    right = percentile(errors, 0.5) <= median and percentile(errors, 0.9) <= high
    return enough(len(found), needed, right, errors_text(found))


def _anchored(kind: Kind, median: float, high: float) -> Callable[[Evidence], Verdict]:
    """The same for a host as fast as a reference beside each case found it."""

    return lambda evidence: anchored(rows(evidence, kind, "period_s"), median, high, ENOUGH[kind])


def anchored(every: Sequence[PredictedRow], median: float, high: float, needed: int) -> Verdict:
    """The same of some rows."""
    found = [row for row in every if row.anchored_s is not None]
    if not found:
        raise NotRecordedError("no reference for the host's speed was measured beside the cases")
    errors = [abs(row.error_of(row.anchored_s) or 0.0) for row in found]
    middle, far = percentile(errors, 0.5), percentile(errors, 0.9)
    plain = errors_text(found).split(";")[0]
    text = f"median {units.percent(middle, 2)}, 90th percentile {units.percent(far, 2)}; without it {plain}"
    return enough(len(found), needed, middle <= median and far <= high, text)


def enough(count: int, needed: int, right: bool, text: str) -> Verdict:
    """Too few rows decide nothing."""
    if count < needed:
        return Verdict("undecided", f"{text}; a verdict needs {needed} rows")
    return Verdict("holds" if right else "fails", text)


NEITHER = {"latency": "overhead"}
"""To the interventions, and in the claims, all that neither bytes nor FLOP limit is overhead."""


def bounds(evidence: Evidence) -> Verdict:
    """Whether what is predicted to limit a case is what the interventions show."""
    return bounds_right(rows(evidence, field="period_s"), BOUNDS_ENOUGH)


def bounds_right(every: Sequence[PredictedRow], needed: int, right: float = 0.95) -> Verdict:
    """The predicted bound against what the interventions allow, where they decide."""
    tried = [row for row in every if row.truth is not None]
    told = [row for row in tried if row.truth is not None and row.truth.bounds]
    if not told:
        raise NotRecordedError("no bound was found out by intervention: that needs CUDA Graphs and twins")
    wrong = [row for row in told if row.truth is not None and NEITHER.get(row.bound, row.bound) not in row.truth.bounds]
    share = 1 - len(wrong) / len(told)
    named = ", ".join(f"{row.case.name} (not {row.bound})" for row in wrong[:NAMED])
    text = f"right for {units.percent(share, 3)} of {len(told)} cases; {len(tried) - len(told)} more tell no truth"
    return enough(len(told), needed, share >= right, f"{text}; wrong: {named}" if named else text)


def _better_than(name: str, other: str) -> Callable[[Evidence], Verdict]:
    """The median error of both estimates on the same rows, class by class: smaller in each."""

    def judge(evidence: Evidence) -> Verdict:
        both = [row for row in rows(evidence) if getattr(row, other) is not None]
        if not both:
            raise NotRecordedError(f"{name} says nothing about this machine")
        parts, right = [], True
        for kind, field in (("stream", "busy_s"), ("product", "busy_s"), ("chain", "period_s")):
            of_this = [row for row in both if row.case.kind == kind and row.field == field]
            if not of_this:
                continue
            mine = percentile([abs(row.error) for row in of_this], 0.5)
            theirs = percentile([abs(row.error_of(getattr(row, other)) or 0.0) for row in of_this], 0.5)
            right = right and mine < theirs
            parts.append(f"{kind}s {units.percent(mine, 2)} against {units.percent(theirs, 2)}")
        status: Status = "holds" if right else "fails"
        return Verdict(status, f"median error, predict against {name}: {', '.join(parts)}")

    return judge


streams = _within("stream", "busy_s", 0.06, 0.18)
streams_in_a_loop = _within("stream", "period_s", 0.06, 0.18)
products = _within("product", "busy_s", 0.12, 0.30)
products_in_a_loop = _within("product", "period_s", 0.12, 0.30)
products_to_the_percent = _within("product", "busy_s", 0.045, 0.15)
chains = _within("chain", "period_s", 0.08, 0.20)
streams_at_the_hosts_speed = _anchored("stream", 0.06, 0.18)
products_at_the_hosts_speed = _anchored("product", 0.12, 0.30)
chains_at_the_hosts_speed = _anchored("chain", 0.08, 0.20)
better_than_datasheet = _better_than("the datasheet's roofline with a floor", "datasheet_s")
