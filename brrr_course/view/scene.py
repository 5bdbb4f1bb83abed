"""What an explorer shows, without any widget: which point, which lines, their data and the axes they stand on."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import contains
from typing import NamedTuple

from brrr.core.measurement import Badge, Estimate, Value
from brrr_course.nouns.experiment import Axis, Experiment, Line
from brrr_course.nouns.source import Key, Source
from brrr_course.view.arguments import View, available, slider_values, snap
from brrr_course.view.predictions import LinePrediction, Predictions
from brrr_course.view.quantities import Points, Rates, ReferenceLines, Times, label, quantity, ratio

Row = tuple[Value, float, float, float]
"""One point of a line: where it is on the x axis, then median, low and high."""


class Guessed(NamedTuple):
    """Where a guess stands: the point, and of which time it is a multiple, if of any.

    `exact` says that the source has the point and the lines asked for, none nearby or in their place; `inverse` that it
    is the factor by which something is faster; `drawn` that the figure has an axis for it.
    """

    point: dict[str, Value]
    exact: bool
    base: float | None
    inverse: bool
    drawn: bool


LINEAR_UP_TO = 20.0
"""Where the values at all places of the sliders differ by more than this factor, a short bar would not be seen."""
_FOR_PREDICTIONS = 1.25  # and so much more, since predictions may lie beyond what was measured
_ROOM = 1.25  # at least this factor between a point and the end of the y axis, so that its mark is whole
_EMPTY_LIMITS = {"s": (1e-6, 1.0), "x": (0.1, 10.0), "%": (1.0, 100.0)}  # of an axis before anything was measured
_EMPTY_RATES = (1e6, 1e12)


class Scene:
    """The point looked at, the lines switched on, and what the source has on them.

    Sliders change it through `move`, checkboxes through `switch`; `text`, `data` and `picture` say what it shows.
    """

    def __init__(
        self, experiment: Experiment, source: Source, at: Mapping[str, Value], lines: Sequence[str] | None, view: View,
        predict: bool = False,
    ) -> None:  # fmt: skip
        experiment = experiment.on(source.kind)
        self.experiment, self.source, self.view = experiment, source, view
        self.quantity = quantity(experiment, source, view)
        self.lines = available(experiment, source, lines, view.only)
        all_on = lines or view.only
        self.asked = [line for line in experiment.lines if (line.name in all_on if all_on else line.shown)]
        self.on = [line.name for line in self.lines if all_on or line.shown] or [line.name for line in self.lines[:1]]
        self.values = slider_values(experiment, source, self.lines, view.keep)
        names = [line.name for line in self.lines]
        self.guides = ReferenceLines(experiment, source, self.quantity.guide_view, self.values, names)
        self.predictions = Predictions(experiment, source, predict)
        self._others = [axis.name for axis in experiment.axes if axis.name != view.x]
        self.point = {axis.name: self._start(axis, at) for axis in experiment.axes}
        self.message = ""
        self._held = set(self.on)  # lines that were on at some time: what the axis of values holds
        self._room = _ROOM * (_FOR_PREDICTIONS if predict else 1.0)  # switching them on or off moves no axis
        self._foretold = [height for rows in self.predicted_data.values() for _, height in rows]
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
        """The axis that lies along x; of bars, the one that "Measure all points" goes along."""
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
        if on and line not in self._held:
            self._held.add(line)
            self._limits = self.limits_of(self._held)
        self.on = [each.name for each in self.lines if (on if each.name == line else each.name in self.on)]

    def refresh(self) -> None:
        """Read the source again, after something was measured."""
        points = {line.name: self.quantity.points(line) for line in self.lines}
        self.everywhere = {line: self._in_reach(found) for line, found in points.items()}
        self._along = {line: self._by_the_others(found) for line, found in points.items()}
        self._limits = self.limits_of(self._held)
        self._times = {line.name: self.quantity.times(line) for line in self.lines} if self.view.asked else {}
        self.guessed = self._guessed()
        self._cut()

    def _guessed(self) -> Guessed | None:
        """Where a guess stands; None where none is asked for."""
        asked = self.view.asked
        if asked is None:
            return None
        point = {axis.name: self._start(axis, asked.at) for axis in self.experiment.axes}
        base = self._median(self._times, asked.of.base, {**point, **asked.of.over}) if self.asks_factor else None
        drawn = not self.view.is_bars and (
            asked.unit == self.quantity.unit or (self.view.shows == "time" and bool(base))
        )
        exact = {**point, **asked.at} == point and all(self.quantity.here(name).name == name for name in asked.of[:2])
        return Guessed(point, exact, base, self.relation == Rates.relation, drawn)

    @property
    def asks_factor(self) -> bool:
        """Whether the guess is of two times, one over the other, in a figure that shows no ratios itself."""
        asked = self.view.asked
        return asked is not None and asked.unit == "x" != self.quantity.unit and bool(self.view.versus)

    @property
    def relation(self) -> str:
        """How two lines are compared: as the question does, else as the figure's quantity does."""
        if not self.asks_factor or self.view.asked is None:
            return self.quantity.relation
        return Rates.relation if "fast" in self.view.asked.guess.question else Times.relation

    @property
    def answer(self) -> float | None:
        """What the guess asks for, where the sliders stand: a value of the figure, a time, or one time over another."""
        asked = self.view.asked
        if asked is None or self.quantity.here(asked.of.line).name not in self.on:
            return None
        if asked.unit == self.quantity.unit:
            return self._median(self.everywhere, asked.of.line, self.point)
        here = self._median(self._times, asked.of.line, self.point)
        if not self.asks_factor:
            return here if asked.unit == "s" else None
        base = self._median(self._times, asked.of.base, {**self.point, **asked.of.over})
        return (base / here if self.relation == Rates.relation else here / base) if here and base else None

    def _median(self, of: Mapping[str, Points], line: str, point: Mapping[str, Value]) -> float | None:
        """The median of a line, or of the one that stands in for it, at a point."""
        found = of.get(self.quantity.here(line).name, {}).get(tuple(point.values()))
        return found.median if found else None

    @property
    def guess(self) -> float | None:
        """The student's guess, once it is given, where the figure has an axis for it."""
        value = self.view.asked.guess.value if self.view.asked and self.guessed and self.guessed.drawn else None
        return value if isinstance(value, float) else None

    def _cut(self) -> None:
        """Each line along x at the values of the other axes."""
        self._cuts = {line.name: self.along_x(line.name, self.point) for line in self.lines}

    def along_x(self, line: str, point: Mapping[str, Value]) -> dict[Value, Estimate]:
        """A line's points in the order of x, at a point's values of the other axes."""
        return self._along[line].get(tuple(map(point.__getitem__, self._others)), {})

    def _by_the_others(self, points: Points) -> dict[tuple[Value, ...], dict[Value, Estimate]]:
        """A line's points in the order of x, by the values of the other axes."""
        x = [axis.name for axis in self.experiment.axes].index(self.view.x)
        found: dict[tuple[Value, ...], dict[Value, Estimate]] = {}
        for key, estimate in points.items():
            found.setdefault((*key[:x], *key[x + 1 :]), {})[key[x]] = estimate
        values = self.values[self.view.x]
        return {others: {x: along[x] for x in values if x in along} for others, along in found.items()}

    @property
    def data(self) -> dict[str, list[Row]]:
        """What is drawn: for each line switched on, its points as (x, median, low, high); of bars the point's only."""
        if self.view.is_bars:
            x = self.point[self.view.x]
            return {name: [(x, e.median, e.low, e.high)] for name, e in self.here().items()}
        return {name: [(x, e.median, e.low, e.high) for x, e in self._cuts[name].items()] for name in self.on}

    @property
    def drawn(self) -> list[Line]:
        """The lines switched on that have something to show."""
        there: Mapping[str, object] = self.here() if self.view.is_bars else self._cuts
        return [line for line in self.lines if line.name in self.on and there.get(line.name)]

    @property
    def guide_data(self) -> dict[str, list[tuple[Value, float]]]:
        """The theoretical lines that are drawn: for each its heights as (x, height); of bars at the point only."""
        return {label(guide): list(self._guide_along_x(guide.name)) for guide in self.guides.drawn}

    def _guide_along_x(self, name: str) -> Iterable[tuple[Value, float]]:
        guide = next(each for each in self.guides.drawn if each.name == name)
        x = self.view.x
        for value in [self.point[x]] if self.view.is_bars else self.values[x]:
            height = self.guides.at(guide, {**self.point, x: value})
            if height is not None:
                yield value, height

    def here(self) -> dict[str, Estimate]:
        """For each line switched on, its value where the slider stands; lines without one there are left out."""
        x = self.point[self.view.x]
        return {name: self._cuts[name][x] for name in self.on if x in self._cuts[name]}

    @property
    def predicts(self) -> bool:
        """Whether predictions are shown, and for a line switched on something is known of its device."""
        return self.predictions.on and self.predictions.known(self.experiment.line(name) for name in self.on)

    @property
    def predicted_here(self) -> list[LinePrediction]:
        """For each line switched on, what is predicted where the sliders stand, and what was measured."""
        if not self.predicts:
            return []
        return [self.predictions.row(self.experiment.line(name), self.point) for name in self.on]

    @property
    def predicted_data(self) -> dict[str, list[tuple[Value, float]]]:
        """The predictions that are drawn: for each line switched on, its heights as (x, height); of bars none."""
        if not self.predicts or self.view.is_bars:
            return {}
        points = [{**self.point, self.view.x: value} for value in self.values[self.view.x]]
        return {name: self.predictions.along_x(self.experiment.line(name), self.view, points) for name in self.on}

    def _in_reach(self, points: Points) -> Points:
        """Those at values that the sliders take: what fixed axes must hold."""
        reach = [frozenset(self.values[axis.name]) for axis in self.experiment.axes]
        return {key: e for key, e in points.items() if all(map(contains, reach, key))}

    # -- in words --------------------------------------------------------------------------------------------------

    @property
    def source_said(self) -> str:
        """The badge as text."""
        return str(self.badge)

    @property
    def badge(self) -> Badge:
        """What stands on the figure, of the lines switched on at all places of the sliders."""
        on = [line for line in self.lines if line.name in self.on]
        shown: dict[str, set[Key]] = {}
        for line in on:
            shown.setdefault(line.variant, set()).update(self.everywhere[line.name])
        return self.source.badge(self.experiment, shown)

    @property
    def y_label(self) -> str:
        """What the y axis shows."""
        return self.quantity.label

    def said(self, answer: float | str) -> str:
        """A guess, or what it should be, as it reads."""
        assert self.view.asked is not None
        return ratio(float(answer)) if self.view.asked.unit == "x" else str(self.view.asked.guess.form.show(answer))

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of the axis of values: the same wherever the sliders stand."""
        return self._limits

    @property
    def span(self) -> tuple[float, float]:
        """The least and the largest value at all places of the sliders, the theoretical ones among them."""
        found = [e.median for points in self.everywhere.values() for e in points.values()]
        for guide in self.guides.drawn:
            found += self.guides.all_heights(guide)
        positive = [value for value in found if 0 < value < math.inf]
        return (min(positive), max(positive)) if positive else self._limits

    @property
    def is_log(self) -> bool:
        """Whether its values differ too much for bars: then a ladder has markers on a log axis."""
        low, high = self.span
        return high > LINEAR_UP_TO * low

    def limits_of(self, names: Collection[str]) -> tuple[float, float]:
        """Round numbers around every point of these lines, at all values of all sliders.

        Of what is predicted, around what is drawn to begin with: elsewhere it may be far from everything measured.
        """
        held = [points for line, points in self.everywhere.items() if line in names]
        bounds = [e.median for points in held for e in points.values()] + self._foretold
        if not bounds:
            bounds = list(_EMPTY_LIMITS.get(self.quantity.unit, _EMPTY_RATES))
        for guide in self.guides.drawn:
            bounds += self.guides.all_heights(guide)
        positive = [bound for bound in bounds if 0 < bound < math.inf]
        return _round_limits(min(positive) / self._room, max(positive) * self._room)


def _round_limits(low: float, high: float) -> tuple[float, float]:
    """A step times a power of ten around two numbers, so that lines fill the axes.

    >>> _round_limits(3.5e-7, 2.5), _round_limits(0.6, 1.9)
    ((3e-07, 3.0), (0.5, 2.0))
    """
    steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    down, up = math.floor(math.log10(low)), math.floor(math.log10(high))
    least = max(step * 10.0**down for step in steps if step * 10.0**down <= low * (1 + 1e-9))
    most = min(
        step * 10.0**power for step in steps for power in (up, up + 1) if step * 10.0**power * (1 + 1e-9) >= high
    )
    return least, most if most > least else 10 * least
