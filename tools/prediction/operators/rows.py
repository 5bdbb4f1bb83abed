"""Every row of the `operators` experiment: two of each case, the device's time and that of a loop; and their table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.core.measurement import Field, Measurement
from tools.prediction.bounds import Amount, Truth, truth
from tools.prediction.claims import percentile
from tools.prediction.operators.calls import cost_of
from tools.prediction.operators.cases import OperatorCase, by_name, half_of, twin
from tools.prediction.rows import How, Measured, PredictedRow

if TYPE_CHECKING:
    from brrr.counting.cost import Cost
    from brrr.roofline.peaks import Peaks


def operator_rows(measured: Measured, peaks: Peaks, device: str) -> Iterator[PredictedRow]:
    """The device's time is the span of a CUDA Graph's replay, of what cannot be captured that of the call."""
    for case in by_name().values():
        here = {name: found[case.name] for name, found in measured.items() if case.name in found}
        yield from _row(case, here, "graph" if "graph" in here else "eager", "span_s", peaks)
        yield from _row(case, here, "eager", "period_s", peaks)


def _row(
    case: OperatorCase, here: Mapping[str, Measurement], how: How, field: Field, peaks: Peaks
) -> Iterator[PredictedRow]:
    from brrr.gpu.datasheet import find_hardware
    from brrr.roofline.device_model import REFERENCE_CALL
    from brrr.roofline.predicting import predict
    from tools.prediction.host_speed import at_host_speed

    found = here[how].get(field) if how in here else None
    if found is None or found.median <= 0:
        return
    tf32, loop, beside = case.dtype == "tf32", field == "period_s", here.get("reference")
    try:
        work = cost_of(case)
        predicted = predict(work, device=peaks, how=how, tf32=tf32)
    except BrrrError as error:  # it cannot be counted, or a figure was not measured: nothing is known but that
        yield PredictedRow(case, how, field, found, 0.0, "", unknown=(type(error).__name__,))
        return
    anchored_s = None
    if loop and beside is not None and beside.host_s is not None and REFERENCE_CALL in peaks.measured:
        at_speed = at_host_speed(peaks, beside.host_s.median)
        anchored_s = predict(work, device=at_speed, how=how, tf32=tf32).period_s
    datasheet_s = None
    if not loop and peaks.reference and find_hardware(peaks.device):
        datasheet_s = predict(work, device=f"datasheet:{peaks.device}", how=how, tf32=tf32).span_s
    yield PredictedRow(
        case, how, field, found, getattr(predicted, field) or 0.0, predicted.bound, datasheet_s,
        truth=_truth(case, work, here) if loop else None, anchored_s=anchored_s, unknown=predicted.unknown,
    )  # fmt: skip


def _truth(case: OperatorCase, work: Cost, here: Mapping[str, Measurement]) -> Truth | None:
    """What limits it, by a graph and the twin; None where these were not measured."""
    eager, graph = here.get("eager"), here.get("graph")
    if eager is None or graph is None or not (eager.busy_s and eager.period_s and graph.period_s):
        return None
    twins: dict[str, Amount] = {}
    changed, other = twin(case), here.get("other-bytes")
    if changed is not None and other is not None and other.busy_s is not None:
        counted = cost_of(changed)
        twins["bytes"] = Amount(other.busy_s.median, counted.eager_bytes, counted.flop)
    amount = Amount(eager.busy_s.median, work.eager_bytes, work.flop)
    return truth("stream", eager.period_s.median, graph.period_s.median, amount, twins)


# ---- what is printed ----


def records(rows: Iterable[PredictedRow]) -> list[dict[str, str | float]]:
    """A record of each case under the names of a table's columns; a lower bound has no error, and its cell is empty."""
    cases: dict[str, dict[str, str | float]] = {}
    for row in rows:
        case = by_name()[row.case.name]
        at = cases.setdefault(case.name, dict.fromkeys(COLUMNS, ""))
        at |= {"family": case.kind, "half": half_of(case), "case": case.name, "unknown": " ".join(row.unknown)}
        seconds = {"measured": row.measured.median, "predicted": row.predicted_s}
        seconds |= {} if row.unknown else {"error": row.error}
        at |= {f"{'loop' if row.field == 'period_s' else 'device'}_{name}": value for name, value in seconds.items()}
        if row.datasheet_s is not None and not row.unknown:
            at["device_error_by_datasheet"] = row.error_of(row.datasheet_s) or 0.0
        if row.field == "period_s":
            at |= {"bound": row.bound, "true_bound": " or ".join(sorted(row.truth.bounds)) if row.truth else ""}
            if row.anchored_s is not None and not row.unknown:
                at["loop_error_at_hosts_speed"] = row.error_of(row.anchored_s) or 0.0
    return list(cases.values())


COLUMNS = (
    "family", "half", "case", "device_measured", "device_predicted", "device_error", "device_error_by_datasheet",
    "loop_measured", "loop_predicted", "loop_error", "loop_error_at_hosts_speed", "bound", "true_bound", "unknown",
)  # fmt: skip
ERRORS = ("device_error", "device_error_by_datasheet", "loop_error", "loop_error_at_hosts_speed")


def summary(found: Sequence[Mapping[str, str | float]]) -> str:
    """Median and 90th percentile of each error, per half and family; what is unknown is counted apart."""
    lines = [["half", "family", "cases", "unknown", *ERRORS]]
    for half in sorted({str(each["half"]) for each in found}):
        of_half = [each for each in found if each["half"] == half]
        for family in ("all", *dict.fromkeys(str(each["family"]) for each in of_half)):
            mine = [each for each in of_half if family in ("all", each["family"])]
            known = [each for each in mine if not each["unknown"]]
            errors = [_errors([abs(float(each[name])) for each in known if each[name] != ""]) for name in ERRORS]
            lines.append([half, family, str(len(mine)), str(len(mine) - len(known)), *errors])
    return "\n".join(units.table(lines))


def _errors(errors: Sequence[float]) -> str:
    return " / ".join(units.percent(percentile(errors, share), 2) for share in (0.5, 0.9)) if errors else "-"
