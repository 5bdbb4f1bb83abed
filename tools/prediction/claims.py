"""What is claimed of predictions, judged on every row: the median and the 90th percentile of the error by class.

The error is the absolute difference of predicted and measured time, over the measured one. None of the cases was used
to calibrate the device, and no constant was fitted to them; docs/predictor.md says what their first evaluation found,
and what was mended after it.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.errors import BrrrError, NotRecordedError
from brrr.core.measurement import Field
from brrr.course.nouns.claim import Claim, Status, Verdict
from brrr.course.nouns.evidence import Evidence
from brrr.course.nouns.experiment import Experiment
from brrr.course.nouns.source import Source
from brrr.course.sources import source as source_named
from tools.prediction.cases import KINDS, Kind

if TYPE_CHECKING:
    from brrr.drawing.style import Picture
    from tools.prediction.rows import PredictedRow

SOURCE = "brrr's own targets"
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

    def judge(evidence: Evidence) -> Verdict:
        found = rows(evidence, kind, field)
        errors = [abs(row.error) for row in found]
        right = percentile(errors, 0.5) <= median and percentile(errors, 0.9) <= high
        return _enough(len(found), ENOUGH[kind], right, errors_text(found))

    return judge


def _anchored(kind: Kind, median: float, high: float) -> Callable[[Evidence], Verdict]:
    """The same for a host as fast as a reference beside each case found it."""

    def judge(evidence: Evidence) -> Verdict:
        found = [row for row in rows(evidence, kind, "period_s") if row.anchored_s is not None]
        if not found:
            raise NotRecordedError("no reference for the host's speed was measured beside the cases")
        errors = [abs(row.error_of(row.anchored_s) or 0.0) for row in found]
        middle, far = percentile(errors, 0.5), percentile(errors, 0.9)
        plain = errors_text(found).split(";")[0]
        text = f"median {units.percent(middle, 2)}, 90th percentile {units.percent(far, 2)}; without it {plain}"
        return _enough(len(found), ENOUGH[kind], middle <= median and far <= high, text)

    return judge


def _enough(count: int, needed: int, right: bool, text: str) -> Verdict:
    """Too few rows decide nothing."""
    if count < needed:
        return Verdict("undecided", f"{text}; a verdict needs {needed} rows")
    return Verdict("holds" if right else "fails", text)


def _bounds(evidence: Evidence) -> Verdict:
    """The predicted bound against what the interventions allow, where they decide."""
    tried = [row for row in rows(evidence, field="period_s") if row.truth is not None]
    told = [row for row in tried if row.truth is not None and row.truth.bounds]
    if not told:
        raise NotRecordedError("no bound was found out by intervention: that needs CUDA Graphs and twins")
    wrong = [row for row in told if row.truth is not None and row.bound not in row.truth.bounds]
    share = 1 - len(wrong) / len(told)
    named = ", ".join(f"{row.case.name} (not {row.bound})" for row in wrong[:NAMED])
    text = f"right for {units.percent(share, 3)} of {len(told)} cases; {len(tried) - len(told)} more tell no truth"
    return _enough(len(told), BOUNDS_ENOUGH, share >= 0.95, f"{text}; wrong: {named}" if named else text)


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


ANCHORED: tuple[tuple[Kind, str, float, float], ...] = (
    ("stream", "stream", 0.06, 0.18), ("product", "product", 0.12, 0.30), ("chain", "chain of operators", 0.08, 0.20),
)  # fmt: skip
HOW = "absolute error over the measured time, median and 90th percentile, against"
CLAIMS = (
    Claim("streams", "The device's time for an operator that streams is predicted well.", SOURCE,
          f"busy_s of pointwise, reduction, norm and softmax operators, 1 KB to 1 GB, hot; {HOW} 6 % and 18 %",
          _within("stream", "busy_s", 0.06, 0.18)),
    Claim("streams-in-a-loop", "So is the time of such an operator in a loop, the host's part included.", SOURCE,
          f"period_s of the same operators; {HOW} 6 % and 18 %", _within("stream", "period_s", 0.06, 0.18)),
    Claim("products", "The device's time for a product of matrices of any shape is predicted well.", SOURCE,
          f"busy_s of products of any shape, skinny and odd ones among them, hot; {HOW} 12 % and 30 %",
          _within("product", "busy_s", 0.12, 0.30)),
    Claim("products-in-a-loop", "So is the time of a product in a loop.", SOURCE,
          f"period_s of the same products; {HOW} 12 % and 30 %", _within("product", "period_s", 0.12, 0.30)),
    Claim("products-to-the-percent", "A product's time is predicted to a few percent.", SOURCE,
          f"busy_s of the same products; {HOW} 4.5 % and 15 %, the target after one calibration sweep",
          _within("product", "busy_s", 0.045, 0.15)),
    Claim("chains", "The time of a chain of operators in a loop is predicted well, whatever limits it.", SOURCE,
          f"period_s of chains of 2 to 200 operators, eager, as graphs and compiled; {HOW} 8 % and 20 %",
          _within("chain", "period_s", 0.08, 0.20)),
    *(Claim(f"{kind}s-at-the-hosts-speed",
            f"With the host's speed taken beside it, the time of a {named} in a loop is predicted well.", SOURCE,
            f"period_s, the calibrated host costs times what a relu of 8 x 8 took beside the case over its calibrated "
            f"cost; {HOW} {units.percent(middle)} and {units.percent(high)}", _anchored(kind, middle, high))
      for kind, named, middle, high in ANCHORED),
    Claim("bounds", "What is predicted to limit a piece of work is what does limit it.", SOURCE,
          "the bound of cases whose truth an intervention tells: a graph gains 1.3x (overhead), else twins with other "
          "bytes or other FLOP; at least 95 % right", _bounds),
    Claim("better-than-datasheet", "It is better than the roofline of the datasheet.", SOURCE,
          "median error on the same rows (busy_s of streams and products, period_s of chains), smaller in each class",
          _better_than("the datasheet's roofline", "datasheet_s")),
    Claim("better-than-torch", "It is better than torch's own estimator.", SOURCE,
          "the same against torch's RuntimeEstimator in its roofline mode, as it answered on that machine",
          _better_than("torch's estimator", "torch_s")),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Every row of the `prediction` experiment as a table, and predicted against measured as a figure.

COLUMNS = (
    "class", "case", "how", "field", "measured_s", "predicted_s", "error", "datasheet_s", "datasheet_error",
    "torch_s", "torch_error", "predicted_bound", "true_bound", "why",
)  # fmt: skip
FIELD = {"stream": "busy_s", "product": "busy_s", "chain": "period_s"}
"""What a figure shows of each class where it was measured: the device's own time of a single operator."""


