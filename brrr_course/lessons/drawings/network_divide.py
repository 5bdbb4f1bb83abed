"""The drawing of the divide: what a rewrite of the network gains over the hidden size, published and measured.

Two panels, each of one machine with its own badge: every ratio is of two times of the same machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr_course.experiments import experiment
from brrr_course.experiments.mlp import BATCHES, HIDDEN, LAYERS
from brrr_course.lessons.drawings import Dial, LessonDrawing, Made
from brrr_course.lessons.speedup_table import FUSED, PLAIN, TablePart, measured_gains, measured_parts, published_part
from brrr_course.nouns.expression import Table, from_on
from brrr_course.nouns.source import Evidence, Source

ALONE = "fused, both in a CUDA Graph"
"""Two kernels a layer against nn.Sequential where neither has any overhead: what the kernels alone gain."""

SHOWN = (PLAIN, FUSED, "NumPy", "functions", ALONE)
"""The ways that are drawn, where a part has them; the first there is the one whose divide is marked."""

HEIGHT = 330
BEYOND = "#efe3d3"
Limits = tuple[float, float]


def drawing(source: Source) -> Made:
    """Two sliders: layers and batch."""
    parts = (published_part("mlp"), own_part(source))
    dials = (Dial("batch", "batch (rows)", BATCHES, start=16), Dial("layers", "layers", LAYERS, start=LAYERS[-1]))
    badge = " | ".join(part.badge for part in parts)
    return dials, partial(draw, parts=parts, limits=limits(parts)), badge


DRAWING = LessonDrawing("mlp-divide", drawing)


def divide(gains: Mapping[int, float]) -> int | None:
    """The smallest hidden size from which on every speed-up gains less than half of what the best one gains beyond 1.

    >>> divide({128: 1.8, 256: 1.8, 512: 1.7, 1024: 1.3, 2048: 1.1})
    1024
    >>> divide({128: 1.2, 256: 1.0, 512: 1.2}) is None, divide({128: 1.01, 256: 1.0}) is None
    (True, True)

    None where no size is beyond it, and where nothing gains 5 %.
    """
    most = max(gains.values()) - 1
    beyond = Table(("hidden",), {(hidden,): gain - 1 < most / 2 for hidden, gain in gains.items()})
    return int(from_on(beyond, otherwise=0)) or None if most >= 0.05 else None


def own_part(source: Source) -> TablePart:
    """What a source has of the two published ways, or the CPU's own; without points where it has none of them."""
    try:
        found = measured_parts("mlp", source)
    except NotRecordedError:
        found = []
    if not found:
        return TablePart(source.name, {})
    alone = measured_gains(Evidence(experiment("mlp"), source), {ALONE: ("pycuda graph", "graph")})
    return replace(found[0], ways={**found[0].ways, **TablePart("", alone).kept(on_grid=True).ways})


def curves(part: TablePart, layers: int, batch: int) -> dict[str, dict[int, float]]:
    """For each way of a part that is drawn, its speed-ups by hidden size.

    >>> curves(published_part("mlp"), 8, 16)["three kernels a layer"][1024]
    1.28
    """
    ways = [name for name in SHOWN if name in part.ways]
    found = {name: {h: part.ways[name][layers, batch, h] for h in HIDDEN if (layers, batch, h) in part.ways[name]}
             for name in ways}  # fmt: skip
    there = {name: gains for name, gains in found.items() if gains}
    return there if there.keys() != {ALONE} else {}  # it is read beside another line


def limits(parts: Sequence[TablePart]) -> Limits:
    """The ends of the axis of speed-ups, the same in both panels and wherever the sliders stand."""
    gains = chain.from_iterable(part.ways[name].values() for part in parts for name in SHOWN if name in part.ways)
    every = [1.0, *gains]
    room = 0.08 * (max(every) - min(every)) + 0.02
    return min(every) - room, max(every) + 2 * room


def in_words(part: TablePart, layers: int, batch: int) -> str:
    """A panel as a sentence: from where to where each way's speed-ups go, and the first one's divide.

    >>> in_words(published_part("mlp"), 8, 16).split(": ", 1)[1].split(";")[0]
    'three kernels a layer 1.79x to 1.03x, divide at 1024'
    """
    found = curves(part, layers, batch)
    machine = " · ".join(part.badge.split(" · ")[:2])
    if not found:
        return f"{machine}: nothing is measured here"
    first, where = next(iter(found)), divide(next(iter(found.values())))
    said = {name: f"{name} {_span(gains)}" for name, gains in found.items()}
    said[first] += f", {'no divide' if where is None else f'divide at {where}'}"
    return f"{machine}: {'; '.join(said.values())}"


