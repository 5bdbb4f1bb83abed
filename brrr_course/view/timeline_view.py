"""`timeline`: the timelines of an experiment in a notebook, with a slider over the points that have one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from brrr.core.errors import ArgumentError
from brrr.core.measurement import Value
from brrr.drawing import style as plots
from brrr.gpu import is_gpu
from brrr.tracing.timeline import Timeline
from brrr_course.experiments import experiment as experiment_named
from brrr_course.nouns.source import Source
from brrr_course.sources import source_for
from brrr_course.view.display import Lock, Shown
from brrr_course.view.measuring import expected_s
from brrr_course.view.panel import FigureSlider, FigureWidget
from brrr_course.view.selection import TimelineSelection, showable
from brrr_course.view.spans import timelines_of, values_of
from brrr_course.view.widgets import Panel, button, live_region

# ---------------------------------------------------------------------------------------------------------------------
# The widgets of `timeline`: the figure with its two sliders, what stands in the way of it, and the button to trace.


class TimelinePanel(Panel):
    """The figure over a `TimelineSelection`."""

    def __init__(self, selection: TimelineSelection) -> None:
        super().__init__()
        self.selection, self.experiment = selection, selection.experiment
        labels = [(selection.experiment.variant(name).label, name) for name in selection.variants]
        self.variants = FigureSlider(options=labels or [("", "")], value=selection.variant)
        self.sliders = {}
        if selection.axis is not None:
            values = [(plots.readable(value), value) for value in values_of(selection) if value is not None]
            self.sliders = {selection.axis.name: FigureSlider(options=values, value=selection.value)}
        self.figure = FigureWidget()
        self.figure.observe(self._guarded(lambda _: self._on_at()), "at")
        self.variants.observe(self._guarded(lambda change: self._on_variant(change["new"])), "value")
        for dial in self.sliders.values():
            dial.observe(self._guarded(lambda change: self._on_value(change["new"])), "value")
        self.trace = button("Trace this point", "run this point under the profiler, and draw what happened", "primary")
        self.trace.on_click(self._guarded(lambda _: self._trace()))
        self._build(self.figure, self.trace, self.text)
        self.refresh()

    @property
    def _dials(self) -> list[FigureSlider]:
        return [self.variants, *self.sliders.values()]

    # -- reacting --------------------------------------------------------------------------------------------------

    def _on_at(self) -> None:
        """Where the reader moved the figure's sliders."""
        for position, dial in zip(self.figure.at, self._dials, strict=True):
            dial.value = dial.options[position][1]

    def _on_variant(self, variant: str) -> None:
        self.selection.choose(variant)
        with self._silently():
            for dial in self.sliders.values():
                dial.value = self.selection.value  # the nearest that it has
        self._moved()

    def _on_value(self, value: Value) -> None:
        self.selection.move(value)
        self._moved()

    def _moved(self) -> None:
        """The figure stands there, and the button where there is something to trace."""
        at = [dial.position for dial in self._dials]
        if list(self.figure.at) != at:
            with self._silently():
                self.figure.at = at
        live = self.selection.source.live and bool(self.selection.variants)
        self.trace.layout.display = "block" if live and self.selection.timeline is None else "none"
        self.text.value = live_region(escape(self.selection.message)) if self.selection.message else ""

    def _trace(self) -> None:
        self.trace.disabled = True
        try:
            self.selection.trace()
        finally:
            self.trace.disabled = False
        self.refresh()

    def go(self, value: Value) -> None:
        """Move the slider to the value nearest to this one."""
        self.selection.move(value)
        for dial in self.sliders.values():
            dial.value = self.selection.value

    def sweep(self) -> None:
        """Show every variant at both ends of its slider, and what was shown before; raise what a callback raised."""
        before = [dial.value for dial in self._dials]
        for variant in self.selection.variants:
            self.variants.value = variant
            values = [value for value in self.selection.values if value is not None]
            for value in (*values[:1], *values[-1:]):
                self.go(value)
        for dial, value in zip(self._dials, before, strict=True):
            dial.value = value
        if self.failures:
            raise self.failures[0]

    def refresh(self) -> None:
        """All timelines that there are now."""
        with self._silently():
            self.figure.scene = timelines_of(self.selection)
        self._moved()


QUICK_S = 2.0
"""Live, the first point is traced at once if measuring it probably takes no longer than this."""


