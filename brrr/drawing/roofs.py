"""The roofs of a device: rates of its memory levels and of its arithmetic, measured ones and those of the datasheet."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Estimate
from brrr.counting.cost import Cost
from brrr.roofline.device_model import DeviceModel
from brrr.roofline.figures import level_rate
from brrr.roofline.peak import Peak
from brrr.roofline.peaks import MissingPeakError, datasheet_peaks

CACHE_GAIN = 1.2
"""A cache has a roof of its own if it is so much faster than the memory."""


@dataclass(frozen=True)
class Roof:
    """One roof: B/s of a level of memory (a rising line), or FLOP/s of a unit (a flat one).

    >>> print(Roof("memory", "B/s", 4.8e12, "datasheet"))
    memory 4.8 TB/s, datasheet
    """

    name: str
    unit: Literal["B/s", "FLOP/s"]
    rate: float
    origin: Literal["measured", "datasheet"]

    def __str__(self) -> str:
        return f"{self.name} {units.quantity(self.rate, self.unit)}, {self.origin}"


def roofs_of(model: DeviceModel, dtypes: Sequence[str]) -> tuple[Roof, ...]:
    """All roofs: of the memory's levels, of plain float32, of products in the data types; MissingPeakError if none."""
    found = (*_measured(model, dtypes), *_promised(datasheet_peaks(model.hardware), dtypes))
    if not any(roof.unit == "B/s" for roof in found) or not any(roof.unit == "FLOP/s" for roof in found):
        raise MissingPeakError(
            f"roofline_plot: {model.device} has no roofs for {', '.join(dtypes)}: neither measured nor of a datasheet. "
            "Run brrr.calibrate() on it, or choose other data types"
        )
    return found


def ridge_point(roofs: Sequence[Roof]) -> float:
    """FLOP/B where the highest flat roof meets the memory's: beyond it, arithmetic is the limit.

    >>> ridge_point((Roof("memory", "B/s", 4e12, "measured"), Roof("bf16", "FLOP/s", 8e14, "measured")))
    200.0
    """
    return highest(roofs).rate / memory(roofs).rate


def attainable(roofs: Sequence[Roof], intensity: float) -> Roof:
    """The roof that limits work of this intensity whose data come from memory, at the best arithmetic drawn."""
    level, unit = memory(roofs), highest(roofs)
    return level if level.rate * intensity < unit.rate else unit


def memory(roofs: Sequence[Roof]) -> Roof:
    """The roof of the memory itself, measured if there is one."""
    return _best([roof for roof in roofs if roof.name == "memory"])[0]


def highest(roofs: Sequence[Roof]) -> Roof:
    """The highest flat roof, measured if there is one."""
    return max(_best([roof for roof in roofs if roof.unit == "FLOP/s"]), key=lambda roof: roof.rate)


def _best(roofs: list[Roof]) -> list[Roof]:
    """The measured ones, all where there are none."""
    return [roof for roof in roofs if roof.origin == "measured"] or roofs


def _measured(model: DeviceModel, dtypes: Sequence[str]) -> Iterator[Roof]:
    if model.peaks is None:
        return
    copy = model.curves.get("copy")
    if copy is not None:
        copies = [model.curves[kind] for kind in ("copy", "torch-copy") if kind in model.curves]
        slowest = max(level_rate(each, each.points[-1][0]) for each in copies)
        fastest = max(model.curves[kind].best.value for kind in ("copy", "read") if kind in model.curves)
        if fastest >= CACHE_GAIN * slowest:
            yield Roof("L2 cache" if model.is_gpu else "cache", "B/s", fastest, "measured")
        yield Roof("memory", "B/s", slowest, "measured")
    peaks = {**model.figures, **{name: curve.best for name, curve in model.curves.items()}}
    yield from _flat({name: peak for name, peak in peaks.items() if peak.kind == "measured"}, dtypes, "measured")


def _promised(peaks: Mapping[str, Peak], dtypes: Sequence[str]) -> Iterator[Roof]:
    if "copy" in peaks:
        yield Roof("memory", "B/s", peaks["copy"].value, "datasheet")
    yield from _flat(peaks, dtypes, "datasheet")


def _flat(peaks: Mapping[str, Peak], dtypes: Sequence[str], origin: Literal["measured", "datasheet"]) -> Iterator[Roof]:
    """Plain float32, then products; a product that is no faster than plain arithmetic has no roof of its own.

    Multiplications alone, where they were measured, reach about half of what fused multiply-adds do.
    """
    plain, single = peaks.get("arithmetic.fp32.fma"), peaks.get("arithmetic.fp32.mul")
    if plain is not None:
        yield Roof("fp32 FMA", "FLOP/s", plain.value, origin)
    if single is not None:
        yield Roof("fp32 MUL", "FLOP/s", single.value, origin)
    for dtype in dtypes:
        product = peaks.get(f"matmul.{dtype}")
        if product is not None and (plain is None or product.value != plain.value):
            yield Roof(f"{dtype} products", "FLOP/s", product.value, origin)


# ---------------------------------------------------------------------------------------------------------------------
# The points of a roofline plot, and a sentence for each.


@dataclass(frozen=True)
class RooflinePoint:
    """One piece of work: its FLOP and bytes, and its time in seconds with an interval."""

    name: str
    cost: Cost
    time: Estimate

    @property
    def intensity(self) -> float:
        """FLOP/B."""
        return self.cost.arithmetic_intensity

    @property
    def rates(self) -> tuple[float, float, float]:
        """FLOP/s: the middle, the lowest, the highest."""
        flop, time = self.cost.flop, self.time
        return flop / time.median, flop / time.high, flop / (time.low or time.median)

    def text(self, roofs: Sequence[Roof]) -> str:
        """A sentence: the intensity, the rate, and its share of the roof above it."""
        roof = attainable(roofs, self.intensity)
        limit = roof.rate * (self.intensity if roof.unit == "B/s" else 1.0)
        share = self.rates[0] / limit
        doubt = " (more than the roof: it came from a cache, or something is counted wrongly)" if share > 1.02 else ""
        rate, interval = units.quantity(self.rates[0], "FLOP/s"), ""
        if self.time.low < self.time.high:
            low, high = (units.quantity(each, "FLOP/s") for each in self.rates[1:])
            interval = f" ({low} to {high})"
        at_least = "at least " if self.cost.unknown else ""
        intensity = units.quantity(self.intensity, "FLOP/B")
        return f"{self.name}: {at_least}{intensity}, {rate}{interval}, {units.percent(share)} of {roof}{doubt}"


def point(name: str, cost: Cost, time: Estimate | float) -> RooflinePoint:
    """One point from a cost and its time; a bare number of seconds has no interval.

    >>> point("copy", Cost(1e9, 8e9), 2e-3).rates[0]
    500000000000.0
    """
    made = time if isinstance(time, Estimate) else Estimate(time, time, time, 1)
    if not all(0 < each < math.inf for each in (cost.flop, cost.bytes, made.median)):
        hint = "A roofline shows FLOP/s: work without FLOP, such as a copy, has no place on it."
        raise ArgumentError("roofline_plot", f"points[{name!r}]", (cost, time), "FLOP, bytes and a time above 0", hint)
    return RooflinePoint(name, cost, made)
