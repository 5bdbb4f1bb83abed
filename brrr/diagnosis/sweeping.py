"""`sweep`: a call at many sizes, each measured, counted and held against the roof: a table, a figure, a file.

>>> import torch
>>> def make(n):
...     x = torch.ones(n)
...     return lambda: torch.relu(x)
>>> [row.cost.flop for row in sweep(make, [2**10, 2**20], device="cpu", budget_s=0.02).rows]
[1024.0, 1048576.0]
"""

from __future__ import annotations

import csv
import gc
import io
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from brrr.core.callables import require_callable
from brrr.core.cards import Card, Carded
from brrr.core.errors import ArgumentError, UnavailableError, extras, first_line, is_out_of_memory
from brrr.core.files import json_text, read_json, write_atomically
from brrr.core.measurement import Badge, Cache, Measurement, Value
from brrr.diagnosis.assess import model_here
from brrr.diagnosis.timed import Timed, timed
from brrr.gpu.device import processor_for, this_device
from brrr.timing.sampler import BUSY, WHY_BUSY

if TYPE_CHECKING:
    from brrr.drawing.style import Picture

FORMAT = 1
"""Of the file that keeps a sweep: `Sweep.to_json` and a checksum."""


@dataclass(frozen=True, repr=False)
class Sweep(Carded):
    """A call measured at many sizes: a row for each.

    >>> Sweep({"rows": (1, 2), "width": (64, 128)}, (), Badge("LIVE", "a CPU", "2026-11-30", ""))
    Over rows and width: 0 rows.
    LIVE · a CPU · 2026-11-30

    `sweep` returns it; it prints as a table.

    Attributes
    ----------
    axes : mapping of str to tuple
        The sizes of each axis.
    rows : tuple of Timed
        One for each combination that was measured. Each has its `sizes`, a `measurement`, its `time`, the `cost`
        without its operators, the `rates` and the `regime`, and prints as `%brrr` does.
    badge : Badge
        Where it was measured, and when it was begun.
    kind : str
        The kind of the device, such as "cuda".
    cache : {"hot", "cold"}
        As it was asked for.
    """

    axes: Mapping[str, tuple[Value, ...]]
    rows: tuple[Timed, ...]
    badge: Badge
    kind: str = "cpu"
    cache: Cache = "hot"

    def _card(self) -> Card:
        title = f"Over {' and '.join(self.axes)}: {len(self.rows)} row{'s' * (len(self.rows) != 1)}"
        for regime, alike in groupby(self.rows, lambda row: row.regime.partition(" (")[0]):
            title += f", {regime} from {said(next(alike).sizes)}" * (len(self.axes) == 1)
        cells = [{**{name: str(size) for name, size in row.sizes.items()}, **row.cells()} for row in self.rows]
        heads = [head for head in (cells or [{}])[0] if any(each[head] for each in cells)]
        flags = dict.fromkeys(WHY_BUSY if flag == BUSY else flag for row in self.rows for flag in row.measurement.flags)
        notes = dict.fromkeys([*flags, *(note for row in self.rows for note in row.notes)])
        lines = [[heads, *([each[head] for head in heads] for each in cells)], *notes]
        return Card(f"{title}.", lines if cells else (), caption=str(self.badge))

    def to_csv(self, path: str | Path | None = None) -> str:
        """A table for a spreadsheet, also written to a file: times in seconds, with the ends of their intervals."""
        rows, text = [row.columns() for row in self.rows], io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*map(list, rows[:1]), *(each.values() for each in rows)])
        if path is not None:
            write_atomically(Path(path), text.getvalue())
        return text.getvalue()

    def to_frame(self) -> Any:
        """The same table as pandas has it; UnavailableError where that is not installed."""
        with suppress(ModuleNotFoundError):
            from pandas import DataFrame

            return DataFrame([row.columns() for row in self.rows])
        raise UnavailableError("Sweep.to_frame needs pandas, which is not installed: pip install pandas")

    @extras("Sweep.plot")
    def plot(self, what: Literal["time", "roofline"] = "time") -> Picture:
        """Draw the times over the first axis of numbers, a line for each combination of the others, or a roofline.

        Dashed is the least time that the roof allows. MissingPeakError where nobody knows the roofs of the device.
        """
        if what not in ("time", "roofline"):
            raise ArgumentError("Sweep.plot", "what", what, "'time' or 'roofline'")
        if what == "time":
            return _over_an_axis(self)
        from brrr.drawing.roofline import roofline_plot

        points = {said(row.sizes): (row.cost, row.time) for row in self.rows if row.time and row.cost and row.cost.flop}
        model, dtypes = model_here(self.kind), {name for row in self.rows for name in row.roof} or {"fp32"}
        where = (model and (model.peaks or model.hardware)) or self.kind
        return roofline_plot(points, where, dtypes=dtypes, badge=self.badge)