def _prediction() -> Experiment:
    from tools.prediction.experiment import EXPERIMENT

    return EXPERIMENT


def prediction_rows(source: Source | None = None) -> tuple[PredictedRow, ...]:
    """Every row of a source (default: the one that `source()` gives); NotRecordedError where nothing is."""
    from tools.prediction.rows import rows_of

    return rows_of(_prediction(), source or source_named())


def record_of(row: PredictedRow) -> dict[str, str | float]:
    """A row under COLUMNS; what is not known is empty."""
    others = {
        f"{name}_{what}": "" if value is None else value
        for name, other in (("datasheet", row.datasheet_s), ("torch", row.torch_s))
        for what, value in (("s", other), ("error", row.error_of(other)))
    }
    told = row.truth
    return {
        "class": row.case.kind, "case": row.case.name, "how": row.how, "field": row.field,
        "measured_s": row.measured.median, "predicted_s": row.predicted_s, "error": row.error, **others,
        "predicted_bound": row.bound, "true_bound": " or ".join(sorted(told.bounds)) if told else "",
        "why": told.why if told else "",
    }  # fmt: skip


def worst_first(rows: Sequence[PredictedRow]) -> list[PredictedRow]:
    """Class by class and field by field, the largest errors first."""
    return sorted(rows, key=lambda row: (KINDS.index(row.case.kind), row.field, -abs(row.error)))


