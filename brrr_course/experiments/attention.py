"""Attention in three steps, with a matrix of all scores in memory, and by flash attention, which never stores it.

Each of N queries looks at N keys: scores = q k^T / sqrt(d), weights = softmax of each row, result = weights v. In
three steps the N x N matrix goes through memory four times: scores written and read, weights written and read. Flash
attention goes through the keys tile by tile, keeps a running maximum and sum for each row, and moves only q, k, v and
the result. The three steps move N / d + 1.5 times as many bytes; both do 4 N^2 d FLOP a head. The backward pass of
flash attention computes the scores again: five matrix multiplications for the four of the stored matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Point
from brrr.counting.cost import ITEMSIZE, Cost
from brrr.gpu import is_gpu
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.checked import PointInputs, compile_now, compiled, must_fit, peak_bytes_of, relative, worst
from brrr_course.experiments.lazily import f, name_of, torch
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Variant, Workload

LENGTHS = tuple(2**power for power in range(7, 17))
FEW, COMPILED, LONGEST_TRAINED = (128, 512, 2048, 8192, 32768), (2048, 8192), 8192
"""Lengths of all but the plain case; lengths at which the three steps are compiled."""
ALL, CAUSAL, ONE, TRAINING = KINDS = ("all", "causal", "one query", "training")
"""All keys for each query; only those before it; a single query, as in decode; forward and backward."""
WIDTH, CPU_WIDTH = 2048, 256
"""Heads times the width of each: sixteen heads of 128 on a GPU, two on a CPU."""
FLASH_WAYS, STEPS_WAYS = ("efficient", "flash", "cudnn"), ("naive", "compile")
"""The latter store the matrix; the compiler replaces `compile-known` by the library's attention."""
COMPILE_S, CUDNN_S = 8.0, 0.3


def sizes(variant: Variant, point: Point) -> tuple[int, int, int, int]:
    """Heads, queries, keys, and the width of a head."""
    keys, head = int(point["length"]), int(point["head"])
    return (WIDTH if variant.on_gpu else CPU_WIDTH) // head, 1 if point["kind"] == ONE else keys, keys, head


SPECIAL = (*((kind, "bfloat16", 128) for kind in (CAUSAL, ONE, TRAINING)), (ALL, "float32", 128), (ALL, "bfloat16", 64))
"""Cases beside the plain one, in which every query sees all keys, in bfloat16, in heads of 128."""


def supports(variant: Variant, point: Point) -> bool:
    """Each way at all lengths in the plain case; a few lengths of the others, and some ways not there."""
    length, kind, dtype, head = int(point["length"]), point["kind"], point["dtype"], point["head"]
    plain = (kind, dtype, head) == (ALL, "bfloat16", 128)
    if not plain and (length not in FEW or (kind, dtype, head) not in SPECIAL):
        return False
    if variant.implementation in ("compile", "compile-known"):
        return plain and length in COMPILED
    if variant.implementation == "cudnn" and kind == ONE:
        return False  # torch does not give it a single query
    return not variant.on_gpu or kind != TRAINING or length <= LONGEST_TRAINED


