"""A question put to a source, value by value along an axis: what a predicate says of the measurements there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from brrr.bisection import Answer, Middle, numbers_between, values_between, whole_numbers_between
from brrr.errors import BrrrError, NotRecordedError
from brrr.experiment import Axis, Experiment, Line, Point, Value
from brrr.measurement import Estimate
from brrr.widget.choices import stand_in

if TYPE_CHECKING:
    from brrr.source import Source

MORE = 4
"""A live point that cannot be told is measured once more, with so many times the budget."""

CLOSE = 1.1
"""A bracket whose ends differ by less than a tenth is narrow enough, live: the noise of the measurements is as wide."""

Readings = Mapping[str, Estimate]
Predicate = Callable[[Readings], Answer]


class Asking:
    """The predicate's answers on a source, at values of one axis."""

    def __init__(
        self, experiment: Experiment, source: Source, axis: Axis, predicate: Predicate, at: Mapping[str, Value]
    ) -> None:
        self.experiment, self.source, self.axis, self.predicate, self.at = experiment, source, axis, predicate, at
        names: tuple[str, ...] = getattr(predicate, "lines", ())
        self.named = bool(names)
        self.lines = self._lines_here(names)

    def _lines_here(self, names: tuple[str, ...]) -> dict[str, Line]:
        """By the name that the predicate uses: the line, or the toy accelerator's in its place."""
        variants = self.source.variants(self.experiment)
        here = {line.name: line for line in self.experiment.lines if line.variant in variants}
        if not names:
            return {**{name.removeprefix("queue "): line for name, line in here.items()}, **here}
        for name in names:
            self.experiment.line(name)
        found = {name: stand_in(name, here) for name in names}
        missing = [name for name, there in found.items() if there is None]
        if missing:
            raise NotRecordedError(
                f"find_transition: {self.source.name} has no line {', '.join(missing)} of {self.experiment.name!r}; "
                f"it has {', '.join(here) or 'none'}"
            )
        return {name: here[there] for name, there in found.items() if there is not None}

    def reach(self, low: Value | None, high: Value | None) -> tuple[tuple[Any, Any], Middle]:
        """The two ends of the search, and how to find the next value between two others."""
        limits = [self.axis.checked("find_transition", end) if end is not None else None for end in (low, high)]
        values = [v for v in self.source.values(self.experiment, self.axis.name) if self._there(v)]
        if self.source.live:
            ends = [limit if limit is not None else value for limit, value in zip(limits, _ends(values), strict=True)]
            make = whole_numbers_between if self.axis.integer else numbers_between
            middle = make(CLOSE, log=self.axis.scale == "log")
        else:
            first, last = ((-math.inf, math.inf)[at] if end is None else float(end) for at, end in enumerate(limits))
            kept = [float(v) if isinstance(v, float) else int(v) for v in values if first <= float(v) <= last]
            ends, middle = list(_ends(kept)), values_between(kept)
        if None in ends or not float(ends[0]) < float(ends[1]):
            names = ", ".join(dict.fromkeys(line.name for line in self.lines.values()))
            raise NotRecordedError(
                f"find_transition: {self.source.name} has {len(values)} values of {self.axis.name!r} with {names} at "
                f"{dict(self.at)}; expected at least two"
            )
        return (ends[0], ends[1]), middle

    def _point(self, value: Value) -> dict[str, Value]:
        return self.experiment.point(**{**self.at, self.axis.name: value})

    def _there(self, value: Value) -> bool:
        """Whether the source has, or can measure, the predicate's lines at a value."""
        point = self._point(value)
        there = [self._has(line, point) for line in self.lines.values()]
        return all(there) if self.named else any(there)

    def _has(self, line: Line, point: Point) -> bool:
        if self.source.live:
            return self.experiment.has(line.variant, point)
        found = self.source.known(self.experiment, line.variant).get(tuple(point.values()))
        return found is not None and found.get(line.field) is not None

    def ask(self, value: Value) -> Answer:
        """What the predicate says of a value, measured now if it was not yet."""
        return self.predicate(self._readings(self.source, value))

    def ask_again(self, value: Value) -> Answer:
        """The same, measured once more and longer."""
        return self.predicate(self._readings(_more_careful(self.source), value))

    def _readings(self, source: Source, value: Value) -> dict[str, Estimate]:
        point = self._point(value)
        lines = {name: line for name, line in self.lines.items() if self.experiment.has(line.variant, point)}
        source.measure_together(self.experiment, [line.variant for line in lines.values()], point)
        found: dict[str, Estimate] = {}
        for name, line in lines.items():
            try:
                time = source.measure(self.experiment, line.variant, point).get(line.field)
            except BrrrError:
                if self.named:
                    raise
                continue
            if time is not None:
                found[name] = time
        return found


def _ends(values: list[Any]) -> tuple[Any, Any]:
    return (min(values, key=float), max(values, key=float)) if values else (None, None)


def _more_careful(source: Source) -> Source:
    """A source that measures everything anew, and longer; a live source of another kind decides for itself."""
    from brrr.live import Live

    return Live(source.kind, budget_s=MORE * source.budget_s) if isinstance(source, Live) else source
