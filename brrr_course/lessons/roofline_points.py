"""`roofline_of`: the points of an experiment under the roofs of the machine that they were measured on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Badge, Estimate, Value
from brrr.counting.cost import Cost
from brrr.drawing.roofline import roofline_plot
from brrr.drawing.roofs import Roof, highest, memory, roofs_of
from brrr.drawing.style import Picture, readable
from brrr.gpu import is_cpu
from brrr.roofline.device_model import Where, model_of
from brrr_course.experiments import experiment as experiment_named
from brrr_course.lessons.comparison import lines_here, time_at
from brrr_course.lessons.waiting import Comparison
from brrr_course.nouns.experiment import Experiment, Line
from brrr_course.nouns.source import Source
from brrr_course.sources import source_for
from brrr_course.view.arguments import reachable
from brrr_course.view.display import Shown
from brrr_course.view.figure import Data, log_axis, short, slider_of, told_once
from brrr_course.view.predictions import figures_of

FAR_BELOW = 1 / 3
"""Of less of the roof than this, neither memory nor arithmetic sets the time."""


class Spot(NamedTuple):
    """What one call does at a value of the axis, and how long it takes."""

    value: Value
    cost: Cost
    time: Estimate

    @property
    def intensity(self) -> float:
        """FLOP for each byte."""
        return self.cost.flop / self.cost.bytes

    @property
    def rate(self) -> float:
        """FLOP/s."""
        return self.cost.flop / self.time.median


Kernels = Sequence[tuple[Roof, Sequence[Spot]]]
"""For each line the flat roof above it, and its points."""


def roofline_of(
    experiment: str, lines: Sequence[str] | Mapping[str, str], *, at: Mapping[str, Value] | None = None,
    source: Source | None = None,
    **axes: Value | tuple[Value, ...],
) -> Roofline | Comparison:  # fmt: skip
    """Show lines of an experiment below the roofs of their device: a point that climbs them as its slider moves.

    >>> roofline_of("repeat", ["cuda mul"], repeat=(1, 512), elements=2**26, dtype="float32")  # doctest: +SKIP

    Parameters
    ----------
    experiment : str
        The experiment.
    lines : sequence of str, or mapping of str to str
        Its lines; with a mapping, each is held against the measured flat roof of that name ("fp32 MUL"). Without one,
        and where the device has none of that name, against the highest.
    at : mapping of str, optional
        The point, as for `explore`; it snaps to what the data have.
    source : Source, optional
        Where the measurements come from, as for `explore`. A live source measures them now.
    **axes
        Values by axis; they override those in `at`. An axis with several values has a slider.

    Returns
    -------
    Roofline or Comparison
        It shows itself in a notebook; or a sentence that says which data or peaks are missing.

    Raises
    ------
    ArgumentError
        If the experiment, a line or an axis does not exist.
    """
    described = experiment_named(experiment)
    origin = source_for(source, described.name, lines)
    described = described.on(origin.kind)
    badge = origin.badge(described)
    here = lines_here(described, origin, list(lines))
    if not here:
        return Comparison(f"{badge} has none of these lines: {', '.join(lines)}.")
    kind = origin.kind if described.variant(here[0].variant).on_gpu else "cpu"
    known = figures_of(origin, described, kind).known
    if known is None:  # before anything is measured
        hint = "run brrr calibrate --device cpu, or choose the recording" if is_cpu(kind) else "run brrr calibrate"
        return Comparison(f"{badge}: nobody knows the roofs of this machine; {hint}.")
    axis, values = _along({**(at or {}), **axes})
    point = {name: value for name, value in {**(at or {}), **axes}.items() if name != axis}
    spots = {line: _spots(described, origin, line, axis, values, cast("dict[str, Value]", point)) for line in here}
    spots = {line: found for line, found in spots.items() if found}
    if not spots or not set.intersection(*map(set, spots.values())):
        return Comparison(f"{badge} has no such points of {', '.join(lines)}.")
    against = {line: lines[line.name] if isinstance(lines, Mapping) else "" for line in spots}
    return Roofline(described, axis, spots, against, known, badge)


def _spots(
    described: Experiment, origin: Source, line: Line, axis: str, values: Sequence[Value], at: Mapping[str, Value]
) -> dict[Value, Spot]:
    """One line's points by value; work without a cost has no place."""
    found = {}
    for value in values:
        point = reachable(described, origin, described.point(**{**at, axis: value}))
        cost, time = described.cost_at(line.variant, point), time_at(described, origin, line, point)
        if cost is not None and time is not None:
            found[point[axis]] = Spot(point[axis], cost, time)
    return found


