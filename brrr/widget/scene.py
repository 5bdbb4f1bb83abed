"""What an explorer shows, without any widget: which point, which lines, their data, the text line and the picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brrr import units
from brrr.experiment import Axis, Experiment, Line, Value
from brrr.measurement import Estimate
from brrr.source import Source
from brrr.widget.choices import available, looks, over, slider_values, snap

if TYPE_CHECKING:
    from brrr.widget.canvas import Curve, Frame

Row = tuple[Value, float, float, float]
"""One point of a line: where it is on the x axis, then median, low and high."""

_ROOM = 1.5  # at least this factor between a point and the end of the y axis, so that its mark is whole
_PARTS = ("median", "low", "high")
_EMPTY_LIMITS = (1e-6, 1.0)  # of the time axis before anything was measured


@dataclass(frozen=True)
class View:
    """What the y axis shows (times, or their ratio to the line `to`), what lies along x, and which values are kept."""

    x: str
    to: str = ""
    keep: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """The unit of the y axis."""
        return "x" if self.to else "s"


class Scene:
    """The point looked at, the lines switched on, and what the source has on them.

    Sliders change it through `move`, checkboxes through `switch`; `text`, `data` and `picture` say what it shows.
    """

    def __init__(
        self, experiment: Experiment, source: Source, at: Mapping[str, Value], lines: Sequence[str] | None, view: View
    ) -> None:
        self.experiment, self.source, self.view = experiment, source, view
        self.lines = available(experiment, source, lines)
        self.on = [line.name for line in self.lines if lines or line.shown] or [line.name for line in self.lines[:1]]
        self.values = slider_values(experiment, source, self.lines, view.keep)
        self.looks = looks(experiment, self.lines)
        self.point = {axis.name: self._start(axis, at) for axis in experiment.axes}
        self.message = ""
        self.refresh()

    def _start(self, axis: Axis, at: Mapping[str, Value]) -> Value:
        values = self.values[axis.name]
        if axis.name not in at:
            return values[len(values) // 2]
        if axis.scale == "category" and at[axis.name] not in values:  # another source has it, this one has not
            return values[0]
        return snap(axis, values, at[axis.name])

    @property
    def x_axis(self) -> Axis:
        """The axis that lies along x."""
        return self.experiment.axis(self.view.x)

    def move(self, axis: str, value: Value) -> None:
        """Go to another value of an axis; along x only the marks move, along another axis the lines do."""
        self.point[axis] = snap(self.experiment.axis(axis), self.values[axis], value)
        self.message = ""
        if axis != self.view.x:
            self._cut()

    def switch(self, line: str, on: bool) -> None:
        """Switch a line on or off."""
        self.experiment.line(line)
        self.on = [each.name for each in self.lines if (on if each.name == line else each.name in self.on)]

    def refresh(self) -> None:
        """Read the source again, after something was measured."""
        self._known = {line.name: self.source.known(self.experiment, line.variant) for line in self.lines}
        self._frame = self._make_frame()
        self._cut()

    def _cut(self) -> None:
        """Each line along x at the values of the other axes."""
        cut = {line.name: self._along_x(line) for line in self.lines}
        if self.view.to:
            base = self._along_x(self.experiment.line(self.view.to))
            cut = {name: {x: over(e, base[x]) for x, e in line.items() if x in base} for name, line in cut.items()}
        self._cuts = cut

    def _along_x(self, line: Line) -> dict[Value, Estimate]:
        names = [axis.name for axis in self.experiment.axes]
        known = self._known.get(line.name) or self.source.known(self.experiment, line.variant)
        found: dict[Value, Estimate] = {}
        for key, measured in known.items():
            estimate = measured.get(line.field)
            at = dict(zip(names, key, strict=True))
            if estimate and all(at[name] == self.point[name] for name in names if name != self.view.x):
                found[at[self.view.x]] = estimate
        order = list(self.values[self.view.x])
        return {x: found[x] for x in order if x in found}

    @property
    def data(self) -> dict[str, list[Row]]:
        """What is drawn: for each line switched on, its points as (x, median, low, high)."""
        return {name: [(x, e.median, e.low, e.high) for x, e in self._cuts[name].items()] for name in self.on}

    def here(self) -> dict[str, Estimate]:
        """For each line switched on, its value where the slider stands; lines without one there are left out."""
        x = self.point[self.view.x]
        return {name: self._cuts[name][x] for name in self.on if x in self._cuts[name]}

    @property
    def place(self) -> str:
        """The point in words: `size 4096`."""
        from brrr.plots import readable

        return ", ".join(f"{name} {readable(value)}" for name, value in self.point.items())

    def readings(self) -> list[tuple[str, str]]:
        """For each line with a value where the slider stands, its label and that value."""
        return [(self.experiment.line(name).label, self._said(estimate)) for name, estimate in self.here().items()]

    @property
    def text(self) -> str:
        """One line that says what the figure shows at the slider's value."""
        said = "; ".join(f"{label}: {value}" for label, value in self.readings())
        return f"At {self.place}{': ' if said else ''}{said}. {self.remark}".rstrip()

    @property
    def remark(self) -> str:
        """What stands behind the readings: a comparison, which lines have no value here, and a message."""
        here = self.here()
        parts = (self._comparison(here), self._absent([name for name in self.on if name not in here]), self.message)
        return " ".join(part for part in parts if part)

    def _said(self, estimate: Estimate) -> str:
        return units.ratio(estimate.median) if self.view.to else units.seconds(estimate.median)

    def _absent(self, names: Sequence[str]) -> str:
        if not self.on:
            return "No line is switched on."
        if not names:
            return ""
        said = "Not measured yet" if self.source.live else "Not recorded here"
        return f"{said}: {'; '.join(self.experiment.line(name).label for name in names)}."

    def _comparison(self, here: Mapping[str, Estimate]) -> str:
        """Slowest over fastest, where there are two to compare."""
        if len(here) < 2 or self.view.to:
            return ""
        slow = max(here, key=lambda name: here[name].median)
        fast = min(here, key=lambda name: here[name].median)
        factor = units.ratio(here[slow].median / here[fast].median)
        longest, shortest = (self.experiment.line(name).label for name in (slow, fast))
        return f"Longest over shortest: {factor} ({longest} over {shortest})."

    @property
    def alt(self) -> str:
        """The alternative text of the picture: the same wherever the sliders stand, for the text line says the rest."""
        return f"Line chart of {self.y_label} against {self.x_axis.title}. {self.source_said}"

    @property
    def source_said(self) -> str:
        """The badge as text."""
        return str(self.source.badge(self.experiment))

    @property
    def y_label(self) -> str:
        """What the y axis shows."""
        return f'time over that of "{self.view.to}"' if self.view.to else "time"

    def curves(self) -> list[Curve]:
        """The lines as the canvas takes them."""
        from brrr.plots import positions
        from brrr.widget.canvas import Curve

        drawn = []
        axis, values = self.x_axis, self.values[self.view.x]
        joined = not self.source.live  # while points are being measured, nothing runs over those that are missing
        for line in self.lines:
            if line.name in self.on:
                points = self._cuts[line.name]
                xs = tuple(positions(values, axis.scale, list(points)))
                ys, lows, highs = (tuple(float(getattr(e, p)) for e in points.values()) for p in _PARTS)
                drawn.append(Curve(line.name, line.label, self.looks[line.name], xs, ys, lows, highs, joined=joined))
        return drawn

    def marks(self) -> tuple[float, dict[str, float], str]:
        """What the canvas marks: the place on the x axis, each line's height there, and the message."""
        from brrr.plots import positions

        axis = self.x_axis
        (place,) = positions(self.values[axis.name], axis.scale, [self.point[axis.name]])
        return place, {name: e.median for name, e in self.here().items()}, self.message

    def frame(self) -> Frame:
        """The axes, limits and badge: the same while a slider moves."""
        return self._frame

    def _make_frame(self) -> Frame:
        from brrr.widget.canvas import Frame

        axis = self.x_axis
        limits, rows = self._limits(), -(-len(self.lines) // (2 if len(self.lines) <= 8 else 3))
        badge = self.source.badge(self.experiment)
        return Frame(
            tuple(self.values[axis.name]), axis.scale, axis.title, self.view.unit, self.y_label, limits, badge, rows
        )

    def _limits(self) -> tuple[float, float]:
        """From one power of ten to another around every point of every line, at all values of all sliders."""
        bounds: list[float] = []
        for line in self.lines:
            base = self._reference()
            for key, measured in self._known[line.name].items():
                estimate = measured.get(line.field)
                if estimate and self._kept(key) and (not self.view.to or key in base):
                    shown = over(estimate, base[key]) if self.view.to else estimate
                    bounds.append(shown.median)
        positive = [bound for bound in bounds if bound > 0]
        if not positive:
            return (0.1, 10.0) if self.view.to else _EMPTY_LIMITS
        low, high = math.floor(math.log10(min(positive) / _ROOM)), math.ceil(math.log10(max(positive) * _ROOM))
        return 10.0**low, 10.0 ** max(high, low + 1)

    def _kept(self, key: tuple[Value, ...]) -> bool:
        return all(value in self.values[axis.name] for axis, value in zip(self.experiment.axes, key, strict=True))

    def _reference(self) -> dict[tuple[Value, ...], Estimate]:
        if not self.view.to:
            return {}
        line = self.experiment.line(self.view.to)
        known = self.source.known(self.experiment, line.variant)
        return {key: estimate for key, m in known.items() if (estimate := m.get(line.field))}
