"""What a line's time is turned into before it is shown: a rate, a ratio to one line, or a speed-up over another."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import product
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Estimate, Point, Value
from brrr_course.nouns.experiment import Experiment, Guide, Line, Rate
from brrr_course.nouns.source import Source
from brrr_course.view.arguments import View

if TYPE_CHECKING:
    from brrr.gpu.datasheet import Hardware

Points = dict[tuple[Value, ...], Estimate]
"""From a point, in the order of the axes, to what is shown there."""


class Times:
    """Times as they were measured; the other quantities turn these into something else.

    `unit` is that of the y axis, `label` its name, `guide_view` the view of the theoretical lines that belong to it,
    `relation` how the larger of two values is compared with the smaller; "" where each has its own base (then `as_much`
    says it). `more_is_better` tells which of several is the strongest.
    """

    unit, label, guide_view = "s", "time", "time"
    relation = as_much = "as long as"
    more_is_better, best_and_last = False, ("the shortest", "the longest")

    def __init__(self, experiment: Experiment, source: Source, view: View) -> None:
        self.experiment, self.source, self.view = experiment, source, view

    def here(self, name: str) -> Line:
        """The line, or the queue's that stands in for it on a machine without a GPU."""
        here = self.source.variants(self.experiment)
        return self.experiment.available(name, here) or self.experiment.line(name)

    def times(self, line: Line) -> Points:
        """The times of a line wherever the source has them."""
        known = self.source.known(self.experiment, line.variant)
        return {key: estimate for key, measured in known.items() if (estimate := measured.get(line.field))}

    def points(self, line: Line) -> Points:
        """What is shown of a line."""
        return self.times(line)

    def base(self, line: Line) -> Line | None:
        """The line that this one is compared with, if any."""
        return None

    def short(self, value: float) -> str:
        """A value with its unit."""
        return units.quantity(value, self.unit)

    def beside(self, line: Line, estimate: Estimate) -> str:
        """What the text line says behind a line's value."""
        return ""


class Bytes(Times):
    """The most memory that a line's call held, where times stand for others."""

    unit, label, guide_view, relation = "B", "memory", "memory", "as much memory as"
    best_and_last = "the smallest", "the largest"

    def times(self, line: Line) -> Points:
        """The bytes of a line wherever the source has them: they are counted, and have no interval."""
        known = self.source.known(self.experiment, line.variant)
        return {key: Estimate(*(float(each.peak_bytes),) * 3, n=1, power=0)
                for key, each in known.items() if each.peak_bytes}  # fmt: skip


class Shares(Times):
    """Seconds of each second, in percent: on an axis from nothing to all of it."""

    unit, label, relation = "%", "share of the time", ""

    def points(self, line: Line) -> Points:
        """A hundred times the seconds."""
        return {key: time * 100 for key, time in self.times(line).items()}


class Ratios(Times):
    """Each time over that of one line."""

    unit, guide_view, relation = "x", "ratio", ""

    @property
    def label(self) -> str:  # type: ignore[override]
        """Over which line."""
        return f"times as long as {self.experiment.line(self.view.to).label}"

    def points(self, line: Line) -> Points:
        """The ratio, with the widest interval that the two times allow, where both are there."""
        base = self.base(line)
        under = self.times(base) if base else {}
        return {key: time / under[key] for key, time in self.times(line).items() if key in under}

    def base(self, line: Line) -> Line | None:
        """The one line that all are compared with."""
        return self.here(self.view.to)

    def short(self, value: float) -> str:
        """A value with its unit."""
        return ratio(value)

    def beside(self, line: Line, estimate: Estimate) -> str:
        """As long as what, or as fast as what; where the interval holds 1, that it is not told apart."""
        base = self.base(line)
        if base is None or base == line:
            return ""
        return f"{', not told apart from' if estimate.low <= 1 <= estimate.high else f' {self.as_much}'} {base.label}"


class Speedups(Ratios):
    """For each line, the time of its base over its own: above 1x it is faster."""

    as_much = "as fast as"
    more_is_better, best_and_last = True, ("the fastest", "the slowest")

    @property
    def label(self) -> str:  # type: ignore[override]
        """Over which line, where it is one and the same."""
        bases = {self.here(name).label for name in self.view.bases.values()}
        return f"speed-up over {bases.pop()}" if len(bases) == 1 else "speed-up, each over its own base"

    def points(self, line: Line) -> Points:
        """The speed-up, with the widest interval that the two times allow, where both are there."""
        base = self.base(line)
        above = self.times(base) if base else {}
        return {key: above[key] / time for key, time in self.times(line).items() if key in above}

    def base(self, line: Line) -> Line | None:
        """The line that this one is compared with."""
        return next((self.here(base) for name, base in self.view.bases.items() if self.here(name) == line), None)


