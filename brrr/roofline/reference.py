"""The reference: the one device whose long sweep comes with the package, and its figures scaled to other datasheets."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from math import log

from brrr.core.files import share
from brrr.gpu.datasheet import Hardware, find_hardware
from brrr.roofline.peak import Curve, Peak
from brrr.roofline.peaks import Peaks, datasheet_peaks, read_peaks

REFERENCE = "h200"
SHORT = ("fp16", "bf16")
ISSUED = ("host", "kernel", "gap")
"""By the first word of their names, figures that no datasheet gives."""
SMALL = 2**16
"""Bytes of a working set that takes no longer in a larger cache, nor in a smaller one."""
CACHED, SPILT = 0.5, 1.5
"""Of the cache: a working set up to so large lies in it, and one from so large on in memory."""


INLINE_ECC = 0.85
"""What is left of a bandwidth where the bits that mend errors lie in the memory itself: GDDR on a data-centre board."""
FIRST_HBM2, FIRST_SHARE = (6, 0), 0.835
"""A P100, with the first HBM2: 510 of 732 GB/s, where a V100 reaches 750 of 900 (Z. Jia et al., Dissecting the NVIDIA
Volta GPU Architecture via Microbenchmarking, 2018)."""
ONE_ISSUE, FREE_ISSUE = (8, 6), 1.2
"""From this compute capability on a scheduler has 32 lanes of float32 and issues one instruction a cycle: a product's
loads take the place of multiply-adds, which they do not on 16 lanes, and did not where two were issued."""
ENERGY = {16: 1.9, 12: 1.9, 8: 1.7, 7: 1.7, 6: 1.7}
"""Of a multiply-add at the same clock, by the process in nm, beside that of the reference's (TSMC's 4N, here 4 nm)."""
TENSOR_HZ = 1.83e9
"""The clock at which the reference's tensor cores are rated."""
IDLE = 20.0, 0.075
"""Watts of a board whose multiprocessors wait: so many, and a share of its limit."""


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
    mine, its = datasheet_peaks(known), datasheet_peaks(there)
    said = {name: peak.value / its[name].value for name, peak in mine.items() if name in its}
    if known.inline_ecc:
        said["copy"] *= INLINE_ECC
    if known.compute_capability == FIRST_HBM2:
        said["copy"] *= FIRST_SHARE
    figures = dict(mine)
    for name, peak in reference().measured.items():
        by = said.get(f"{name.rpartition('.')[0]}.fma")
        if by is not None and name.startswith("arithmetic"):
            figures[name] = _scaled(peak, by)
    curves = {name: _sustained(reference().curves[name], name, by, known, there) for name, by in said.items()
              if name.startswith("matmul")}  # fmt: skip
    if "matmul.fp32" in curves:  # which torch multiplies what has no units of its own in
        curves = {f"matmul.{short}": curves["matmul.fp32"] for short in SHORT} | curves
    curves |= {name: _by_level(curve, known, there, said["copy"]) for name, curve in reference().curves.items()
               if curve.axis == "working_set_bytes"}  # fmt: skip
    return figures, curves


def held_by_power(known: Hardware) -> bool:
    """Whether its board's power holds products below the rate that their clock would give.

    >>> from brrr.gpu.datasheet import hardware
    >>> held_by_power(hardware("l4")), held_by_power(hardware("h200"))
    (True, False)
    """
    held, free = (rates_of(each)[1] for each in (known, replace(known, tdp_w=None)))
    return any(curve.best.value < 0.99 * free[name].best.value for name, curve in held.items() if "matmul" in name)


def _scaled(peak: Peak, by: float) -> Peak:
    return Peak.stated(peak.value * by, peak.unit, "datasheet")


def _sustained(curve: Curve, name: str, by: float, known: Hardware, there: Hardware) -> Curve:
    """Rates of products at the clock that the board's power holds, where multiply-adds are as busy as the reference's.

    Energy for a FLOP goes with the clock, since voltage does, so power goes with its square.
    """
    if name == "matmul.fp32" and known.compute_capability and known.compute_capability < ONE_ISSUE:
        by *= FREE_ISSUE
    rated_hz = there.boost_clock_hz if name in ("matmul.fp32", "matmul.fp64") else TENSOR_HZ
    needs = by * _ratio(known.boost_clock_hz, there.boost_clock_hz) * ENERGY.get(known.process_nm or 0, 1.0)
    spare_w, its_w = (max(1.0, (1 - IDLE[1]) * (each.tdp_w or 0.0) - IDLE[0]) for each in (known, there))
    holds = (spare_w / its_w / needs) ** 0.5 if known.tdp_w else 1.0
    points = ((at, _scaled(peak, by * min(_let_go(peak, rated_hz), holds))) for at, peak in curve.points)
    return Curve(curve.axis, tuple(points))


def _let_go(peak: Peak, rated_hz: float | None) -> float:
    """How many times as fast the reference would be if power did not hold its clock back."""
    seen = peak.conditions
    return max(1.0, _ratio(rated_hz, float(seen["sm_clock_hz"]))) if "held_back_by" in seen else 1.0


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
