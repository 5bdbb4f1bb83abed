"""The explorer's widgets: sliders, checkboxes, the source, the text line, the picture, the table, and measuring.

This module imports ipywidgets; `brrr.explore` loads it when there is something to show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets
from traitlets import Unicode

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.core.values import Value
from brrr.course.view import words
from brrr.course.view.bars import BarCanvas, BarFrame, bar_frame, bars_of
from brrr.course.view.canvas import Canvas
from brrr.course.view.measuring import ASK_ABOVE_S, Job, Slice, expected_s
from brrr.course.view.scene import Scene
from brrr.course.view.words import as_panel, in_figure, table_of
from brrr.drawing import style
from brrr.drawing import style as plots

# ---------------------------------------------------------------------------------------------------------------------
# A scene's picture, whatever its form: lines over x, or bars at the sliders' point.


class ScenePicture:
    """Draws a scene: `show` what a slider may leave standing, then `png` at each step.

    `redraws` counts how often everything was drawn anew.
    """

    def __init__(self, scene: Scene) -> None:
        self._bars: BarFrame | None = None
        self._canvas: Canvas | BarCanvas = BarCanvas() if scene.view.is_bars else Canvas()

    @property
    def redraws(self) -> int:
        """How often everything was drawn anew."""
        return self._canvas.redraws

    def show(self, scene: Scene) -> None:
        """Take over the scene's axes and lines."""
        if isinstance(self._canvas, BarCanvas):
            self._bars = bar_frame(scene)
            self._canvas.show(self._bars)
        else:
            self._canvas.show(scene.frame(), scene.curves())

    def png(self, scene: Scene) -> bytes:
        """The picture where the sliders stand."""
        if isinstance(self._canvas, BarCanvas):
            assert self._bars is not None  # `show` came first
            return self._canvas.draw(*bars_of(scene, self._bars), in_figure(scene))
        return self._canvas.mark(*scene.marks(), words.in_figure(scene))


def png_of(scene: Scene) -> bytes:
    """The picture of a scene, drawn once."""
    drawn = ScenePicture(scene)
    drawn.show(scene)
    return drawn.png(scene)


