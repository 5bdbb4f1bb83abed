"""What the sources have in common that measure now, on this machine or on the class's."""

from collections.abc import Mapping
from datetime import date

from brrr.core.measurement import Badge, DeviceKind, Value
from brrr.gpu import is_queue
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Shown, quick


class OnDevice:
    """A source that measures on one device: its badge, the device's variants, and every value of an axis.

    >>> from brrr_course.experiments import experiment
    >>> source = OnDevice()
    >>> source.kind, source.device_name, source.torch_version = "cpu", "a CPU", ""
    >>> source.badge(experiment("unary")).kind, source.values(experiment("unary"), "dtype")[0]
    ('LIVE, CPU QUEUE', 'float32')
    """

    live = True
    badge_kind = "LIVE"
    kind: DeviceKind
    device_name: str
    torch_version: str

    def badge(self, experiment: Experiment, shown: Shown | None = None) -> Badge:
        """Its kind, device and today's date; CPU QUEUE where the CPU queue stands in for a GPU."""
        toy = any(is_queue(experiment.variant(name).device) for name in self.variants(experiment))
        kind = f"{self.badge_kind}, CPU QUEUE" if toy else self.badge_kind
        torch = f"torch {self.torch_version}" if self.torch_version else ""
        return Badge(kind, experiment.named(self.device_name, self.kind), date.today().isoformat(), torch)  # type: ignore[arg-type]

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        """On a GPU the CPU's and the GPU's variants; without one, the CPU's and the queue's."""
        return experiment.variants_on(self.kind)

    def drifts(self, experiment: Experiment) -> Mapping[tuple[str, str], float]:
        """Empty: a point is measured once, so it cannot drift."""
        return {}

    def values(self, experiment: Experiment, axis: str) -> tuple[Value, ...]:
        """The axis's own values: a live source can go anywhere on them."""
        found = experiment.axis(axis)
        return found.quick if quick() and found.quick else found.values