def _span(gains: Mapping[int, float]) -> str:
    ends = [units.ratio(gains[hidden]) for hidden in dict.fromkeys((min(gains), max(gains)))]
    return " to ".join(ends)


def draw(settings: Mapping[str, Value], parts: Sequence[TablePart], limits: Limits) -> Picture:
    """A panel for each part, speed-ups over hidden sizes; the ground is darker beyond the divide."""
    layers, batch = int(settings["layers"]), int(settings["batch"])
    made = style.figure(height=HEIGHT)
    for place, part in enumerate(parts):
        left = 0.085 + 0.475 * place
        on = style.axes(made, left=left, bottom=0.165, right=left + 0.415, top=0.785)
        found = curves(part, layers, batch)
        _frame(on, part.badge, limits, first=not place)
        _lines(on, found)
        _beyond(on, found)
    _legend(made)
    return style.picture(made, ". ".join(in_words(part, layers, batch) for part in parts) + ".")


def _frame(on: Axes, badge: str, limits: Limits, *, first: bool) -> None:
    on.set(xscale="log", xlabel="hidden size")
    on.set_xticks(HIDDEN, list(map(str, HIDDEN)))
    on.set_xticks([], minor=True)
    on.set_ylim(limits)
    on.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    on.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    on.tick_params(labelsize=9)
    on.set_ylabel("speed-up over nn.Sequential" if first else "", fontsize=9.5)
    on.axhline(1.0, color=style.INK, linewidth=1.0, zorder=1)
    device, _, rest = badge.replace(" · ", "  ", 1).partition(" · ")  # in two lines: a panel is narrow
    on.annotate(f"{device.replace('  ', ' · ')}\n{rest}", (0, 1), (0, 5), xycoords="axes fraction",
                textcoords="offset points", fontsize=8.5, color=style.FAINT, va="bottom")  # fmt: skip


def _lines(on: Axes, found: Mapping[str, Mapping[int, float]]) -> None:
    for name, gains in found.items():
        on.plot(list(gains), list(gains.values()), label=name, zorder=3, **_look(name))
    if not found:
        on.text(0.5, 0.5, "nothing is measured here", transform=on.transAxes, ha="center", fontsize=9.5,
                color=style.FAINT)  # fmt: skip


def _look(name: str) -> dict[str, Any]:
    """The kernels alone have the colour of the way that they belong to, dotted."""
    if name != ALONE:
        return style.look(SHOWN.index(name))
    colour = style.look(SHOWN.index(FUSED))["color"]
    return {"color": colour, "linestyle": (0, (1, 1.4)), "marker": ""}


def _legend(made: Figure) -> None:
    """One for both panels, above them: a way looks the same in either."""
    drawn = [on.get_legend_handles_labels() for on in made.axes]
    signs = {label: sign for handles, labels in drawn for sign, label in zip(handles, labels, strict=True)}
    made.legend(signs.values(), signs, ncols=4, fontsize=8.5, labelcolor=style.INK, loc="upper left",
                bbox_to_anchor=(0.07, 1.0), frameon=False, handlelength=2.3, columnspacing=1.6,
                borderaxespad=0.3)  # fmt: skip


def _beyond(on: Axes, found: Mapping[str, Mapping[int, float]]) -> None:
    """The ground from the first way's divide on."""
    where = divide(next(iter(found.values()))) if found else None
    if where is None:
        return
    on.axvspan(where, on.get_xlim()[1], facecolor=BEYOND, edgecolor="none", zorder=0)
    on.axvline(where, color=style.INK, linewidth=1.0, linestyle=(0, (4, 3)), zorder=2)
    last = where == HIDDEN[-1]  # then there is no room to the right of it
    on.annotate("divide", (where, 1), (-4 if last else 4, -4), xycoords=("data", "axes fraction"),
                textcoords="offset points", fontsize=8.5, ha="right" if last else "left", va="top",
                color=style.INK)  # fmt: skip
