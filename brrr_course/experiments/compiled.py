"""Four programs as written, under torch.compile in its modes, and in a CUDA Graph: what is removed, when does it pay?

A small program waits for the host, a large one for memory or arithmetic. torch.compile fuses what goes from operator to
operator; `reduce-overhead` puts what is left into a CUDA Graph as well. The first call pays for it.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from brrr.core.measurement import Estimate, Measurement, Point
from brrr.counting.cost import ITEMSIZE, Cost
from brrr.running.graphs import capture
from brrr_course.experiments.checked import PointInputs, compile_now, compiled, must_fit, needs_compiler, relative
from brrr_course.experiments.lazily import f, name_of, torch
from brrr_course.nouns.experiment import Axis, Experiment, Rate, Run, Variant, Workload

CHAIN, NORM, MLP, BLOCK = PROGRAMS = ("pointwise chain", "normalisation", "MLP", "transformer block")
SMALL, LARGE = SIZES = ("small", "large")
SHAPES = {(CHAIN, SMALL): (16, 1024), (CHAIN, LARGE): (65536, 1024), (NORM, SMALL): (16, 1024),
          (NORM, LARGE): (65536, 1024), (MLP, SMALL): (16, 256), (MLP, LARGE): (4096, 4096),
          (BLOCK, SMALL): (64, 256), (BLOCK, LARGE): (4096, 2048)}  # fmt: skip
"""Rows (samples, or tokens) and width."""
CPU_SHRINK = 16
"""On a CPU the large programs have so many times fewer rows; those with matrices are as many times narrower, too."""
LINKS, LAYERS, HEAD = 8, 4, 64
"""Operators of the chain, layers of the MLP, the width of a head."""
TUNED = ((MLP, SMALL), (MLP, LARGE))
FIRST_CALLS = ((CHAIN, SMALL), (CHAIN, LARGE), *TUNED, (BLOCK, SMALL), (BLOCK, LARGE))
COLD = "first call, empty cache"
COMPILE_S, TUNE_S = 3.0, 20.0


def shape_of(variant: Variant, point: Point) -> tuple[int, int]:
    """Rows and width.

    >>> shape_of(EXPERIMENT.variant("cpu-eager"), {"program": "MLP", "size": "large"})
    (256, 256)
    """
    key = (str(point["program"]), str(point["size"]))
    rows, width = SHAPES[key]
    if variant.on_gpu or key[1] == SMALL:
        return rows, width
    return rows // CPU_SHRINK, width if key[0] in (CHAIN, NORM) else width // CPU_SHRINK


def dtype_of(variant: Variant) -> str:
    """The type that is usual there."""
    return "bfloat16" if variant.on_gpu else "float32"


def supports(variant: Variant, point: Point) -> bool:
    """The search for the best kernels at two points, a first call at six."""
    at = str(point["program"]), str(point["size"])
    return at in {"max-autotune": TUNED, COLD: FIRST_CALLS}.get(variant.implementation, (at,))


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP, and the bytes that must move: input, weights and result once."""
    rows, width = shape_of(variant, point)
    numbers, itemsize = float(rows * width), ITEMSIZE[dtype_of(variant)]
    each = {CHAIN: LINKS, NORM: 9, MLP: LAYERS * (2 * width + 1), BLOCK: 24 * width + 4 * rows}[str(point["program"])]
    weights = sum(map(math.prod, PROGRAM[str(point["program"])][1](width)))
    return Cost(each * numbers, itemsize * (2 * numbers + weights))


