"""The explorer in a notebook: its figure, which moves by itself, the source that it shows, and measuring.

This module imports ipywidgets; `explore` loads it when there is something to show.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.core.measurement import Value
from brrr.gpu import is_cpu
from brrr_course.view.figure import Data, figure_of, hidden_at_first
from brrr_course.view.measuring import ASK_ABOVE_S, Slice, SliderJob, expected_s, pace
from brrr_course.view.scene import Scene
from brrr_course.view.widgets import Panel, button, live_region

BUILT = Path(__file__).parent / "drawn" / "built"


class FigureWidget(anywidget.AnyWidget):
    """A scene as `drawn/scene.js` draws it: it moves without the kernel, and tells it where the reader went.

    `at` are the sliders' positions, `hidden` the lines switched off; `guess` is the reader's, and how it reads; `yours`
    is what the browser measured of its GPU, once somebody has asked it to.
    """

    _esm, _css = BUILT / "widget.bundle.js", BUILT / "scene.css"
    scene = traitlets.Dict().tag(sync=True)
    at = traitlets.List(traitlets.Int()).tag(sync=True)
    hidden = traitlets.List(traitlets.Unicode()).tag(sync=True)
    predicting = traitlets.Bool().tag(sync=True)
    guess = traitlets.List([None, ""]).tag(sync=True)
    yours = traitlets.Dict().tag(sync=True)


class FigureSlider(traitlets.HasTraits):
    """A figure's slider as Python sees it: its `options`, each as it reads and its value, and where it stands."""

    options: Any = traitlets.List()
    value = traitlets.Any()

    @traitlets.validate("value")
    def _one_of_them(self, proposal: Any) -> Any:
        if proposal["value"] not in [value for _, value in self.options]:
            raise traitlets.TraitError(f"{proposal['value']!r} is none of this slider's values")
        return proposal["value"]

    @property
    def position(self) -> int:
        """Of its value among the options."""
        return [value for _, value in self.options].index(self.value)


class FigurePanel(Panel):
    """A figure of which nothing changes but where its sliders stand."""

    def __init__(self, figure: Data) -> None:
        super().__init__()
        self.figure = FigureWidget(scene=figure, at=[slider["at"] for slider in figure["sliders"]])
        self._build(self.figure, self.text)


class ExplorerPanel(Panel):
    """One explorer's figure over a `Scene`, with what chooses the source and measures."""

    def __init__(
        self, scene: Scene, sliders: Sequence[str], sources: Sequence[tuple[str, str]], choose: Callable[[str], Scene]
    ) -> None:
        super().__init__()
        self.scene, self._choose, self.experiment = scene, choose, scene.experiment
        self._names, self._followed = tuple(sliders), False
        self._job: SliderJob | None = None
        self._confirmed: list[Slice] = []
        self._later: list[Slice] = []
        self.source = self._choice("source", list(sources), self._on_source, value=scene.source.name)
        self.figure = FigureWidget()
        self.figure.observe(self._guarded(lambda _: self._on_at()), "at")
        self.figure.observe(self._guarded(lambda _: self._on_hidden()), "hidden")
        self.figure.observe(self._guarded(lambda change: self._on_predicting(change["new"])), "predicting")
        self.figure.observe(self._guarded(lambda change: self._on_yours(change["new"])), "yours")
        self._make_buttons()
        self._build(self.source, self.figure, self.measuring, self.text)
        self._fill()

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

    # -- the figure and its scene --------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """A scene of another source, or the first: its sliders, and all that the figure shows."""
        scene = self.scene
        names = [*self._names, *({scene.view.x} - {*self._names} if not scene.view.is_bars else ())]
        self._all = {name: FigureSlider(options=self._options(name), value=scene.point[name]) for name in names}
        self.sliders = {name: self._all[name] for name in self._names}
        for name, dial in self._all.items():
            dial.observe(self._guarded(partial(self._on_dial, name)), "value")
        with self._silently():
            self.figure.hidden, self.figure.predicting = hidden_at_first(scene), scene.predictions.on
        self._show_measuring()
        self.refresh()

    def _options(self, name: str) -> list[tuple[str, Value]]:
        from brrr.drawing import style

        return [(style.readable(value), value) for value in self.scene.values[name]]

    def refresh(self) -> None:
        """The whole figure, at all places of its sliders, and what stands in the way of it."""
        with self._silently(), self.figure.hold_sync():
            self.figure.scene = figure_of(self.scene, tuple(self._all))
            self.figure.at = [dial.position for dial in self._all.values()]
            self.figure.guess = self._guess()
        self.text.value = live_region(f"<b>{escape(self.scene.message)}</b>") if self.scene.message else ""

    def _guess(self) -> list[Any]:
        """The reader's guess and how it reads."""
        guess = self.scene.guess
        return [None, ""] if guess is None else [guess, self.scene.said(guess)]

    def _on_dial(self, name: str, change: Any) -> None:
        """A slider that Python moved: the scene's, and then the figure's."""
        self.scene.move(name, change["new"])
        self.text.value = ""
        if not self._followed:
            with self._silently():
                self.figure.at = [dial.position for dial in self._all.values()]

    def _on_at(self) -> None:
        """Where the reader moved the figure's sliders; nothing is sent back, which might come late and undo a move."""
        self._followed = True
        try:
            for position, dial in zip(self.figure.at, self._all.values(), strict=True):
                dial.value = dial.options[position][1]
        finally:
            self._followed = False

    def _on_hidden(self) -> None:
        for line in self.scene.lines:
            self.scene.switch(line.name, line.name not in self.figure.hidden)

    def _on_predicting(self, on: bool) -> None:
        """Only now is it worked out what each line should take."""
        self.scene.predictions.on = on
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

    def _on_yours(self, found: Any) -> None:
        """Keep what the browser measured, and offer it as a source."""
        from brrr_course.sources.browser import SLUG, keep

        keep(found)
        with self._silently():
            there = dict(self.source.options) | {f"recorded: {SLUG}": f"recorded:{SLUG}"}
            self.source.options, self.source.value = tuple(there.items()), self.scene.source.name

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
        self.refresh()

    def _say(self, message: str) -> None:
        """A message inside the figure and in the text line; the next movement takes it away."""
        self.scene.message = message
        self.refresh()


def about(seconds: float) -> str:
    if seconds == float("inf"):
        return "an unknown time on this machine, perhaps long"
    return f"about {units.seconds(seconds, 2)}" if seconds < 120 else f"about {seconds / 60:.0f} minutes"
