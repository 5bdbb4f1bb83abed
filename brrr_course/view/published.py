"""Published tables as small panels of their own: another machine's figures never share axes with the live ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from brrr.core.errors import ArgumentError
from brrr.drawing import style

_GPUS = (
    ("unnamed GPU A", (("eager", "gpu_a_eager"),)),
    ("unnamed GPU B", (("eager", "gpu_b_eager"), ("CUDA graph", "gpu_b_cuda_graph"))),
)
KNOWN = ("pseudo_linear",)


@dataclass(frozen=True)
class PublishedCurve:
    """One published table: how it was run, its widths and its speed-ups."""

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]


@dataclass(frozen=True)
class PublishedPanel:
    """The tables of one GPU, under a badge of their own; `x_label` is the axis that they were published along."""

    badge: str
    x_label: str
    y_label: str
    curves: tuple[PublishedCurve, ...]

    @property
    def said(self) -> str:
        """The panel in words: each table's least and largest speed-up."""
        from brrr.core import units

        parts = [
            f"{c.label} from {units.ratio(min(c.ys))} to {units.ratio(max(c.ys))} over {self.x_label} "
            f"{c.xs[0]:.0f} to {c.xs[-1]:.0f}"
            for c in self.curves
        ]
        return f"{self.badge}: {'; '.join(parts)}"


def published_panels(name: str) -> tuple[PublishedPanel, ...]:
    """The panels of a published data set, none for the empty name; ArgumentError for one that there is not.

    >>> [panel.badge for panel in published_panels("pseudo_linear")]
    ['PUBLISHED · unnamed GPU A', 'PUBLISHED · unnamed GPU B']
    """
    if not name:
        return ()
    if name not in KNOWN:
        raise ArgumentError("explore", "published", name, f"one of {', '.join(KNOWN)}")
    return tuple(_panel(gpu, tables) for gpu, tables in _GPUS)


def _panel(gpu: str, tables: tuple[tuple[str, str], ...]) -> PublishedPanel:
    curves = tuple(_curve(label, table) for label, table in tables)
    return PublishedPanel(f"PUBLISHED · {gpu}", "width", "speed-up over Linear", curves)


def _curve(label: str, table: str) -> PublishedCurve:
    from brrr_course.experiments.published import pseudo_linear

    rows = sorted(pseudo_linear(table), key=lambda row: row.width)
    return PublishedCurve(label, tuple(float(r.width) for r in rows), tuple(r.speedup for r in rows))


# ---------------------------------------------------------------------------------------------------------------------
# Draws the published panels below a live one: smaller, each with its own badge and axes, in ink instead of colours.

_LOOKS = (
    {"color": style.FAINT, "marker": "o", "linestyle": "-"},
    {"color": style.INK, "marker": "s", "linestyle": "-"},
)  # no live line looks so: these have no colour
_LEFT, _RIGHT, _BETWEEN = 0.118, 0.975, 0.075  # shares of the width
_MOST_TICKS = 8
_TOP, _FOOT = 34, 44  # CSS pixels for the badge above and the ticks below


def draw_published(
    on: Any,
    panels: Sequence[PublishedPanel],
    share: float,
    pixel: float,
    xlim: tuple[float, float],
    ylim: tuple[float, float],
) -> None:
    """One panel beside the other under the live one, which has the upper `share` of the figure; `pixel` is a pixel's.

    All have the live panel's limits (wider along x, where a published point lies outside), so that shapes can be
    compared by eye.
    """
    if not panels:
        return
    width = (_RIGHT - _LEFT - _BETWEEN * (len(panels) - 1)) / len(panels)
    xs = [x for panel in panels for curve in panel.curves for x in curve.xs]
    wide = (min(xlim[0], min(xs) / 1.2), max(xlim[1], max(xs) * 1.2))
    for number, panel in enumerate(panels):
        left = _LEFT + number * (width + _BETWEEN)
        axes = style.axes(on, left, _FOOT * pixel, left + width, 1 - share - _TOP * pixel)
        _draw_panel(axes, panel, wide, ylim, panel.y_label if number == 0 else "")


def _draw_panel(
    axes: Any, panel: PublishedPanel, xlim: tuple[float, float], ylim: tuple[float, float], y_label: str
) -> None:
    with rc_context(style.STYLE):
        axes.set_xscale("log")
        axes.set_xlim(*xlim)
        axes.set_ylim(*ylim)
        style.value_axis(axes, "x", "")
        axes.yaxis.set_major_locator(LogLocator(10, numticks=_MOST_TICKS))
        axes.set_ylabel(y_label, fontsize=8.5)
        axes.yaxis.set_label_coords(-0.2, 0.5)
        ticks = list(panel.curves[0].xs)[::2]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([style.readable(x) for x in ticks])
        axes.tick_params(labelsize=8)
        axes.set_xlabel(panel.x_label, fontsize=8.5, labelpad=1)
        axes.set_title(panel.badge, fontsize=8.5, color=style.FAINT, loc="left", pad=6)
        for look, curve in zip(_LOOKS, panel.curves, strict=False):
            axes.plot(curve.xs, curve.ys, label=curve.label, linewidth=1.4, markersize=4, **look)
        axes.legend(fontsize=8, loc="upper left", handlelength=1.8, labelspacing=0.2, borderaxespad=0.2)
