"""The drawing of tiles in waves: one product, then seven half-size ones, on a small and on a large GPU.

This module's functions load matplotlib when they draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.measurement import Value
from brrr.course.lessons.drawings import Dial, Drawing, LessonDrawing
from brrr.course.lessons.drawings.layer_traffic import GPUS, TILE, Waves, after, before
from brrr.gpu.datasheet import hardware

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from brrr.course.nouns.source import Source
    from brrr.course.view.display import Lock
    from brrr.drawing.style import Picture

BATCHES = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
HIDDEN = (512, 1024, 2048, 4096, 8192, 16384)
BADGE = "COUNTED, not measured: tiles of at most 128 × 128, all at one rate"
MOST_TILES = 700
"""Up to so many tiles each is drawn; beyond, the waves alone."""
_HEIGHT = 430


def drawing(source: Source, at: Mapping[str, Value], unlock: Lock | None) -> Drawing:
    """Three sliders: the GPU, the batch, the hidden size; it starts where the source saw most."""
    dials = (
        Dial("gpu", "GPU", tuple(GPUS), tuple(GPUS.values())),
        Dial("batch", "batch", BATCHES, start=128),
        Dial("hidden", "hidden size", HIDDEN, start=4096),
    )
    return Drawing(dials, draw, at, badge=BADGE, unlock=unlock)


DRAWING = LessonDrawing("strassen-tiles", drawing)


def pair(settings: Mapping[str, Value]) -> tuple[Waves, Waves]:
    """The product and the seven, where the sliders stand."""
    sms = hardware(str(settings["gpu"])).sm_count
    assert sms is not None
    batch, hidden = int(settings["batch"]), int(settings["hidden"])
    return before(batch, hidden, sms), after(batch, hidden, sms)


def draw(settings: Mapping[str, Value]) -> Picture:
    """The picture: time to the right, multiprocessors upwards, a box for each tile."""
    from brrr.drawing import style

    one, seven = pair(settings)
    made = style.figure(height=_HEIGHT)
    unit = one.wave_length
    longest = max(one.time, seven.time) / unit
    for waves, foot, title in ((one, 0.565, "One product"), (seven, 0.115, "Seven of half the size")):
        on = style.axes(made, left=0.09, bottom=foot, right=0.975, top=foot + 0.345)
        _frame(on, waves, longest, f"{title}: {_in_words(waves)}")
        _waves(on, waves, waves.wave_length / unit)
    made.text(0.5325, 0.025, "time, in waves of the one product", ha="center", va="bottom", fontsize=9, color=style.INK)
    return style.picture(made, text(settings))


def text(settings: Mapping[str, Value]) -> str:
    """What the picture shows."""
    one, seven = pair(settings)
    fuller = seven.used * _fit(seven) / (one.used * _fit(one))
    gain = units.ratio(one.time / seven.time)
    return (
        f"one product is {_in_words(one)}; the seven are {_in_words(seven)}. The one's time over the seven's: {gain}; "
        f"of that {units.ratio(8 / 7)} is seven products for eight, {units.ratio(fuller)} how full the waves and "
        "tiles are."
    )


def _fit(waves: Waves) -> float:
    """The share of its tiles that lies inside of a product: the rest hangs over the edge."""
    return waves.rows * waves.columns / (waves.tiles_each * waves.tile_rows * TILE)


def _in_words(waves: Waves) -> str:
    counts = [waves.products, waves.tiles_each, waves.split]
    each = f"{' × '.join(str(count) for count in counts if count > 1) or '1'} tile{'s' * (waves.tiles > 1)}"
    each += f" of {waves.tile_rows} × {TILE}"
    if waves.split > 1:
        each += f" (sums cut in {waves.split})"
    plural = "s" if waves.waves > 1 else ""
    return f"{each} in {waves.waves} wave{plural}, {units.percent(waves.used)} full"


def _frame(on: Axes, waves: Waves, longest: float, title: str) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator

    on.set_xlim(0, longest * 1.005)
    on.set_ylim(0, waves.sms)
    on.grid(visible=False)
    on.set_title(title, loc="left", fontsize=10, pad=5)
    on.set_ylabel("multiprocessors", fontsize=9)
    on.yaxis.set_major_locator(FixedLocator([0, waves.sms]))
    on.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    on.tick_params(labelsize=8.5)


def _waves(on: Axes, waves: Waves, length: float) -> None:
    """Idle places as a ground of their own colour, tiles as boxes on it; `length` is a wave's, in the axis's unit."""
    from matplotlib.patches import Rectangle

    ground = Rectangle((0, 0), waves.waves * length, waves.sms, facecolor="#f6dfd3", edgecolor="none", zorder=1)
    on.add_patch(ground)
    if waves.sms - waves.last > 0.1 * waves.sms:
        on.text(
            (waves.waves - 0.5) * length, (waves.last + waves.sms) / 2, "idle" if waves.waves <= 20 else "",
            ha="center", va="center", fontsize=8.5, color="#7a3a12", zorder=4,
        )  # fmt: skip
    _boxes(on, waves, length)


def _boxes(on: Axes, waves: Waves, length: float) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    boxes = list(_tiles(waves) if waves.tiles <= MOST_TILES else _blocks(waves))
    patches = [Rectangle((x * length, y), wide * length, high) for x, y, wide, high, _ in boxes]
    line = 0.6 if waves.sms < 40 and waves.waves < 60 else 0.0  # thinner boxes than lines would look pale
    colours = [colour for *_, colour in boxes]
    on.add_collection(PatchCollection(patches, facecolor=colours, edgecolor="white", linewidth=line, zorder=2))
    if waves.waves < 60:
        ends = [wave * length for wave in range(1, waves.waves)]
        on.vlines(ends, 0, waves.sms, color="white", linewidth=0.8, zorder=3)


def _tiles(waves: Waves) -> Iterator[tuple[float, float, float, float, str]]:
    """Each tile in its wave, in the colour of its product: place and size in waves and multiprocessors."""
    for number in range(waves.tiles):
        wave, place = divmod(number, waves.sms)
        colour = _colour(number * waves.products // waves.tiles, waves)
        yield wave, place, 1, 1, colour


def _blocks(waves: Waves) -> Iterator[tuple[float, float, float, float, str]]:
    """Each wave as one box as high as it is full; of very many, the full ones together."""
    full = waves.waves - (waves.last < waves.sms)
    step = max(1, full // 200)
    for start in range(0, full, step):
        wide = min(step, full - start)
        product = int((start + wide / 2) * waves.sms * waves.products // waves.tiles)
        yield start, 0, wide, waves.sms, _colour(min(product, waves.products - 1), waves)
    if waves.last < waves.sms:
        yield full, 0, 1, waves.last, _colour(waves.products - 1, waves)


def _colour(product: int, waves: Waves) -> str:
    """Blue for the one product; seven shades of two colours in turn."""
    if waves.products == 1:
        return "#0072B2"
    return ("#009E73", "#4dbb9b")[product % 2]