EXPERIMENT = Experiment(
    title="Four programs, compiled",
    question="What does torch.compile remove, and after how many calls has it paid?",
    axes=(
        Axis("program", PROGRAMS, label="program", scale="category"),
        Axis("size", SIZES, label="size", scale="category"),
    ),
    variants=(
        Variant("eager", "eager, as written"),
        Variant("compile", "torch.compile", prepare_s=COMPILE_S),
        Variant("reduce-overhead", "mode reduce-overhead", prepare_s=COMPILE_S),
        Variant("max-autotune", "mode max-autotune", prepare_s=TUNE_S, isolated=True),
        Variant("graph", "as written, in a CUDA Graph", prepare_s=0.5),
        Variant("first-cold", COLD, timer="own", field="latency_s", implementation=COLD,
                prepare_s=2 * COMPILE_S, shown=False, needs="Triton"),
        Variant.twin("eager", "cpu", "CPU, eager, as written"),
        Variant.twin("compile", "cpu", "CPU, torch.compile"),
    ),
    package=__name__,
    resident=True,
    anchors=({"program": CHAIN, "size": LARGE}, {"program": BLOCK, "size": SMALL}),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    other_rates=(Rate("flop", "FLOP/s", "throughput"),),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `compiled` experiment runs: four programs in PyTorch, and the seconds of their first call when compiled.

TOLERANCE = {"float32": 1e-4, "bfloat16": 5e-2}
"""In bfloat16 every operator rounds to 2^-9 of itself; a wrong one gives 10 % and more."""

if TYPE_CHECKING:
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
        x = torch.relu(f.linear(x, matrix, bias))
    return x


def block(x: Tensor, into: Tensor, out: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Attention and two linear layers, each behind a layer norm and added to what came in."""
    shape = x.shape[-1:]
    heads = (each.unflatten(-1, (-1, HEAD)) for each in f.linear(f.layer_norm(x, shape), into).chunk(3, -1))
    q, k, v = (each.transpose(0, 1)[None] for each in heads)
    x = x + f.linear(f.scaled_dot_product_attention(q, k, v, is_causal=True)[0].transpose(0, 1).flatten(-2), out)
    return x + f.linear(f.gelu(f.linear(f.layer_norm(x, shape), up)), down)


PROGRAM: dict[str, tuple[Callable[..., Tensor], Callable[[int], list[tuple[int, ...]]]]] = {
    CHAIN: (chain, lambda _: []), NORM: (norm, lambda w: [(w,)] * 2), MLP: (mlp, lambda w: [(w, w), (w,)] * LAYERS),
    BLOCK: (block, lambda w: [(3 * w, w), (w, w), (4 * w, w), (w, 4 * w)]),
}  # fmt: skip
"""What runs, and the shapes of its weights, by the width."""


class ProgramInputs(PointInputs):
    """Input and weights of a point, for all ways, and what its result must be."""

    def __init__(self, program: str, rows: int, width: int, dtype: torch.dtype, device: str) -> None:
        self.function, weights = PROGRAM[program]
        drawn = [torch.randn(shape, device=device, dtype=dtype) for shape in ((rows, width), *weights(width))]
        self.tensors = [drawn[0], *(each * math.sqrt(2 / each.shape[-1]) if each.ndim > 1 else each
                                    for each in drawn[1:])]  # fmt: skip
        for weight in self.tensors[1:]:
            torch._dynamo.mark_static_address(weight)  # as a module's parameters are: no graph copies them at each call

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
        from torch._inductor.utils import clear_caches, fresh_cache

        compile_now(lambda: compiled(torch.neg)(self.tensors[0]))  # torch loads its compiler once
        clear_caches()  # what this process has loaded already
        call = compiled(self.function, fullgraph=True)
        start = time.perf_counter()
        with fresh_cache(), torch.no_grad():  # a folder of its own, in which torch finds nothing compiled before
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
    must_fit(int(12 * cost(variant, point).bytes), device, f"{point['program']}, {point['size']}")
    needs_compiler(variant)
    given = ProgramInputs.of(str(point["program"]), rows, width, dtype, device)
    made = Workload(given.run, given.error, TOLERANCE[name_of(dtype)])
    if variant.implementation == COLD:
        first = partial(Measurement, device=variant.device)
        return replace(made, others={"measured": lambda: first(latency_s=Estimate.of([given.first()]))})
    if variant.implementation == "graph":
        held = capture(given.run)
        return replace(made, run=held.replay, close=held.graph.reset)
    return made if variant.implementation == "eager" else replace(made, run=given.compiled(variant.implementation))
