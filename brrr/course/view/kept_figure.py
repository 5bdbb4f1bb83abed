"""What every kept figure does: draw on a canvas that stays, and encode it as a small PNG."""

from __future__ import annotations

from io import BytesIO
from textwrap import fill
from typing import Any

from matplotlib import rc_context
from PIL import Image

from brrr.drawing import style

_COLOURS = 256


class Blit:
    """A figure on a canvas, a palette of its colours, and the picture as a PNG.

    `redraws` counts how often the whole figure was drawn: a slider's step is to do without.
    """

    def __init__(self) -> None:
        self._canvas: Any = None  # matplotlib leaves it untyped
        self._figure: Any = None
        self._palette: Image.Image | None = None
        self.redraws = 0

    def new_figure(self, height: float) -> None:
        """Begin anew, with an empty figure of that height in CSS pixels."""
        self.redraws += 1
        self._figure = style.figure(height=round(height))
        self._canvas = self._figure.canvas

    def whole(self) -> Image.Image:
        """What is drawn now, without copying it."""
        size = self._canvas.get_width_height()
        return Image.frombuffer("RGBA", size, self._canvas.buffer_rgba(), "raw", "RGBA", 0, 1)

    def new_palette(self) -> Image.Image:
        """What is drawn now, reduced to the 256 colours that suit it best; later pictures are reduced to the same."""
        picture = self.whole().convert("RGB")
        self._palette = picture.quantize(_COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        return self._palette

    def reduced(self, picture: Image.Image) -> Image.Image:
        """A picture in the colours of the palette."""
        return picture.quantize(palette=self._palette, dither=Image.Dither.NONE)

    def encoded(self, picture: Image.Image | None = None) -> bytes:
        """A PNG of the picture, or of what is drawn now, packed as lightly as it goes: it travels a local socket."""
        stream = BytesIO()
        ready = picture if picture is not None else self.reduced(self.whole().convert("RGB"))
        ready.save(stream, format="png", compress_level=1)
        return stream.getvalue()

    def draw_message(self, axes: Any, message: str) -> None:
        """A text in a box in the middle of the axes, for what could not be shown."""
        box = {"boxstyle": "round,pad=0.6", "facecolor": "#fff8e6", "edgecolor": "#d4a72c"}
        with rc_context(style.STYLE):
            text = axes.text(
                0.5, 0.5, fill(message, 78), transform=axes.transAxes, ha="center", va="center",
                fontsize=9.5, bbox=box, animated=True, zorder=9,
            )  # fmt: skip
        axes.draw_artist(text)
        text.remove()
