"""The explorer's widgets: sliders, checkboxes, the source, the text line, the picture, the table, and measuring.

This module imports ipywidgets; `explore` loads it when there is something to show.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import Any

import ipywidgets as widgets

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.gpu import is_cpu
from brrr_course.view import words
from brrr_course.view.bars import SceneBars
from brrr_course.view.canvas import Canvas
from brrr_course.view.measuring import ASK_ABOVE_S, Slice, SliderJob, expected_s, pace
from brrr_course.view.scene import Scene
from brrr_course.view.widgets import Panel, button, html, live_region


class SceneLines:
    """A scene's lines over x: `show` what a slider may leave standing, then `png` at each step."""

    def __init__(self) -> None:
        self._canvas = Canvas()

    @property
    def redraws(self) -> int:
        """How often everything was drawn anew."""
        return self._canvas.redraws

    def show(self, scene: Scene) -> None:
        """Take over the scene's axes and lines."""
        self._canvas.show(scene.frame(), scene.curves())

    def png(self, scene: Scene) -> bytes:
        """The picture where the sliders stand."""
        place, heights = scene.marks()
        return self._canvas.mark(place, heights, words.in_figure(scene), words.beside_marks(scene))


def kept_picture(scene: Scene) -> SceneLines | SceneBars:
    """What draws a scene's form: lines over x, or bars at the sliders' point."""
    return SceneBars() if scene.view.is_bars else SceneLines()


def png_of(scene: Scene) -> bytes:
    """The picture of a scene, drawn once."""
    drawn = kept_picture(scene)
    drawn.show(scene)
    return drawn.png(scene)


