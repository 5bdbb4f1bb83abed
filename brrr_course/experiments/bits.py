"""One Linear layer in types of fewer bits: the whole product, or its weights alone.

With few tokens the weights' bytes set the pace: half the bits, half the time. With many the arithmetic does: fewer bits
pay there only where the tensor cores multiply them as they are. Weights alone in int8 or int4 are widened to bfloat16
in each call, and activations of an fp8 product must first be scaled and cast: converting is work.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_cpu, is_gpu
from brrr.gpu.datasheet import Hardware
from brrr.gpu.precision import float32_products
from brrr_course.experiments.checked import PointInputs, compile_now, compiled, must_fit, relative
from brrr_course.experiments.lazily import torch
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Run, Variant, Workload

TOKENS = tuple(2**power for power in range(15))
WIDTHS = (1024, 4096, 8192)
WIDEST, MIDDLE, FEW = 8192, 4096, (1, 16, 256, 4096, 16384)
"""At the widest every power of two of tokens is measured, at others every power of four; a compiler runs at few."""

ORDINARY, OUTLIERS = INPUTS = ("ordinary", "outlier channels")
OUTLIER_TOKENS = (256, 4096)
GROUP = 128
"""So many int4 weights share a scale and a zero, of two bytes each."""

COMPILED, COMPILE_S = ("fp8-rows-compiled", "int8-fused"), 4.0
MOST_OUTPUTS, MOST_ON_CPU = 2**34, 2**30
"""The most multiply-adds that torch's int8 kernel (a thread for each result) is asked for, and a CPU."""


class Stored(NamedTuple):
    """Bytes that move for each weight, for each number of an activation, and for each of a result; the peak's type."""

    weight: float
    activation: float
    result: float
    peak: str


BF16 = Stored(2, 2, 2, "bf16")
FP8 = Stored(1, 1, 2, "fp8")
PRECISIONS = {
    "float32": Stored(4, 4, 4, "fp32"), "tf32": Stored(4, 4, 4, "tf32"), "bf16": BF16,
    "fp8": FP8, "fp8-rows": FP8,
    "fp8-cast": FP8._replace(activation=2 + 4 + 3 + 1),  # the largest, the scaling, the cast, the product
    "fp8-rows-cast": FP8._replace(activation=2 + 6 + 5 + 1),  # scaled in float32
    "fp8-rows-compiled": FP8._replace(activation=2 + 1 + 1),
    "int8": BF16._replace(weight=1), "int8-fused": BF16._replace(weight=1),
    "int8-widened": BF16._replace(weight=1 + 2 + 2),
    "int8-both": Stored(1, 1, 4 + 4 + 2, "int8"),
    "int4": BF16._replace(weight=0.5 + 4 / GROUP),
}  # fmt: skip
"""What each way stores, and what its conversions move beside."""

CPU_WAYS = ("float32", "bf16", "fp8", "int8", "int8-widened", "int4")


def sizes(point: Point) -> tuple[int, int]:
    """Tokens, and the layer's width."""
    return int(point["tokens"]), int(point["width"])


def supports(variant: Variant, point: Point) -> bool:
    """All tokens at the largest width, every second power at others; some ways at a few points."""
    (tokens, width), ordinary = sizes(point), point["inputs"] == ORDINARY
    products, sparse = tokens * width * width, tokens in TOKENS[::2]
    if not ordinary and (width != MIDDLE or tokens not in OUTLIER_TOKENS):
        return False
    if not variant.on_gpu:
        return products <= MOST_ON_CPU and sparse
    few = {
        "int8-fused": tokens == 1, "fp8-rows-compiled": tokens in FEW and width == MIDDLE and ordinary,
        "int8-both": tokens > 16,  # torch's int8 product takes 17 rows and more
        "int8": products <= MOST_OUTPUTS,
    }  # fmt: skip
    return few.get(variant.implementation, True) and (width == WIDEST or sparse)


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP of the product, and the bytes of what is stored and converted.

    >>> at = {"tokens": 1, "width": 8192, "inputs": "ordinary"}
    >>> [round(cost(EXPERIMENT.variant(way), at).bytes / 1e6) for way in ("float32", "bf16", "fp8", "int4")]
    [269, 134, 67, 36]
    """
    tokens, width = sizes(point)
    stored = PRECISIONS[variant.implementation]
    ends = tokens * width * (stored.activation + stored.result)
    return Cost(2.0 * tokens * width * width, width * width * stored.weight + ends)


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The roofline of its bytes and FLOP; nothing of kernels that are far from it, nor of a conversion."""
    dtype = {"float32": "float32", "bf16": "bfloat16"}.get(variant.implementation)
    return PredictedRun(cost(variant, point), dtype=dtype) if dtype else None


