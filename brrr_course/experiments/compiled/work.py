"""What the `compiled` experiment runs: four programs in PyTorch, and the seconds of their first call when compiled."""

import io
import math
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import torch
from torch._inductor.utils import clear_caches
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

from brrr.core.measurement import Estimate, Measurement, Point
from brrr.gpu import waiting
from brrr.running.graphs import capture
from brrr_course.experiments.checked import (
    PointInputs,
    compile_now,
    compiled,
    fresh_cache,
    ready_to_compile,
    refuse_too_large,
    relative,
)
from brrr_course.experiments.compiled import COLD, HEAD, LAYERS, LINKS, PROGRAMS, cost, dtype_of, shape_of
from brrr_course.nouns.experiment import Run, Variant, Workload

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2}
"""In bfloat16 every operator rounds to 2^-9 of itself; a wrong one gives 10 % and more."""

Tensor = torch.Tensor


def chain(x: Tensor) -> Tensor:
    """Eight operators, each on every number."""
    for _ in range(LINKS // 2):
        x = x * 0.9 + 0.1
    return x


def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer normalisation as its formula stands."""
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred * torch.rsqrt(variance + 1e-5) * weight + bias


def mlp(x: Tensor, *weights: Tensor) -> Tensor:
    """Linear layers with ReLU: a matrix and a bias each."""
    for matrix, bias in zip(weights[::2], weights[1::2], strict=True):
        x = torch.relu(linear(x, matrix, bias))
    return x


def block(x: Tensor, into: Tensor, out: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Attention and two linear layers, each behind a layer norm and added to what came in."""
    shape = x.shape[-1:]
    heads = (each.unflatten(-1, (-1, HEAD)) for each in linear(layer_norm(x, shape), into).chunk(3, -1))
    q, k, v = (each.transpose(0, 1)[None] for each in heads)
    x = x + linear(scaled_dot_product_attention(q, k, v, is_causal=True)[0].transpose(0, 1).flatten(-2), out)
    return x + linear(gelu(linear(layer_norm(x, shape), up)), down)


PROGRAM: dict[str, Callable[..., Tensor]] = dict(zip(PROGRAMS, (chain, norm, mlp, block), strict=True))


def weights_of(program: str, width: int) -> list[tuple[int, ...]]:
    """The shapes of a program's weights."""
    parts = [(3 * width, width), (width, width), (4 * width, width), (width, 4 * width)]
    shapes: list[Any] = [[], [(width,)] * 2, [(width, width), (width,)] * LAYERS, parts]
    return list(shapes[PROGRAMS.index(program)])


class ProgramInputs(PointInputs):
    """Input and weights of a point, for all ways, and what its result must be."""

    def __init__(self, program: str, rows: int, width: int, dtype: torch.dtype, device: str) -> None:
        self.function = PROGRAM[program]
        shapes = [(rows, width), *weights_of(program, width)]
        self.tensors = [
            torch.randn(shape, device=device, dtype=dtype) * (math.sqrt(2 / shape[-1]) if shape[1:] and place else 1.0)
            for place, shape in enumerate(shapes)
        ]
        for weight in self.tensors[1:]:
            torch._dynamo.mark_static_address(weight)  # as a module's parameters are: no graph copies them at each call
        self.wait = waiting(device)

    def run(self) -> Tensor:
        """The program, operator by operator."""
        with torch.no_grad():
            return self.function(*self.tensors)

    def compiled(self, way: str) -> Run:
        """The program under torch.compile in that mode; the second call warms up a graph, the third captures it."""
        call = compiled(self.function, fullgraph=True, **({} if way == "compile" else {"mode": way}))

        def run() -> Any:
            with torch.no_grad():
                return call(*self.tensors)

        with redirect_stderr(io.StringIO()):  # the search reports every trial there
            for _ in range(3):
                compile_now(run)
        return run

    def first(self) -> float:
        """Seconds of the first call, when nothing is known of the program."""
        compile_now(lambda: compiled(torch.neg)(self.tensors[0]))  # torch loads its compiler once
        clear_caches()  # what this process has loaded already
        call = compiled(self.function, fullgraph=True)
        start = time.perf_counter()
        with fresh_cache(), torch.no_grad():
            compile_now(lambda: call(*self.tensors)[:1].cpu())  # the copy waits for it
        return time.perf_counter() - start

    @cached_property
    def expected(self) -> Tensor:
        """The result in a wider type."""
        wide = torch.float64 if self.tensors[0].dtype == torch.float32 else torch.float32
        with torch.no_grad():
            return self.function(*(each.to(wide) for each in self.tensors)).double()

    def error(self, found: Any) -> float:
        """||found - expected|| / ||expected||."""
        return relative(found, self.expected, self.tensors[0].dtype)


def workload(variant: Variant, point: Point) -> Workload:
    """A program at a size, in one way."""
    (rows, width), dtype, device = shape_of(variant, point), getattr(torch, dtype_of(variant)), variant.processor
    refuse_too_large(int(12 * cost(variant, point).bytes), device, f"{point['program']}, {point['size']}")
    ready_to_compile(variant)
    given = ProgramInputs.of(str(point["program"]), rows, width, dtype, device)
    made = Workload(given.run, cost(variant, point), lambda found: given.error(found), TOLERANCE[dtype], given.wait)
    if variant.way == COLD:
        first = partial(Measurement, device=variant.device)
        return replace(made, others={"measured": lambda: first(latency_s=Estimate.of([given.first()]))})
    if variant.way == "graph":
        held = capture(given.run)
        return replace(made, run=held.replay, close=held.graph.reset)
    return made if variant.way == "eager" else replace(made, run=given.compiled(variant.way))