def _over_an_axis(found: Sweep) -> Picture:
    from brrr.drawing import style as plots

    numeric = {name: all(isinstance(each, int | float) and each > 0 for each in v) for name, v in found.axes.items()}
    axis = max(numeric, key=numeric.__getitem__)
    values, scale = found.axes[axis], "log" if numeric[axis] else "category"
    places = dict(zip(values, plots.positions(values, scale), strict=True))
    lines: dict[str, list[Any]] = {}
    for row in (each for each in found.rows if each.time):
        name = said({other: value for other, value in row.sizes.items() if other != axis}) or "measured"
        lines.setdefault(name, []).append((places[row.sizes[axis]], row.time, row.roof_s or float("nan")))
    figure = plots.figure()
    on = plots.axes(figure, left=0.14, top=0.94 - plots.LEGEND_ROW * plots.legend_rows([*lines, ""]) / plots.HEIGHT)
    for index, (name, line) in enumerate(lines.items()):
        xs, times, roofs = zip(*line, strict=True)
        plots.draw_line(on, xs, [each.median for each in times], index, name)
        on.vlines(xs, [each.low for each in times], [each.high for each in times], plots.look(index)["color"])
        plots.draw_guide(on, xs, roofs, 0, "the roof" * (index == len(lines) - 1))
    on.set(xscale="log" if numeric[axis] else "linear", yscale="log", xlabel=axis)
    ticks = plots.ticked(values, scale)
    on.set_xticks([places[each] for each in ticks], [plots.readable(each) for each in ticks])
    on.set_xticks([], minor=True)
    plots.value_axis(on, "s", "time")
    plots.legend(on, -0.14)
    plots.stamp(figure, found.badge)
    return plots.picture(figure, f"Time over {axis}.\n{found}")


