"""`ridge_by_generation`: how much arithmetic a byte must bring for each GPU's peak, by its datasheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.measurement import Badge
from brrr.gpu.datasheet import Hardware, datasheets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from brrr.drawing.style import Picture

GROUPS: Mapping[str, tuple[str, ...]] = {
    "stacked (HBM)": ("v100", "a100-40gb", "a100", "h100", "h200", "b200"),
    "graphics (GDDR)": ("gtx-1070", "t4", "rtx-3090", "rtx-4090", "l4", "l40s"),
}
"""The GPUs of `data/hardware.toml` by the kind of their memory, the oldest first."""

SERIES: Mapping[str, tuple[str, str]] = {
    "float32, no matrix units": ("fp32", "cuda cores"),
    "float16, matrix units": ("fp16", "tensor cores"),
    "float8, matrix units": ("fp8", "tensor cores"),
}
"""The lines: a data type and the unit that computes it."""

SHORT = {"a100-40gb": "A100\n40 GB", "a100": "A100\n80 GB", "gtx-1070": "GTX\n1070", "rtx-3090": "RTX\n3090"}
SHORT |= {"rtx-4090": "RTX\n4090"}
GAP, HEIGHT = 0.8, 430
"""The columns' distance between two groups beyond the usual; the figure's height in CSS pixels."""


def ridge(hardware: Hardware, dtype: str, unit: str) -> float | None:
    """The ridge point in FLOP/B; None where the datasheet gives no such peak.

    >>> from brrr.gpu.datasheet import hardware
    >>> ridge(hardware("gtx-1070"), "fp16", "tensor cores") is None
    True
    """
    return hardware.ridge_point(dtype, unit) if (dtype, unit) in hardware.peaks else None


def ridge_by_generation() -> Picture:
    """Draw the ridge points of the GPUs in data/hardware.toml, generation by generation.

    >>> print(ridge_by_generation().alt.splitlines()[1])
    NVIDIA V100 SXM2, 2017: float32, no matrix units 17.4 FLOP/B; float16, matrix units 139 FLOP/B

    The ridge point is the peak in FLOP/s over the memory bandwidth in B/s: with fewer FLOP per byte than this, a kernel
    is memory-bound.

    Returns
    -------
    Picture
        The ridge points of plain float32 arithmetic and of matmuls on matrix units.
    """
    from brrr.drawing import style

    made = style.figure(height=HEIGHT)
    on = style.axes(made, left=0.1, bottom=0.19, top=0.83)
    made.text(0.012, 0.95, "How much arithmetic must each byte bring?", fontsize=12, fontweight="bold")
    places = _places()
    _generations_frame(on, places)
    for index, (name, (dtype, unit)) in enumerate(SERIES.items()):
        for group in GROUPS.values():
            points = {places[key]: found for key in group if (found := ridge(datasheets()[key], dtype, unit))}
            label = name if group == next(iter(GROUPS.values())) else "_"
            style.draw_line(on, list(points), list(points.values()), index, label).set_linestyle("none")
    style.legend(on, -0.1)
    style.stamp(made, Badge("DATASHEET", "dense peaks and bandwidths of data/hardware.toml", "", ""))
    return style.picture(made, generations_text([datasheets()[key] for group in GROUPS.values() for key in group]))


def generations_text(devices: Sequence[Hardware]) -> str:
    """What the picture shows, a line for each device."""
    lines = ["Ridge points by datasheet: FLOP that must be done for each byte until arithmetic is the limit."]
    for each in devices:
        found = [(name, ridge(each, *which)) for name, which in SERIES.items()]
        said = "; ".join(f"{name} {units.quantity(value, 'FLOP/B')}" for name, value in found if value)
        lines.append(f"{each.name}, {each.year}: {said}")
    return "\n".join(lines)


def _places() -> dict[str, float]:
    """Where each device stands along x."""
    found: dict[str, float] = {}
    for number, group in enumerate(GROUPS.values()):
        found |= {key: len(found) + place + number * GAP for place, key in enumerate(group)}
    return found


def _generations_frame(on: Axes, places: Mapping[str, float]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    on.set_xticks(list(places.values()), [_tick(key) for key in places], fontsize=8)
    on.set_xlim(-0.5, max(places.values()) + 0.5)
    on.grid(visible=False, axis="x")
    on.set_yscale("log")
    on.set_ylim(5, 2000)
    on.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    on.yaxis.set_minor_locator(NullLocator())
    on.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    on.set_ylabel("ridge point: FLOP for each byte moved")
    for name, group in GROUPS.items():
        middle = (places[group[0]] + places[group[-1]]) / 2
        on.annotate(f"{name} memory", (middle, 0.96), xycoords=("data", "axes fraction"), ha="center", fontsize=9)


def _tick(key: str) -> str:
    """The short name on two lines, and the year."""
    return f"{SHORT.get(key, key.upper() + chr(10))}\n{datasheets()[key].year}"
