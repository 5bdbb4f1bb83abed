"""A language model writes: one more token for each reader, from a decoder of a Llama's shape with a cache of its past.

The cache is as long as the context: the token that a step adds is its last. One step reads all weights once, whoever
they serve, and each reader's own keys and values. A CUDA Graph holds one place of the text; programs that serve a model
keep the place in the GPU's memory, and the kernels' work is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Estimate, Measurement, Point
from brrr.counting.cost import Cost, Form, Matmul, OperatorCost
from brrr.diagnosis.diagnosing import diagnose
from brrr.gpu import is_cpu
from brrr.gpu.datasheet import Hardware
from brrr.gpu.precision import float32_products
from brrr.running.graphs import capture
from brrr_course.experiments.block import LIMITS, added_up, limit_variants, limits_of
from brrr_course.experiments.checked import PointInputs, compile_now, compiled, must_fit, relative
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.llama_sizes import LARGE, SMALL, Shape
from brrr_course.experiments.predicted import How, flop_of, moving, pointwise, product, reduction
from brrr_course.experiments.utilisation import loop
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Run, Variant, Workload

if TYPE_CHECKING:
    from brrr_course.experiments.llama import Llama

# ---------------------------------------------------------------------------------------------------------------------
# What is counted of a decoder of a Llama's shape: weights, keys and values, FLOP, bytes, and the floors they set.

PYTHON_LINES, LAYER_LINES = 57, 298
"""Lines of Python that a call runs, and that each layer adds, as `brrr.cost` counts them."""


class Call(NamedTuple):
    """So many sequences with so many new tokens each, behind which the cache holds `context` tokens of each.

    >>> print(Call(32, 1, 2048))
    a step for 32 readers with 2048 tokens in the cache of each
    """

    batch: int
    new: int
    context: int

    def __str__(self) -> str:
        if self.new > 1:
            return f"a prompt of {self.new} tokens"
        return f"a step for {self.batch} readers with {self.context} tokens in the cache of each"


def moved_bytes(shape: Shape, call: Call) -> tuple[float, float]:
    """What must be read (the weights, keys and values) and written (the new tokens' keys and values, the logits)."""
    read = shape.itemsize * shape.weights + call.batch * call.context * shape.kv_bytes
    return float(read), float(call.batch * (call.new * shape.kv_bytes + shape.itemsize * shape.words))


def needed_bytes(shape: Shape, call: Call) -> int:
    """The weights, the cache, and what a step holds beside them.

    >>> f"{needed_bytes(LARGE, Call(256, 1, 2**15)) / 1e9:.0f} GB"
    '278 GB'
    """
    rows = call.batch * call.new
    beside = 4 * rows * (6 * shape.hidden + 3 * shape.inner) + 3 * 4 * call.batch * shape.words
    return shape.itemsize * shape.weights + call.batch * call.context * shape.kv_bytes + beside


def cost_of(shape: Shape, call: Call) -> Cost:
    """FLOP and bytes of a call, with its operators as torch runs them one by one."""
    listed, moved = operators(shape, call), sum(moved_bytes(shape, call))
    eager, held = sum(each.bytes for each in listed), float(needed_bytes(shape, call))
    return Cost(flop_of(listed), moved, eager, held, listed, lines=PYTHON_LINES + LAYER_LINES * shape.layers)


def operators(shape: Shape, call: Call) -> tuple[OperatorCost, ...]:
    """All operators that run on the device, in their order."""
    size, rows, words, width = shape.itemsize, call.batch * call.new, shape.words, shape.hidden
    lookup = OperatorCost("aten.index", 0.0, float(8 * rows + size * rows * width), float(size * rows * width),
                          shape.dtype, ((words, width), (call.batch, call.new)), "index",
                          form=Form("rows", rows, width, words))  # fmt: skip
    last = (*_norm(shape, call.batch), _linear(shape, call.batch, words, width))
    return (lookup, *_layer(shape, call) * shape.layers, *last)


def _layer(shape: Shape, call: Call) -> tuple[OperatorCost, ...]:
    rows, width, inner, name = call.batch * call.new, shape.hidden, shape.inner, shape.dtype
    added = pointwise("add", rows * width, shape.itemsize, name, reads=2 * rows * width)
    stored = moving("copy_", rows * shape.kv, shape.itemsize, name)
    return (
        *_norm(shape, rows),
        *(_linear(shape, rows, n, width) for n in (width, shape.kv, shape.kv)),
        *_rotated(shape, call, rows * shape.kv), stored, stored,
        *_rotated(shape, call, rows * width), _attention(shape, call),
        _linear(shape, rows, width, width), added,
        *_norm(shape, rows), _linear(shape, rows, inner, width),
        pointwise("silu", rows * inner, shape.itemsize, name, flop=4.0), _linear(shape, rows, inner, width),
        pointwise("mul", rows * inner, shape.itemsize, name, reads=2 * rows * inner),
        _linear(shape, rows, width, inner), added,
    )  # fmt: skip


def _linear(shape: Shape, rows: int, into: int, of: int) -> OperatorCost:
    return product("mm", rows, into, of, shape.itemsize, shape.dtype, transposed=(False, True))


def _norm(shape: Shape, rows: int) -> tuple[OperatorCost, ...]:
    """In float32; where the numbers have another type, a cast before and one behind."""
    width, size, name = shape.hidden, shape.itemsize, shape.dtype
    n, form = rows * width, Form("broadcast", rows, width)
    casts = [OperatorCost("aten._to_copy", 0.0, float(a * n), float(b * n), to, ((rows, width),), "copy",
                          form=Form("", 1, n)) for a, b, to in ((size, 4, "float32"), (4, size, name))]  # fmt: skip
    wide, narrow = ([casts[0]], [casts[1]]) if size != 4 else ([], [])
    return (
        *wide, pointwise("pow", n, 4), reduction("mean", Form("rows", rows, width), 4, flop=n),
        pointwise("add", rows, 4), pointwise("rsqrt", rows, 4),
        pointwise("mul", n, 4, reads=n + rows, form=form), *narrow,
        pointwise("mul", n, size, name, reads=n + width, form=form),
    )  # fmt: skip


def _rotated(shape: Shape, call: Call, n: int) -> tuple[OperatorCost, ...]:
    size, name, lines = shape.itemsize, shape.dtype, n // shape.head
    angles = call.new * shape.head
    turned = pointwise("mul", n, size, name, reads=n + angles, form=Form("broadcast", lines, shape.head))
    return (
        turned, pointwise("neg", n / 2, size, name, form=Form("broadcast", lines, shape.head // 2)),
        moving("cat", n, size, name), turned, pointwise("add", n, size, name, reads=2 * n),
    )  # fmt: skip


def _attention(shape: Shape, call: Call) -> OperatorCost:
    """All queries with all keys, as `brrr.cost` counts it: in a prefill half of these are masked."""
    many, count, keys, head = call.batch * shape.heads, call.new, call.context, shape.head
    made = (Matmul(count, keys, head, many, shape.dtype), Matmul(count, head, keys, many, shape.dtype))
    queries = float(shape.itemsize * many * count * head)
    read = queries + 2.0 * shape.itemsize * call.batch * keys * shape.kv
    heads = [(call.batch, each, n, head) for each, n in ((shape.heads, count), (shape.kv_heads, keys))]
    form = Form("causal" if count > 1 else "all", many * count, head)
    return OperatorCost("aten._scaled_dot_product_flash_attention", sum(each.flop for each in made), read, queries,
                        shape.dtype, (heads[0], heads[1], heads[1]), "attention", made, form)  # fmt: skip


def least_flop(shape: Shape, call: Call) -> float:
    """The matmuls' FLOP, and attention's without what the mask hides."""
    matmuls = [each for one in operators(shape, call) if one.kind == "matmul" for each in one.matmuls]
    seen = call.context if call.new == 1 else (call.new + 1) / 2
    return sum(each.flop for each in matmuls) + 4.0 * shape.layers * call.batch * call.new * seen * shape.hidden


def floors(call_at: Callable[[Point], Call], lines: tuple[str, ...]) -> tuple[Guide, Guide]:
    """What the datasheet's bandwidth and its peak leave of the time at a point."""
    return (
        Guide("bytes", "bytes over the bandwidth", "DATASHEET", "time",
              lambda hardware, point: bytes_floor_s(hardware, call_at(point)), lines),
        Guide("flop", "FLOP over the peak", "DATASHEET", "time",
              lambda hardware, point: flop_floor_s(hardware, call_at(point)), lines),
    )  # fmt: skip


def bytes_floor_s(hardware: Hardware | None, call: Call) -> float | None:
    """The bytes over the memory's bandwidth, of the model that runs on GPUs; None where there is no datasheet."""
    return sum(moved_bytes(LARGE, call)) / hardware.memory_bytes_per_s if hardware else None


def flop_floor_s(hardware: Hardware | None, call: Call) -> float | None:
    """The FLOP over the tensor cores' peak; None where the datasheet has none."""
    known = hardware is not None and any(name == "bf16" for name, _ in hardware.peaks)
    return least_flop(LARGE, call) / hardware.peak("bf16") if hardware and known else None


BATCHES, CONTEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256), (128, 512, 2048, 8192, 32768)
COMPILED = ((1, 128), (1, 2048), (1, 32768), (32, 2048), (256, 128), (256, 2048))
"""Batch and context where the step is compiled, half a minute each, and taken apart."""
COMPILE_S = 25.0
COMPILE_WAYS = ("compile", "compile-graph")
HOW: dict[str, How] = {"eager": "eager", "graph": "graph", "compile": "compiled"}
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
        return (batch, context) in COMPILED if variant.implementation in LIMITS else point == ASKED
    if variant.on_gpu:
        return variant.implementation not in COMPILE_WAYS or (batch, context) in COMPILED
    return batch <= CPU_BATCH and batch * context <= CPU_TOKENS


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a step for all readers. Of a part only a diagnosis tells."""
    return Cost(0.0, 0.0) if variant.implementation in LIMITS else cost_of(shape_of(variant), call_at(point))


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The operators one by one; nothing of a compiled step in a graph, for which `predict` has no word."""
    how = HOW.get(variant.implementation)
    return PredictedRun(cost(variant, point), how, shape_of(variant).dtype) if how else None


EXPERIMENT = Experiment(
    title="A language model, token by token",
    question="Why does one token take so long?",
    axes=(
        Axis("batch", BATCHES, label="batch (readers)", quick=(1, 4)),
        Axis("context", CONTEXTS, label="context (tokens in the cache)", quick=(128, 512)),
    ),
    variants=(
        Variant("eager", "eager", prepare_s=0.5),
        Variant("graph", "CUDA Graph", prepare_s=0.5),
        Variant("compile", "torch.compile", prepare_s=COMPILE_S),
        Variant("compile-graph", "torch.compile, CUDA Graph", prepare_s=0.5),
        *limit_variants(shown=False),
        Variant("driver-graph", "graph: utilisation, as nvidia-smi reports it", timer="own", field="busy_s",
                implementation="graph", shown=False),
        Variant.twin("eager", "cpu", "CPU, a small model"),
    ),
    package=__name__, resident=True,
    anchors=({"batch": 1, "context": 2048}, {"batch": 32, "context": 2048}),
    rate=Rate("bytes", "B/s", "bandwidth"),
    other_rates=(Rate("flop", "FLOP/s", "throughput"), Rate("batch", "token/s", "tokens a second, all readers")),
    guides=floors(call_at, ("eager", "graph", "compile", "compile graph")),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `decode` experiment runs: one step of the model, in each way, on caches full of random keys and values.

TOLERANCE = {"float32": 1e-4, "bfloat16": 0.1}
"""Sixteen layers round their numbers to bfloat16 at every operator: 3 %. A wrong token gives 140 %."""

KEYS = 2.5
"""Keys so long that a query sees few of them: among thousands alike, one that is missed would not show."""


@lru_cache(maxsize=2)
def model_of(shape: Shape, device: str) -> Llama:
    """The model, made once for all points: a recording on a GPU measures the CPU's too."""
    from brrr_course.experiments.llama import Llama

    return Llama(shape, getattr(torch, shape.dtype), device, places=CONTEXTS[-1])


class CallInputs(PointInputs):
    """What the ways of a point share: model, tokens, a full cache, the logits to compare with, the compiled call."""

    def __init__(self, shape: Shape, call: Call, device: str) -> None:
        from brrr_course.experiments.llama import new_cache

        self.model, self.call = model_of(shape, device), call
        beside = needed_bytes(shape, call) - shape.itemsize * shape.weights
        must_fit(beside, device, f"beside the model's weights, {call}")
        torch.manual_seed(call.batch)
        self.tokens = torch.randint(shape.words, (call.batch, call.new), device=device)
        self.cache = new_cache(shape, call.batch, call.context, self.model.embedding)
        for keys, values in self.cache:
            keys.normal_(0.0, KEYS)
            values.normal_()

    def run(self) -> torch.Tensor:
        """The call, operator by operator."""
        found: torch.Tensor = self.model(self.tokens, self.cache, self.call.context - self.call.new)
        return found

    @cached_property
    def compiled(self) -> Run:
        """The call under torch.compile, which takes it whole."""
        made: Run = compiled(lambda: self.run(), fullgraph=True)  # its code is copied, a method's is not
        compile_now(made)
        return made

    @cached_property
    def limits(self) -> tuple[dict[str, float], float]:
        """The seconds of the step's kernels by limit, and of the step, from one diagnosis."""
        found = diagnose(self.run, device=self.tokens.device.type, budget_s=0.1)
        return limits_of(found), found.step_s

    @cached_property
    def expected(self) -> torch.Tensor:
        """The logits to compare with."""
        small = self.model.shape.dtype == "float32" or (self.call.batch == 1 and self.call.context <= CONTEXTS[0])
        return (self.wider() if small else self.run()).double()

    def error(self, found: Any) -> float:
        """||found - expected|| / ||expected||, of the logits."""
        return relative(found, self.expected, self.model.embedding.dtype)

    def wider(self) -> torch.Tensor:
        """The logits of the same weights in twice the bits: of a copy of the model, which goes at once."""
        from brrr_course.experiments.llama import Llama

        shape, device = self.model.shape, self.tokens.device.type
        dtype = torch.float64 if shape.dtype == "float32" else torch.float32
        wide = Llama(shape, dtype, device, places=self.call.context)
        wide.load_state_dict(self.model.state_dict())
        cache = [(keys.to(dtype), values.to(dtype)) for keys, values in self.cache]
        with float32_products():
            found: torch.Tensor = wide(self.tokens, cache, self.call.context - self.call.new)
        return found


def workload(variant: Variant, point: Point) -> Workload:
    """One step for all readers."""
    return workload_of(variant, call_at(point))


def workload_of(variant: Variant, call: Call) -> Workload:
    """A call of the model in a way: `decode` and `prefill` have theirs from here."""
    shape, device = shape_of(variant), variant.processor
    given = CallInputs.of(shape, call, device)
    run, close = way_of(variant.implementation, given, device)
    told = {"measured": lambda: own(variant, given, run)} if variant.timer == "own" else {}
    return Workload(run, given.error, TOLERANCE[shape.dtype], cost_of(shape, call), close=close, others=told)


def own(variant: Variant, given: CallInputs, run: Run) -> Measurement:
    """The kernels' seconds up to a limit, or what the driver reports of each second while the step runs in a loop."""
    if variant.implementation in LIMITS:
        return Measurement(busy_s=added_up(variant.implementation, *given.limits), device=variant.device)
    _, told = loop(run)
    if not told:
        raise UnavailableError("decode: the driver tells no utilisation here")
    return Measurement(busy_s=Estimate.of(told, 0.01), device=variant.device)  # it tells whole percents


def way_of(way: str, given: CallInputs, device: str) -> tuple[Run, Callable[[], None]]:
    """The call in a way, warm, and what frees what it holds beside its inputs."""
    run = given.compiled if way in COMPILE_WAYS else given.run
    if is_cpu(device) or way in ("eager", "compile", *LIMITS):
        run()
        return run, lambda: None
    held = capture(run)

    def release() -> None:
        torch.cuda.synchronize()
        held.graph.reset()
        held.output = None

    return held.replay, release