class ExplorerPanel(Panel):
    """One explorer's widgets over a `Scene`."""

    def __init__(
        self, scene: Scene, sliders: Sequence[str], sources: Sequence[tuple[str, str]], choose: Callable[[str], Scene]
    ) -> None:
        super().__init__()
        self.scene, self._choose, self.experiment = scene, choose, scene.experiment
        self._canvas = kept_picture(scene)
        self._job: SliderJob | None = None
        self._confirmed: list[Slice] = []
        self._later: list[Slice] = []
        self.source = self._choice("source", list(sources), self._on_source, value=scene.source.name)
        self.sliders = {name: self._axis_slider(name) for name in sliders}
        self.lines = widgets.HBox([], layout={"flex_flow": "row wrap", "max_width": f"{style.WIDTH}px"})
        self.lines.add_class("brrr-lines")
        self._make_buttons()
        head = widgets.HBox([self.source, self.badge], layout={"flex_flow": "row wrap", "align_items": "center"})
        asked = widgets.HBox([self.show_details, self.show_table, self.show_predictions])
        below = (self.predicted, self.lines, self.measuring, asked, self.details, self.table)
        self._build(head, *self.sliders.values(), self.text, self.image, *below)
        self._fill()

    # -- building --------------------------------------------------------------------------------------------------

    def _make_buttons(self) -> None:
        self.measure = button("Measure", "measure every line shown, at the sliders' values", "primary")
        self.measure_all = button("Measure all points", f"measure every line shown at every {self.scene.view.x}")
        self.cancel = button("Cancel", "stop before the next measurement")
        self.progress = widgets.IntProgress(description="", layout={"width": "160px"})
        self.left = widgets.Label("")
        self.measure.on_click(self._guarded(lambda _: self._press(self._slices(everywhere=False))))
        self.measure_all.on_click(self._guarded(lambda _: self._press(self._slices(everywhere=True))))
        self.cancel.on_click(self._guarded(lambda _: self._stop()))
        parts = [self.measure, self.measure_all, self.cancel, self.progress, self.left]
        self.measuring = widgets.HBox(parts, layout={"flex_flow": "row wrap", "align_items": "center"})
        self.measuring.add_class("brrr-measuring")
        self.show_details = self._toggle("Details", "each line's value, and what drifted", lambda _: self.refresh())
        self.show_table = self._toggle("Data table", "the numbers as a table", lambda _: self.refresh())
        said, on = "what each line should take, and what limits it", self.scene.predictions.on
        self.show_predictions = self._toggle("Predictions", said, self._on_predictions, on=on)
        self.details, self.table, self.predicted = map(html, ("brrr-details", "brrr-table", "brrr-predicted"))

    def _toggle(self, name: str, tooltip: str, react: Callable[[bool], object], *, on: bool = False) -> Any:
        made = widgets.ToggleButton(value=on, description=name, tooltip=tooltip, layout={"width": "max-content"})
        return self._watched(made, react)

    def _axis_slider(self, name: str) -> Any:
        title = self.scene.experiment.axis(name).title
        return self._slider(title, self._options(name), self.scene.point[name], partial(self._on_slider, name))

    def _options(self, name: str) -> list[tuple[str, Value]]:
        return [(style.readable(value), value) for value in self.scene.values[name]]

    def _fill(self) -> None:
        """Put the scene's values, lines and badge into the widgets: at the start, and for a new source."""
        with self._silently():
            for name, slider in self.sliders.items():
                slider.options = self._options(name)
                slider.value = self.scene.point[name]
            stack = self.scene.view.form == "stack"  # its parts are made of all its lines
            self.lines.children = [] if stack else [self._checkbox(line.name, line.label) for line in self.scene.lines]
        self._show_badge(self.scene.source_said)
        self.image.tooltip = words.alt(self.scene)
        self.show_predictions.layout.display = "flex" if self.scene.predictions.possible else "none"
        self._show_measuring()
        self._canvas.show(self.scene)
        self.refresh()

    def _checkbox(self, name: str, label: str) -> Any:
        index = self.scene.looks[name]
        colour = style.look(index)["color"]
        box = widgets.Checkbox(value=name in self.scene.on, indent=False, description=label)
        self._watched(box, lambda on: self._on_line(name, on))
        look = f"class='brrr-mark' style='color:{colour}' aria-hidden='true'"
        mark = widgets.HTML(f"<span {look}>{style.glyph(index)}</span>")
        return widgets.HBox([mark, box], layout={"align_items": "center"})

    # -- reacting --------------------------------------------------------------------------------------------------

    def _on_slider(self, name: str, value: Any) -> None:
        self.scene.move(name, value)
        if name != self.scene.view.x and not self.scene.view.is_bars:
            self._canvas.show(self.scene)
        self.refresh()

    def _on_line(self, name: str, on: bool) -> None:
        self.scene.switch(name, on)
        self._canvas.show(self.scene)
        self.refresh()

    def _on_predictions(self, on: bool) -> None:
        self.scene.predictions.on = on
        self._canvas.show(self.scene)
        self.refresh()

    def _on_source(self, name: str) -> None:
        self._stop()
        try:
            self.scene = self._choose(name)
        except BrrrError as unavailable:  # the one before stays, and its name goes back into the list
            with self._silently():
                self.source.value = self.scene.source.name
            self._say(str(unavailable))
            return
        self._fill()

    def refresh(self) -> None:
        """The picture first, for it is what the eye waits for, then the text line and the table."""
        self.image.value = self._canvas.png(self.scene)
        self.text.value = live_region(f"<b>{escape(words.verdict(self.scene))}</b>")
        self.details.value = said_html(self.scene) if self.show_details.value else ""
        self.predicted.value = words.as_panel(self.scene)
        self.table.value = words.table_of(self.scene) if self.show_table.value else ""

    # -- measuring -------------------------------------------------------------------------------------------------

    def _show_measuring(self) -> None:
        running = self._job is not None and self._job.running
        self.measuring.layout.display = "flex" if self.scene.source.live else "none"
        self.measure.disabled = self.measure_all.disabled = running
        for part in (self.cancel, self.progress, self.left):
            part.layout.display = "flex" if running else "none"

    def _variants(self) -> list[str]:
        """Of the lines shown, and of those that they are compared with."""
        shown = [self.scene.experiment.line(name) for name in self.scene.on]
        bases = [base for line in shown if (base := self.scene.quantity.base(line))]
        return list(dict.fromkeys(line.variant for line in shown + bases))

    def _slices(self, *, everywhere: bool) -> list[Slice]:
        """What is shown where the sliders stand; or all along x that is not known yet."""
        scene, found, known = self.scene, self.scene.experiment, self.scene.source.known
        points = [{**scene.point, scene.view.x: value} for value in scene.values[scene.view.x]]
        points = points if everywhere else [dict(scene.point)]
        slices = [Slice(v, p) for p in points for v in self._variants() if found.has(v, p)]
        return [s for s in slices if not everywhere or tuple(s.point.values()) not in known(found, s.variant)]

    def _press(self, slices: list[Slice]) -> None:
        """Start measuring; where that would take long on a CPU, first what is quick, which tells how long, and ask."""
        slow = self._slow(slices) if is_cpu(self.scene.source.name) else []
        self._later, self._confirmed = [each for each in slow if each not in self._confirmed], []
        slices = [each for each in slices if each not in self._later]
        if slices or not self._later:
            self._run(slices)
        else:
            self._say(self._asked("This"))

    def _slow(self, slices: Sequence[Slice]) -> list[Slice]:
        """Those at points that probably take long."""
        long = [s.point for s, wait_s in zip(slices, self._expected(slices), strict=True) if wait_s > ASK_ABOVE_S]
        return [each for each in slices if each.point in long]

    def _expected(self, slices: Sequence[Slice]) -> list[float]:
        return [expected_s(self.scene.experiment, self.scene.source, [s.variant], s.point) for s in slices]

    def _asked(self, what: str, slower: float = 1.0) -> str:
        """The request to press once more for what takes long; nothing where there is no such."""
        self._confirmed, total = self._later, about(slower * sum(self._expected(self._later)))
        return f"{what} takes {total}: press the button again to measure." if self._later else ""

    def _run(self, slices: list[Slice]) -> None:
        self.scene.message = ""
        self._taken: dict[tuple[Value, ...], float] = {}
        self._began = time.monotonic()
        self.progress.max, self.progress.value = max(1, len(slices)), 0
        self._job = SliderJob(
            self.scene.experiment, self.scene.source, slices, self._on_step, self._on_end, self._on_wait
        )
        self._job.running = True
        self.left.value = f"0 of {len(slices)}"
        self._show_measuring()
        self._job.start()

    def _stop(self) -> None:
        if self._job is not None and self._job.running:
            self._job.cancel()

    def _on_step(self, done: int, of: int) -> None:
        assert self._job is not None
        key, before, self._began = tuple(self._job.slices[done - 1].point.values()), self._began, time.monotonic()
        self._taken[key] = self._taken.get(key, 0.0) + self._began - before
        self.progress.value = done
        self.left.value = f"{done} of {of}"
        self.renew()

    def _on_wait(self, text: str) -> None:
        self.left.value = f"{self.progress.value} of {self.progress.max}. {text}"

    def _on_end(self, message: str) -> None:
        assert self._job is not None
        if self._job.unexpected is not None:
            self.failures.append(self._job.unexpected)
        self._show_measuring()
        self.renew()
        slower = pace(self.scene.experiment, self.scene.source, self._taken)
        self._say(message or self._asked("What is left", slower))

    def renew(self) -> None:
        """Show what is there now, after measuring or another guess."""
        self.scene.refresh()
        self._canvas.show(self.scene)
        self.refresh()

    def _say(self, message: str) -> None:
        """A message inside the figure and in the text line; the next movement takes it away."""
        self.scene.message = message
        self.refresh()


def about(seconds: float) -> str:
    if seconds == float("inf"):
        return "an unknown time on this machine, perhaps long"
    return f"about {units.seconds(seconds, 2)}" if seconds < 120 else f"about {seconds / 60:.0f} minutes"


def said_html(scene: Scene) -> str:
    """The details, with their values in bold."""
    readings = words.readings(scene)
    said = "; ".join(f"{escape(label)}: <b>{escape(value)}</b>{escape(beside)}" for label, value, beside in readings)
    where, remark = escape(words.place(scene)), escape(words.remark(scene))
    return f"At {where}{': ' if said else ''}{said}. {remark}"
