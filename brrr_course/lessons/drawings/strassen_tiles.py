"""The drawing of tiles in waves: one product, then seven half-size ones, on a small and on a large GPU."""

from collections.abc import Mapping
from functools import lru_cache

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from brrr.core import units
from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr.gpu.datasheet import hardware
from brrr_course.lessons.drawings import Dial, LessonDrawing
from brrr_course.lessons.layer_model import TILE, Waves, after, before

GPUS = {"gtx-1070": "GTX 1070", "h200": "H200"}
BATCHES = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
HIDDEN = (512, 1024, 2048, 4096, 8192, 16384)
BADGE = "COUNTED, not measured: tiles of at most 128 × 128, all at one rate"
ONE, SEVEN, IDLE = ("#0072B2",), ("#009E73", "#4dbb9b"), "#f6dfd3"
"""Blue for the one product, two greens in turn for the seven."""

_HEIGHT = 430


DIALS = [
    Dial("gpu", "GPU", tuple(GPUS), tuple(GPUS.values())),
    Dial("batch", "batch", BATCHES, start=128),
    Dial("hidden", "hidden size", HIDDEN, start=4096),
]
DRAWING = LessonDrawing("strassen-tiles", lambda _: (DIALS, draw, BADGE))


def pair(settings: Mapping[str, Value]) -> tuple[Waves, Waves]:
    """The product and the seven, where the sliders stand."""
    sms = hardware(str(settings["gpu"])).sm_count
    assert sms is not None
    batch, hidden = int(settings["batch"]), int(settings["hidden"])
    return before(batch, hidden, sms), after(batch, hidden, sms)


def draw(settings: Mapping[str, Value]) -> Picture:
    """The picture: time to the right, multiprocessors upwards, a box for each tile."""
    one, seven = pair(settings)
    made = style.emptied(_frames())
    unit = one.wave_length
    longest = max(one.time, seven.time) / unit
    titles = ("One product", "Seven of half the size")
    for on, waves, title in zip(made.axes, (one, seven), titles, strict=True):
        _waves(on, waves, waves.wave_length / unit)
        on.set_title(f"{title}: {_in_words(waves)}", loc="left", y=1.0, fontsize=10, pad=5)
        on.set(xlim=(0, longest * 1.005), ylim=(0, waves.sms), yticks=[0, waves.sms])
    return style.picture(made, text(settings))


@lru_cache(maxsize=1)
def _frames() -> Figure:
    """The axes of both, the one above the other, and what stands below them."""
    made = style.figure(height=_HEIGHT)
    for foot in (0.565, 0.115):
        on = style.axes(made, left=0.09, bottom=foot, right=0.975, top=foot + 0.345)
        on.grid(visible=False)
        on.set_ylabel("multiprocessors", fontsize=9)
        on.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        on.tick_params(labelsize=8.5)
    made.text(0.5325, 0.025, "time, in waves of the one product", ha="center", va="bottom", fontsize=9, color=style.INK)
    return made


def text(settings: Mapping[str, Value]) -> str:
    """What the picture shows."""
    one, seven = pair(settings)
    fuller = seven.used * _fit(seven) / (one.used * _fit(one))
    gain = units.ratio(one.time / seven.time)
    return (
        f"one product is {_in_words(one)}; the seven are {_in_words(seven)}. The seven are {gain} as fast: "
        f"{units.ratio(8 / 7)} for an eighth less arithmetic, times {units.ratio(fuller)} for how full waves and "
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


def _waves(on: Axes, waves: Waves, length: float) -> None:
    """Each tile in its wave and on its multiprocessor, what is idle in a colour of its own; `length` is a wave's."""
    import numpy as np

    product = np.arange(waves.waves * waves.sms) * waves.products // waves.tiles
    shades = [to_rgb(colour) for colour in (ONE if waves.products == 1 else SEVEN)]
    colours = np.rint(255 * np.array(shades)).astype(np.uint8)  # bytes are drawn faster than floats
    picture = colours[product % len(colours)].reshape(waves.waves, waves.sms, 3).swapaxes(0, 1)
    end = waves.waves * length
    on.imshow(picture, extent=(0, end, 0, waves.sms), origin="lower", aspect="auto", interpolation="none", zorder=1)
    if waves.waves < 60:  # thinner boxes than lines would look pale
        on.vlines([wave * length for wave in range(1, waves.waves)], 0, waves.sms, color="white", linewidth=0.8)
        on.hlines(range(1, waves.sms if waves.sms < 40 else 1), 0, end, color="white", linewidth=0.6)
    idle = waves.sms - waves.last
    on.add_patch(Rectangle((end - length, waves.last), length, idle, facecolor=IDLE, zorder=3))
    if idle > 0.1 * waves.sms and waves.waves <= 20:
        on.text(end - length / 2, waves.last + idle / 2, "idle", ha="center", va="center", fontsize=8.5,
                color="#7a3a12", zorder=4)  # fmt: skip
