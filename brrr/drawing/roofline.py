"""`roofline_plot`: FLOP/s against FLOP/B under the roofs of one device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from brrr.core import units
from brrr.core.errors import ArgumentError, extras
from brrr.core.measurement import Badge, Estimate
from brrr.counting.cost import Cost
from brrr.drawing.roofs import Roof, RooflinePoint, highest, memory, point, ridge_point, roofs_of
from brrr.roofline.device_model import DeviceModel, Where, model_of
from brrr.roofline.peaks import short
from brrr.roofline.predicting import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from brrr.drawing.style import Picture
    from brrr.roofline.prediction import OnRoofline


class Operators(Protocol):
    """What holds operators with their times: a `Prediction` or a `Diagnosis`."""

    def on_roofline(self) -> OnRoofline:
        """Its operators, the device, the types of its products, and where the times come from."""


_HEIGHT, POINTS = 520, 8
_CLOSE = 1.6
"""Names of roofs nearer than this to each other need both sides of their lines."""


@extras("roofline_plot")
def roofline_plot(
    work: Mapping[str, tuple[Cost, Estimate | float]] | Cost | Operators, device: Where = None, *,
    dtypes: Iterable[str] | None = None, badge: Badge | None = None,
) -> Picture:  # fmt: skip
    """Draw a roofline: FLOP/s against FLOP/B on log-log axes, with work as points below the roofs.

    >>> double = Cost(2**26, 2**29), 1e-3
    >>> roofline_plot({"x * 2": double}, "datasheet:h200", dtypes=["fp32"]).alt.splitlines()[-1]
    'x * 2: 0.125 FLOP/B, 67.1 GFLOP/s, 11.2 % of memory 4.8 TB/s, datasheet'

    Measured roofs are solid, a datasheet's dashed.

    Parameters
    ----------
    work : mapping of str, Cost, Prediction or Diagnosis
        From a name to a pair of a `Cost` and its time: an Estimate, or seconds. Of a prediction or a diagnosis the
        eight operators that take longest are drawn, by the time of each; a `Cost` is predicted first.
    device : str, Peaks or Hardware, optional
        The device, as for `predict`. By default that of the prediction or the diagnosis, else this machine.
    dtypes : iterable of str, optional
        The types of matmuls that get a roof. By default those that the work multiplies in.
    badge : Badge, optional
        Where the points come from. By default that of the prediction or the diagnosis; of points of your own none.

    Returns
    -------
    Picture
        It shows itself in a notebook; `alt` says in words what it shows.

    Raises
    ------
    ArgumentError
        For work without FLOP or bytes, or without a time.

    References
    ----------
    S. Williams, A. Waterman and D. Patterson, "Roofline: An Insightful Visual Performance Model for Multicore
    Architectures" (2009).
    """
    if isinstance(work, Cost):
        work = predict(work, device=device)
    if not isinstance(work, Mapping):
        if not hasattr(work, "on_roofline"):
            expected = "a dict from names to a Cost and its time, a Cost, a Prediction or a Diagnosis"
            raise ArgumentError("roofline_plot", "work", work, expected)
        named, its_device, its_dtypes, its_badge = work.on_roofline()
        longest = sorted(named.items(), key=lambda each: -each[1][1])
        work = dict([each for each in longest if each[1][0].flop and each[1][0].bytes and each[1][1]][:POINTS])
        device, dtypes, badge = device or its_device, dtypes or its_dtypes, badge or its_badge  # type: ignore[assignment]
    found = [point(name, *each) for name, each in work.items()]
    model = device if isinstance(device, DeviceModel) else model_of(device)
    types = tuple(map(short, dtypes or ()))
    return _drawn(found, roofs_of(model, types), model.device, badge)


def text_of(points: Sequence[RooflinePoint], roofs: Sequence[Roof], device: str) -> str:
    """What the picture shows, a line for the roofs and one for each point."""
    ridge = units.quantity(ridge_point(roofs), "FLOP/B")
    head = f"Roofline of {device}: FLOP/s against FLOP/B. Roofs: {'; '.join(map(str, roofs))}. Ridge point {ridge}."
    return "\n".join([head, *(each.text(roofs) for each in points)])


def _drawn(points: Sequence[RooflinePoint], roofs: Sequence[Roof], device: str, badge: Badge | None) -> Picture:
    from brrr.drawing import style as plots

    rows = plots.legend_rows([each.name for each in points]) if points else 0
    figure = plots.figure(height=_HEIGHT)
    top = 1 - (24 + plots.LEGEND_ROW * rows) / _HEIGHT
    edges, limits = _edges(points, roofs), _limits(points, roofs)
    left = plots.left_margin(limits, "FLOP/s") + 0.008
    on = plots.axes(figure, left=left, bottom=0.14, top=top)
    _frame(on, edges, limits)
    for roof in roofs:
        _roof(on, roof, roofs, edges, limits)
    for index, each in enumerate(points):
        _mark(on, each, index)
    plots.legend(on, -left)
    if badge is not None:
        plots.stamp(figure, badge)
    return plots.picture(figure, text_of(points, roofs, device))


def _edges(points: Sequence[RooflinePoint], roofs: Sequence[Roof]) -> tuple[float, float]:
    """FLOP/B from left of everything to right of it."""
    ridge = ridge_point(roofs)
    places = [each.intensity for each in points]
    return min([ridge / 400, *places]) / 2, max([ridge * 10, *places]) * 2


def _limits(points: Sequence[RooflinePoint], roofs: Sequence[Roof]) -> tuple[float, float]:
    low, _ = _edges(points, roofs)
    rates = [rate for each in points for rate in each.rates]
    top = max([roof.rate for roof in roofs if roof.unit == "FLOP/s"] + rates)
    return min([memory(roofs).rate * low, *rates]) / 2, top * 3


def _frame(on: Axes, edges: tuple[float, float], limits: tuple[float, float]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    from brrr.drawing import style as plots

    on.set_xscale("log")
    on.set_xlim(edges)
    on.set_ylim(limits)
    plots.value_axis(on, "FLOP/s", "rate")
    on.set_ylim(limits)
    on.xaxis.set_major_locator(LogLocator(10, numticks=12))
    on.xaxis.set_minor_locator(NullLocator())
    on.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    on.set_xlabel("arithmetic intensity in FLOP/B")


def _roof(on: Axes, roof: Roof, roofs: Sequence[Roof], edges: tuple[float, float], limits: tuple[float, float]) -> None:
    """One roof with its name beside it: solid where measured, dashed where the datasheet says so."""
    from brrr.drawing import style as plots

    ends = _ends(roof, roofs, edges)
    dashes: Any = "-" if roof.origin == "measured" else plots.GUIDE_DASHES[0]
    on.plot(*zip(*ends, strict=True), color=plots.GUIDE, linewidth=1.6, linestyle=dashes, zorder=2)
    _name(on, roof, roofs, ends, limits)


def _ends(roof: Roof, roofs: Sequence[Roof], edges: tuple[float, float]) -> list[tuple[float, float]]:
    """A rising roof ends at the highest flat one of its origin; a flat one begins at the fastest level of memory."""
    same = [other for other in roofs if other.origin == roof.origin] if _whole(roofs, roof.origin) else list(roofs)
    if roof.unit == "B/s":
        end = min(edges[1], highest(same).rate / roof.rate)
        return [(edges[0], roof.rate * edges[0]), (end, roof.rate * end)]
    start = roof.rate / max(other.rate for other in same if other.unit == "B/s")
    return [(max(start, edges[0]), roof.rate), (edges[1], roof.rate)]


def _whole(roofs: Sequence[Roof], origin: str) -> bool:
    return {"B/s", "FLOP/s"} == {roof.unit for roof in roofs if roof.origin == origin}


def _name(
    on: Axes, roof: Roof, roofs: Sequence[Roof], ends: Sequence[tuple[float, float]], limits: tuple[float, float]
) -> None:
    """The roof's name along its line: of slopes that lie close, the lowest one's stands below, all others above."""
    from brrr.drawing import style as plots

    below = _lowest_of_close(roof, roofs)
    style: dict[str, Any] = {"fontsize": 8, "color": plots.INK, "va": "top" if below else "bottom", "zorder": 4}
    offset = (0, -3) if below else (0, 2)
    if roof.unit == "B/s":
        style |= {"rotation": _slope(on), "rotation_mode": "anchor", "ha": "left"}
        x = max(ends[0][0], limits[0] / roof.rate) * 1.6
        on.annotate(str(roof), (x, roof.rate * x), (0, offset[1]), textcoords="offset points", **style)
        return
    rank = sum(1 / _CLOSE < other.rate / roof.rate < 1 for other in roofs if other.unit == roof.unit)
    style["va"], offset = "bottom", (0, 2 + 11 * rank)  # all above their lines: the points stand below
    paper = {"facecolor": plots.PAPER, "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
    on.annotate(str(roof), ends[1], offset, textcoords="offset points", ha="right", bbox=paper, **style)


def _lowest_of_close(roof: Roof, roofs: Sequence[Roof]) -> bool:
    rates = [other.rate / roof.rate for other in roofs if other.unit == roof.unit and other is not roof]
    above, below = any(1 <= rate < _CLOSE for rate in rates), any(1 / _CLOSE < rate < 1 for rate in rates)
    return above and not below


def _slope(on: Axes) -> float:
    """The angle in degrees of a rate that grows with the intensity, as it stands in the picture."""
    (left, right), (low, high) = on.get_xlim(), on.get_ylim()
    wide, tall = on.bbox.width / math.log10(right / left), on.bbox.height / math.log10(high / low)
    return math.degrees(math.atan2(tall, wide))


def _mark(on: Axes, each: RooflinePoint, index: int) -> None:
    """A point with its interval."""
    from brrr.drawing import style as plots

    look = plots.look(index)
    rate, low, high = each.rates
    errors = None if low == high else [[rate - low], [high - rate]]
    on.errorbar(
        [each.intensity], [rate], yerr=errors, fmt=look["marker"], color=look["color"], markersize=7, capsize=3,
        label=each.name, zorder=5,
    )  # fmt: skip
