"""What the arguments of `explore` mean: which axes get a slider, and what lies along x and y."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brrr.errors import ArgumentError
from brrr.experiment import Experiment, Value
from brrr.widget.scene import View

MOST_SLIDERS = 3


def slider_names(found: Experiment, at: Mapping[str, Value], sliders: Sequence[str] | None) -> list[str]:
    """Which axes get a slider; all others must stand in `at`."""
    axes = [axis.name for axis in found.axes]
    if sliders is None:
        names = axes if len(axes) <= MOST_SLIDERS else [name for name in axes if name not in at]
    else:
        names = [found.axis(name).name for name in sliders]
    pinned = [name for name in axes if name not in names]
    hint = "Pin the other axes with at=, as at={" + f"{axes[-1]!r}: {found.axes[-1].values[0]!r}" + "}."
    if not 1 <= len(names) <= MOST_SLIDERS or len(set(names)) != len(names):
        expected = f"one to {MOST_SLIDERS} different axes of {', '.join(axes)}"
        raise ArgumentError("explore", "sliders", names, expected, hint)
    for name in pinned:
        if name not in at:
            raise ArgumentError("explore", "at", dict(at), f"a value for the axis {name!r}, which has no slider", hint)
    return names


def view_of(
    found: Experiment,
    sliders: Sequence[str],
    show: str | Mapping[str, str],
    values: Mapping[str, Sequence[Value]] | None = None,
) -> View:
    """What lies along x and y, and which values of the axes are kept."""
    keep = {found.axis(name).name: tuple(kept) for name, kept in (values or {}).items()}
    for name, kept in keep.items():
        if not kept:
            raise ArgumentError("explore", "values", dict(values or {}), f"at least one value of {name!r}")
        for value in kept:
            found.axis(name).checked("explore", value)
    wanted = {"y": "time"} if show == "time" else show
    if isinstance(wanted, str) or not set(wanted) <= {"x", "y", "ratio"} or wanted.get("y", "time") != "time":
        expected = '"time", {"ratio": LINE}, or either with {"x": AXIS}'
        raise ArgumentError("explore", "show", show, expected)
    along = wanted.get("x", sliders[0])
    if along not in sliders:
        raise ArgumentError("explore", "show", show, f"an x that has a slider: {', '.join(sliders)}")
    to = wanted.get("ratio", "")
    return View(along, found.line(to).name if to else "", keep)
