"""The drawing of a roofline with a roof for each type: a Linear layer's point moves with its tokens and its bits."""

from collections.abc import Mapping
from math import log2

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from brrr.core import units
from brrr.core.measurement import Value
from brrr.counting.cost import Cost
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr.gpu.datasheet import hardware
from brrr_course.experiments.bits import EXPERIMENT, LABELS, ORDINARY, PRECISIONS, TOKENS, WIDEST, cost
from brrr_course.lessons.drawings import Dial, LessonDrawing

GPU = hardware("h200")
SHOWN = ("float32", "tf32", "bf16", "fp8", "int8", "int4")
ROOFS = {"fp32": "float32", "tf32": "TF32", "bf16": "bf16; weights in\nint8 or int4", "fp8": "fp8"}
BADGE = f"DATASHEET {GPU.name}"
_CHOSEN, _OTHERS = "#D55E00", "#0072B2"
_APART = 0.5
"""Points that are nearer than so many octaves share a marker."""
_LEAST, _MOST = 0.3, 1e4


def of(way: str, tokens: int) -> Cost:
    """FLOP and bytes of the widest layer."""
    return cost(EXPERIMENT.variant(way), {"tokens": tokens, "width": WIDEST, "inputs": ORDINARY})


def limits(way: str, tokens: int) -> tuple[float, float]:
    """The seconds that its bytes take, and its FLOP, by the datasheet.

    >>> [f"{1e6 * each:.3g}" for each in limits("bf16", 1)]
    ['28', '0.136']
    """
    made = of(way, tokens)
    return made.bytes / GPU.memory_bytes_per_s, made.flop / GPU.peak(PRECISIONS[way].peak)


def rate(way: str, tokens: int) -> float:
    """The FLOP/s that the roofline allows."""
    return of(way, tokens).flop / max(limits(way, tokens))


def text(way: str, tokens: int) -> str:
    """What sets the pace, and how much fewer bits gain over bf16."""
    made, (moving, computing) = of(way, tokens), limits(way, tokens)
    bound = "memory-bound" if moving > computing else "compute-bound"
    said = (
        f"moving {units.nbytes(int(made.bytes))} takes {units.seconds(moving)}, the FLOP take "
        f"{units.seconds(computing)}: {bound}."
    )
    gain = max(limits("bf16", tokens)) / max(moving, computing)
    return said if way == "bf16" else f"{said} The roofline allows {units.ratio(gain)} of bf16's speed."


def draw(settings: Mapping[str, Value]) -> Picture:
    """A roof for each type, all types' points at these tokens, and the path of the chosen one from 1 token on."""
    way, tokens = str(settings["type"]), int(settings["tokens"])
    made = style.figure()
    top = 2 * GPU.peak("fp8")
    bounds = (_LEAST * GPU.memory_bytes_per_s, top)
    on = style.axes(made, left=style.left_margin(bounds, "FLOP/s"), bottom=0.15, right=0.84, top=0.91)
    on.set_title("One layer, its weights in six types, under their roofs", loc="left", fontsize=11.5, fontweight="bold")
    on.set_xscale("log")
    on.set_xlim(_LEAST, _MOST)
    on.set_ylim(bounds)
    style.value_axis(on, "FLOP/s", "FLOP per second")
    on.xaxis.set_major_locator(LogLocator(10))
    on.xaxis.set_minor_locator(NullLocator())
    on.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    on.set_xlabel("FLOP per byte")
    _roofs(on, PRECISIONS[way].peak)
    _points(on, way, tokens)
    return style.picture(made, text(way, tokens))


def _roofs(on: Axes, chosen: str) -> None:
    for peak, name in ROOFS.items():
        height = GPU.peak(peak)
        ridge, here = height / GPU.memory_bytes_per_s, peak == chosen
        on.plot([ridge, _MOST], [height] * 2, color=_CHOSEN if here else "#9aa4ae", linewidth=2 if here else 1.2)
        on.annotate(name, (_MOST, height), (5, 0), textcoords="offset points", va="center", fontsize=8.5)
    ends = [_LEAST, GPU.peak("fp8") / GPU.memory_bytes_per_s]
    on.plot(ends, [each * GPU.memory_bytes_per_s for each in ends], color=style.INK, linewidth=1.2)
    spot = (20, 20 * GPU.memory_bytes_per_s)
    on.annotate("memory's bandwidth", spot, (-12, 6), textcoords="offset points", ha="right", fontsize=8.5)


def _points(on: Axes, chosen: str, tokens: int) -> None:
    def place(way: str, count: int) -> tuple[float, float]:
        return of(way, count).arithmetic_intensity, rate(way, count)

    path = [place(chosen, round(2 ** (power / 8))) for power in range(8 * len(TOKENS) - 7)]
    on.plot(*zip(*path, strict=True), color=_CHOSEN, linewidth=1.5, linestyle=(0, (1, 2)), zorder=3)
    spots: dict[tuple[float, float], list[str]] = {}
    for way in SHOWN:
        here = place(way, tokens)
        near = (each for each in spots if all(abs(log2(a / b)) < _APART for a, b in zip(each, here, strict=True)))
        spots.setdefault(next(near, here), []).append(way)
    for spot, ways in spots.items():
        own = chosen in ways
        on.plot(*spot, "o", color=_CHOSEN if own else _OTHERS, markersize=9 if own else 5.5, zorder=4)
        words = ", ".join(LABELS[way].removesuffix(" weights") for way in ways)
        late = spot[0] > 1e3
        on.annotate(words, spot, (-8 if late else 8, -13), textcoords="offset points", ha="right" if late else "left",
                    fontsize=8.5, color=_CHOSEN if own else style.FAINT, zorder=5)  # fmt: skip


_DIALS = (Dial("tokens", "tokens", TOKENS), Dial("type", "stored in", SHOWN, start=SHOWN[2]))
DRAWING = LessonDrawing("bits-roofline", lambda _: (_DIALS, draw, BADGE))