def _roof(way: str) -> Guide:
    def at(hardware: Hardware | None, point: Point) -> float | None:
        made, peak = cost(EXPERIMENT.variant(way), point), PRECISIONS[way].peak
        if hardware is None or peak not in {name for name, _ in hardware.peaks}:
            return None
        return max(made.bytes / hardware.memory_bytes_per_s, made.flop / hardware.peak(peak))

    return Guide(way, f"{way}: the roofline", "DATASHEET", "time", at, (way,))


LABELS = {
    "float32": "float32", "tf32": "TF32", "bf16": "bf16", "fp8": "fp8",
    "fp8-cast": "fp8, with the cast",
    "fp8-rows": "fp8 by rows", "fp8-rows-cast": "fp8 by rows, with the cast",
    "fp8-rows-compiled": "fp8 by rows, with the cast compiled", "int8": "int8 weights",
    "int8-fused": "int8 weights, compiled", "int8-widened": "int8 weights, widened first",
    "int8-both": "int8 weights and activations", "int4": "int4 weights",
}  # fmt: skip
SHOWN = ("float32", "tf32", "bf16", "fp8", "fp8-cast", "int4")

EXPERIMENT = Experiment(
    title="A Linear layer in fewer bits",
    question="When do fewer bits help?",
    axes=(
        Axis("tokens", TOKENS, label="tokens", quick=(1, 16)),
        Axis("width", WIDTHS, label="width", quick=(1024,)),
        Axis("inputs", INPUTS, label="inputs", scale="category", quick=(ORDINARY,)),
    ),
    variants=(
        *(Variant(way, label, prepare_s=COMPILE_S * (way in COMPILED), shown=way in SHOWN)
          for way, label in LABELS.items()),
        *(Variant.twin(way, "cpu", f"CPU, {LABELS[way]}", shown=way in SHOWN) for way in CPU_WAYS),
    ),
    package=__name__, needs="CUDA",
    resident=True,
    anchors=tuple({"tokens": n, "width": WIDEST, "inputs": ORDINARY} for n in (1, 16384)),
    rate=Rate("flop", "FLOP/s", "throughput"),
    other_rates=(Rate("bytes", "B/s", "bandwidth"),),
    guides=(_roof("bf16"), _roof("fp8"), _roof("int4")),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `bits` experiment runs: x W^T with what a way stores of x and W, torch's kernels.

TOLERANCE = {"float32": 1e-5, "tf32": 1e-3, "bf16": 6e-3, "int4": 0.2, "int8-both": 0.4}
"""What rounding to a type may do; fp8's is FLOAT8, that of int8 weights INT8: a wrong scale or order gives 100 %."""
FLOAT8, INT8 = 0.06, 0.02

LARGEST = 448.0
"""The largest number of e4m3."""
FACTOR, EVERY = 60.0, 512
"""Outliers: every 512th channel is so many times as large, as in large language models."""
ROTATED_BYTES = 2**28
"""Each call takes the weights of another layer, so many in turn that none is found in the L2 cache."""
ROWS = 48
CAPABLE = {"fp8": (8, 9), "int4": (8, 0), "tf32": (8, 0), "bf16": (8, 0)}
"""The compute capability from which on a GPU has tensor cores of a type; torch would tell it in many lines."""

if TYPE_CHECKING:
    Tensor = torch.Tensor
    Weights = tuple[Tensor, ...]
    Product = Callable[[Tensor, Weights], Tensor]


def scaled(x: Tensor, rows: bool = False) -> tuple[Tensor, Tensor]:
    """Numbers in e4m3, and the scale of all or of each row, by which they are to be multiplied again.

    >>> scaled(torch.tensor([[1.0, -2.0]]))[0].float().tolist()
    [[224.0, -448.0]]
    """
    most = torch.linalg.vector_norm(x, math.inf, -1 if rows else None, keepdim=rows, dtype=torch.float32)
    return (x * (LARGEST / most)).to(torch.float8_e4m3fn), most / LARGEST


def whole(x: Tensor, dim: int | None = None) -> tuple[Tensor, Tensor]:
    """Numbers in int8, and the scale of all or along a dimension.

    >>> whole(torch.tensor([1.0, -2.0]))[0].tolist()
    [64, -127]
    """
    most = torch.linalg.vector_norm(x, math.inf, dim, keepdim=dim is not None)
    return (x * (127 / most)).round().to(torch.int8), most / 127


def fours(w: Tensor) -> tuple[Tensor, Tensor]:
    """Weights in 16 steps from the least to the largest of a group, and of each group the scale and the middle.

    >>> codes, ends = fours(torch.linspace(-1, 1, 128)[None])
    >>> codes[0, [0, -1]].tolist(), [round(float(each), 2) for each in ends[0, 0]]
    ([0, 15], [0.13, 0.07])
    """
    groups = w.unflatten(1, (-1, GROUP))
    least, most = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    step = (most - least) / 15
    codes = ((groups - least) / step).round().clamp_(0, 15).to(torch.int32).flatten(1)
    return codes, torch.cat((step, least + 8 * step), -1).transpose(0, 1).to(torch.bfloat16).contiguous()


def _four_bits(w: Tensor) -> Weights:
    codes, ends = fours(w)
    if is_cpu(w.device.type):
        return torch._convert_weight_to_int4pack_for_cpu(codes, 2), ends
    return torch._convert_weight_to_int4pack((codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8), 8), ends


def _int4(x: Tensor, w: Weights) -> Any:
    mm = torch.ops.aten._weight_int4pack_mm if x.is_cuda else torch.ops.aten._weight_int4pack_mm_for_cpu
    return mm(x, w[0], GROUP, w[1])


def _fp8(x: tuple[Tensor, Tensor], w: Weights) -> Tensor:
    (numbers, scale), (weights, other) = x, w
    fast = numbers.is_cuda
    return torch._scaled_mm(numbers, weights.t(), scale, other, out_dtype=torch.bfloat16, use_fast_accum=fast)


def _fp8_rows_cast(x: Tensor, w: Weights) -> Tensor:
    return _fp8(scaled(x, rows=True), w)


def _fp8_rows_weights(w: Tensor) -> Weights:
    numbers, scale = scaled(w, rows=True)
    return numbers, scale.t()


def _int8_weights(w: Tensor) -> Weights:
    numbers, scale = whole(w, 1)
    return numbers, scale.flatten().to(torch.bfloat16)


def _int8_one(x: Tensor, w: Weights) -> Tensor:
    """For one token: under a compiler the weights are widened where they are added up."""
    return ((w[0] * x).sum(-1, dtype=torch.float32) * w[1])[None].to(x.dtype)


def _int8_both(x: tuple[Tensor, Tensor], w: Weights) -> Tensor:
    (numbers, scale), (weights, other) = x, w
    added = torch._int_mm(numbers, weights.t())
    found = torch.empty(added.shape, dtype=torch.bfloat16, device=added.device)
    return torch.mul(added, scale * other.float(), out=found)


def _bf16(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16)


@dataclass
class Multiplication:
    """What a call does with both, and what a way makes of the weights beforehand, and of the activations."""

    call: Any
    weights: Callable[[Tensor], Weights]
    activations: Callable[[Tensor], Any] = _bf16


PLAIN = Multiplication(lambda x, w: x @ w[0].t(), lambda w: (w,), lambda x: x)
IMPLEMENTATIONS = {
    "float32": PLAIN, "tf32": PLAIN, "bf16": replace(PLAIN, weights=lambda w: (_bf16(w),), activations=_bf16),
    "fp8": Multiplication(_fp8, scaled, lambda x: scaled(_bf16(x))),
    "fp8-cast": Multiplication(lambda x, w: _fp8(scaled(x), w), scaled),
    "fp8-rows": Multiplication(_fp8, _fp8_rows_weights, lambda x: scaled(_bf16(x), rows=True)),
    "fp8-rows-cast": Multiplication(_fp8_rows_cast, _fp8_rows_weights),
    "fp8-rows-compiled": Multiplication(_fp8_rows_cast, _fp8_rows_weights),
    "int8": Multiplication(lambda x, w: torch.ops.aten._weight_int8pack_mm(x, *w), _int8_weights),
    "int8-fused": Multiplication(_int8_one, _int8_weights),
    "int8-widened": Multiplication(lambda x, w: x @ (w[0] * w[1][:, None]).t(), _int8_weights),
    "int8-both": Multiplication(_int8_both, _int8_weights, whole),
    "int4": Multiplication(_int4, _four_bits),
}  # fmt: skip


class LayerInputs(PointInputs):
    """Activations and weights in float32, for all ways of a point, and the result in float64 of some rows."""

    def __init__(self, tokens: int, width: int, inputs: str, device: str) -> None:
        must_fit(16 * width * width + 12 * tokens * width + ROTATED_BYTES, device,
                         f"a layer of {width} x {width} for {tokens} tokens")  # fmt: skip
        self.x = torch.randn(tokens, width, device=device)
        self.w = torch.randn(width, width, device=device) / math.sqrt(width)
        if inputs == OUTLIERS:
            self.x[:, ::EVERY] *= FACTOR
        self.rows = sorted({0, tokens - 1, *torch.randint(tokens, (ROWS,)).tolist()})

    @cached_property
    def expected(self) -> Tensor:
        """The checked rows in float64."""
        return self.x[self.rows].double() @ self.w.double().t()

    def error(self, found: Any, dtype: torch.dtype) -> float:
        """||found - expected|| / ||expected|| of some rows; NaN for another shape or type of the result."""
        if not isinstance(found, torch.Tensor) or found.shape != self.x.shape:
            return math.nan
        return relative(found[self.rows], self.expected, dtype)


def workload(variant: Variant, point: Point) -> Workload:
    """The layer in a way; each call with the weights of the next of many layers that are alike."""
    (tokens, width), device = sizes(point), variant.processor
    way = variant.implementation
    needed = CAPABLE.get(way.split("-")[0], (0, 0))
    if is_gpu(device) and torch.cuda.is_available() and torch.cuda.get_device_capability() < needed:
        raise UnavailableError(f"{way} needs a GPU of compute capability {needed[0]}.{needed[1]}")
    given = LayerInputs.of(tokens, width, str(point["inputs"]), device)
    run = run_of(way, given, device)
    try:
        compile_now(run)
    except (RuntimeError, NotImplementedError) as error:  # what this build, GPU or CPU has no kernel for
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise UnavailableError(f"{variant.label} has no kernel here: {str(error).strip().splitlines()[0]}") from error
    dtype = torch.float32 if way in ("float32", "tf32") else torch.bfloat16
    allowed = TOLERANCE.get(way, FLOAT8 if way.startswith("fp8") else INT8)
    return Workload(run, partial(given.error, dtype=dtype), allowed)


def run_of(way: str, given: LayerInputs, device: str) -> Run:
    """A call of the layer, with what it needs laid out beforehand."""
    made = IMPLEMENTATIONS[way]
    weights, x = made.weights(given.w), made.activations(given.x)
    # on a GPU in turn with copies of them: its cache would hold a single layer's
    copies = math.ceil(ROTATED_BYTES / sum(each.nbytes for each in weights)) if is_gpu(device) else 1
    layers = itertools.cycle([weights, *(tuple(map(torch.clone, weights)) for _ in range(copies - 1))])
    call = compiled(made.call) if way in COMPILED else made.call
    run: Run = lambda: call(x, next(layers))  # noqa: E731
    return float32_products(tf32=True)(run) if way == "tf32" else run
