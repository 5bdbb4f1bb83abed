"""Every row of the `prediction` experiment as a table, and predicted against measured as a figure.

python -m brrr.experiments.prediction_table recorded:h200           # every row, the worst first within its class
python -m brrr.experiments.prediction_table recorded:h200 --csv     # the same as CSV
python -m brrr.experiments.prediction_table recorded:h200 --figure predicted.png
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from brrr import units
from brrr.errors import BrrrError
from brrr.experiments import experiment
from brrr.experiments.prediction_cases import KINDS
from brrr.experiments.prediction_claims import percentile
from brrr.source import Source
from brrr.source import source as source_named

if TYPE_CHECKING:
    from brrr.experiments.prediction_rows import PredictedRow
    from brrr.plots import Picture

COLUMNS = (
    "class", "case", "how", "field", "measured_s", "predicted_s", "error", "datasheet_s", "datasheet_error",
    "torch_s", "torch_error", "predicted_bound", "true_bound", "why",
)  # fmt: skip
FIELD = {"stream": "busy_s", "product": "busy_s", "chain": "period_s"}
"""What a figure shows of each class where it was measured: the device's own time of a single operator."""


def prediction_rows(source: Source | None = None) -> tuple[PredictedRow, ...]:
    """Every row of a source (default: the one that `brrr.source()` gives); NotRecordedError where nothing is."""
    from brrr.experiments.prediction_rows import rows_of

    return rows_of(experiment("prediction"), source or source_named())


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

    from brrr import plots

    source = source or source_named()
    every = prediction_rows(source)
    fields = {row.field for row in every}
    shown = [row for row in every if row.field == FIELD[row.case.kind] or FIELD[row.case.kind] not in fields]
    drawn = plots.figure(560, 560)
    on = plots.axes(drawn, left=0.15, bottom=0.14, right=0.96, top=0.96)
    times = [value for row in shown for value in (row.measured.median, row.predicted_s)]
    ends = (min(times) / 1.5, max(times) * 1.5)
    on.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured", ylabel="predicted")
    on.plot(ends, ends, color=plots.GUIDE, linewidth=1)
    for index, kind in enumerate(KINDS):
        of_this = [row for row in shown if row.case.kind == kind]
        look = {
            **plots.look(index),
            "linestyle": "none",
            "markersize": 3.5,
            "markeredgewidth": 0.8,
            "fillstyle": "none",
        }
        on.plot([r.measured.median for r in of_this], [r.predicted_s for r in of_this], label=f"{kind}s", **look)
    for axis in (on.xaxis, on.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: plots.tick_label(value, "s")))
    on.legend(loc="upper left")
    plots.stamp(drawn, source.badge(experiment("prediction")))
    return plots.picture(drawn, f"Predicted against measured time, {len(shown)} cases.\n{summary_of(shown)}")


def main(argv: Sequence[str]) -> int:
    """Print the table, or write the figure; 2 where there is nothing to show."""
    parser = argparse.ArgumentParser(prog="python -m brrr.experiments.prediction_table", description=__doc__)
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
    print(source.badge(experiment("prediction")), *map(text_of, rows), "", summary_of(rows), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
