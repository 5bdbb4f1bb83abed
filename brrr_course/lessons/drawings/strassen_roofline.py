"""The drawing of a roofline with Strassen levels as a slider: effective rates above the peak, actual ones below it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr.gpu.datasheet import Hardware, hardware
from brrr.roofline.device_model import model_of
from brrr.strassen.problem import Problem
from brrr.strassen.ways import Way
from brrr.strassen.workspace import Traffic
from brrr_course.experiments import experiment
from brrr_course.experiments.strassen.frontier import places, sizes
from brrr_course.experiments.strassen.ways import way_of
from brrr_course.lessons.drawings import Dial, LessonDrawing, Made
from brrr_course.nouns.source import Source
from brrr_course.view.quantities import hardware_of

LEVELS = (0, 1, 2, 3)
SIZES = (*(size for power in range(7, 15) for size in (2**power, 3 * 2 ** (power - 1))), 2**15)
LARGE = 16384
_HEIGHT = 470
_CHOSEN, _OTHERS = "#D55E00", "roofs with other levels, 0 to 3"


Points = list[tuple[int, float]]
"""Sizes, with the effective rate of the fastest way with so many levels in FLOP/s."""


def drawing(source: Source) -> Made:
    """Two sliders: the number of levels, and the type."""
    dials = (Dial("level", "levels", LEVELS, start=1), Dial("dtype", "type", tuple(INNERS)))
    gpu, there = gpu_of(source)
    badge = f"DATASHEET {gpu.name}" + (f"; points {there}" if there else "")
    return dials, partial(draw, source=source), badge


DRAWING = LessonDrawing("strassen-roofline", drawing)


def gpu_of(source: Source) -> tuple[Hardware, str]:
    """The datasheet of the source's GPU with the badge of its points; the H200's, and no points, where it has none."""
    described = experiment("strassen")
    try:
        badge = str(source.badge(described))
        found = hardware_of(source, described)
    except BrrrError:
        return hardware("h200"), ""
    return (found, badge) if found is not None else (hardware("h200"), "")


def measured(source: Source, dtype: str, level: int) -> Points:
    """What a source has measured of a number of levels; nothing where it has no GPU with a datasheet.

    What an odd size costs has reasons of its own, and no roof.
    """
    found = []
    for size in sizes(source) if gpu_of(source)[1] else ():
        ways = [(place.time_s, way) for place in places(source, size) if (way := way_of(place.variant)) is not None]
        times = [time for time, way in ways if way.inner == INNERS[dtype][0] and way.level == level
                 and (way.prepared or not level)]  # fmt: skip
        if times and size % 2 == 0:
            found.append((size, 2 * size**3 / min(times)))
    return found


def text(roofs: Roofs, points: Points) -> str:
    """What the picture shows."""
    share = (7 / 8) ** roofs.level
    ends, large, small = (units.quantity(rate, "FLOP/s") for rate in (
        roofs.ceiling, roofs.effective(LARGE), roofs.effective(512)))  # fmt: skip
    who = f"{7**roofs.level} products multiply" if roofs.level else "One product multiplies"
    said = (
        f"the hardware's peak is {units.quantity(roofs.peak, 'FLOP/s')}. {who} {units.percent(share)} of the "
        f"textbook's FLOP, so the effective rate ends at {ends}; the roof is {large} at size {LARGE}, {small} at 512."
    )
    for size, effective in points[-1:]:
        rates = [units.quantity(rate, "FLOP/s") for rate in (effective, effective * share)]
        said += f" Measured at {size}: {rates[0]} effective, {rates[1]} actual, "
        said += f"{units.percent(effective * share / roofs.peak)} of the peak."
    return said


def draw(settings: Mapping[str, Value], source: Source) -> Picture:
    """Effective FLOP/s over the intensity of the product as it stands: a roof for each number of levels."""
    gpu, _ = gpu_of(source)
    dtype, level = str(settings["dtype"]), int(settings["level"])
    each = [Roofs(gpu, dtype, count) for count in LEVELS]
    points = measured(source, dtype, level)
    made = style.figure(height=_HEIGHT)
    left = style.left_margin(_limits(each), "FLOP/s") + 0.008
    on = style.axes(made, left=left, bottom=0.135, right=0.965, top=0.79)
    _frame(on, each)
    first = min(other for other in LEVELS if other != level)
    for roofs in each:
        _roof(on, roofs, chosen=roofs.level == level, first=roofs.level == first)
    _points(on, each[level], points)
    on.legend(ncols=2, fontsize=8.5, loc="lower left", bbox_to_anchor=(-0.1, 1.07), handlelength=2.3, frameon=False)
    return style.picture(made, text(each[level], points))


def _frame(on: Axes, each: list[Roofs]) -> None:
    on.set_xscale("log")
    on.set_xlim(each[0].intensity(SIZES[0]), each[0].intensity(SIZES[-1]))
    on.set_ylim(_limits(each))
    style.value_axis(on, "FLOP/s", "effective rate, 2n^3 over the time")
    on.xaxis.set_major_locator(LogLocator(10))
    on.xaxis.set_minor_locator(NullLocator())
    on.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    on.set_xlabel("arithmetic intensity of the product as it stands, FLOP/B")
    for n in SIZES[2::4]:
        on.annotate(f"n = {n}", (each[0].intensity(n), 1.0), (0, 3), xycoords=("data", "axes fraction"),
                    textcoords="offset points", fontsize=8, ha="center", color=style.FAINT)  # fmt: skip


def _limits(each: list[Roofs]) -> tuple[float, float]:
    """The rates that the axis shows: the same for every number of levels."""
    return each[-1].effective(SIZES[0]) / 1.3, each[-1].ceiling * 1.5


def _roof(on: Axes, roofs: Roofs, *, chosen: bool, first: bool) -> None:
    """One roof; the one of the slider in colour, with the ceiling that it nears; the first of the others is named."""
    xs, ys = [roofs.intensity(n) for n in SIZES], [roofs.effective(n) for n in SIZES]
    look: dict[str, Any] = {"color": _CHOSEN, "linewidth": 2.2} if chosen else {"color": "#c3c9cf", "linewidth": 1.2}
    name = f"roof with {roofs.level} level{'s' * (roofs.level != 1)}"
    on.plot(xs, ys, zorder=3 if chosen else 2, label=name if chosen else _OTHERS if first else "", **look)
    if not roofs.level:
        on.axhline(roofs.peak, color=style.INK, linewidth=1.2, label="the hardware's peak", zorder=2.5)
    if chosen and roofs.level:
        on.axhline(roofs.ceiling, color=_CHOSEN, linewidth=1, linestyle=(0, (5, 2.5)), zorder=2.4,
                   label=f"the peak times (8/7)^{roofs.level}")  # fmt: skip


def _points(on: Axes, roofs: Roofs, points: Points) -> None:
    """Measured: filled what counts as the textbook does, hollow what is really multiplied."""
    xs = [roofs.intensity(size) for size, _ in points]
    actual = ((7 / 8) ** roofs.level, "none", "measured, actual")
    for share, face, name in ((1.0, "#0072B2", "measured, effective"), actual) if points else ():
        on.plot(xs, [rate * share for _, rate in points], "o", markersize=6, color="#0072B2", markerfacecolor=face,
                label=name, zorder=4)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Roofs of a product with Strassen levels: the effective rate that a datasheet allows, and what is really multiplied.

INNERS: Mapping[str, tuple[str, str, str]] = {
    "float32": ("sgemm", "fp32", "cuda cores"),
    "bfloat16": ("bf16", "bf16", "tensor cores"),
}
"""For each type the inner product, and the datasheet's names of its peak."""


