"""A transformer block: which share of a step is overhead, memory, compute, under-filled; which operators take it?

The shares of FLOP and of time by class of operator follow "Making Deep Learning Go Brrrr From First Principles", which
measured them on BERT. A step is taken apart by `brrr.diagnose`. As a CUDA Graph the same kernels run without the host.

Counted as `brrr.cost` does, of T tokens of width w in sequences of L, going forward: the four products 24 T w^2 and
their biases 9 T w, attention 4 T L w, two layer norms 7 T w each, GELU 5 for each of 4 T w, two additions T w. Going
back: the products twice as many, attention 2.5 times, the norms 9 T w each, GELU 11 for each, one addition T w.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from brrr.core.measurement import Estimate, Measurement, Point, Value
from brrr.counting.cost import Cost
from brrr.diagnosis.diagnosing import diagnose
from brrr.diagnosis.report import Diagnosis
from brrr.running.graphs import capture
from brrr.timing import measure
from brrr_course.experiments.checked import must_fit, relative
from brrr_course.experiments.lazily import nn, torch
from brrr_course.nouns.experiment import Axis, Experiment, Rate, Variant, Workload

LIMITS = ("compute", "memory", "under-filled")
"""What limits the device's work, in the order in which the lines add up; overhead comes last."""


def limit_variants(shown: bool = True) -> tuple[Variant, ...]:
    """A line for each limit: the seconds of a step's kernels up to it. The variants' names are those of the recordings.

    >>> [each.name for each in limit_variants()]
    ['to-compute', 'to-memory', 'to-latency']
    """
    return tuple(
        Variant(name, limit, timer="own", field="busy_s", implementation=limit, line=limit, shown=shown, needs="CUDA")
        for limit, name in zip(LIMITS, ("to-compute", "to-memory", "to-latency"), strict=True)
    )


LENGTH, HEAD = 512, 64
"""Tokens of a sequence, and the width of a head."""
FORWARD, TRAINING, GRAPH = "forward", "training", "as a graph"
STEPS = (FORWARD, f"{FORWARD}, {GRAPH}", TRAINING, f"{TRAINING}, {GRAPH}")
WIDTHS, BATCHES = (256, 512, 1024, 2048, 4096), (1, 2, 4, 8, 16, 32, 64)
CLASSES = ("products", "attention", "norms", "pointwise", "other")
AS_BERT: dict[str, Value] = {"step": TRAINING, "width": 1024, "batch": 16}
"""The width of the source's model."""


def flop(name: str, point: Point) -> float:
    """FLOP of a class of operators in one step.

    >>> flop("norms", {"step": "training", "width": 1024, "batch": 1}) / 512 / 1024
    32.0
    """
    width, tokens = int(point["width"]), LENGTH * int(point["batch"])
    numbers, training = float(tokens * width), str(point["step"]).startswith(TRAINING)
    forth, back = {
        "products": (24.0 * width + 9.0, 48.0 * width), "attention": (4.0 * LENGTH, 10.0 * LENGTH),
        "norms": (14.0, 18.0), "pointwise": (22.0, 45.0), "other": (0.0, 9.0),
    }[name]  # fmt: skip
    return numbers * (forth + training * back)


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP of a class, or of all; bytes of the weights and of the tokens, once. Of a part only a diagnosis tells."""
    if variant.implementation in LIMITS:
        return Cost(0.0, 0.0)
    width, numbers = int(point["width"]), LENGTH * int(point["batch"]) * int(point["width"])
    counted = [variant.implementation] if variant.implementation in CLASSES else CLASSES
    return Cost(sum(flop(name, point) for name in counted), 2.0 * (12 * width**2 + 2 * numbers))


def supports(variant: Variant, point: Point) -> bool:
    """Classes of operators are seen in steps that the host issues one by one."""
    return variant.implementation not in CLASSES or GRAPH not in str(point["step"])


EXPERIMENT = Experiment(
    title="A transformer block's regimes",
    question="Which share of a step is overhead, memory, compute and under-filled?",
    axes=(
        Axis("step", STEPS, label="step", scale="category", quick=(FORWARD,)),
        Axis("width", WIDTHS, label="width", quick=(256, 1024)),
        Axis("batch", BATCHES, label=f"sequences of {LENGTH} tokens", quick=(1, 8)),
    ),
    variants=(
        *limit_variants(),
        Variant("step", "the whole step", timer="own", field="period_s"),
        *(Variant(name, name.replace("products", "matmuls"), timer="own", shown=False) for name in CLASSES),
    ),
    field="busy_s",
    package=__name__,
    needs="CUDA",
    anchors=(AS_BERT,),
    rate=Rate("flop", "FLOP/s", "throughput"),
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `block` experiment measures: a step of a transformer block in bfloat16, taken apart by `brrr.diagnose`.

TOLERANCE = 5e-2
CLASS_OF = {"matmul": "products", "attention": "attention", "norm": "norms", "pointwise": "pointwise"}
BUDGET_S = 0.1


def transformer_block(width: int) -> nn.Module:
    """A fresh one."""

    class Block(nn.Module):
        """Attention and a network of two layers, a norm before each, their results added to what came in."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """Tokens to tokens: (batch, length, width)."""
            batch, length, width = x.shape
            heads = self.qkv(self.norms[0](x)).view(batch, length, 3, width // HEAD, HEAD).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(batch, length, width)
            x = x + self.out(seen)
            return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))  # type: ignore[no-any-return]

    return Block(width)


@dataclass(frozen=True)
class Taken:
    """A step taken apart: seconds, FLOP and bytes by limit and by class of operators, the result's error."""

    step_s: float
    limits: Mapping[str, float]
    classes: Mapping[str, float]
    costs: Mapping[str, Cost]
    error: float
    steps: int