class Panel:
    """One explorer's widgets over a `Scene`; every change of a widget ends in `refresh`.

    `failures` keeps what a callback raised without meaning to, for a test to raise again: Jupyter only logs it.
    """

    def __init__(self, scene: Scene, sliders: Sequence[str], sources: Sequence[tuple[str, str]],
                 choose: Callable[[str], Scene]) -> None:  # fmt: skip
        self.scene, self._names, self._choose = scene, tuple(sliders), choose
        self.failures: list[BaseException] = []
        self._canvas = ScenePicture(scene)
        self._quiet = False
        self._job: Job | None = None
        self._confirmed: object = None
        self._make_widgets(sources)
        self._fill()

    # -- building --------------------------------------------------------------------------------------------------

    def _make_widgets(self, sources: Sequence[tuple[str, str]]) -> None:
        self.badge = html("brrr-badge")
        self.source = widgets.Dropdown(
            options=list(sources), value=self.scene.source.name, description="source",
            style={"description_width": "initial"}, layout={"width": "max-content"},
        )  # fmt: skip
        self.source.observe(self._guarded(self._on_source), "value")
        self.sliders: dict[str, Any] = {name: self._slider(name) for name in self._names}
        self.text = html("brrr-text")
        self.image = Named(format="png", layout={**FULL, "object_fit": "contain"})
        self.image.add_class("brrr-figure")
        self.lines = widgets.HBox([], layout={"flex_flow": "row wrap", "max_width": f"{style.WIDTH}px"})
        self.lines.add_class("brrr-lines")
        self._make_buttons()
        head = widgets.HBox([self.source, self.badge], layout={"flex_flow": "row wrap", "align_items": "center"})
        children = [widgets.HTML(CSS, layout={"display": "none"}), head, *self.sliders.values(), self.text, self.image]
        asked = widgets.HBox([self.show_table, self.show_predictions])
        self.root = widgets.VBox([*children, self.predicted, self.lines, self.measuring, asked, self.table])
        self.root.add_class("brrr-explorer")

    def _make_buttons(self) -> None:
        self.measure = button("Measure", "measure every line shown, at the sliders' values", "primary")
        self.measure_all = button(
            "Measure all points", f"measure every line shown, at every value of {self.scene.view.x}"
        )
        self.cancel = button("Cancel", "stop before the next measurement")
        self.progress = widgets.IntProgress(description="", layout={"width": "160px"})
        self.left = widgets.Label("")
        self.measure.on_click(self._guarded(lambda _: self._press(self._slices_here())))
        self.measure_all.on_click(self._guarded(lambda _: self._press(self._slices_all())))
        self.cancel.on_click(self._guarded(lambda _: self._stop()))
        parts = [self.measure, self.measure_all, self.cancel, self.progress, self.left]
        self.measuring = widgets.HBox(parts, layout={"flex_flow": "row wrap", "align_items": "center"})
        self.measuring.add_class("brrr-measuring")
        self.show_table = widgets.ToggleButton(value=False, description="Data table", layout={"width": "max-content"},
                                               tooltip="the numbers of the figure as a table")  # fmt: skip
        self.show_table.observe(self._guarded(lambda _: self._fill_table()), "value")
        self.table = html("brrr-table")
        self.show_predictions = widgets.ToggleButton(
            value=self.scene.predictions.on, description="Predictions", layout={"width": "max-content"},
            tooltip="what each line should take, what limits it, and how far off the measurement is",
        )  # fmt: skip
        self.show_predictions.observe(self._guarded(lambda change: self._on_predictions(change["new"])), "value")
        self.predicted = html("brrr-predicted")

    def _slider(self, name: str) -> Any:
        title = self.scene.experiment.axis(name).title
        slider = widgets.SelectionSlider(
            options=self._options(name), value=self.scene.point[name],
            description=title.split(" (")[0], tooltip=title, continuous_update=True,
            style={"description_width": "initial"}, layout=FULL,
        )  # fmt: skip
        slider.observe(self._guarded(lambda change: self._on_slider(name, change["new"])), "value")
        return slider

    def _options(self, name: str) -> list[tuple[str, Value]]:
        return [(style.readable(value), value) for value in self.scene.values[name]]

    def _fill(self) -> None:
        """Put the scene's values, lines and badge into the widgets: at the start, and for a new source."""
        self._quiet = True
        try:
            for name, slider in self.sliders.items():
                slider.options = self._options(name)
                slider.value = self.scene.point[name]
            stack = self.scene.view.form == "stack"  # its parts are made of all its lines
            self.lines.children = [] if stack else [self._checkbox(line.name, line.label) for line in self.scene.lines]
        finally:
            self._quiet = False
        badge = escape(self.scene.source_said)
        self.badge.value = f"<span class='brrr-chip'>{badge}</span>"
        self.image.tooltip = words.alt(self.scene)
        self.show_predictions.layout.display = "flex" if self.scene.predictions.possible else "none"
        self._show_measuring()
        self._canvas.show(self.scene)
        self.refresh()

    def _checkbox(self, name: str, label: str) -> Any:
        index = self.scene.looks[name]
        colour = style.look(index)["color"]
        shown = "inherit" if colour == "#000000" else colour
        box = widgets.Checkbox(value=name in self.scene.on, indent=False, description=label)
        box.observe(self._guarded(lambda change: self._on_line(name, change["new"])), "value")
        mark = widgets.HTML(f"<span style='color:{shown}' aria-hidden='true'>{style.glyph(index)}</span>")
        return widgets.HBox([mark, box], layout={"align_items": "center"})

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

    def _on_source(self, change: Any) -> None:
        self._stop()
        try:
            self.scene = self._choose(change["new"])
        except BrrrError as unavailable:  # the one before stays, and its name goes back into the list
            self._quiet = True
            self.source.value = self.scene.source.name
            self._quiet = False
            self._say(str(unavailable))
            return
        self._fill()

    def refresh(self) -> None:
        """The picture first, for it is what the eye waits for, then the text line and the table."""
        self.image.value = self._canvas.png(self.scene)
        self.text.value = said_html(self.scene)
        self.predicted.value = as_panel(self.scene)
        if self.show_table.value:
            self._fill_table()

    def _fill_table(self) -> None:
        self.table.value = table_of(self.scene) if self.show_table.value else ""

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

    def _slices_here(self) -> list[Slice]:
        point = dict(self.scene.point)
        return [Slice(v, point) for v in self._variants() if self.scene.experiment.has(v, point)]

    def _slices_all(self) -> list[Slice]:
        x = self.scene.view.x
        points = [{**self.scene.point, x: value} for value in self.scene.values[x]]
        slices = [Slice(v, p) for p in points for v in self._variants() if self.scene.experiment.has(v, p)]
        return [s for s in slices if self._is_new(s)]

    def _is_new(self, piece: Slice) -> bool:
        return tuple(piece.point.values()) not in self.scene.source.known(self.scene.experiment, piece.variant)

    def _press(self, slices: list[Slice]) -> None:
        """Start measuring, or ask first where it would take long on a CPU."""
        scene = self.scene
        wanted = [(s.variant, tuple(s.point.values())) for s in slices]
        if scene.source.name == "cpu" and self._confirmed != wanted:
            longest = max((expected_s(scene.experiment, scene.source, [s.variant], s.point) for s in slices), default=0)
            if longest > ASK_ABOVE_S:
                self._confirmed = wanted
                total = sum(expected_s(scene.experiment, scene.source, [s.variant], s.point) for s in slices)
                self._say(f"This takes {about(total)}: press the button again to measure.")
                return
        self._confirmed = None
        self._run(slices)

    def _run(self, slices: list[Slice]) -> None:
        self.scene.message = ""
        self.progress.max, self.progress.value = max(1, len(slices)), 0
        self._job = Job(self.scene.experiment, self.scene.source, slices, self._on_step, self._on_end)
        self._job.running = True
        self.left.value = f"0 of {len(slices)}"
        self._show_measuring()
        self._job.start()

    def _stop(self) -> None:
        if self._job is not None and self._job.running:
            self._job.cancel()

    def _on_step(self, done: int, of: int) -> None:
        self.progress.value = done
        self.left.value = f"{done} of {of}"
        self._redraw()

    def _on_end(self, message: str) -> None:
        assert self._job is not None
        if self._job.unexpected is not None:
            self.failures.append(self._job.unexpected)
        self._show_measuring()
        self._redraw()
        self._say(message)

    def _redraw(self) -> None:
        self.scene.refresh()
        self._canvas.show(self.scene)
        self.refresh()

    def _say(self, message: str) -> None:
        """A message inside the figure and in the text line; the next movement takes it away."""
        self.scene.message = message
        self.refresh()


