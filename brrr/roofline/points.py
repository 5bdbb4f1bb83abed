"""The points of a roofline plot: what was measured or predicted, and a sentence for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from brrr import units
from brrr.counting.cost import Cost
from brrr.errors import ArgumentError
from brrr.measurement import Estimate, Measurement
from brrr.peaks.peaks import short
from brrr.roofline.prediction import Prediction
from brrr.roofline.roofs import Roof, attainable

Timed = Prediction | tuple[Cost, Measurement | Estimate | float]


@dataclass(frozen=True)
class RooflinePoint:
    """One piece of work: its FLOP and bytes, and its time in seconds with an interval."""

    name: str
    cost: Cost
    time_s: float
    low_s: float
    high_s: float
    predicted: bool = False

    @property
    def intensity(self) -> float:
        """FLOP/B."""
        return self.cost.arithmetic_intensity

    @property
    def rates(self) -> tuple[float, float, float]:
        """FLOP/s: the middle, the lowest, the highest."""
        return tuple(self.cost.flop / time for time in (self.time_s, self.high_s, self.low_s))  # type: ignore[return-value]

    def text(self, roofs: Sequence[Roof]) -> str:
        """A sentence: the intensity, the rate, and its share of the roof above it."""
        roof = attainable(roofs, self.intensity)
        limit = roof.rate * (self.intensity if roof.unit == "B/s" else 1.0)
        share = self.rates[0] / limit
        doubt = " (more than the roof: it came from a cache, or something is counted wrongly)" if share > 1.02 else ""
        said = f"PREDICTED {self.name}" if self.predicted else self.name
        rate, interval = units.quantity(self.rates[0], "FLOP/s"), ""
        if self.low_s < self.high_s:
            low, high = (units.quantity(each, "FLOP/s") for each in self.rates[1:])
            interval = f" ({low} to {high})"
        at_least = "at least " if self.cost.unknown else ""
        intensity = units.quantity(self.intensity, "FLOP/B")
        return f"{said}: {at_least}{intensity}, {rate}{interval}, {units.percent(share)} of {roof}{doubt}"


def point(name: str, given: Timed, field: str) -> RooflinePoint:
    """One point from a prediction, or from a cost and its time; `field` says which time of a measurement counts.

    >>> point("copy", (Cost(1e9, 8e9), 2e-3), "period_s").rates[0]
    500000000000.0
    """
    if isinstance(given, Prediction):
        time_s = _of_prediction(name, given, field)
        made = RooflinePoint(name, given.cost, time_s, time_s, time_s, predicted=True)
    elif isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Cost):
        time = _estimate(name, given[1], field)
        made = RooflinePoint(name, given[0], time.median, time.low or time.median, time.high)
    else:
        raise ArgumentError("roofline_plot", f"points[{name!r}]", given, "a Prediction, or a Cost and its time")
    if not (0 < made.cost.flop < math.inf and 0 < made.cost.bytes < math.inf):
        hint = "A roofline shows FLOP/s: work without FLOP, such as a copy, has no place on it."
        raise ArgumentError("roofline_plot", f"points[{name!r}]", made.cost, "FLOP and bytes above 0", hint)
    return made


def dtypes_of(points: Sequence[RooflinePoint]) -> tuple[str, ...]:
    """The data types of the products among the points; fp32 where there are none.

    >>> dtypes_of([])
    ('fp32',)
    """
    found = (short(product.dtype) for each in points for product in each.cost.matmuls)
    return tuple(dict.fromkeys(found)) or ("fp32",)


def _of_prediction(name: str, given: Prediction, field: str) -> float:
    value = getattr(given, field, None)
    if not isinstance(value, float):
        raise ArgumentError("roofline_plot", f"points[{name!r}].{field}", value, f"a time of {given.device}")
    return value


def _estimate(name: str, given: Measurement | Estimate | float, field: str) -> Estimate:
    """The time with its interval; a bare number of seconds has none."""
    found = given.get(field) if isinstance(given, Measurement) else given
    if isinstance(found, int | float) and not isinstance(found, bool):
        found = Estimate(float(found), float(found), float(found), 1)
    if not isinstance(found, Estimate) or not 0 < found.median < math.inf:
        raise ArgumentError("roofline_plot", f"points[{name!r}]", given, f"a time above 0 with {field}")
    return found


def points_of(given: Mapping[str, Timed], field: str) -> list[RooflinePoint]:
    """All points, in their order."""
    if not isinstance(given, Mapping):
        raise ArgumentError("roofline_plot", "points", given, "a dict from names to predictions, or to (cost, time)")
    return [point(name, each, field) for name, each in given.items()]
