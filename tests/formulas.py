"""Made-up sources for tests: what all have, and one whose times are formulas of the size; clearly no measurement."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Badge, Estimate, Measurement, Point, Value
from brrr_course.nouns.experiment import Experiment

Formula = Callable[[int], float]


class Fake:
    """A source that knows nothing: a test's own says what is known."""

    name, kind, live, device, torch = "made up", "cuda", False, "NVIDIA H200", ""

    def badge(self, experiment: Experiment, shown: object = None) -> Badge:
        return Badge("LIVE" if self.live else "RECORDED", self.device, "2000-01-01", self.torch)

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        return tuple(variant.name for variant in experiment.variants)

    def values(self, experiment: Experiment, axis: str) -> tuple[Value, ...]:
        return experiment.axis(axis).values

    def known(self, experiment: Experiment, variant: str) -> Mapping[tuple[Value, ...], Measurement]:
        return {}

    def measure(self, experiment: Experiment, variant: str, point: Point) -> Measurement:
        found = self.known(experiment, variant).get(tuple(point.values()))
        if found is None:
            raise NotRecordedError(f"{variant} at {point} was not recorded")
        return found

    def measure_together(self, experiment: Experiment, variants: Sequence[str], point: Point) -> None:
        """Nothing: all is known."""

    def drifts(self, experiment: Experiment) -> Mapping[tuple[str, str], float]:
        return {}


Known = Mapping[tuple[Value, ...], Measurement]


@dataclass
class Kept(Fake):
    """A source with what it is given, by the variant and the values of a point."""

    kept: Mapping[str, Known] = field(default_factory=dict)
    name: str = "made up"
    device: str = "NVIDIA H200"

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        return tuple(each.name for each in experiment.variants if each.name in self.kept)

    def values(self, experiment: Experiment, axis: str) -> tuple[Value, ...]:
        place = [each.name for each in experiment.axes].index(axis)
        there = {point[place] for known in self.kept.values() for point in known}
        return tuple(value for value in experiment.axis(axis).values if value in there)

    def known(self, experiment: Experiment, variant: str) -> Known:
        return self.kept.get(variant, {})


def time_of(seconds: float, share: float = 0.01) -> Estimate:
    """A time, known to such a share."""
    return Estimate(seconds, (1 - share) * seconds, (1 + share) * seconds, 40)


@dataclass
class Made(Fake):
    """For each variant a formula for each of its fields, from the size to seconds; `kernels` counts, if given."""

    times: Mapping[str, Mapping[str, Formula]]
    sizes: tuple[int, ...]
    device: str = "NVIDIA H200"
    spread: float = 0.01
    kernels: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    timelines: Mapping[str, Any] = field(default_factory=dict)

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        return tuple(variant.name for variant in experiment.variants if variant.name in self.times)

    def known(self, experiment: Experiment, variant: str) -> dict[tuple[Value, ...], Measurement]:
        sizes = [size for size in self.sizes if size not in self.missing.get(variant, ())]
        return {(size,): self._measured(variant, size) for size in sizes if variant in self.times}

    def traced(self, experiment: Experiment, variant: str) -> tuple[dict[str, Value], ...]:
        axis = experiment.axes[0].name
        return tuple({axis: size} for size in self.sizes if variant in self.timelines)

    def timeline(self, experiment: Experiment, variant: str, point: Point) -> Any:
        return self.timelines[variant]

    def _measured(self, variant: str, size: int) -> Measurement:
        fields = {name: time_of(formula(size), self.spread) for name, formula in self.times[variant].items()}
        return Measurement(**fields, kernels=self.kernels.get(variant))  # type: ignore[arg-type]
