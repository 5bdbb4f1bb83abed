"""`timeline`: the timelines of an experiment in a notebook, with a slider over the points that have one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

from brrr.core.errors import ArgumentError
from brrr.core.values import Value
from brrr.course.experiments import experiment as experiment_named
from brrr.course.nouns.source import Source
from brrr.course.sources.named import source as source_named
from brrr.course.view import explorer
from brrr.course.view.display import COVERED, Covered, Lock, static
from brrr.course.view.panel import CSS, FULL, Named, button, html, live_region
from brrr.course.view.selection import TimelineSelection as Reel
from brrr.course.view.selection import showable
from brrr.drawing import style as plots
from brrr.tracing.timeline import Timeline

# ---------------------------------------------------------------------------------------------------------------------
# The widgets of `timeline`: variants to choose from, a slider, the text line, the picture, and the button to trace.


class TimelinePanel:
    """The widgets over a `Reel`; every change of one ends in `refresh`.

    `failures` keeps what a callback raised without meaning to, for a test to raise again: Jupyter only logs it.
    """

    def __init__(self, reel: Reel) -> None:
        self.reel = reel
        self.failures: list[BaseException] = []
        self._quiet = False
        self.badge, self.text = html("brrr-badge"), html("brrr-text")
        self.image = Named(format="png", layout={**FULL, "object_fit": "contain"})
        self.image.add_class("brrr-figure")
        self.variants = self._make_variants()
        self.slider = self._make_slider()
        self.trace = button("Trace this point", "run this point under the profiler, and draw what happened", "primary")
        self.trace.on_click(self._guarded(lambda _: self._trace()))
        style = widgets.HTML(CSS, layout={"display": "none"})
        parts = [style, self.badge, self.variants, self.slider, self.text, self.image, self.trace]
        self.root = widgets.VBox(parts)
        self.root.add_class("brrr-explorer")
        self.refresh()

    def _make_variants(self) -> Any:
        label = self.reel.experiment.variant
        made = widgets.Dropdown(
            options=[(label(name).label, name) for name in self.reel.variants], description="variant",
            style={"description_width": "initial"}, layout={"width": "max-content"},
        )  # fmt: skip
        made.layout.display = "flex" if len(self.reel.variants) > 1 else "none"
        made.observe(self._guarded(lambda change: self._on_variant(change["new"])), "value")
        return made

    def _make_slider(self) -> Any:
        title = self.reel.axis.title if self.reel.axis else ""
        made = widgets.SelectionSlider(
            options=self._options(), description=title.split(" (")[0], tooltip=title,
            style={"description_width": "initial"}, layout=dict(FULL),
        )  # fmt: skip
        made.value = self._value
        made.observe(self._guarded(lambda change: self._on_value(change["new"])), "value")
        return made

    def _options(self) -> list[tuple[str, Value]]:
        return [(plots.readable(value), value) for value in self._values]

    @property
    def _values(self) -> list[Value]:
        """What the slider can take; one empty text where nothing varies, since a slider must take something."""
        values = self.reel.values if self.reel.variants else ()
        return [value for value in values if value is not None] or [""]

    @property
    def _value(self) -> Value:
        return "" if self.reel.value is None else self.reel.value

    # -- reacting --------------------------------------------------------------------------------------------------

    def _guarded(self, react: Callable[[Any], object]) -> Callable[[Any], None]:
        """A callback that keeps what it raises and says so in the text line, instead of falling silent."""

        def call(event: Any) -> None:
            if self._quiet:
                return
            try:
                react(event)
            except Exception as error:
                self.failures.append(error)
                self.text.value = live_region(escape(f"{type(error).__name__}: {error}"))

        return call

    def _on_variant(self, variant: str) -> None:
        self.reel.choose(variant)
        self._quiet = True
        try:
            self.slider.options = self._options()
            self.slider.value = self._value
        finally:
            self._quiet = False
        self.refresh()

    def _on_value(self, value: Value) -> None:
        if self.reel.axis is not None:
            self.reel.move(value)
        self.refresh()

    def _trace(self) -> None:
        self.trace.disabled = True
        try:
            self.reel.trace()
        finally:
            self.trace.disabled = False
        self.refresh()

    def go(self, value: Value) -> None:
        """Move the slider to the value nearest to this one."""
        self.reel.move(value)
        self.slider.value = self._value
        self.refresh()

    def sweep(self) -> None:
        """Show every variant at both ends of its slider, and what was shown before; raise what a callback raised."""
        before = (self.variants.value, self.slider.value)
        for variant in self.reel.variants:
            self.variants.value = variant
            for value in (self._values[0], self._values[-1]):
                self.slider.value = value
        if self.reel.variants:
            self.variants.value, self.slider.value = before
        if self.failures:
            raise self.failures[0]

    def refresh(self) -> None:
        """The picture first, for it is what the eye waits for, then the text line, the badge and the button."""
        png, found = self.reel.png(), self.reel.timeline
        if png:
            self.image.value, self.image.tooltip = png, self.reel.alt
        self.image.layout.display = "block" if png else "none"
        self.text.value = live_region(escape(self.reel.text))
        badge = found.badge if found else self.reel.badge
        self.badge.value = f"<span class='brrr-chip'>{escape(str(badge))}</span>" if badge else ""
        self.slider.layout.display = "flex" if self.reel.axis else "none"
        live = self.reel.source.live and bool(self.reel.variants)
        self.trace.layout.display = "block" if live and found is None else "none"


QUICK_S = 2.0
"""Live, the first point is traced at once if measuring it probably takes no longer than this."""


class TimelineView(Covered):
    """What `timeline` returns; it shows itself as the last expression of a cell.

    `text` is the line in front of the picture, `timeline` what is drawn, `reel` what there is, `panel` all widgets.
    """

    def __init__(self, reel: Reel, unlock: Lock | None) -> None:
        super().__init__(unlock)
        self.reel = reel
        explorer.sweepable.add(self)  # looked up now: a notebook's test puts a set of its own there

    @property
    def text(self) -> str:
        """The text line; while covered, only the request for a guess."""
        return COVERED if self.covered else self.reel.text

    @property
    def timeline(self) -> Timeline | None:
        """The timeline that is drawn; None while covered, and where none was traced."""
        return None if self.covered else self.reel.timeline

    @property
    def panel(self) -> Any:
        """The widgets, made when first asked for."""
        if self._panel is None:
            self._trace_first()
            self._panel = TimelinePanel(self.reel)
        return self._panel

    @property
    def sliders(self) -> dict[str, Any]:
        """The slider by the name of its axis; empty where nothing varies."""
        return {self.reel.axis.name: self.panel.slider} if self.reel.axis else {}

    def set(self, **values: Value) -> TimelineView:
        """Move the slider to the traced value nearest to the one given."""
        for name, value in values.items():
            if self.reel.axis is None or name != self.reel.axis.name:
                there = self.reel.axis.name if self.reel.axis else "no slider"
                raise ArgumentError("TimelineView.set", "name", name, f"the slider's axis: {there}")
            self.panel.go(self.reel.axis.checked("TimelineView.set", value))
        return self

    def sweep(self) -> None:
        """Show every variant at both ends of the slider, then what was shown; raise what any callback raised."""
        self.panel.sweep()

    def picture(self) -> Any:
        """The picture with its alternative text; ArgumentError while covered, and where there is no timeline."""
        from brrr.drawing.style import WIDTH, Picture

        if self.covered:
            raise ArgumentError("TimelineView.picture", "unlock", "unanswered guess", "an answered one")
        if self.timeline is None:
            raise ArgumentError("TimelineView.picture", "point", self.reel.text, "a point that was traced")
        return Picture(self.reel.png(), self.reel.alt, WIDTH)

    def __repr__(self) -> str:
        return self.text

    def _trace_first(self) -> None:
        """Trace the point to begin with, so that the cell shows something; not where that would take long."""
        if self.reel.variants and self.reel.source.live and self.reel.timeline is None and self._is_quick():
            self.reel.trace()

    def _is_quick(self) -> bool:
        from brrr.course.view.measuring import expected_s

        reel = self.reel
        if reel.source.name == "cuda":
            return True
        seconds = expected_s(reel.experiment, reel.source, [reel.variant], reel.point)
        return seconds <= QUICK_S or (seconds == float("inf") and reel.value == reel.values[0])

    def _ipython_display_(self) -> None:
        if static():
            self._show_static()
        else:
            bundle = dict(self._shown()._repr_mimebundle_())
            explorer._display({**bundle, "text/plain": self.text})

    def _show_static(self) -> None:
        """Text and picture only, for the edition that is read; a cover stays a cover."""
        if not self.covered:
            self._trace_first()
        explorer._display({"text/plain": self.text, "text/markdown": self.text})
        if self.timeline is not None:
            explorer._display(*self.picture()._repr_mimebundle_())


def timeline(
    name: str,
    *,
    variant: str | None = None,
    variants: Sequence[str] | None = None,
    at: Mapping[str, Value] | None = None,
    unlock: Lock | None = None,
    source: str | Source | None = None,
    calls: int | None = None,
) -> TimelineView:
    """Show the timelines of an experiment: who did what, when, and who waited; a slider moves along one axis.

    >>> timeline("run_ahead", variant="eager", at={"elements": 1024}, source="recorded:h200").text
    'GPU, one order after the other, elements in each of 20 products 1024: 7 calls, ... without the profiler: ...'

    Args:
        name: the experiment, as "run_ahead".
        variant: the variant whose timelines are shown; on a machine without a GPU, `queue NAME` stands in for NAME.
        variants: several, to choose from; without either, all that the experiment lists timelines of.
        at: where the slider starts, and where the other axes stand; values snap to what there is.
        unlock: a guess; the timeline stays covered until it is answered.
        source: `recorded:h200`, `cuda`, `cpu` or a source; without it, `BRRR_SOURCE`, then a GPU if there is one.
            Live, a point is traced on a button, the first one at once.
        calls: how many calls the picture shows; without it, as many as can be read.

    Raises ArgumentError for an experiment, variant, axis or value that does not exist.
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
    chosen = source if source is not None and not isinstance(source, str) else source_named(source)
    return TimelineView(Reel(found, chosen, showable(found, chosen, wanted), at or {}, calls), unlock)