def sweep(
    make: Callable[..., Callable[[], Any]], sizes: Iterable[Any] | Mapping[str, Iterable[Any]], *,
    device: str | None = None, cache: Cache = "hot", budget_s: float = 0.2, file: str | Path | None = None,
) -> Sweep:  # fmt: skip
    """Measure a call at many sizes, with its FLOP and bytes, its share of the roof, and what limits it.

    >>> import torch
    >>> def make(rows, width):
    ...     a, b = torch.ones(rows, width), torch.ones(width, width)
    ...     return lambda: a @ b
    >>> found = sweep(make, {"rows": [1, 8], "width": [64, 128]}, device="cpu", budget_s=0.02)
    >>> found.rows[-1].sizes, found.rows[-1].cost.flop
    ({'rows': 8, 'width': 128}, 262144.0)

    ``found.plot()`` draws the times, ``found.plot("roofline")`` the rows under the roofs of the device.

    Parameters
    ----------
    make : callable
        ``make(size)`` makes the inputs and returns the function to measure, which takes no arguments. With a dict of
        sizes it is called with one of each by their keywords.
    sizes : iterable, or dict of iterables
        The sizes of one axis, or of several by name, of which all combinations are measured. They need not be numbers:
        the table has the names of functions and data types.
    device, cache
        As for `measure`.
    budget_s : float
        About how many seconds to measure each row.
    file : str or Path, optional
        A JSON file that keeps each row as soon as it is measured. If it is there, the sweep goes on where it ended,
        and tries again what ran out of memory. Functions are not compared: name another file for another `make`.

    Returns
    -------
    Sweep
        A row for each combination. What runs out of memory has a row that says so. Ctrl-C ends the sweep and returns
        the rows that were measured.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, or the file is of a sweep of other axes, on another device, or of another torch.
    RecordingError
        If the file is damaged or cannot be written. What `make` and its functions raise passes through, with a note
        that names the sizes.

    See Also
    --------
    compare_calls : which of several functions is faster, in turns.
    """
    require_callable("sweep", "make", make, "a function of the sizes that returns the function to measure")
    given = sizes if isinstance(sizes, Mapping) else {"size": sizes}
    axes, here = {name: _labelled(each) for name, each in given.items()}, this_device(processor_for("sweep", device))
    badge = Badge("LIVE", here.name, date.today().isoformat(), f"torch {here.torch_version}" * bool(here.torch_version))
    found = _begun(Sweep({name: tuple(each) for name, each in axes.items()}, (), badge, here.kind, cache), file)
    rows, grid = {tuple(each.sizes.values()): each for each in found.rows}, [*product(*axes.values())]
    how: Any = {"device": here.kind, "cache": cache, "budget_s": budget_s}
    with suppress(KeyboardInterrupt):
        for at in (each for each in grid if each not in rows):
            where = dict(zip(axes, at, strict=True))
            if getattr(sys.stderr, "isatty", bool)() or type(sys.stderr).__module__ == "ipykernel.iostream":
                print(f"sweep: {grid.index(at) + 1} of {len(grid)}, {said(where)}", file=sys.stderr, flush=True)
            args = {name: axes[name][label] for name, label in where.items()}
            try:
                row = timed(make(**args) if given is sizes else make(*args.values()), **how)
            except Exception as error:
                if not is_out_of_memory(error):
                    error.add_note(f"sweep: at {said(where)}")
                    raise
                row = Timed(Measurement(), None, None, None, "out of memory", (first_line(error),))
            rows[at] = replace(row, cost=row.cost and replace(row.cost, operators=()), prediction=None, sizes=where)
            found = replace(found, rows=tuple(rows[each] for each in grid if each in rows))
            if file is not None:
                write_atomically(Path(file), json_text(FORMAT, found.as_dict()))
            gc.collect()  # what is in a circle, too, is gone before the next row is made
    return found


def said(sizes: Mapping[str, Value]) -> str:
    """Sizes in words.

    >>> said({"rows": 8, "dtype": "bf16"})
    'rows=8, dtype=bf16'
    """
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def _labelled(values: Any) -> dict[Value, Any]:
    """The sizes of an axis by what stands for them in the table."""
    several = list(getattr(values, "tolist", lambda: values)()) if isinstance(values, Iterable) else []  # of numpy, too
    found = {x if type(x) in (int, float, str) else getattr(x, "__name__", str(x)): x for x in several}
    if not found or len(found) < len(several):
        raise ArgumentError("sweep", "sizes", values, "several that differ, or a dict of such by the keywords of make")
    return found


def _begun(new: Sweep, file: str | Path | None) -> Sweep:
    """What the file has of the same sweep, but for what ran out of memory; the new one where there is no file yet."""
    if file is None or not Path(file).exists():
        return new
    kept = read_json(Path(file), Sweep, FORMAT)
    if replace(kept, rows=(), badge=replace(kept.badge, date=new.badge.date)) != new:
        of = f"It is of {dict(kept.axes)} on {kept.badge}, {kept.cache}"
        raise ArgumentError("sweep", "file", str(file), "this sweep's file", of)
    return replace(kept, rows=tuple(each for each in kept.rows if each.time))
