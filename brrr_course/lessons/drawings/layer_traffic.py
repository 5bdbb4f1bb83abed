"""Tiles of a result in waves over multiprocessors, for a product and for the seven half-size ones of Strassen.

A model to think with, simpler than `brrr.roofline.products`: one size of tiles, all at one rate, nothing else counts.
Where there are fewer tiles than multiprocessors, the sum over k is cut into parts, as libraries do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.measurement import Value
from brrr.gpu.datasheet import Hardware, hardware
from brrr.roofline.device_model import model_of
from brrr_course.lessons.drawings import Dial, Drawing, LessonDrawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from brrr.drawing.style import Picture
    from brrr_course.nouns.source import Source
    from brrr_course.view.display import Lock

GPUS = {"gtx-1070": "GTX 1070", "h200": "H200"}
TILE = 128
"""Rows and columns of a tile; where a block has fewer rows, the tile has the next power of two of them."""
LEAST_ROWS = 16
LEAST_DEPTH = 256
"""No part of a sum over k is shorter."""


@dataclass(frozen=True)
class Waves:
    """A batch of equal products over `sms` multiprocessors, each at one tile of its own at a time.

    >>> one = Waves(products=1, rows=128, columns=4096, depth=4096, sms=15)
    >>> one.tiles, one.waves, one.last, round(one.used, 2)
    (32, 3, 2, 0.71)
    """

    products: int
    rows: int
    columns: int
    depth: int
    sms: int

    @property
    def tile_rows(self) -> int:
        """Rows of a tile: no more than a block needs."""
        return max(LEAST_ROWS, min(TILE, 1 << (self.rows - 1).bit_length()))

    @property
    def tiles_each(self) -> int:
        """Tiles of one product."""
        return math.ceil(self.rows / self.tile_rows) * math.ceil(self.columns / TILE)

    @property
    def split(self) -> int:
        """Into how many parts the sum over k is cut, so that a wave that would be almost empty is not.

        >>> Waves(1, 128, 4096, 4096, 132).split
        4
        """
        return max(1, min(self.sms // (self.products * self.tiles_each), self.depth // LEAST_DEPTH))

    @property
    def tiles(self) -> int:
        """Tiles of all products, every part of a sum counted."""
        return self.products * self.tiles_each * self.split

    @property
    def waves(self) -> int:
        """How often the multiprocessors are dealt tiles until none is left."""
        return math.ceil(self.tiles / self.sms)

    @property
    def last(self) -> int:
        """Tiles of the last wave."""
        return self.tiles - (self.waves - 1) * self.sms

    @property
    def used(self) -> float:
        """The share of all places, in all waves, that a tile takes."""
        return self.tiles / (self.waves * self.sms)

    @property
    def wave_length(self) -> float:
        """The time of a wave: multiplications of one of its tiles."""
        return self.tile_rows * TILE * self.depth / self.split

    @property
    def time(self) -> float:
        """The time of all waves, in the same unit."""
        return self.waves * self.wave_length


def before(batch: int, hidden: int, sms: int) -> Waves:
    """A layer's product, `batch` rows by `hidden` by `hidden`, as it stands."""
    return Waves(1, batch, hidden, hidden, sms)


def after(batch: int, hidden: int, sms: int) -> Waves:
    """Strassen's seven products of half the size each way.

    >>> after(128, 4096, 15).waves, after(128, 4096, 15).wave_length / before(128, 4096, 15).wave_length
    (8, 0.25)
    """
    return Waves(7, math.ceil(batch / 2), math.ceil(hidden / 2), math.ceil(hidden / 2), sms)


# ---------------------------------------------------------------------------------------------------------------------
# What one layer of a network costs as it stands and with one Strassen level: bytes, FLOP, and the time they set.

ITEMSIZE = 4
SHARE = 7 / 4
"""Seven buffers of a quarter of the size each."""


@dataclass(frozen=True)
class Layer:
    """A layer of `batch` rows and `hidden` columns in float32, on a GPU: once classical, once with one level.

    >>> from brrr.gpu.datasheet import hardware
    >>> gpu = hardware("gtx-1070")
    >>> Layer(32, 4096, True, gpu).weights / Layer(32, 4096, False, gpu).weights
    1.75
    >>> Layer(32, 4096, False, gpu).time_s < Layer(32, 4096, True, gpu).time_s
    True
    """

    batch: int
    hidden: int
    strassen: bool
    gpu: Hardware

    @property
    def weights(self) -> float:
        """Bytes of the weights, as they are read by the product."""
        return ITEMSIZE * self.hidden**2 * (SHARE if self.strassen else 1)

    @property
    def rows(self) -> float:
        """Bytes that the product reads and writes beside its weights."""
        return 2 * ITEMSIZE * self.batch * self.hidden * (SHARE if self.strassen else 1)

    @property
    def pointwise(self) -> float:
        """Bytes of the kernel behind it: bias and ReLU, and with Strassen the sums of this layer and the next."""
        return self.rows

    @property
    def waves(self) -> Waves:
        """How its tiles are dealt out."""
        sms = self.gpu.sm_count
        assert sms is not None
        return (after if self.strassen else before)(self.batch, self.hidden, sms)

    @property
    def flop(self) -> float:
        """FLOP of its products."""
        return 2.0 * self.batch * self.hidden**2 * (7 / 8 if self.strassen else 1)

    @property
    def arithmetic_s(self) -> float:
        """Seconds of its waves at the datasheet's rate."""
        return model_of(self.gpu).roof_s(2 * self.waves.time * self.waves.sms, 0.0)

    def carried_s(self, nbytes: float) -> float:
        """Seconds that the memory takes for so many bytes."""
        return model_of(self.gpu).roof_s(0.0, nbytes)

    @property
    def product_s(self) -> float:
        """Seconds of the product: bytes or arithmetic, whichever takes longer."""
        return max(self.arithmetic_s, self.carried_s(self.weights + self.rows))

    @property
    def time_s(self) -> float:
        """Seconds of both kernels."""
        return self.product_s + self.carried_s(self.pointwise)

    @property
    def pace(self) -> str:
        """Who sets the pace of the product."""
        return "arithmetic" if self.arithmetic_s >= self.carried_s(self.weights + self.rows) else "bytes"