# ---------------------------------------------------------------------------------------------------------------------
# What the explorer's panel is built of: its style, its text line, its cover, and small widgets.

CSS = f"""<style>
.brrr-explorer {{ max-width: {plots.WIDTH + 24}px; }}
.brrr-explorer .widget-inline-hbox .widget-label, .brrr-explorer .widget-label {{ color: inherit; }}
.brrr-badge .brrr-chip {{ border: 1px solid currentColor; border-radius: 999px; padding: 1px 10px; font-size: 85%; }}
.brrr-said {{ line-height: 1.5; min-height: 4.5em; max-width: {plots.WIDTH}px; white-space: normal; }}
.brrr-said b {{ white-space: nowrap; }}
.brrr-figure {{ background: {plots.PAPER}; border-radius: 8px; height: auto !important; max-width: 100%;
  overflow: clip !important;
  outline: 1px solid rgba(128, 128, 128, .35); }}
body[data-jp-theme-light="false"] .brrr-figure, body.vscode-dark .brrr-figure {{
  filter: invert(.93) hue-rotate(180deg); /* dark paper, and hues kept: red stays red */ }}
.brrr-lines .widget-checkbox {{ width: auto; margin-right: 14px; }}
.brrr-lines .widget-html {{ margin: 0 2px; }}
.brrr-predicted table {{ table-layout: fixed; width: 100%; max-width: {plots.WIDTH}px; border-collapse: collapse;
  line-height: 1.5; font-variant-numeric: tabular-nums; }}
.brrr-predicted th, .brrr-predicted td {{ text-align: left; padding: 0 10px 0 0; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }}
.brrr-predicted tbody th {{ font-weight: 400; }}
.brrr-predicted thead th {{ font-weight: 600; border-bottom: 1px solid rgba(128, 128, 128, .5); }}
.brrr-predicted .brrr-number {{ text-align: right; }}
.brrr-predicted .brrr-origin {{ font-size: 85%; opacity: .8; line-height: 1.5; max-width: {plots.WIDTH}px; }}
.brrr-table {{ overflow-x: auto; max-width: {plots.WIDTH}px; }}
.brrr-table table {{ font-variant-numeric: tabular-nums; line-height: 1.5; }}
.brrr-table td {{ white-space: nowrap; }}
.brrr-cover {{ border: 1px dashed currentColor; border-radius: 8px; padding: 2.2em 1em; text-align: center;
  opacity: .8; max-width: {plots.WIDTH}px; }}
</style>"""

FULL = {"width": "100%", "max_width": f"{plots.WIDTH}px"}


class Named(widgets.Image):  # type: ignore[misc]  # ipywidgets is untyped
    """An image whose tooltip is its name for a screen reader (an Image has no alternative text of its own).

    The front end reads `description` to place a tooltip, and an Image without one fails there.
    """

    description = Unicode("").tag(sync=True)


def cover() -> Any:
    """What stands in an explorer's place until the guess is given: no number, no line."""
    text = "<div class='brrr-cover' role='status'>Give your guess above to uncover.</div>"
    return widgets.VBox([widgets.HTML(CSS + text)])


def about(seconds: float) -> str:
    if seconds == float("inf"):
        return "an unknown time on this machine, perhaps long"
    return f"about {units.seconds(seconds, 2)}" if seconds < 120 else f"about {seconds / 60:.0f} minutes"


def said_html(scene: Scene) -> str:
    """The text line, with its values in bold."""
    readings = words.readings(scene)
    said = "; ".join(f"{escape(label)}: <b>{escape(value)}</b>{escape(beside)}" for label, value, beside in readings)
    where, remark = escape(words.place(scene)), escape(words.remark(scene))
    return live_region(f"At {where}{': ' if said else ''}{said}. {remark}")


def live_region(html: str) -> str:
    return f"<div class='brrr-said' role='status' aria-live='polite'>{html}</div>"


def html(css_class: str) -> Any:
    made = widgets.HTML("")
    made.add_class(css_class)
    return made


def button(name: str, tooltip: str, style: str = "") -> Any:
    return widgets.Button(description=name, tooltip=tooltip, button_style=style, layout={"width": "max-content"})
