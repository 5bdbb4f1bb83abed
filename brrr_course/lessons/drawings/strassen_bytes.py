"""The drawing of a layer's bytes and arithmetic, as it stands and with Strassen: why small batches lose."""

from collections.abc import Mapping
from functools import lru_cache

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from brrr.core import units
from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr.gpu.datasheet import hardware
from brrr_course.lessons.drawings import Dial, LessonDrawing
from brrr_course.lessons.layer_model import Layer

GPUS = {"gtx-1070": "GTX 1070", "h200": "H200"}
BATCHES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
HIDDEN = (512, 1024, 2048, 4096)
BADGE = "COUNTED, not measured: a datasheet's rates"
COLOURS = {"weights": "#0072B2", "rows and buffers": "#56B4E9", "arithmetic": "#009E73", "pointwise kernel": "#CC79A7"}
LONGEST = 2.0
"""The axis ends at twice the classical layer's time; Strassen's takes at most 7/4 of it."""


def layer_dials(batches: tuple[int, ...], hidden: tuple[int, ...], start: int) -> list[Dial]:
    """Three sliders: the GPU, the batch, the hidden size."""
    return [
        Dial("gpu", "GPU", tuple(GPUS), tuple(GPUS.values())),
        Dial("batch", "batch", batches, start=start),
        Dial("hidden", "hidden size", hidden, start=4096),
    ]


DRAWING = LessonDrawing("strassen-bytes", lambda _: (layer_dials(BATCHES, HIDDEN, 16), draw, BADGE))


def pair(settings: Mapping[str, Value]) -> tuple[Layer, Layer]:
    """The layer as it stands and with one level, where the sliders stand."""
    gpu, batch, hidden = hardware(str(settings["gpu"])), int(settings["batch"]), int(settings["hidden"])
    return Layer(batch, hidden, False, gpu), Layer(batch, hidden, True, gpu)


def text(settings: Mapping[str, Value]) -> str:
    """What the picture shows."""
    one, seven = pair(settings)
    paces = ["memory" if each.pace == "bytes" else "compute" for each in (one, seven)]
    return (
        f"the weights are {units.nbytes(one.weights)} as they stand, {units.nbytes(seven.weights)} as seven buffers: "
        f"{units.ratio(seven.weights / one.weights)}. As it stands it takes "
        f"{units.seconds(one.time_s)}, and {paces[0]} sets the pace; with Strassen {units.seconds(seven.time_s)}, and "
        f"{paces[1]} does: {units.ratio(one.time_s / seven.time_s)} as fast."
    )


def draw(settings: Mapping[str, Value]) -> Picture:
    """Two bars for each: memory's time above, compute's below; the longer one goes on with the pointwise kernel."""
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
