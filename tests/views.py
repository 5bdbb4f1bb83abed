"""A made-up experiment for every view of the explorer: rates, speed-ups, ladders, stacks, and theoretical lines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from formulas import Fake

from brrr.core.measurement import Estimate, Measurement, Point, Value
from brrr.counting.cost import Cost
from brrr.gpu.datasheet import Hardware
from brrr_course.nouns.experiment import Axis, Experiment, Guide, Line, Rate, Variant

RUNGS = {
    "prepared": "PyCUDA prepared call",
    "out": "torch.ops.aten, out= given, no allocation",
    "aten": "torch.ops.aten.relu",
    "functional": "torch.nn.functional.relu",
    "inference": "functional under inference_mode",
    "autograd": "functional, the input requires a gradient",
    "module": "nn.ReLU()(x), the module's own call",
    "script": "TorchScript, the module scripted and frozen",
    "compiled": "torch.compile, default mode, warm",
    "graph": "CUDA Graph, one replay of one node",
}
PARTS = {
    "prepared": "the launch itself", "out": "the dispatcher", "aten": "allocating the result",
    "functional": "torch.nn.functional's Python", "autograd": "autograd's bookkeeping", "module": "nn.Module's call",
}  # fmt: skip
WIDTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 24576)


def cost(variant: Variant, point: Point) -> Cost:
    """Four bytes for each element of a width x batch array."""
    return Cost(
        flop=float(point["width"]) * float(point["batch"]), bytes=4.0 * float(point["width"]) * float(point["batch"])
    )


def link(hardware: Hardware | None, point: Point) -> float | None:
    """The datasheet's link, where there is a datasheet."""
    return hardware.host_link.bytes_per_s if hardware and hardware.host_link else None


def by_flop(hardware: Hardware | None, point: Point) -> float:
    """The speed-up that counting FLOP promises."""
    return float(point["width"])


def floor(hardware: Hardware | None, point: Point) -> float:
    """A least time."""
    return 1e-6


EXPERIMENT = Experiment(
    name="views",
    title="Views",
    question="?",
    axes=(Axis("width", WIDTHS, label="width (columns of the made-up array)"), Axis("batch", (64, 1024, 16384))),
    variants=tuple(Variant(name, label, "cuda") for name, label in RUNGS.items()),
    lines=tuple(Line(name, name, "period_s", label) for name, label in RUNGS.items()),
    cost=cost,
    rate=Rate("bytes", "B/s", "bandwidth"),
    guides=(
        Guide("link", "link limit", "DATASHEET", "rate", link),
        Guide("flop", "by FLOP", "PREDICTED", "ratio", by_flop),
        Guide("floor", "launch floor", "PREDICTED", "time", floor),
    ),
)


@dataclass
class Recorded(Fake):
    """Made-up times in seconds: a cost for each rung, and a share that grows with the work."""

    device: str = "NVIDIA H200"
    name: str = "recorded:made-up"
    live: bool = False
    torch: str = "no torch"
    missing: tuple[str, ...] = ()
    fixed: Mapping[str, float] = field(default_factory=dict)
    spread: float = 0.02
    grows: float = 1e-10
    drifted: Mapping[tuple[str, str], float] = field(default_factory=dict)
    lacks: Callable[[str, tuple[Value, ...]], bool] = lambda variant, point: False
    """Of which variants there is nothing at which points."""

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        return tuple(v.name for v in experiment.variants if v.name not in self.missing)

    def known(self, experiment: Experiment, variant: str) -> Mapping[tuple[Value, ...], Measurement]:
        if variant in self.missing:
            return {}
        points = [tuple(point.values()) for point in experiment.points()]
        there = [key for key in points if not self.lacks(variant, key)]
        return {key: Measurement(period_s=self.time(variant, key), device=self.device) for key in there}

    def time(self, variant: str, key: tuple[Value, ...]) -> Estimate:
        """The made-up time of a rung at a point."""
        rank = list(RUNGS).index(variant) + 1
        middle = self.fixed.get(variant, 2e-6 * rank) + self.grows * float(key[0]) * float(key[1]) / rank
        return Estimate(middle, middle * (1 - self.spread), middle * (1 + self.spread), 31)

    def drifts(self, experiment: Experiment) -> Mapping[tuple[str, str], float]:
        return self.drifted


def install() -> None:
    """Let `explore("views", ...)` find the experiment above, in a notebook of a browser test."""
    from brrr_course.view import explorer

    explorer.experiment_named = lambda name: EXPERIMENT  # type: ignore[assignment]
