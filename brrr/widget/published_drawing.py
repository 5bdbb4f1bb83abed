"""Draws the published panels below a live one: smaller, each with its own badge and axes, in ink instead of colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from brrr import plots
from brrr.widget.published_panels import PublishedPanel

BELOW = 236
"""The height of the row of published panels, in CSS pixels."""
_LOOKS = (
    {"color": plots.FAINT, "marker": "o", "linestyle": "-"},
    {"color": plots.INK, "marker": "s", "linestyle": "-"},
)  # no live line looks so: these have no colour
_LEFT, _RIGHT, _BETWEEN = 0.118, 0.975, 0.075  # shares of the width
_MOST_TICKS = 8
_TOP, _FOOT = 34, 44  # CSS pixels for the badge above and the ticks below


def draw_published(
    on: Any, panels: Sequence[PublishedPanel], share: float, xlim: tuple[float, float], ylim: tuple[float, float]
) -> None:
    """One panel beside the other under the live one, which has the upper `share` of the figure.

    All have the live panel's limits (wider along x, where a published point lies outside), so that shapes can be
    compared by eye.
    """
    if not panels:
        return
    width = (_RIGHT - _LEFT - _BETWEEN * (len(panels) - 1)) / len(panels)
    pixel = (1 - share) / BELOW
    xs = [x for panel in panels for curve in panel.curves for x in curve.xs]
    wide = (min(xlim[0], min(xs) / 1.2), max(xlim[1], max(xs) * 1.2))
    for number, panel in enumerate(panels):
        left = _LEFT + number * (width + _BETWEEN)
        axes = plots.axes(on, left, _FOOT * pixel, left + width, 1 - share - _TOP * pixel)
        _draw_panel(axes, panel, wide, ylim, panel.y_label if number == 0 else "")


def _draw_panel(
    axes: Any, panel: PublishedPanel, xlim: tuple[float, float], ylim: tuple[float, float], y_label: str
) -> None:
    with rc_context(plots.STYLE):
        axes.set_xscale("log")
        axes.set_xlim(*xlim)
        axes.set_ylim(*ylim)
        plots.value_axis(axes, "x", "")
        axes.yaxis.set_major_locator(LogLocator(10, numticks=_MOST_TICKS))
        axes.set_ylabel(y_label, fontsize=8.5)
        axes.yaxis.set_label_coords(-0.2, 0.5)
        ticks = list(panel.curves[0].xs)[::2]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([plots.readable(x) for x in ticks])
        axes.tick_params(labelsize=8)
        axes.set_xlabel(panel.x_label, fontsize=8.5, labelpad=1)
        axes.set_title(panel.badge, fontsize=8.5, color=plots.FAINT, loc="left", pad=6)
        for look, curve in zip(_LOOKS, panel.curves, strict=False):
            axes.plot(curve.xs, curve.ys, label=curve.label, linewidth=1.4, markersize=4, **look)
        axes.legend(fontsize=8, loc="upper left", handlelength=1.8, labelspacing=0.2, borderaxespad=0.2)