class Rates(Times):
    """The variant's bytes or FLOP over its time; a variant without a cost has none."""

    relation = "as fast as"
    more_is_better, best_and_last = True, ("the fastest", "the slowest")

    def __init__(self, experiment: Experiment, source: Source, view: View) -> None:
        super().__init__(experiment, source, view)
        self._amounts: dict[tuple[str, tuple[Value, ...]], float] = {}

    @property
    def rate(self) -> Rate:
        """What the experiment counts."""
        found = self.experiment.rate_of(self.view.rate)
        assert found is not None  # `quantity` refuses the others
        return found

    @property
    def unit(self) -> str:  # type: ignore[override]
        """The rate's own."""
        return self.rate.unit

    @property
    def label(self) -> str:  # type: ignore[override]
        """The rate's name."""
        return self.rate.label

    @property
    def guide_view(self) -> str:  # type: ignore[override]
        """That of the experiment's first rate, or of this amount."""
        return "rate" if self.rate == self.experiment.rate else self.rate.of

    def points(self, line: Line) -> Points:
        """The rate; the shortest time gives the upper end of its interval."""
        found = {key: (self._amount(line.variant, key), time) for key, time in self.times(line).items()}
        return {key: amount / time for key, (amount, time) in found.items() if amount > 0 and time.median > 0}

    def _amount(self, variant: str, key: tuple[Value, ...]) -> float:
        if (variant, key) not in self._amounts:
            point = dict(zip((axis.name for axis in self.experiment.axes), key, strict=True))
            cost = self.experiment.cost_at(variant, point)
            self._amounts[variant, key] = float(point.get(self.rate.of, getattr(cost, self.rate.of, 0.0)))
        return self._amounts[variant, key]


KINDS: Mapping[str, type[Times]] = {
    "time": Times, "bytes": Bytes, "share": Shares, "ratio": Ratios, "speedup": Speedups, "rate": Rates,
}  # fmt: skip


def quantity(experiment: Experiment, source: Source, view: View) -> Times:
    """The quantity of a view; ArgumentError for a rate of an experiment that names none."""
    if view.shows == "rate" and (experiment.rate_of(view.rate) is None or not experiment.cost):
        what = f"rate of {view.rate}" if view.rate else "rate"
        hint = f'{experiment.name!r} names no {what}; show="time" shows its times.'
        raise ArgumentError("explore", "show", "rate", "an experiment that names a rate and a cost", hint)
    return KINDS[view.shows](experiment, source, view)


def ratio(factor: float) -> str:
    """A ratio in a figure or on a page.

    >>> ratio(45.06)
    '45.1×'
    """
    return units.ratio(factor).replace("x", "×")


# ---------------------------------------------------------------------------------------------------------------------
# The theoretical lines of a view: where they stand, for which device, and what may not pass them.

RATES = ("rate", "bytes", "flop")
ABOVE = "above the limit: an accounting error or a cache"
"""What stands beside every rate over a datasheet's: it is never printed bare."""


def hardware_of(source: Source, experiment: Experiment) -> Hardware | None:
    """The datasheet of a source's device: what a live one looked up, else by the name on its badge."""
    from brrr.gpu.datasheet import Hardware, find_hardware

    live = getattr(getattr(source, "device", None), "hardware", None)
    return live if isinstance(live, Hardware) else find_hardware(source.badge(experiment).device)


def label(guide: Guide) -> str:
    """The name with its kind in front: `DATASHEET link limit`."""
    return f"{guide.kind} {guide.label}"


class ReferenceLines:
    """The theoretical lines of one view (as `time`, `rate` or `ratio`) of an experiment on a source's device.

    One that bounds certain lines only is left out where none of these is among `lines`.
    """

    def __init__(
        self, experiment: Experiment, source: Source, view: str, values: Mapping[str, tuple[Value, ...]],
        lines: Collection[str],
    ) -> None:  # fmt: skip
        self.hardware = hardware_of(source, experiment)
        here = [guide for guide in experiment.guides if not guide.lines or set(guide.lines) & set(lines)]
        wanted = [guide for guide in here if guide.view == view]
        points = [dict(zip(values, each, strict=True)) for each in product(*values.values())] if wanted else []
        self._heights = {guide.name: {_key(p): self._height(guide, p) for p in points} for guide in wanted}
        self.drawn = [guide for guide in wanted if self.all_heights(guide)]
        self.unknown = [guide for guide in wanted if guide.kind == "DATASHEET" and self.hardware is None]

    def _height(self, guide: Guide, point: Point) -> float | None:
        height = guide.at(self.hardware, point)
        return height if height is not None and math.isfinite(height) and height > 0 else None

    def at(self, guide: Guide, point: Point) -> float | None:
        """Where it stands at a point of the sliders; None where it does not apply."""
        return self._heights[guide.name].get(_key(point))

    def all_heights(self, guide: Guide) -> list[float]:
        """Its heights at all points of all sliders."""
        return [height for height in self._heights[guide.name].values() if height is not None]

    def exceeded(self, line: str, value: float, point: Point) -> Guide | None:
        """The datasheet's limit that a line's rate passes at a point, if any."""
        for guide in self.drawn:
            height = self.at(guide, point)
            bounds = guide.kind == "DATASHEET" and guide.view in RATES and line in (guide.lines or (line,))
            if bounds and height is not None and value > height:
                return guide
        return None


def _key(point: Point) -> tuple[Value, ...]:
    return tuple(value for _, value in sorted(point.items()))
