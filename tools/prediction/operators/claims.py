"""What is claimed of operators that nothing was fitted to, judged on the reported half or on what was drawn.

What is predicted as unknown is a lower bound: it counts apart, and no error is computed of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Field
from brrr_course.nouns.claim import Verdict
from brrr_course.nouns.source import Evidence
from tools.prediction.claims import NAMED, anchored, bounds_right, enough, within
from tools.prediction.operators.cases import by_name, half_of

if TYPE_CHECKING:
    from tools.prediction.rows import PredictedRow

ENOUGH, BOUNDS_ENOUGH = 45, 20
"""A verdict needs so many cases, and so many whose bound the interventions tell."""
UNKNOWN_SHARE = 0.1


def reported(evidence: Evidence, field: Field, *, known: bool | None = True) -> list[PredictedRow]:
    """The rows of a field that nobody learns from; those with a prediction, the unknown ones, or (None) both."""
    from tools.prediction.operators.rows import operator_rows
    from tools.prediction.rows import rows_of

    every = rows_of(evidence.experiment, evidence.source, operator_rows)
    mine = [row for row in every if row.field == field and half_of(by_name()[row.case.name]) != "learn"]
    found = [row for row in mine if known in (None, not row.unknown)]
    if not mine:
        raise NotRecordedError(f"{field} of no reported case was measured")
    return found


def unknown(evidence: Evidence) -> Verdict:
    """Few are unknown, and what is said of them is a lower bound."""
    every, missing = (reported(evidence, "span_s", known=known) for known in (None, False))
    loops = reported(evidence, "period_s", known=False)
    above = [row for row in (*missing, *loops) if row.predicted_s > row.measured.high]
    named = ", ".join(row.case.name for row in above[:NAMED])
    text = f"{len(missing)} of {len(every)} cases are unknown; {len(above)} lower bounds lie above what was measured"
    right = len(missing) <= UNKNOWN_SHARE * len(every) and not above
    return enough(len(every), ENOUGH, right, f"{text}: {named}" if named else text)


def device(evidence: Evidence) -> Verdict:
    """Whether the device's times are predicted well."""
    return within(reported(evidence, "span_s"), 0.06, 0.25, ENOUGH)


def loops(evidence: Evidence) -> Verdict:
    """Whether times in a loop are, for a host as fast as a reference beside each case found it."""
    return anchored(reported(evidence, "period_s"), 0.10, 0.30, ENOUGH)


def bounds(evidence: Evidence) -> Verdict:
    """Whether what is predicted to limit a case is what the interventions show."""
    return bounds_right(reported(evidence, "period_s"), BOUNDS_ENOUGH)


# ---- of a device that nobody swept: all cases count, for nothing was learned from it ----

CARRIED_ENOUGH = 90


def carried(evidence: Evidence, field: Field) -> list[PredictedRow]:
    """The rows of a field on a device to which a reference's sweep is carried over; without the unknown ones."""
    from tools.prediction.operators.rows import operator_rows
    from tools.prediction.rows import peaks_of, rows_of

    if not peaks_of(evidence.source).reference:
        raise NotRecordedError("this device was swept itself, so that nothing is carried over to it")
    every = rows_of(evidence.experiment, evidence.source, operator_rows)
    return [row for row in every if row.field == field and not row.unknown]


def carried_device(evidence: Evidence) -> Verdict:
    """Whether the device's times are predicted well after a calibration alone."""
    return within(carried(evidence, "span_s"), 0.09, 0.30, CARRIED_ENOUGH)


def carried_loops(evidence: Evidence) -> Verdict:
    """Whether times in a loop are, for a host as fast as a reference beside each case found it."""
    return anchored(carried(evidence, "period_s"), 0.14, 0.40, CARRIED_ENOUGH)


def carried_bounds(evidence: Evidence) -> Verdict:
    """Whether what is predicted to limit a case is what the interventions show."""
    return bounds_right(carried(evidence, "period_s"), BOUNDS_ENOUGH, 0.93)


def datasheet_device(evidence: Evidence) -> Verdict:
    """Whether the device's times are predicted from its datasheet alone, to which the same is carried over."""
    rows = carried(evidence, "span_s")
    found = [replace(row, predicted_s=row.datasheet_s) for row in rows if row.datasheet_s is not None]
    return within(found, 0.15, 0.45, CARRIED_ENOUGH)
