"""`explore`: sliders and a figure over any experiment and any source."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from brrr.core.errors import ArgumentError
from brrr.core.measurement import Value
from brrr_course.experiments import experiment as experiment_named
from brrr_course.nouns.source import Source
from brrr_course.sources import source as source_named
from brrr_course.sources import source_for
from brrr_course.view import words
from brrr_course.view.arguments import Arguments, Show, Versus, comparisons, reachable, slider_names, snap, view_of
from brrr_course.view.display import Lock, Shown
from brrr_course.view.predictions import LinePrediction
from brrr_course.view.scene import Row, Scene
from brrr_course.view.stack import Part, stacked

if TYPE_CHECKING:
    from brrr.drawing.style import Picture


class Explorer(Shown):
    """What `explore` returns; it shows itself as the last expression of a cell.

    `text` is the line in front of the figure, `data` what is drawn, `guides` the theoretical lines, `parts` those of a
    stack, `predictions` what each line should take where the sliders stand, `sliders` the sliders by name, `panel`
    all widgets.
    """

    def __init__(self, scene: Scene, sliders: Sequence[str], unlock: Lock | None, at: Mapping[str, Value],
                 lines: Sequence[str] | None) -> None:  # fmt: skip
        super().__init__(unlock)
        self._scene, self._names, self._given_source = scene, tuple(sliders), scene.source
        self._at, self._lines = dict(at), lines

    @property
    def data(self) -> dict[str, list[Row]]:
        """What is drawn: for each line its points as (x, median, low, high), in the figure's unit; {} if covered.

        Of a ladder or a stack, each line's value where the sliders stand.
        """
        return {} if self.covered else self.scene.data

    @property
    def guides(self) -> dict[str, list[tuple[Value, float]]]:
        """The theoretical lines that are drawn, each as (x, height); {} if covered."""
        return {} if self.covered else self.scene.guide_data

    @property
    def parts(self) -> list[Part]:
        """The parts of a stack where the sliders stand; [] for other figures, and if covered."""
        return stacked(self.scene) if self.scene.view.form == "stack" and not self.covered else []

    @property
    def predictions(self) -> list[LinePrediction]:
        """For each line its predicted time where the sliders stand, its bound, its residual; [] if covered or off."""
        return [] if self.covered else self.scene.predicted_here

    @property
    def scene(self) -> Scene:
        """The point, the lines and the source as they are now."""
        found = self._panel.scene if self._panel is not None else self._scene
        assert isinstance(found, Scene)
        return found

    @property
    def slider_names(self) -> tuple[str, ...]:
        """The axes that have a slider, in their order on the page."""
        return self._names

    def fresh(self) -> Scene:
        """A scene as the explorer's was at first, for who wants to move sliders without moving the explorer's."""
        first = self._scene
        return Scene(first.experiment, self._given_source, self._at, self._lines, first.view, first.predictions.on)

    def _text(self) -> str:
        return words.text(self.scene)

    def _markdown(self) -> str:
        folded = f"<details><summary>Details</summary>\n\n{words.details(self.scene)}\n\n</details>"
        return self.text if self.covered else f"**{words.verdict(self.scene)}**\n\n{folded}"

    def _picture(self) -> Picture:
        from brrr.drawing.style import WIDTH, Picture
        from brrr_course.view.still import png_of

        return Picture(png_of(self.scene), f"{words.alt(self.scene)}. {self.text}", WIDTH)

    def _make_panel(self) -> Any:
        from brrr_course.view.panel import ExplorerPanel

        return ExplorerPanel(self._scene, self._names, sources_here(self._given_source, self._scene), self._choose)

    def _outputs(self) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        yield from super()._outputs()
        if self.scene.predictions.on:
            yield words.as_bundle(self.scene), {}

    def set(self, **values: Value) -> Explorer:
        """Move sliders, each to the value nearest to the one given.

        >>> explore("matmul").set(size=4000).scene.point  # doctest: +SKIP
        {'size': 4096}
        """
        for name, value in values.items():
            if name not in self._names:
                raise ArgumentError("Explorer.set", "name", name, f"one of the sliders {', '.join(self._names)}")
            axis = self.scene.experiment.axis(name)
            self.sliders[name].value = snap(axis, self.scene.values[name], value)
        return self

    def _choose(self, name: str) -> Scene:
        chosen = self._given_source if name == self._given_source.name else source_named(name)
        before = self.scene
        kept = {name: value for name, value in before.point.items() if chosen.values(before.experiment, name)}
        return Scene(before.experiment, chosen, {**self._at, **kept}, self._lines, before.view, before.predictions.on)


def explore(
    name: str,
    *,
    at: Mapping[str, Value] | None = None,
    lines: Sequence[str] | None = None,
    sliders: Sequence[str] | None = None,
    values: Mapping[str, Sequence[Value]] | None = None,
    show: Show = "time",
    unlock: Lock | None = None,
    source: str | Source | None = None,
    predict: bool = False,
    versus: Mapping[str, Value] | None = None,
    title: str = "",
) -> Explorer:
    """Show an experiment as a figure with sliders, over recorded measurements or over new ones from this machine.

    >>> explore("matmul", at={"size": 4096}, lines=["synchronized", "unsynchronized"])  # doctest: +SKIP
    At size 4096: GPU, clock stopped without waiting: 9.2 µs; GPU, clock stopped after synchronize(): 2.7 ms. ...

    Parameters
    ----------
    name : str
        The experiment, such as "matmul".
    at : mapping of str, optional
        Where the sliders start, and the values of the axes without a slider. Values snap to those that the data have.
    lines : sequence of str, optional
        The lines to show. By default all that the data have.
    sliders : sequence of str, optional
        The axes that get a slider, at most three; the first lies along x. By default all axes, or those not in `at` if
        there are more than three. With [] the figure stands still.
    values : mapping of str to sequence, optional
        For an axis, the values to keep. By default all that the data have.
    show : str or mapping, optional
        What is drawn:

        - "time", or "rate" for the experiment's bytes or FLOP per second; ``{"rate": "bytes"}`` or
          ``{"rate": "flop"}`` if it has both, ``{"rate": AXIS}`` for the values of an axis per second;
        - ``{"ratio": LINE}`` for the times divided by those of one line;
        - ``{"speedup": {LINE: BASE, ...}}`` for how many times as fast as its base each line is;
        - "ladder" (of rates: ``{"ladder": "rate"}``) for one bar per line where the sliders stand;
        - ``{"stack": {LINE: PART, ...}}``, from the fastest line to the slowest, for what each adds to the one before,
          under the part's name; "stack" takes the order from `lines` and the names from their labels;
        - ``{"y": "share"}`` in percent, where the times are shares of a second;
        - the first three with ``{"x": AXIS}`` for another axis along x, as in ``{"y": "rate", "x": "batch"}``.

        The experiment's theoretical lines of that view are drawn dashed.
    unlock : Guess, optional
        The figure stays covered until this guess is given.
    source : str or Source, optional
        Where the measurements come from: "recorded:h200", "cuda", "mps", "cpu" or a source. By default what
        `BRRR_SOURCE` says, else the GPU if there is one, else the recording.
    predict : bool
        Whether to show the predicted time of each line, thin and dashed, with what limits it. A button switches it.
    versus : mapping of str, optional
        What the sentence above a figure compares: ``{LINE: BASE}`` a line with its base, ``{AXIS: VALUE}`` the first
        line with itself at that value. Of several, the first stands in the sentence, and is what a guessed factor is
        of (how many times as fast, where its question has "fast" in it); the others stand in the details, the first of
        them in the sentence wherever a line is not where its guess was asked of it and another place. By default
        the best line is compared with the next, in a ladder with the last.
    title : str
        What stands above the figure, such as the question that it answers. By default what the experiment is called.

    Returns
    -------
    Explorer
        It shows itself in a notebook; as text it says what the figure shows.

    Raises
    ------
    ArgumentError
        If an experiment, axis, line, value or view does not exist.
    """
    found = experiment_named(name)
    at = dict(at or {})
    for axis in at:
        found.axis(axis).checked("explore", at[axis])
    for line in lines or ():
        found.line(line)
    names = slider_names(found, at, sliders)
    view = view_of(found, names, show, values, lines)
    chosen = source_for(source, found.name, lines or view.only)
    wanted, at = at, reachable(found, chosen, at)
    moving = names if view.is_bars else [*names, view.x]
    standing = [axis for axis in at if axis not in moving]
    view = replace(view, keep={**{axis: (at[axis],) for axis in standing}, **view.keep})
    first = next(iter(lines or view.only), "")
    compared = comparisons(found, versus or {}, first or found.lines[0].name, moving)
    view = replace(view, versus=compared, title=title)
    if unlock and first:
        first = next(reversed([*view.parts]), first)  # a guess is of the whole
        view = replace(view, asked=Arguments(unlock, wanted, next(iter(view.versus), Versus(first, first, {}))))
    if predict and not (found.predicts or found.cost):
        hint = f"{found.name!r} tells neither what to predict nor what it costs."
        raise ArgumentError("explore", "predict", predict, "False", hint)
    return Explorer(Scene(found, chosen, at, lines, view, predict), names, unlock, at, lines)


def sources_here(current: Source, scene: Scene) -> list[tuple[str, str]]:
    """What the list offers: the source in use, the experiment's recordings, the GPU if there is one, the CPU."""
    from brrr.core.recordings import device_folders, recorded_devices
    from brrr.gpu.device import default_device_kind

    recorded = [f"recorded:{device}" for device in recorded_devices()
                if any((at / f"{scene.experiment.name}.csv").is_file() for at in device_folders(device))]  # fmt: skip
    gpu = default_device_kind()
    titles = {gpu: "live on this GPU", "cpu": "live on this CPU"}
    class_s = [name] if (name := os.environ.get("BRRR_SOURCE", "")).startswith("remote:") else []
    titles |= {name: "live on the class's device" for name in (*class_s, current.name) if name.startswith("remote:")}
    named = dict.fromkeys([*recorded, gpu, "cpu", *class_s, current.name])
    return [(titles.get(name, name.replace("recorded:", "recorded: ")), name) for name in named]
