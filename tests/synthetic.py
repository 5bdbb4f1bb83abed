"""A made-up source for the explorer's tests: clearly synthetic, never written under data/."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from formulas import Fake

from brrr.core.errors import DeviceMemoryError
from brrr.core.measurement import FIELDS, Estimate, Measurement, Point, Value
from brrr_course.nouns.experiment import Experiment
from brrr_course.view.explorer import Explorer, explore


class Synthetic(Fake):
    """Times from a formula, for every variant and point of any experiment; `live` ones appear when measured."""

    device, torch = "synthetic device", "no torch"

    def __init__(
        self, *, live: bool = False, name: str = "synthetic", missing: tuple[str, ...] = (),
        slice_s: float = 0.0, too_large: float = float("inf"), error: Exception | None = None,
    ) -> None:  # fmt: skip
        self.live, self.name, self.missing = live, name, missing
        self.slice_s, self.too_large, self.error = slice_s, too_large, error
        self.kept: dict[tuple[str, str], dict[tuple[Value, ...], Measurement]] = {}
        self.measured: list[tuple[str, tuple[Value, ...]]] = []
        self.together: list[tuple[tuple[str, ...], tuple[Value, ...]]] = []

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        return tuple(v.name for v in experiment.variants if v.name not in self.missing)

    def known(self, experiment: Experiment, variant: str) -> Mapping[tuple[Value, ...], Measurement]:
        if self.live:
            return self.kept.get((experiment.name, variant), {})
        points = (tuple(p.values()) for p in experiment.points())
        return {
            key: made(experiment, variant, key) for key in points if experiment.has(variant, _point(experiment, key))
        }

    def measure(self, experiment: Experiment, variant: str, point: Point) -> Measurement:
        key = tuple(point.values())
        if not self.live:
            return super().measure(experiment, variant, point)
        if self.error is not None:
            raise self.error
        if max(float(v) for v in key if not isinstance(v, str)) >= self.too_large:
            raise DeviceMemoryError(f"{variant} at {key} needs 51.5 GB; the device has 16 GB")
        time.sleep(self.slice_s)
        self.measured.append((variant, key))
        return self.kept.setdefault((experiment.name, variant), {}).setdefault(key, made(experiment, variant, key))

    def measure_together(self, experiment: Experiment, variants: Sequence[str], point: Point) -> None:
        self.together.append((tuple(variants), tuple(point.values())))


def _point(experiment: Experiment, key: tuple[Value, ...]) -> dict[str, Value]:
    return dict(zip((axis.name for axis in experiment.axes), key, strict=True))


def made(experiment: Experiment, variant: str, key: tuple[Value, ...]) -> Measurement:
    """The formula: a start-up cost for each variant, and a cube of the size behind it."""
    rank = [v.name for v in experiment.variants].index(variant) + 1
    size = 1.0
    for value in key:
        size *= float(value) if not isinstance(value, str) else 1.0
    times = {}
    for place, field in enumerate(FIELDS):
        grows = 0.0 if field == "host_s" else 1e-9 * size**3 / 10 ** (2 * rank)
        middle = 4e-6 * rank * (1 + 0.2 * place) + grows
        times[field] = Estimate(middle, 0.97 * middle, 1.04 * middle, 31)
    return Measurement(**times, device="synthetic device")


def live(**options: Any) -> tuple[Explorer, Synthetic]:
    """An explorer over a source that measures in no time."""
    source = Synthetic(live=True, name="toy", **options)
    return explore("matmul", at={"size": 256}, lines=["cpu", "synchronized"], source=source), source
