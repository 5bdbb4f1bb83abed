"""What the `attention` experiment runs: the three steps, and the back ends of torch's scaled_dot_product_attention."""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Point
from brrr.gpu import is_gpu, waiting
from brrr_course.experiments.attention import CAUSAL, TRAINING, cost, needed_bytes, sizes
from brrr_course.experiments.checked import (
    PointInputs,
    compile_now,
    compiled,
    peak_bytes_of,
    refuse_too_large,
    relative,
    worst,
)
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2}
"""Scores in bfloat16 are off by 2^-9 of themselves, and their exponentials by a few times as much."""

KEYS = 2.5
"""Keys so long that a query sees few of them: among thousands alike, a tile that is missed would not show."""

ROWS = 48
"""So many queries are computed again in float64; of a backward pass, which needs all of them, one head is."""

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


BACKENDS = {
    "efficient": SDPBackend.EFFICIENT_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}  # fmt: skip


def attention_in(way: str) -> Attend:
    """A way of computing attention, as a function of q, k, v and what is hidden."""
    if way in BACKENDS:
        return lambda q, k, v, hidden: _by_library(BACKENDS[way], q, k, v, hidden is not None)
    return steps if way == "naive" else compiled(textbook if way == "compile-known" else steps)


def _by_library(backend: SDPBackend, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    with sdpa_kernel(backend):
        return scaled_dot_product_attention(q, k, v, is_causal=causal)


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
    dtype, device, way = getattr(torch, str(point["dtype"])), variant.processor, variant.way
    if is_gpu(device) and way in ("flash", "cudnn") and dtype == torch.float32:
        raise UnavailableError(f"{variant.label} has no kernel for float32: it computes on tensor cores in 16 bits")
    refuse_too_large(needed_bytes(variant, point), device, f"{variant.label} of {point['length']} tokens")
    given = AttentionInputs.of(sizes(variant, point), str(point["kind"]), dtype, device)
    attend = attention_in(way)

    def run() -> tuple[Tensor, ...]:
        return given.run(attend)

    def error(found: Any) -> float:
        return given.error(found)

    compile_now(run)  # loads, chooses and compiles: what happens once is no part of a call
    return Workload(run, cost(variant, point), error, TOLERANCE[dtype], synchronize=waiting(device),
                    others={"peak_bytes": peak_bytes_of(run, device)})  # fmt: skip