def workload(variant: Variant, point: Point) -> Workload:
    """The time of a part, a class, or of the whole step; all of a point come from one diagnosis."""
    width, batch, step = int(point["width"]), int(point["batch"]), str(point["step"])
    must_fit(2 * 100 * LENGTH * batch * width, variant.processor, f"a block of width {width}, batch {batch}")
    found = taken(width, batch, step, variant.processor)
    return Workload(lambda: None, lambda _: found.error, TOLERANCE, _cost(variant.implementation, found),
                    others={"measured": lambda: _read(variant, found)})  # fmt: skip


def _read(variant: Variant, found: Taken) -> Measurement:
    way = variant.implementation
    if way == "step":
        return Measurement(period_s=Estimate.of([found.step_s]), device=variant.device)
    busy = Estimate.of([found.classes[way]]) if way in CLASSES else added_up(way, found.limits, found.step_s)
    return Measurement(busy_s=busy, device=variant.device)


def _cost(way: str, found: Taken) -> Cost:
    """FLOP and bytes of a part, a class, or of the whole step."""
    counted = up_to(way) or ([way] if way in CLASSES else CLASSES)
    return Cost(*(sum(getattr(found.costs[name], each) for name in counted) for each in ("flop", "bytes")))


def up_to(way: str) -> Sequence[str]:
    """The limits that a part's line adds up; none for what is no part.

    >>> up_to("memory"), up_to("step")
    (('compute', 'memory'), ())
    """
    return LIMITS[: LIMITS.index(way) + 1] if way in LIMITS else ()


def limits_of(found: Diagnosis) -> dict[str, float]:
    """Seconds of a step's kernels by limit; what nothing is known of counts as under-filled."""
    limits = {name: found.parts.get(name, 0.0) for name in LIMITS}
    limits["under-filled"] += found.parts.get("unknown", 0.0)
    return limits


def added_up(way: str, limits: Mapping[str, float], step_s: float) -> Estimate:
    """The seconds up to a limit, at most the step's; one diagnosis tells no interval and counts as a single call."""
    return Estimate.of([min(step_s, sum(limits[name] for name in up_to(way)))])


def step_of(block: nn.Module, x: torch.Tensor, training: bool) -> Callable[[], Any]:
    """The step: forward, or forward and the gradients of all parameters."""
    if not training:
        block.requires_grad_(False)
        return lambda: block(x)
    parameters, gradient = list(block.parameters()), torch.randn_like(x)

    def step() -> Any:
        y = block(x)
        torch.autograd.grad(y, parameters, gradient)
        return y.detach()

    return step


@lru_cache(maxsize=2)
def taken(width: int, batch: int, step: str, device: Any) -> Taken:
    """A step taken apart; as a CUDA Graph its kernels take as long, and what they do not fill of it is overhead."""
    torch.manual_seed(0)
    block = transformer_block(width).to(device, torch.bfloat16)
    x = torch.randn(batch, LENGTH, width, device=device, dtype=torch.bfloat16)
    run = step_of(block, x, step.startswith(TRAINING))
    error = _error(block, x, run())
    found = diagnose(run, device=device, budget_s=BUDGET_S)
    step_s = found.step_s
    if GRAPH in step:
        period = measure(capture(run).replay, device=device, budget_s=BUDGET_S).period_s
        assert period is not None
        step_s = period.median
    return Taken(step_s, limits_of(found), *_by_class(found), error, found.steps)


def _by_class(found: Diagnosis) -> tuple[dict[str, float], dict[str, Cost]]:
    """Seconds of each class; cost of each class, and of each limit, to which an operator counts by most of its time."""
    seconds, costs = dict.fromkeys(CLASSES, 0.0), dict.fromkeys((*CLASSES, *LIMITS), Cost(0.0, 0.0))
    for line in found.operators:
        name = CLASS_OF.get(line.kind, "other")
        seconds[name] += line.time_s / found.steps
        for each in (name, line.limit if line.limit in LIMITS else "under-filled"):
            so_far = costs[each]
            costs[each] = Cost(so_far.flop + line.flop / found.steps, so_far.bytes + line.nbytes / found.steps)
    return seconds, costs


def _error(block: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """The first sequence against float64."""
    exact = transformer_block(x.shape[-1]).to(x.device, torch.float64)
    exact.load_state_dict(block.state_dict())
    with torch.no_grad():
        return relative(y[:1], exact(x[:1].double()), torch.bfloat16)
