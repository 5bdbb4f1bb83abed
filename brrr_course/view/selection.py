"""What a timeline's widget can show: the variants and points that have a timeline, and the one it stands at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from brrr.core.errors import ArgumentError, BrrrError
from brrr.core.measurement import Badge, Value
from brrr.gpu import is_queue
from brrr.tracing.spans import HOST_LANES
from brrr.tracing.timeline import Timeline, device_of
from brrr_course.nouns.experiment import Axis, Experiment
from brrr_course.nouns.source import Source, quick

if TYPE_CHECKING:
    from brrr.drawing.style import Picture

NOT_YET = "Not traced yet: press “Trace this point”."


class TimelineSelection:
    """The timelines of some variants along one axis, of which one is shown.

    `variants` are those that the source can show; `axis` is what the slider moves along, None where nothing varies.
    `message` says what stands in the way where there is no timeline.
    """

    def __init__(
        self, experiment: Experiment, source: Source, variants: Sequence[str], at: Mapping[str, Value],
        calls: int | None,
    ) -> None:  # fmt: skip
        self.experiment, self.source, self.at, self.calls = experiment, source, dict(at), calls
        self.message = ""
        self._points = {v: points for v in variants if (points := self._points_of(v))}
        self.variants = tuple(self._points)
        self.variant = self.variants[0] if self.variants else ""
        self.value: Value | None = None
        if self.variants:
            self.axis = self._varying()
            wish = self.at.get(self.axis.name) if self.axis else None
            self.value = self.values[0] if wish is None else self._nearest(wish)
        else:
            self.axis = None
            self.message = self._nothing(variants)

    # -- what can be shown -----------------------------------------------------------------------------------------

    def _points_of(self, variant: str) -> tuple[dict[str, Value], ...]:
        """The points of a variant: those recorded; live, those listed that this machine can trace."""
        from brrr_course.sources.plan import is_quick

        if not self.source.live:
            return self.source.traced(self.experiment, variant)
        listed = dict.fromkeys(tuple(self.experiment.point(**p).items()) for v, p in self.experiment.traces
                               if v == variant or v in self.experiment.stands_for(variant))  # fmt: skip
        points = [dict(items) for items in listed]
        small = [p for p in points if is_quick(self.experiment, p)]
        points = (small or points[:1]) if quick() else points
        return tuple(p for p in points if self.experiment.has(variant, p))

    def _nothing(self, asked: Sequence[str]) -> str:
        names = ", ".join(asked) or "this experiment"
        how = f"brrr record {self.experiment.name}"
        return f"No timeline of {names} here: {self.source.name} has none. `{how}` records those of this machine."

    def _varying(self) -> Axis | None:
        """The axis along which the points differ; the first that `at` does not hold, if there are several."""
        every = [point for points in self._points.values() for point in points]
        varying = [axis for axis in self.experiment.axes if len({point[axis.name] for point in every}) > 1]
        free = [axis for axis in varying if axis.name not in self.at]
        return next(iter(free or varying), None)

    @property
    def values(self) -> tuple[Value | None, ...]:
        """The slider's values for the variant shown."""
        return self.values_for(self.variant)

    def values_for(self, variant: str) -> tuple[Value | None, ...]:
        """The slider's values of a variant, in the axis's order; (None,) where there is no slider."""
        if self.axis is None:
            return (None,)
        found = {point[self.axis.name] for point in self._pinned(variant)}
        if self.axis.scale == "category":
            return tuple(value for value in self.axis.values if value in found)
        return tuple(sorted(found, key=float))

    def _pinned(self, variant: str) -> list[dict[str, Value]]:
        """A variant's points at which the other axes stand where `at` holds them, or where the first point does."""
        points = list(self._points[variant])
        for axis in self.experiment.axes:
            if axis is not self.axis and len({point[axis.name] for point in points}) > 1:
                wish = self.at.get(axis.name, points[0][axis.name])
                kept = axis.nearest(wish, [point[axis.name] for point in points])
                points = [point for point in points if point[axis.name] == kept]
        return points

    def _nearest(self, wish: Value | None, variant: str = "") -> Value | None:
        """The value of a variant, by default the one shown, that is nearest; None where there is no slider."""
        values = [value for value in self.values_for(variant or self.variant) if value is not None]
        return self.axis.nearest(wish, values) if self.axis and wish is not None else None

    @property
    def point(self) -> dict[str, Value]:
        """The point shown."""
        return self._at(self.variant, self.value)

    def _at(self, variant: str, value: Value | None) -> dict[str, Value]:
        points = self._pinned(variant)
        return points[0] if self.axis is None else next(p for p in points if p[self.axis.name] == value)

    def at_place(self, variant: str, value: Value | None) -> Timeline | None:
        """A variant's timeline at a value; None where there is none."""
        if value not in self.values_for(variant):
            return None
        point = self._at(variant, value)
        traced = point in self.source.traced(self.experiment, variant)
        return self.source.timeline(self.experiment, variant, point) if traced else None

    # -- moving ----------------------------------------------------------------------------------------------------

    def move(self, value: Value) -> None:
        """Go to the point with this value; to the nearest that there is."""
        self.message, self.value = "", self._nearest(value)

    def choose(self, variant: str) -> None:
        """Show another variant, at the same value or the nearest that it has."""
        if variant not in self.variants:
            raise ArgumentError("timeline", "variant", variant, f"one of {', '.join(self.variants)}")
        self.message, self.variant, self.value = "", variant, self._nearest(self.value, variant)

    def trace(self) -> None:
        """Trace the point shown (on a live source); what brrr refuses becomes the message."""
        self.message = ""
        try:
            self.source.timeline(self.experiment, self.variant, self.point)
        except BrrrError as refused:
            self.message = str(refused)

    # -- what is shown ---------------------------------------------------------------------------------------------

    @property
    def timeline(self) -> Timeline | None:
        """The timeline at the point shown, None where it was not traced yet."""
        return self.at_place(self.variant, self.value) if self.variants else None

    @property
    def badge(self) -> Badge | None:
        """What stands above the picture where there is no timeline yet: the source's badge."""
        try:
            return self.source.badge(self.experiment)
        except BrrrError:  # nothing of the experiment was recorded
            return None

    @property
    def place(self) -> str:
        """The variant and the point in words."""
        label = self.experiment.variant(self.variant).label
        return label if self.axis is None or self.value is None else f"{label}, {self.axis.says(self.value)}"

    @property
    def text(self) -> str:
        """The text line: what the picture shows, or why there is none."""
        if self.message or not self.variants:
            return self.message
        found = self.timeline
        return f"{self.place}: {found.text if found else NOT_YET}"

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes of every timeline of the variant that is there, so that they stay in place along the slider."""
        points = self.source.traced(self.experiment, self.variant)
        return lanes_of(self.source.timeline(self.experiment, self.variant, point) for point in points)

    def picture(self, found: Timeline) -> Picture:
        """The timeline at the point shown, on one time scale with those of the other variants at this value."""
        from brrr.drawing import style
        from brrr.drawing.timeline_figure import draw

        others = [self.at_place(variant, self._nearest(self.value, variant)) for variant in self.variants]
        beside = [each for each in others if each]
        return style.picture(draw(found, self.calls, lanes=self.lanes, title=self.place, beside=beside), self.alt)

    @property
    def alt(self) -> str:
        """The alternative text of the picture."""
        found = self.timeline
        if found is None:
            return self.text
        from brrr.drawing.timeline_figure import alt

        return f"{self.place}. {alt(found)}"


def lanes_of(found: Iterable[Timeline]) -> tuple[str, ...]:
    """The lanes of all timelines: the host's, then each device's."""
    every = dict.fromkeys(lane for each in found for lane in each.lanes)
    device = sorted(every.keys() - {*HOST_LANES}, key=lambda lane: (device_of(lane), len(lane), lane))
    return (*(lane for lane in HOST_LANES if lane in every), *device)


def showable(experiment: Experiment, source: Source, wanted: Sequence[str]) -> tuple[str, ...]:
    """The variants to show: those wanted that the source has, a queue's variant standing in where there is no GPU.

    Without one of them, all that the experiment lists a timeline of and that the source has.
    """
    try:
        here = source.variants(experiment)
    except BrrrError:  # nothing of the experiment was recorded
        here = ()
    queues = [name for name in here if is_queue(experiment.variant(name).device)]
    twins = {wish: [name for name in queues if wish in experiment.stands_for(name)] for wish in wanted}
    found = [name for wish in wanted for name in ([wish] if wish in here else twins[wish])]
    listed = [variant for variant, _ in experiment.traces if variant in here]
    return tuple(dict.fromkeys(found)) or tuple(dict.fromkeys(listed))
