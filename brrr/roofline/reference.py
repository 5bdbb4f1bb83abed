"""The reference: the one device whose long sweep comes with the package, and its figures scaled to other datasheets."""

from collections.abc import Mapping
from functools import cache, lru_cache
from math import log

from brrr.core.files import share
from brrr.gpu.datasheet import Hardware, find_hardware
from brrr.roofline.peak import Curve, Peak
from brrr.roofline.peaks import Peaks, datasheet_peaks, read_peaks

REFERENCE = "h200"
ISSUED = ("host", "kernel", "gap")
"""By the first word of their names, figures that no datasheet gives."""
SMALL = 2**16
"""Bytes of a working set that takes no longer in a larger cache, nor in a smaller one."""
CACHED, SPILT = 0.5, 1.5
"""Of the cache: a working set up to so large lies in it, and one from so large on in memory."""


@cache
def reference() -> Peaks:
    """The peaks of the reference, as they come with the package, whatever was calibrated since."""
    return read_peaks(share("data") / "recordings" / REFERENCE)


@cache
def issued_like_the_reference() -> Mapping[str, Peak]:
    """The reference's host costs, kernel starts and gaps, assumed of another GPU.

    >>> print(issued_like_the_reference()["kernel.floor"])
    545 ns
    """
    what = f"as measured beside an {reference().device}; no datasheet gives it"
    found = {name: peak for name, peak in reference().measured.items() if name.partition(".")[0] in ISSUED}
    return {name: Peak.stated(peak.value, "s", "assumed", what=what) for name, peak in found.items()}


@lru_cache(maxsize=16)
def rates_of(known: Hardware) -> tuple[Mapping[str, Peak], Mapping[str, Curve]]:
    """What a GPU reaches where it reaches the shares of its datasheet that the reference reaches of its own.

    Figures and curves. Rates of arithmetic go by their datasheet's; bandwidths by that of the memory, and up to the
    cache's size by multiprocessors and clock; working sets by the cache's size.
    """
    there = find_hardware(reference().device)
    assert there is not None
    mine, its = datasheet_peaks(known.name), datasheet_peaks(there.name)
    said = {name: peak.value / its[name].value for name, peak in mine.items() if name in its}
    figures = dict(mine)
    for name, peak in reference().measured.items():
        by = said.get(f"{name.rpartition('.')[0]}.fma")
        if by is not None and name.startswith("arithmetic"):
            figures[name] = _scaled(peak, by)
    curves = {name: _all_scaled(reference().curves[name], said[name]) for name in said if name.startswith("matmul")}
    curves |= {name: _by_level(curve, known, there, said["copy"]) for name, curve in reference().curves.items()
               if curve.axis == "working_set_bytes"}  # fmt: skip
    return figures, curves


def _scaled(peak: Peak, by: float) -> Peak:
    return Peak.stated(peak.value * by, peak.unit, "datasheet")


def _all_scaled(curve: Curve, by: float) -> Curve:
    return Curve(curve.axis, tuple((place, _scaled(peak, by)) for place, peak in curve.points))


def _by_level(curve: Curve, known: Hardware, there: Hardware, memory: float) -> Curve:
    cached = _ratio(known.sm_count, there.sm_count) * _ratio(known.boost_clock_hz, there.boost_clock_hz)
    wider, l2_bytes = _ratio(known.l2_bytes, there.l2_bytes), there.l2_bytes or 1

    def by(place: float) -> float:
        spilt = _share(place, CACHED * l2_bytes, SPILT * l2_bytes)
        return float(cached ** (1 - spilt) * memory**spilt)

    def moved(place: float) -> float:
        return float(place * wider ** _share(place, SMALL, CACHED * l2_bytes))

    return Curve(curve.axis, tuple((moved(place), _scaled(peak, by(place))) for place, peak in curve.points))


def _share(place: float, first: float, last: float) -> float:
    """How far along it lies, on a log scale: 0 up to the first, 1 from the last on."""
    return min(1.0, max(0.0, log(place / first) / log(last / first)))


def _ratio(one: float | None, other: float | None) -> float:
    return one / other if one and other else 1.0