class TimelineView(Shown):
    """What `timeline` returns; it shows itself as the last expression of a cell.

    `text` is the line in front of the picture, `timeline` what is drawn, `selection` what there is, `panel` all
    widgets.
    """

    def __init__(self, selection: TimelineSelection, unlock: Lock | None) -> None:
        super().__init__(unlock)
        self.selection = selection

    def _text(self) -> str:
        return self.selection.text

    @property
    def timeline(self) -> Timeline | None:
        """The timeline that is drawn; None while covered, and where none was traced."""
        return None if self.covered else self.selection.timeline

    def _make_panel(self) -> Any:
        self._trace_first()
        return TimelinePanel(self.selection)

    def set(self, **values: Value) -> TimelineView:
        """Move the slider to the traced value nearest to the one given."""
        for name, value in values.items():
            if self.selection.axis is None or name != self.selection.axis.name:
                there = self.selection.axis.name if self.selection.axis else "no slider"
                raise ArgumentError("TimelineView.set", "name", name, f"the slider's axis: {there}")
            self.panel.go(self.selection.axis.checked("TimelineView.set", value))
        return self

    def _picture(self) -> plots.Picture:
        if self.timeline is None:
            raise ArgumentError("TimelineView.picture", "point", self.selection.text, "a point that was traced")
        return self.selection.picture(self.timeline)

    def _outputs(self) -> Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """The pictures of all variants: who reads the edition cannot choose one."""
        self._trace_first()
        first = self.selection.variant
        for variant in self.selection.variants:
            self.selection.choose(variant)
            if self.timeline is not None:
                yield from super()._outputs()
        if first:
            self.selection.choose(first)

    def _trace_first(self) -> None:
        """Trace the point to begin with, so that the cell shows something; not where that would take long."""
        selection = self.selection
        if selection.variants and selection.source.live and selection.timeline is None and self._is_quick():
            selection.trace()

    def _is_quick(self) -> bool:
        selection = self.selection
        if is_gpu(selection.source.name):
            return True
        seconds = expected_s(selection.experiment, selection.source, [selection.variant], selection.point)
        return seconds <= QUICK_S or (seconds == float("inf") and selection.value == selection.values[0])


def timeline(
    name: str, *, variant: str | None = None, variants: Sequence[str] | None = None,
    at: Mapping[str, Value] | None = None, unlock: Lock | None = None, source: str | Source | None = None,
    calls: int | None = None,
) -> TimelineView:  # fmt: skip
    """Show the timeline of an experiment: what the host launched, what the GPU did when, and who waited.

    >>> timeline("run_ahead", variant="eager", at={"elements": 1024}, source="recorded:h200").text
    'GPU, one launch after the other, 1024 elements: 7 calls, ... without the profiler: ...'

    Parameters
    ----------
    name : str
        The experiment, such as "run_ahead".
    variant : str, optional
        The variant to show. On a machine without a GPU, `queue NAME` stands in for NAME.
    variants : sequence of str, optional
        Variants to choose from. By default all that have timelines.
    at : mapping of str, optional
        Where the slider starts, and the values of the other axes. Values snap to those that there are.
    unlock : Guess, optional
        The timeline stays covered until this guess is given.
    source : str or Source, optional
        As for `explore`. Live, a button traces a point; the first one is traced at once.
    calls : int, optional
        How many calls the picture shows. By default as many as can be read.

    Returns
    -------
    TimelineView
        It shows itself in a notebook; `text` says what it shows.

    Raises
    ------
    ArgumentError
        If an experiment, variant, axis or value does not exist.
    """
    found = experiment_named(name)
    if variant is not None and variants is not None:
        raise ArgumentError("timeline", "variants", list(variants), "None where variant is given")
    wanted = [variant] if variant is not None else list(variants or dict.fromkeys(v for v, _ in found.traces))
    for each in wanted:
        found.variant(each)
    for axis, value in (at or {}).items():
        found.axis(axis).checked("timeline", value)
    if calls is not None and (isinstance(calls, bool) or not isinstance(calls, int) or calls < 1):
        raise ArgumentError("timeline", "calls", calls, "a positive whole number, or None")
    chosen = source_for(source, found.name)
    return TimelineView(TimelineSelection(found, chosen, showable(found, chosen, wanted), at or {}, calls), unlock)
