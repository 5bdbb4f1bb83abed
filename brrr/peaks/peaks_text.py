"""Peaks as a text: each measured figure with its interval, beside what the datasheet says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from brrr import units
from brrr.peaks.peak import Curve, Peak
from brrr.peaks.peaks import Peaks
from brrr.peaks.sweep import Sweep

HEAD = ("measured", "value", "95 % interval", "at", "datasheet", "share")
LEVELS = ("read", "copy", "triad", "write")


def text(peaks: Peaks) -> str:
    """A table of the peaks, then the bandwidth by working set, then what was assumed and what is missing."""
    about = ", ".join(f"{name} {value}" for name, value in _software(peaks) if value)
    lines = [f"Peaks of {peaks.device} ({about}), measured {peaks.date}", ""]
    lines += table([HEAD, *_rows(peaks)])
    lines += ["", *_streams(peaks.curves)]
    lines += [f"sweep: {len(sweep)} {name}{_spread(sweep)}" for name, sweep in peaks.sweeps.items()]
    lines += [f"assumed: {name} {peak} ({_said(peak)})" for name, peak in peaks.assumed.items()]
    return "\n".join([*lines, *(f"note: {note}" for note in peaks.notes)]).rstrip()


def _spread(sweep: Sweep) -> str:
    """From the shortest to the longest of its times."""
    if not sweep.seconds:
        return ""
    return f", {units.seconds(min(sweep.seconds))} to {units.seconds(max(sweep.seconds))}"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, each column as wide as its widest cell.

    >>> table([["a", "bb"], ["ccc", "d"]])
    ['a    bb', 'ccc  d']
    """
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _software(peaks: Peaks) -> list[tuple[str, str]]:
    return [("driver", peaks.driver), ("CUDA", peaks.cuda), ("torch", peaks.torch), ("brrr", peaks.brrr)]


def _rows(peaks: Peaks) -> Iterator[tuple[str, ...]]:
    promised = peaks.datasheet
    for name, curve in peaks.curves.items():
        at, peak = _level(name, curve)
        yield _row(name, peak, f"{_place(curve, at)}{_clock(peak, curve.conditions)}", promised.get(name))
    for name, peak in peaks.measured.items():
        yield _row(name, peak, _said(peak), promised.get(name))


def _level(name: str, curve: Curve) -> tuple[float, Peak]:
    """Of the memory the largest set, which no cache holds; of all else the best."""
    return curve.points[-1] if curve.axis == "working_set_bytes" else curve.best_point


def _row(name: str, peak: Peak, at: str, promised: Peak | None) -> tuple[str, ...]:
    interval = f"{units.quantity(peak.low, peak.unit)} to {units.quantity(peak.high, peak.unit)}"
    value = units.quantity(peak.value, peak.unit)
    if promised is None:
        return name, value, interval, at, "", ""
    share = peak.share_of(promised)
    doubt = " (more than promised: a cache, a higher clock, or wrong counting)" if share > 1 else ""
    return name, value, interval, at, str(promised), units.percent(share) + doubt


def _place(curve: Curve, at: float) -> str:
    return units.nbytes(at) if curve.axis == "working_set_bytes" else f"{curve.axis} {at:g}"


def _clock(peak: Peak, conditions: Mapping[str, object]) -> str:
    found = {**conditions, **peak.conditions}
    clock, held = found.get("sm_clock_hz"), found.get("held_back_by")
    said = f", {units.quantity(float(str(clock)), 'Hz')}" if clock is not None else ""
    return f"{said} ({held})" if held else said


def _said(peak: Peak) -> str:
    """What a figure was measured on, in a few words."""
    words = next((str(peak.conditions[key]) for key in ("operator", "by", "what") if key in peak.conditions), "")
    return f"{words}{_clock(peak, {})}"


def _streams(curves: Mapping[str, Curve]) -> list[str]:
    """Bandwidth by working set, a column a kind; where a kind was measured on nearly the same set, on one line."""
    kinds = [kind for kind in LEVELS if kind in curves]
    if not kinds:
        return []
    rows = [["working set", *kinds]]
    for place, _ in curves[kinds[0]].points:
        rates = [units.rate(curves[kind].at(place), "B/s") for kind in kinds]
        rows.append([units.nbytes(place), *rates])
    return [*table(rows), ""]
