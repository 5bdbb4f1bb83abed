"""A language model writes: one more token for each reader, from a decoder of a Llama's shape with a cache of its past.

The cache is as long as the context: the token that a step adds is its last. One step reads all weights once, whoever
they serve, and each reader's own keys and values. A CUDA Graph holds one place of the text; programs that serve a model
keep the place in the GPU's memory, and the kernels' work is the same.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr_course.experiments.decode.theory import LARGE, SMALL, Call, Shape, cost_of, floors
from brrr_course.experiments.limits import LIMITS, limit_variants
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Variant

BATCHES, CONTEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256), (128, 512, 2048, 8192, 32768)
COMPILED = ((1, 128), (1, 2048), (1, 32768), (32, 2048), (256, 128), (256, 2048))
"""Batch and context where the step is compiled, half a minute each, and taken apart."""
COMPILE_S = 25.0
COMPILE_WAYS = ("compile", "compile-graph")
ASKED: Point = {"batch": 1, "context": 2048}
"""Where the driver is asked for its utilisation."""
CPU_TOKENS, CPU_BATCH = 2**16, 32
"""The CPU stops at so many tokens in all caches, and at so many readers."""


def call_at(point: Point) -> Call:
    """The step at a point: a token for each reader, the last one of the context."""
    return Call(int(point["batch"]), 1, int(point["context"]))


def shape_of(variant: Variant) -> Shape:
    """The model: 1.24 billion weights on a GPU, 5.2 million on a CPU."""
    return LARGE if variant.on_gpu else SMALL


def supports(variant: Variant, point: Point) -> bool:
    """Compiled ways and the limits at six points, the driver asked at one, a CPU where the caches are small."""
    batch, _, context = call_at(point)
    if variant.timer == "own":
        return (batch, context) in COMPILED if variant.way in LIMITS else point == ASKED
    if not variant.on_gpu:
        return batch <= CPU_BATCH and batch * context <= CPU_TOKENS
    return variant.way not in COMPILE_WAYS or (batch, context) in COMPILED


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a step for all readers. Of a part only a diagnosis tells."""
    if variant.way in LIMITS:
        return Cost(0.0, 0.0)
    return cost_of(shape_of(variant), call_at(point))


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The operators one by one; nothing of a compiled step in a graph, for which `predict` has no word."""
    if variant.way == "compile-graph" or variant.way in LIMITS:
        return None
    how = {"graph": "graph", "compile": "compiled"}.get(variant.way, "eager")
    return PredictedRun(cost(variant, point), how, shape_of(variant).dtype)  # type: ignore[arg-type]


GPU_WAYS = ("eager", "graph", "compile", "compile-graph")
LINES = tuple(way.replace("-", " ") for way in GPU_WAYS)

EXPERIMENT = Experiment(
    title="A language model, token by token",
    question="Why does one token take so long?",
    axes=(
        Axis("batch", BATCHES, label="batch (readers)", quick=(1, 4)),
        Axis("context", CONTEXTS, label="context (tokens in the cache)", quick=(128, 512)),
    ),
    variants=(
        Variant("eager", "eager", "cuda", prepare_s=0.5),
        Variant("graph", "CUDA Graph", "cuda", prepare_s=0.5),
        Variant("compile", "torch.compile", "cuda", prepare_s=COMPILE_S),
        Variant("compile-graph", "torch.compile, CUDA Graph", "cuda", prepare_s=0.5),
        *limit_variants(shown=False),
        Variant("driver-graph", "graph: utilisation, as nvidia-smi reports it", "cuda", timer="own", field="busy_s",
                way="graph", shown=False),
        Variant("cpu-eager", "CPU, a small model", "cpu", way="eager", stands_in_for="eager"),
    ),
    field="period_s",
    package=__name__,
    resident=True,
    anchors=({"batch": 1, "context": 2048}, {"batch": 32, "context": 2048}),
    rate=Rate("bytes", "B/s", "bandwidth"),
    other_rates=(Rate("flop", "FLOP/s", "throughput"), Rate("batch", "token/s", "tokens a second, all readers")),
    guides=floors(call_at, LINES),
)  # fmt: skip