@dataclass(frozen=True)
class Roofs:
    """The roofs of one number of levels for n x n products on a GPU, the right side's sums made beforehand.

    >>> from brrr.gpu.datasheet import hardware
    >>> flat, three = Roofs(hardware("h200"), "float32", 0), Roofs(hardware("h200"), "float32", 3)
    >>> flat.effective(2**16) / flat.peak, round(three.ceiling / three.peak, 2)
    (1.0, 1.49)
    """

    gpu: Hardware
    dtype: str
    level: int

    @property
    def peak(self) -> float:
        """The hardware's peak in FLOP/s."""
        _, name, unit = INNERS[self.dtype]
        return self.gpu.peak(name, unit)

    @property
    def ceiling(self) -> float:
        """The effective rate that no size exceeds: the peak times (8/7)^L."""
        return float(self.peak * (8 / 7) ** self.level)

    @property
    def way(self) -> Way:
        """The way that is counted."""
        return Way(INNERS[self.dtype][0], self.level, "strassen" if self.level else None, bool(self.level))

    def intensity(self, n: int) -> float:
        """FLOP/B of the product as it stands."""
        return 2 * n / (3 * self.way.kind.itemsize)

    def time_s(self, n: int) -> float:
        """The passes over memory, and the products at the peak or at the memory's rate, one after the other."""
        traffic, block = Traffic.of(Problem(self.way, n, n, n, self.dtype)), n / 2**self.level
        model, dtype = model_of(self.gpu), INNERS[self.dtype][1]
        passes_s = model.roof_s(0.0, sum((*traffic.left, *traffic.right, *traffic.post_add)))
        product_s = model.roof_s(2 * block**3, 3 * block**2 * self.way.kind.itemsize, dtype)
        return float(passes_s + 7**self.level * product_s)

    def effective(self, n: int) -> float:
        """FLOP/s of the textbook's count."""
        return 2 * n**3 / self.time_s(n)