def text_of(row: PredictedRow) -> str:
    """A row as a line.

    `softmax 4097x333 bfloat16 eager busy_s: 5 µs measured, 4.5 µs predicted (-10 %), ...`
    """
    said = [f"{units.seconds(row.measured.median)} measured", f"{units.seconds(row.predicted_s)} predicted"]
    said[-1] += f" ({row.error:+.0%})"
    for name, other in (("datasheet", row.datasheet_s), ("torch", row.torch_s)):
        if other is not None:
            said.append(f"{name} {units.seconds(other)} ({row.error_of(other):+.0%})")
    if row.truth is not None:
        true = " or ".join(sorted(row.truth.bounds)) or "not told"
        said.append(f"{row.bound} predicted, {true} by intervention: {row.truth.why}")
    return f"{row.case.name} {row.how} {row.field}: {', '.join(said)}"


def summary_of(rows: Sequence[PredictedRow]) -> str:
    """Median and 90th percentile of each class and field, of all three estimates."""
    lines = []
    for key in dict.fromkeys((row.case.kind, row.how, row.field) for row in rows):
        of_this = [row for row in rows if (row.case.kind, row.how, row.field) == key]
        parts = [_errors("predict", [abs(row.error) for row in of_this])]
        for name in ("datasheet", "torch"):
            found = [row.error_of(getattr(row, f"{name}_s")) for row in of_this]
            parts.append(_errors(name, [abs(error) for error in found if error is not None]))
        lines.append(f"{' '.join(key)}, {len(of_this)} rows: {'; '.join(part for part in parts if part)}")
    return "\n".join(lines)


def _errors(name: str, errors: Sequence[float]) -> str:
    if not errors:
        return ""
    middle, high = (units.percent(percentile(errors, share), 2) for share in (0.5, 0.9))
    return f"{name} {middle} median, {high} at the 90th percentile"


def prediction_plot(source: Source | None = None) -> Picture:
    """Predicted against measured on log-log axes, one marker for each class; on the diagonal both are equal."""
    from matplotlib.ticker import FuncFormatter

    from brrr.drawing import style

    source = source or source_named()
    every = prediction_rows(source)
    fields = {row.field for row in every}
    shown = [row for row in every if row.field == FIELD[row.case.kind] or FIELD[row.case.kind] not in fields]
    drawn = style.figure(560, 560)
    on = style.axes(drawn, left=0.15, bottom=0.14, right=0.96, top=0.96)
    times = [value for row in shown for value in (row.measured.median, row.predicted_s)]
    ends = (min(times) / 1.5, max(times) * 1.5)
    on.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured", ylabel="predicted")
    on.plot(ends, ends, color=style.GUIDE, linewidth=1)
    for index, kind in enumerate(KINDS):
        of_this = [row for row in shown if row.case.kind == kind]
        look = {
            **style.look(index),
            "linestyle": "none",
            "markersize": 3.5,
            "markeredgewidth": 0.8,
            "fillstyle": "none",
        }
        on.plot([r.measured.median for r in of_this], [r.predicted_s for r in of_this], label=f"{kind}s", **look)
    for axis in (on.xaxis, on.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: style.tick_label(value, "s")))
    on.legend(loc="upper left")
    style.stamp(drawn, source.badge(_prediction()))
    return style.picture(drawn, f"Predicted against measured time, {len(shown)} cases.\n{summary_of(shown)}")


def main(argv: Sequence[str]) -> int:
    """Print the table, or write the figure; 2 where there is nothing to show."""
    parser = argparse.ArgumentParser(prog="python -m tools.prediction.claims", description=__doc__)
    parser.add_argument("source", nargs="?", default=None, help="recorded:DEVICE, cuda or cpu")
    parser.add_argument("--csv", action="store_true", help="every row as CSV")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="predicted against measured, as PNG")
    options = parser.parse_args(argv)
    try:
        source = source_named(options.source)
        rows = worst_first(prediction_rows(source))
        if options.figure is not None:
            options.figure.write_bytes(prediction_plot(source).png)
    except BrrrError as error:
        print(error, file=sys.stderr)
        return 2
    if options.csv:
        writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(record_of, rows))
        return 0
    print(source.badge(_prediction()), *map(text_of, rows), "", summary_of(rows), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
