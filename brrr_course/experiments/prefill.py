"""A language model reads: all tokens of a prompt at once, and only the last one's logits are asked for.

The same weights serve every token. With few they are what is read; with many the matmuls set the pace, and at last
attention, whose work grows with the square.
"""

from __future__ import annotations

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr_course.experiments.decode import Call, cost_of, floors, shape_of, workload_of
from brrr_course.experiments.predicted import How
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Variant, Workload

TOKENS = tuple(2**power for power in range(15))


def call_at(point: Point) -> Call:
    """The prompt at a point."""
    return Call(1, int(point["tokens"]), int(point["tokens"]))


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of the whole prompt."""
    return cost_of(shape_of(variant), call_at(point))


def predicted(variant: Variant, point: Point) -> PredictedRun:
    """The operators one by one."""
    how: How = "graph" if variant.implementation == "graph" else "eager"
    return PredictedRun(cost(variant, point), how, shape_of(variant).dtype)


EXPERIMENT = Experiment(
    title="A language model, a whole prompt",
    question="What does a prompt cost, by its length?",
    axes=(Axis("tokens", TOKENS, label="tokens of the prompt", quick=(1, 16, 128), most={"cpu": 1024}),),
    variants=(
        Variant("eager", "eager"),
        Variant("graph", "CUDA Graph"),
        Variant.twin("eager", "cpu", "CPU, a small model"),
    ),
    package=__name__,
    resident=True,
    anchors=({"tokens": 128}, {"tokens": 2048}),
    rate=Rate("flop", "FLOP/s", "throughput"),
    other_rates=(Rate("bytes", "B/s", "bandwidth"),),
    guides=floors(call_at, ("eager", "graph")),
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `prefill` experiment runs: the model of `decode` on all tokens of a prompt.


def workload(variant: Variant, point: Point) -> Workload:
    """The prompt from its first token on."""
    return workload_of(variant, call_at(point))
