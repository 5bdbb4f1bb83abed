"""The roofs of a device: rates of its memory levels and of its arithmetic, measured ones and those of the datasheet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from brrr import units
from brrr.peaks.datasheet import datasheet_peaks
from brrr.peaks.peak import Peak
from brrr.peaks.peaks import MissingPeakError
from brrr.roofline.basis import Basis
from brrr.roofline.streams import level_rate

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


def roofs_of(basis: Basis, dtypes: Sequence[str]) -> tuple[Roof, ...]:
    """All roofs: of the memory's levels, of plain float32, of products in the data types; MissingPeakError if none."""
    found = (*_measured(basis, dtypes), *_promised(datasheet_peaks(basis.device), dtypes))
    if not any(roof.unit == "B/s" for roof in found) or not any(roof.unit == "FLOP/s" for roof in found):
        raise MissingPeakError(
            f"roofline_plot: {basis.device} has no roofs for {', '.join(dtypes)}: neither measured nor of a datasheet. "
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


def _measured(basis: Basis, dtypes: Sequence[str]) -> Iterator[Roof]:
    if basis.peaks is None:
        return
    copy = basis.curves.get("copy")
    if copy is not None:
        copies = [basis.curves[kind] for kind in ("copy", "torch-copy") if kind in basis.curves]
        slowest = max(level_rate(each, each.points[-1][0]) for each in copies)
        fastest = max(basis.curves[kind].best.value for kind in ("copy", "read") if kind in basis.curves)
        if fastest >= CACHE_GAIN * slowest:
            yield Roof("L2 cache" if basis.is_gpu else "cache", "B/s", fastest, "measured")
        yield Roof("memory", "B/s", slowest, "measured")
    peaks = {**basis.figures, **{name: curve.best for name, curve in basis.curves.items()}}
    yield from _flat({name: peak for name, peak in peaks.items() if peak.kind == "measured"}, dtypes, "measured")


def _promised(peaks: Mapping[str, Peak], dtypes: Sequence[str]) -> Iterator[Roof]:
    if "copy" in peaks:
        yield Roof("memory", "B/s", peaks["copy"].value, "datasheet")
    yield from _flat(peaks, dtypes, "datasheet")


def _flat(peaks: Mapping[str, Peak], dtypes: Sequence[str], origin: Literal["measured", "datasheet"]) -> Iterator[Roof]:
    """Plain float32, then products; a product that is no faster than plain arithmetic has no roof of its own."""
    plain = peaks.get("arithmetic.fp32.fma")
    if plain is not None:
        yield Roof("fp32 FMA", "FLOP/s", plain.value, origin)
    for dtype in dtypes:
        product = peaks.get(f"matmul.{dtype}")
        if product is not None and (plain is None or product.value != plain.value):
            yield Roof(f"{dtype} products", "FLOP/s", product.value, origin)
