"""Forty calls of a compiled program, each with another batch or another number: which of them compile again?

torch.compile keeps a program for the inputs that it saw, and guards that tell whether it fits the next ones. Where
none fits it compiles again, up to a limit; behind that the program runs as written, without a word.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from typing import Any

from brrr.core.measurement import Estimate, Measurement, Point
from brrr.counting.cost import Cost
from brrr.gpu import is_cpu, waiting
from brrr_course.experiments.checked import compile_now, compiled, no_garbage, quietly
from brrr_course.experiments.lazily import nn, torch
from brrr_course.nouns.experiment import Axis, Experiment, Variant, Workload

CALLS, LAYERS = tuple(range(1, 41)), 6
WIDTH, CPU_WIDTH = 512, 64
FIRST_BATCH = 64
EAGER, STATIC, AUTO, MARK, NUMBER, KEPT = "eager", "static", "auto", "mark", "number", "kept"
LABELS = {
    EAGER: "eager, as written",
    STATIC: "another batch, dynamic=False",
    AUTO: "another batch, dynamic=None (the default)",
    MARK: "another batch, mark_dynamic",
    NUMBER: "another number as an argument",
    KEPT: "another number as a module's attribute",
}


def batch_of(way: str, call: int) -> int:
    """The batch of a call: with a number that changes, always the first one."""
    return FIRST_BATCH + (0 if way in (NUMBER, KEPT) else call)


def cost(variant: Variant, point: Point) -> Cost:
    """The matrix multiplications' FLOP, and the bytes of the weights and of what goes in and out."""
    width, batch = WIDTH if variant.on_gpu else CPU_WIDTH, batch_of(variant.implementation, int(point["call"]))
    return Cost(2.0 * LAYERS * batch * width**2, 4.0 * (LAYERS * width**2 + 2 * batch * width))


EXPERIMENT = Experiment(
    title="Forty calls, each a little different",
    question="Which calls of a compiled program compile again?",
    axes=(Axis("call", CALLS, label="call", scale="linear", quick=(1, 2)),),
    variants=(
        *(Variant(way, label, timer="own", implementation=way, shown=way not in (NUMBER, KEPT))
          for way, label in LABELS.items()),
        *(Variant.twin(way, "cpu", f"CPU, {label}", timer="own", shown=way not in (NUMBER, KEPT))
          for way, label in LABELS.items()),
    ),
    field="latency_s",
    package=__name__, needs="Triton",
    resident=True,
    anchors=({"call": 40},),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `recompiles` experiment measures: forty calls of a compiled program in a row, the time of each.

TOLERANCE = 1e-4


def scaled_program(width: int, device: str) -> Any:
    """A fresh one."""

    class Program(nn.Module):
        """Layers of a matrix, a normalisation by its formula and a SiLU; a number scales the result."""

        def __init__(self, width: int, device: str) -> None:
            super().__init__()
            layers = torch.randn(LAYERS, width, width, device=device) / width**0.5
            self.layers, self.step = nn.Parameter(layers, requires_grad=False), 1

        def forward(self, x: torch.Tensor, number: int) -> torch.Tensor:
            for matrix in self.layers:
                x = x @ matrix
                x = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
                x = x * torch.sigmoid(x)
            return x * (number / self.step)

    return Program(width, device)


@lru_cache(maxsize=16)
def series(way: str, device: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds of each of the forty calls, and the error of each result."""
    from torch._inductor.utils import fresh_cache

    width = CPU_WIDTH if is_cpu(device) else WIDTH
    wait = waiting(device) or bool  # a CPU's call has ended
    program, times, errors = scaled_program(width, device), list[float](), list[float]()
    wide = deepcopy(program).double()

    def forward(x: torch.Tensor, number: int) -> torch.Tensor:
        found: torch.Tensor = program(x, number)
        return found

    # what torch has seen to change it remembers by a program's file, line and name
    forward.__code__ = forward.__code__.replace(co_name=f"forward_{way}_{device}")
    options = {"backend": "eager" if is_cpu(device) else "inductor", "dynamic": False if way == STATIC else None}
    call: Callable[..., torch.Tensor] = forward if way == EAGER else compiled(forward, **options)
    compile_now(lambda: compiled(torch.neg, **options)(program.layers[0]))  # torch loads its compiler once
    program(torch.randn(8, width, device=device), 1)
    with fresh_cache(), quietly(), no_garbage():
        for number in CALLS:
            x = torch.randn(batch_of(way, number), width, device=device)
            if way == MARK:
                torch._dynamo.mark_dynamic(x, 0)
            argument, program.step = number if way == NUMBER else 1, number if way == KEPT else 1
            wait()
            start = time.perf_counter()
            found = call(x, argument)
            wait()
            times.append(time.perf_counter() - start)
            expected = wide(x.double(), argument) * (wide.step / program.step)
            errors.append(float((found.double() - expected).norm() / expected.norm()))
    return tuple(times), tuple(errors)


def workload(variant: Variant, point: Point) -> Workload:
    """One of the forty calls; all are made when the first is asked for."""
    times, errors = series(variant.implementation, variant.processor)
    place = int(point["call"]) - 1
    own = {"measured": lambda: Measurement(latency_s=Estimate.of([times[place]]), device=variant.device)}
    return Workload(lambda: None, lambda _: errors[place], TOLERANCE, others=own)