# ---------------------------------------------------------------------------------------------------------------------
# The drawing of a layer's bytes and arithmetic, as it stands and with Strassen: why small batches lose.

BATCHES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
HIDDEN = (512, 1024, 2048, 4096)
BADGE = "COUNTED, not measured: a datasheet's rates"
COLOURS = {"weights": "#0072B2", "rows and buffers": "#56B4E9", "arithmetic": "#009E73", "pointwise kernel": "#CC79A7"}
LONGEST = 2.0
"""The axis ends at twice the classical layer's time; Strassen's takes at most 7/4 of it."""


def drawing(source: Source, at: Mapping[str, Value], unlock: Lock | None) -> Drawing:
    """Three sliders: the GPU, the batch, the hidden size."""
    dials = (
        Dial("gpu", "GPU", tuple(GPUS), tuple(GPUS.values())),
        Dial("batch", "batch", BATCHES, start=16),
        Dial("hidden", "hidden size", HIDDEN, start=4096),
    )
    return Drawing(dials, draw, at, badge=BADGE, unlock=unlock)


DRAWING = LessonDrawing("strassen-bytes", drawing)


def pair(settings: Mapping[str, Value]) -> tuple[Layer, Layer]:
    """The layer as it stands and with one level, where the sliders stand."""
    gpu, batch, hidden = hardware(str(settings["gpu"])), int(settings["batch"]), int(settings["hidden"])
    return Layer(batch, hidden, False, gpu), Layer(batch, hidden, True, gpu)


def text(settings: Mapping[str, Value]) -> str:
    """What the picture shows."""
    one, seven = pair(settings)
    return (
        f"the weights are {units.nbytes(one.weights)} as they stand, {units.nbytes(seven.weights)} as seven buffers: "
        f"{units.ratio(seven.weights / one.weights)}. {_pace(one, 'As it stands')}; {_pace(seven, 'with Strassen')}. "
        f"Without over with Strassen: {units.ratio(one.time_s / seven.time_s)}."
    )


def _pace(layer: Layer, who: str) -> str:
    carried = units.seconds(layer.carried_s(layer.weights + layer.rows))
    return (
        f"{who}, bytes take {carried}, arithmetic {units.seconds(layer.arithmetic_s)}: "
        f"{'memory' if layer.pace == 'bytes' else 'compute'} sets the pace"
    )


def draw(settings: Mapping[str, Value]) -> Picture:
    """Two bars for each: memory's time above, compute's below; the longer one goes on with the pointwise kernel."""
    from brrr.drawing import style

    layers = pair(settings)
    made = style.emptied(_frame())
    (on,) = made.axes
    unit = layers[0].time_s
    for layer, top in zip(layers, (0.0, 2.6), strict=True):
        _bars(on, layer, top, unit)
    handles, labels = on.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    on.legend(
        named.values(), named.keys(), ncols=4, fontsize=8.5, loc="lower left", bbox_to_anchor=(-0.2, 1.0),
        handlelength=1.4, columnspacing=1.6, frameon=False,
    )  # fmt: skip
    return style.picture(made, text(settings))


@lru_cache(maxsize=1)
def _frame() -> Figure:
    from brrr.drawing import style

    made = style.figure(height=310)
    on = style.axes(made, left=0.19, bottom=0.2, right=0.975, top=0.83)
    on.set_xlim(0, LONGEST)
    on.set_ylim(4.5, -0.6)
    on.set_yticks([0, 1, 2.6, 3.6], ["as it stands: memory", "compute", "Strassen: memory", "compute"], fontsize=8.5)
    on.tick_params(axis="y", length=0)
    on.grid(visible=False, axis="y")
    on.set_xlabel("time, as a share of the layer's time as it stands")
    return made


def _bars(on: Axes, layer: Layer, top: float, unit: float) -> None:
    """The bars of one layer, in shares of `unit` seconds."""
    left = 0.0
    for name, nbytes in (("weights", layer.weights), ("rows and buffers", layer.rows)):
        left = _bar(on, top, left, layer.carried_s(nbytes) / unit, name)
    _bar(on, top + 1, 0.0, layer.arithmetic_s / unit, "arithmetic")
    paced = layer.product_s / unit
    row = top if layer.pace == "bytes" else top + 1
    end = _bar(on, row, paced, layer.carried_s(layer.pointwise) / unit, "pointwise kernel")
    on.text(min(end, LONGEST) + 0.015, row, units.seconds(layer.time_s), va="center", fontsize=9, fontweight="bold")


def _bar(on: Axes, row: float, left: float, wide: float, name: str) -> float:
    """One piece of a bar; returns its right end."""
    label = {"arithmetic": "arithmetic, in waves of tiles"}.get(name, name)
    on.barh(row, wide, left=left, height=0.78, color=COLOURS[name], edgecolor="white", linewidth=0.6, label=label)
    return left + wide