def matrix_bytes(variant: Variant, point: Point) -> float:
    """The N x N matrices of all heads."""
    heads, queries, keys, _ = sizes(variant, point)
    return float(heads * queries * keys) * ITEMSIZE[str(point["dtype"])]


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP of the matmuls, and the bytes that the algorithm moves; flash attention skips what a causal mask hides."""
    heads, queries, keys, head = sizes(variant, point)
    kind, row = str(point["kind"]), float(ITEMSIZE[str(point["dtype"])] * heads * head)
    flop, ends = 4.0 * heads * queries * keys * head, 2 * row * (queries + keys)
    if variant.implementation not in STEPS_WAYS:
        seen = (keys + 1) / (2 * keys) if kind == CAUSAL else 1.0
        again, moved = (3.5, 3 * ends) if kind == TRAINING else (1.0, ends)
        return Cost(flop * seen * again, moved)
    times, passes = {CAUSAL: (1, 6), TRAINING: (3, 11)}.get(kind, (1, 4))
    hidden = float(queries * keys) if kind == CAUSAL else 0.0
    return Cost(flop * times, passes * matrix_bytes(variant, point) + times * (ends + 2 * row * queries) + hidden)


def needed_bytes(variant: Variant, point: Point) -> int:
    """What a call holds at most beside its inputs: of the N x N matrices two, in training three.

    >>> at = {"length": 2**16, "kind": "all", "dtype": "bfloat16", "head": 128}
    >>> [round(needed_bytes(EXPERIMENT.variant(name), at) / 1e9) for name in ("naive", "flash")]
    [277, 2]
    """
    heads, queries, keys, head = sizes(variant, point)
    rows = 8 * heads * (queries + keys) * head
    if variant.implementation not in STEPS_WAYS:
        return rows
    held = 3 if point["kind"] == TRAINING else 2
    return int(held * matrix_bytes(variant, point)) + rows


def predicted(variant: Variant, point: Point) -> PredictedRun:
    """The roofline of its bytes and its FLOP."""
    return PredictedRun(cost(variant, point), dtype=str(point["dtype"]))


def flash_at_peak(hardware: Hardware | None, point: Point) -> float | None:
    """Flash attention's FLOP at the tensor cores' peak, in seconds; of a single query only the bytes count."""
    asked = point["dtype"] == "bfloat16" and point["kind"] != ONE
    if hardware is None or not asked or "bf16" not in {dtype for dtype, _ in hardware.peaks}:
        return None
    return cost(EXPERIMENT.variant("flash"), point).flop / hardware.peak("bf16")


def steps_at_bandwidth(hardware: Hardware | None, point: Point) -> float | None:
    """The three steps' bytes at the datasheet's bandwidth, in seconds."""
    return cost(EXPERIMENT.variant("naive"), point).bytes / hardware.memory_bytes_per_s if hardware else None


EXPERIMENT = Experiment(
    title="Attention, with and without its matrix",
    question="Which algorithm lets attention be one kernel?",
    axes=(
        Axis("length", LENGTHS, label="tokens N", quick=(128, 512), most={"cpu": 4096}, noun="tokens"),
        Axis("kind", KINDS, label="kind of attention", scale="category", noun="attention:"),
        Axis("dtype", ("bfloat16", "float32"), label="type", scale="category"),
        Axis("head", (64, 128), label="width of a head", quick=(128,), noun="head width"),
    ),
    variants=(
        Variant("naive", "three steps"),
        Variant("compile", "torch.compile of the three steps", prepare_s=COMPILE_S, shown=False),
        Variant("compile-known", "torch.compile, spelled as in textbooks", prepare_s=COMPILE_S, shown=False),
        Variant("efficient", "SDPA, memory-efficient"),
        Variant("flash", "SDPA, flash"),
        Variant("cudnn", "SDPA, cuDNN", prepare_s=CUDNN_S),
        Variant.twin("naive", "cpu", "CPU, three steps"),
        Variant.twin("flash", "cpu", "CPU, SDPA"),
    ),
    package=__name__,
    resident=True,
    anchors=tuple({"length": n, "kind": ALL, "dtype": "bfloat16", "head": 128} for n in COMPILED),
    rate=Rate("bytes", "B/s", "bandwidth"),
    other_rates=(Rate("flop", "FLOP/s", "throughput"),),
    guides=(
        Guide("bytes", "three steps, by bytes", "DATASHEET", "time", steps_at_bandwidth, ("naive",)),
        Guide("flop", "flash, by FLOP", "DATASHEET", "time", flash_at_peak, FLASH_WAYS),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# What the `attention` experiment runs: the three steps, and the back ends of torch's scaled_dot_product_attention.

TOLERANCE = {"float32": 1e-4, "bfloat16": 5e-2}
"""Scores in bfloat16 are off by 2^-9 of themselves, and their exponentials by a few times as much."""

KEYS = 2.5
"""Keys so long that a query sees few of them: among thousands alike, a tile that is missed would not show."""

ROWS = 48
"""So many queries are computed again in float64; of a backward pass, which needs all of them, one head is."""

if TYPE_CHECKING:
    Tensor = torch.Tensor
    Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


def steps(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None = None) -> Tensor:
    """Scores, softmax, product; `hidden` marks the keys that a query must not see.

    >>> steps(torch.zeros(1, 2), torch.ones(2, 2), torch.tensor([[1.0, 3.0], [3.0, 5.0]]))
    tensor([[2., 4.]])
    """
    scores = (q * q.shape[-1] ** -0.5) @ k.mT  # the scale costs less on q than on N x N scores
    if hidden is not None:
        scores = scores.masked_fill_(hidden, -math.inf)
    result: Tensor = scores.softmax(-1) @ v
    return result


def textbook(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None = None) -> Tensor:
    """The same with the scale where textbooks have it: a spelling that torch.compile knows by heart."""
    result: Tensor = ((q @ k.mT) * q.shape[-1] ** -0.5).softmax(-1) @ v
    return result


BACKENDS = {"efficient": "EFFICIENT_ATTENTION", "flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION"}


def attention_in(way: str) -> Attend:
    """A way of computing attention, as a function of q, k, v and what is hidden."""
    if way not in BACKENDS:
        return steps if way == "naive" else compiled(textbook if way == "compile-known" else steps)
    from torch.nn.attention import SDPBackend, sdpa_kernel

    chosen, attend = getattr(SDPBackend, BACKENDS[way]), f.scaled_dot_product_attention

    def run(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
        with sdpa_kernel(chosen):
            return attend(q, k, v, is_causal=hidden is not None)

    return run


class AttentionInputs(PointInputs):
    """q, k, v, the gradient that comes from above, and what a causal mask hides, for all ways of a point."""

    def __init__(self, shape: tuple[int, int, int, int], kind: str, dtype: torch.dtype, device: str) -> None:
        heads, queries, keys, head = shape
        q, k, v, self.gradient = (
            torch.randn(1, heads, count, head, dtype=dtype, device=device) for count in (queries, keys, keys, queries)
        )
        self.kind, self.qkv = kind, (q, k.mul_(KEYS), v)
        for each in self.qkv:
            each.requires_grad_(kind == TRAINING)
        self.hidden = torch.ones(queries, keys, dtype=torch.bool, device=device).triu_(1) if kind == CAUSAL else None
        rows = torch.randint(queries, (ROWS,)).tolist()
        self.rows = sorted({0, queries - 1, *rows}) if kind != TRAINING else list(range(queries))

    def run(self, attend: Attend) -> tuple[Tensor, ...]:
        """The result; in training also the gradients of q, k and v."""
        result = attend(*self.qkv, self.hidden)
        if self.kind != TRAINING:
            return (result,)
        return (result.detach(), *torch.autograd.grad(result, self.qkv, self.gradient))

    def error(self, found: Any) -> float:
        """The worst ||found - expected|| / ||expected|| of what is returned; NaN for another number or shape."""
        likes = self.qkv[:1] if self.kind != TRAINING else (self.qkv[0], *self.qkv)
        if len(found) != len(likes) or any(a.shape != b.shape for a, b in zip(found, likes, strict=True)):
            return math.nan
        parts = (self._part(each) for each in found)
        return worst(relative(a, b, likes[0].dtype) for a, b in zip(parts, self._expected, strict=True))

    def _part(self, whole: Tensor) -> Tensor:
        return whole[:, :1] if self.kind == TRAINING else whole[:, :, self.rows]

    @cached_property
    def _expected(self) -> tuple[Tensor, ...]:
        """The three steps in float64: of some queries; in training of one head, with its gradients."""
        if self.kind != TRAINING:
            q, k, v = (each.double() for each in self.qkv)
            return (steps(self._part(q), k, v, None if self.hidden is None else self.hidden[self.rows]),)
        qkv = [self._part(each).detach().double().requires_grad_() for each in self.qkv]
        result = steps(*qkv)
        return (result.detach(), *torch.autograd.grad(result, qkv, self._part(self.gradient).double()))


def workload(variant: Variant, point: Point) -> Workload:
    """Attention at a point, on fresh random numbers, with the peak of memory."""
    dtype, device, way = getattr(torch, str(point["dtype"])), variant.processor, variant.implementation
    if is_gpu(device) and way in ("flash", "cudnn") and dtype == torch.float32:
        raise UnavailableError(f"{variant.label} has no kernel for float32: it computes on tensor cores in 16 bits")
    must_fit(needed_bytes(variant, point), device, f"{variant.label} of {point['length']} tokens")
    given = AttentionInputs.of(sizes(variant, point), str(point["kind"]), dtype, device)
    run = partial(given.run, attention_in(way))
    compile_now(run)  # loads, chooses and compiles: what happens once is no part of a call
    return Workload(run, given.error, TOLERANCE[name_of(dtype)], others={"peak_bytes": peak_bytes_of(run, device)})