class Roofline(Shown):
    """What `roofline_of` returns; it shows itself as the last expression of a cell."""

    def __init__(
        self, described: Experiment, axis: str, spots: Mapping[Line, Mapping[Value, Spot]], against: Mapping[Line, str],
        device: Where, badge: Badge,
    ) -> None:  # fmt: skip
        super().__init__(None)
        self.experiment, self.axis, self.badge = described, described.axis(axis), badge
        self._spots, self._against, self._device = spots, against, device
        self._roofs = roofs_of(model_of(device), ())

    def _text(self) -> str:
        return self._picture().alt

    def _make_panel(self) -> Any:
        from brrr_course.view.panel import FigurePanel

        return FigurePanel(self.figure)

    def _picture(self) -> Picture:
        """The first, the middle and the last point of each line."""
        points: dict[str, tuple[Cost, Estimate]] = {}
        for line, spots in self._spots.items():
            there = list(spots.values())
            for spot in dict.fromkeys((there[0], there[len(there) // 2], there[-1])):
                points[f"{line.label}, {self.axis.says(spot.value)}"] = spot.cost, spot.time
        return roofline_plot(points, self._device, dtypes=(), badge=self.badge)

    # -- as data ---------------------------------------------------------------------------------------------------

    @property
    def figure(self) -> Data:
        """What `view/drawn/scene.js` draws: a line at a time, and a slider along it."""
        flats, slope = [self._flat(line) for line in self._spots], memory(self._roofs)
        first, *others = self._spots.values()
        values = [value for value in first if all(value in spots for spots in others)]
        kernels = [(flat, [spots[value] for value in values])
                   for flat, spots in zip(flats, self._spots.values(), strict=True)]  # fmt: skip
        every = [spot for _, spots in kernels for spot in spots]
        told = [_told(spot, flat, slope) for flat, spots in kernels for spot in spots]
        which = [slider_of("line", "kernel", "choice", [line.label for line in self._spots])] * (len(flats) > 1)
        high = 4 * max(flat.rate for flat in flats)  # what stands above a roof has room there
        longest = max(spot.time.median for spot in every)
        return {
            **self._yours(values), "v": 1, "kind": "roofline", "name": self.experiment.name,
            "title": f"{self.experiment.title}, under the roofline",
            "sliders": [*which, slider_of(self.axis.name, self.axis.title, "range", map(readable, values))],
            "x": self._across(every, [flat.rate / slope.rate for flat in flats], kernels) | {"along": len(which)},
            "y": _around("arithmetic done", [each.rate for each in every] + [high], "FLOP/s"),
            "lines": [{"name": "kernel", "label": "the kernel", "short": "the kernel", "hue": "ink", "trail": True,
                       "cuts": [[_row(at, spot) for at, spot in enumerate(spots)] for _, spots in kernels]}],
            "roofs": self._drawn(slope, flats),
            "regions": [_regions(flat.rate / slope.rate) for flat in flats],
            "gauges": [{"label": "a call takes", "max": short(longest), "at": [
                [short(spot.time.median), units.seconds(spot.time.median), _limit(spot, flat, slope)]
                for flat, spots in kernels for spot in spots]}],
            "badge": str(self.badge), "alt": self._picture().alt, **told_once(told),
        }  # fmt: skip

    def _flat(self, line: Line) -> Roof:
        named = [roof for roof in self._roofs if roof.name == self._against[line] and roof.origin == "measured"]
        return named[0] if named else highest(self._roofs)

    def _across(self, every: Sequence[Spot], ridges: Sequence[float], kernels: Kernels) -> Data:
        """The axis of intensities, and where each line's points lie along it."""
        made = _around("FLOP for each byte moved", [spot.intensity for spot in every] + list(ridges), "")
        return made | {"at": [[short(spot.intensity) for spot in spots] for _, spots in kernels]}

    def _yours(self, values: Sequence[Value]) -> Data:
        """What a browser draws beside an only line: what it has measured in its place, of whatever size, as a rate."""
        names = [each.name for each in self._spots] if len(self._spots) == 1 else []
        told = [
            [line.variant, line.field, "kernel", "your GPU", "your GPU"] for line in self.experiment.in_browser(names)
        ]
        made = {"at": {}, "values": {self.axis.name: list(values)}, "per": "flop", "lines": told}
        return {"yours": made} if told else {}

    def _drawn(self, slope: Roof, flats: Sequence[Roof]) -> list[Data]:
        """The memory's roof and each line's flat one: measured, or where nothing was, the datasheet's."""
        told = units.quantity(slope.rate, "B/s")
        return [{"label": "memory", "hue": "memory", "slant": True, "rate": [slope.rate] * len(flats),
                 "texts": [told] * len(flats)},
                {"label": "arithmetic", "hue": "compute", "slant": False, "rate": [flat.rate for flat in flats],
                 "texts": [units.quantity(flat.rate, "FLOP/s") for flat in flats]}]  # fmt: skip


def _around(title: str, values: Sequence[float], unit: str) -> Data:
    """A log axis with some room around values."""
    return log_axis(title, (min(values) / 1.6, max(values) * 1.6), unit)


def _row(at: int, spot: Spot) -> list[float]:
    """A point: the slider's position, x, median, low, high, n."""
    rates = (spot.rate, spot.cost.flop / spot.time.high, spot.cost.flop / spot.time.low)
    return [at, short(spot.intensity), *map(short, rates), spot.time.n]


def _regions(ridge: float) -> list[list[Any]]:
    """Where the memory sets the pace and where arithmetic does: each text as it reads on a wide and a narrow figure."""
    compute = [["arithmetic sets the pace", "compute-bound"], [f"from {units.quantity(ridge, 'FLOP/B', 2)} on"] * 2]
    return [[0, "memory", ["memory sets the pace", "memory-bound"]], [short(ridge), "compute", *compute]]


def _limit(spot: Spot, flat: Roof, slope: Roof) -> str:
    """Which of both roofs is lower there."""
    return "compute" if spot.intensity * slope.rate > flat.rate else "memory"


def _told(spot: Spot, flat: Roof, slope: Roof) -> tuple[str, str]:
    """The sentence of a point, and behind it its numbers."""
    limit = _limit(spot, flat, slope)
    share = spot.rate / min(spot.intensity * slope.rate, flat.rate)
    which = {"memory": "the memory", "compute": "the arithmetic"}[limit]
    said = f"{units.percent(share, 2)} of what {which} allows: {limit}-bound."
    if share < FAR_BELOW:
        said = f"{units.percent(share, 2)} of the roof above it: neither memory nor arithmetic sets the pace."
    rate, time = units.quantity(spot.rate, "FLOP/s"), units.seconds(spot.time.median)
    return said, f"{units.quantity(spot.intensity, 'FLOP/B')}, {rate}, {time} a call."


def _along(at: Mapping[str, Value | tuple[Value, ...]]) -> tuple[str, tuple[Value, ...]]:
    """The axis with several values; without one, the first axis with its only value."""
    several = [(name, value) for name, value in at.items() if isinstance(value, tuple)]
    if len(several) > 1 or not at:
        raise ArgumentError("roofline_of", "at", dict(at), "a point, with several values for one axis at most")
    return (several or [(name, (value,)) for name, value in at.items() if not isinstance(value, tuple)])[0]
