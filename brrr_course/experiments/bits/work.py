"""What the `bits` experiment runs: x W^T with what a way stores of x and W, torch's kernels."""

import itertools
import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import torch

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Point
from brrr.gpu import is_cpu, is_gpu, waiting
from brrr.gpu.precision import float32_products
from brrr_course.experiments.bits import GROUP, OUTLIERS, cost, sizes
from brrr_course.experiments.checked import PointInputs, compile_now, compiled, refuse_too_large, relative
from brrr_course.nouns.experiment import Run, Variant, Workload

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
    pairs = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)
    return torch._convert_weight_to_int4pack(pairs, 8), ends


def _int4(x: Tensor, w: Weights) -> Tensor:
    mm = torch.ops.aten._weight_int4pack_mm if x.is_cuda else torch.ops.aten._weight_int4pack_mm_for_cpu
    found: Tensor = mm(x, w[0], GROUP, w[1])
    return found


def _fp8(x: tuple[Tensor, Tensor], w: Weights) -> Tensor:
    (numbers, scale), (weights, other) = x, w
    return torch._scaled_mm(
        numbers, weights.t(), scale, other, out_dtype=torch.bfloat16, use_fast_accum=numbers.is_cuda
    )


def _fp8_cast(x: Tensor, w: Weights) -> Tensor:
    return _fp8(scaled(x), w)


def _fp8_rows_cast(x: Tensor, w: Weights) -> Tensor:
    return _fp8(scaled(x, rows=True), w)


def _fp8_weights(w: Tensor) -> Weights:
    return scaled(w)


def _fp8_rows_weights(w: Tensor) -> Weights:
    numbers, scale = scaled(w, rows=True)
    return numbers, scale.t()


def _int8_weights(w: Tensor) -> Weights:
    numbers, scale = whole(w, 1)
    return numbers, scale.flatten().to(torch.bfloat16)


def _int8(x: Tensor, w: Weights) -> Tensor:
    found: Tensor = torch.ops.aten._weight_int8pack_mm(x, *w)
    return found


def _int8_one(x: Tensor, w: Weights) -> Tensor:
    """For one token: under a compiler the weights are widened where they are added up."""
    return ((w[0] * x).sum(-1, dtype=torch.float32) * w[1])[None].to(x.dtype)


def _int8_widened(x: Tensor, w: Weights) -> Tensor:
    return x @ (w[0] * w[1][:, None]).t()


def _int8_both(x: tuple[Tensor, Tensor], w: Weights) -> Tensor:
    (numbers, scale), (weights, other) = x, w
    added = torch._int_mm(numbers, weights.t())
    found = torch.empty(added.shape, dtype=torch.bfloat16, device=added.device)
    return torch.mul(added, scale * other.float(), out=found)


def _linear(x: Tensor, w: Weights) -> Tensor:
    return x @ w[0].t()


class Way:
    """What a way makes of the activations and of the weights beforehand, and what a call does with both."""

    def __init__(self, call: Any, weights: Callable[[Tensor], Weights], activations: Callable[[Tensor], Any]) -> None:
        self.call, self.weights, self.activations = call, weights, activations


def _as(dtype: torch.dtype) -> Way:
    return Way(_linear, lambda w: (w.to(dtype),), lambda x: x.to(dtype))


def _bf16(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16)


WAYS = {
    "float32": _as(torch.float32), "tf32": _as(torch.float32), "bf16": _as(torch.bfloat16),
    "fp8": Way(_fp8, _fp8_weights, lambda x: scaled(_bf16(x))),
    "fp8-cast": Way(_fp8_cast, _fp8_weights, _bf16),
    "fp8-rows": Way(_fp8, _fp8_rows_weights, lambda x: scaled(_bf16(x), rows=True)),
    "fp8-rows-cast": Way(_fp8_rows_cast, _fp8_rows_weights, _bf16),
    "fp8-rows-compiled": Way(_fp8_rows_cast, _fp8_rows_weights, _bf16),
    "int8": Way(_int8, _int8_weights, _bf16),
    "int8-fused": Way(_int8_one, _int8_weights, _bf16),
    "int8-widened": Way(_int8_widened, _int8_weights, _bf16),
    "int8-both": Way(_int8_both, _int8_weights, whole),
    "int4": Way(_int4, _four_bits, _bf16),
}  # fmt: skip


class LayerInputs(PointInputs):
    """Activations and weights in float32, for all ways of a point, and the result in float64 of some rows."""

    def __init__(self, tokens: int, width: int, inputs: str, device: str) -> None:
        refuse_too_large(16 * width * width + 12 * tokens * width + ROTATED_BYTES, device,
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
        if not isinstance(found, Tensor) or found.shape != self.x.shape:
            return math.nan
        return relative(found[self.rows], self.expected, dtype)


def workload(variant: Variant, point: Point) -> Workload:
    """The layer in a way; each call with the weights of the next of many layers that are alike."""
    (tokens, width), device = sizes(point), variant.processor
    way = variant.way
    refused(way, device)
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

    def error_of(found: Any) -> float:
        return given.error(found, dtype)

    return Workload(run, cost(variant, point), error_of, allowed, synchronize=waiting(device))


def refused(way: str, device: str) -> None:
    """UnavailableError where a GPU has no tensor cores of a type, which torch would tell in many lines."""
    if not is_gpu(device) or not torch.cuda.is_available():
        return
    needed = {"fp8": (8, 9), "int4": (8, 0), "tf32": (8, 0), "bf16": (8, 0)}.get(way.split("-")[0], (0, 0))
    if torch.cuda.get_device_capability() < needed:
        raise UnavailableError(f"{way} needs a GPU of compute capability {needed[0]}.{needed[1]}")


def run_of(way: str, given: LayerInputs, device: str) -> Run:
    """A call of the layer, with what it needs laid out beforehand."""
    made = WAYS[way]
    weights, x = made.weights(given.w), made.activations(given.x)
    layers = _layers(weights, device)
    call = compiled(made.call) if way.endswith(("compiled", "fused")) else made.call

    def run() -> Tensor:
        found: Tensor = call(x, next(layers))
        return found

    return float32_products(tf32=True)(run) if way == "tf32" else run


def _layers(weights: Weights, device: str) -> Iterator[Weights]:
    """The weights in turn with copies of them on a GPU, whose cache would hold a single layer's."""
    size = sum(each.nbytes for each in weights)
    copies = math.ceil(ROTATED_BYTES / size) if is_gpu(device) else 1
    return itertools.cycle([weights, *(tuple(map(_copied, weights)) for _ in range(copies - 1))])


def _copied(one: Tensor) -> Tensor:
    return one.clone(memory_format=torch.preserve_format)
