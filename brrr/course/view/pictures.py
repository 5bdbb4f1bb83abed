"""A scene's picture, whatever its form: lines over x, or bars at the sliders' point."""

from __future__ import annotations

from brrr.course.view import words
from brrr.course.view.bars import BarCanvas, BarFrame, bar_frame, bars_of
from brrr.course.view.canvas import Canvas
from brrr.course.view.scene import Scene
from brrr.course.view.words import in_figure


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
