"""The factory picture: compute is the factory, memory the warehouse, bandwidth the road, overhead the paperwork."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from brrr.core.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from brrr.drawing.style import Picture

Part = Literal["overhead", "memory", "compute"]

TITLES = {
    None: "A GPU as a factory town",
    "overhead": "Overhead-bound: the factory stands still until the next order arrives",
    "memory": "Memory-bound: the factory stands still until the next truck arrives",
    "compute": "Compute-bound: orders and goods wait, the factory is busy",
}

DESCRIPTION = (
    "A drawing of a town. In an office, orders are written on paper, one sheet for each operation, and carried to the "
    "factory: that is overhead. The factory does the work: that is compute. The goods lie in a warehouse: that is "
    "memory. Trucks bring them to the factory over a road, and the results back: how much the road carries in a second "
    "is the bandwidth. Whichever of the three is slowest decides how long the whole takes."
)

_BLUE, _ORANGE, _GREEN, _INK, _PAPER = "#0072B2", "#D55E00", "#009E73", "#24292f", "#ffffff"


def factory(highlight: Part | None = None) -> Picture:
    """The factory picture; `highlight` brings out what is slow when work is overhead-, memory- or compute-bound.

    >>> factory("memory").alt[:55]
    'Memory-bound: the factory stands still until the next t'
    """
    if highlight not in TITLES:
        raise ArgumentError("factory", "highlight", highlight, "'overhead', 'memory', 'compute' or None")
    from brrr.drawing import style

    drawn = style.figure(height=400)
    on = style.axes(drawn, left=0.0, bottom=0.0, right=1.0, top=1.0)
    on.set_xlim(0, 19)
    on.set_ylim(0, 10)
    on.axis("off")
    strength: dict[Part, float] = {
        part: 1.0 if highlight in (None, part) else 0.28 for part in ("overhead", "memory", "compute")
    }
    _draw_ground(on)
    _draw_office(on, strength["overhead"])
    _draw_warehouse(on, strength["memory"])
    _draw_road(on, strength["memory"])
    _draw_factory(on, strength["compute"])
    _write(on, 9.5, 9.35, TITLES[highlight], 12.5, _INK, 1.0, bold=True)
    return style.picture(drawn, f"{TITLES[highlight]}. {DESCRIPTION}")


def _draw_ground(on: Axes) -> None:
    on.plot([0.4, 18.6], [1.75, 1.75], color="#9aa4ae", linewidth=1.2, zorder=1)


def _draw_office(on: Axes, alpha: float) -> None:
    """An office with windows, and sheets of paper on their way from it to the factory."""
    on.plot([7.6, 11.4], [5.75, 5.75], color="#9aa4ae", linewidth=1.2, zorder=1)
    _box(on, 8.0, 5.75, 3.0, 2.2, "#fbe9de", _ORANGE, alpha)
    for column in range(3):
        _box(on, 8.35 + 0.85 * column, 6.75, 0.55, 0.7, _PAPER, _ORANGE, alpha)
    _box(on, 9.2, 5.75, 0.6, 0.75, _PAPER, _ORANGE, alpha)
    _write(on, 6.0, 7.15, "OVERHEAD", 11, _ORANGE, alpha, bold=True)
    _write(on, 6.0, 6.45, "an office writes\norders on paper", 9.5, _INK, alpha)
    on.annotate(
        "", xy=(14.6, 5.6), xytext=(11.2, 7.1),
        arrowprops={"arrowstyle": "-|>", "color": _ORANGE, "alpha": alpha, "linewidth": 1.6},
    )  # fmt: skip
    for x, y in ((11.75, 6.95), (12.75, 6.5), (13.75, 6.05)):
        _draw_sheet(on, x, y, alpha)


def _draw_sheet(on: Axes, x: float, y: float, alpha: float) -> None:
    """One order: a sheet of paper with three lines of writing."""
    _box(on, x, y, 0.55, 0.75, _PAPER, _ORANGE, alpha, 5)
    for row in range(3):
        height = y + 0.55 - 0.18 * row
        on.plot([x + 0.1, x + 0.44], [height, height], color=_ORANGE, alpha=alpha, linewidth=0.9, zorder=6)


def _draw_warehouse(on: Axes, alpha: float) -> None:
    """A wide hall with boxes on three shelves."""
    from matplotlib.patches import Polygon

    _box(on, 0.7, 1.75, 4.6, 2.6, "#e3eff7", _BLUE, alpha)
    roof = Polygon([(0.5, 4.35), (3.0, 5.25), (5.5, 4.35)], facecolor="#cfe3f1", edgecolor=_BLUE, alpha=alpha)
    on.add_patch(roof)
    for row in range(3):
        for column in range(6):
            if (row, column) not in ((2, 4), (1, 2), (2, 5)):
                _box(on, 0.98 + 0.69 * column, 1.85 + 0.78 * row, 0.56, 0.52, "#c9ad7f", "#8a6d3b", alpha)
    _write(on, 3.0, 1.12, "MEMORY", 11, _BLUE, alpha, bold=True)
    _write(on, 3.0, 0.5, "a warehouse keeps the goods", 9.5, _INK, alpha)


def _draw_road(on: Axes, alpha: float) -> None:
    """A road with a truck each way: its width is the bandwidth."""
    _box(on, 5.3, 1.75, 7.9, 1.0, "#d5d9de", "#d5d9de", alpha)
    on.plot([5.5, 13.1], [2.25, 2.25], color=_PAPER, linestyle=(0, (7, 6)), linewidth=2, alpha=alpha, zorder=3)
    _draw_truck(on, 6.4, 2.3, alpha, right=True)
    _draw_truck(on, 9.9, 1.85, alpha, right=False)
    _write(on, 9.25, 1.12, "BANDWIDTH", 11, _BLUE, alpha, bold=True)
    _write(on, 9.25, 0.5, "trucks bring goods, and take results back", 9.5, _INK, alpha)


def _draw_truck(on: Axes, x: float, y: float, alpha: float, *, right: bool) -> None:
    """A truck with its load: the cab is in front."""
    from matplotlib.patches import Circle

    cab, load = (x + 1.55, x) if right else (x, x + 0.65)
    _box(on, load, y + 0.22, 1.5, 0.85, "#c9ad7f" if right else "#bfe3d4", _INK, alpha, 5)
    _box(on, cab, y + 0.22, 0.6, 0.62, _BLUE, _INK, alpha, 5)
    for wheel in (x + 0.4, x + 1.75):
        on.add_patch(Circle((wheel, y + 0.17), 0.19, facecolor=_INK, edgecolor=_PAPER, alpha=alpha, zorder=6))


def _draw_factory(on: Axes, alpha: float) -> None:
    """A hall with a saw-tooth roof and a smoking chimney."""
    from matplotlib.patches import Ellipse, Polygon

    chimney = [(17.2, 4.9), (17.85, 4.38), (17.85, 6.8), (17.2, 6.8)]
    on.add_patch(Polygon(chimney, facecolor="#d9efe6", edgecolor=_GREEN, linewidth=1.2, alpha=alpha))
    for x, y, width in ((17.75, 7.15, 0.8), (18.1, 7.6, 0.9), (17.9, 8.1, 0.7)):
        on.add_patch(Ellipse((x, y), width, 0.5, facecolor="#dfe3e7", edgecolor="none", alpha=alpha))
    teeth = [(13.2, 1.75), (13.2, 4.1)]
    for tooth in range(4):
        left = 13.2 + 1.25 * tooth
        teeth += [(left, 5.1), (left + 1.25, 4.1)]
    on.add_patch(Polygon([*teeth, (18.2, 1.75)], facecolor="#d9efe6", edgecolor=_GREEN, linewidth=1.4, alpha=alpha))
    for column in range(3):
        _box(on, 14.75 + 1.1 * column, 2.55, 0.75, 0.85, _PAPER, _GREEN, alpha)
    _box(on, 13.4, 1.75, 1.0, 1.6, _PAPER, _GREEN, alpha)
    _write(on, 15.75, 1.12, "COMPUTE", 11, _GREEN, alpha, bold=True)
    _write(on, 15.75, 0.5, "a factory does the work", 9.5, _INK, alpha)


def _box(
    on: Axes, x: float, y: float, width: float, height: float, face: str, edge: str, alpha: float, order: float = 2
) -> None:
    from matplotlib.patches import Rectangle

    box = Rectangle((x, y), width, height, facecolor=face, edgecolor=edge, linewidth=1.2, alpha=alpha, zorder=order)
    on.add_patch(box)


def _write(
    on: Axes, x: float, y: float, text: str, size: float, colour: str, alpha: float, *, bold: bool = False
) -> None:
    weight = "bold" if bold else "normal"
    on.text(
        x, y, text, ha="center", va="center", fontsize=size, color=colour, alpha=max(alpha, 0.45), fontweight=weight
    )
