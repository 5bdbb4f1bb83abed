"""What the `recompiles` experiment measures: forty calls of a compiled program in a row, the time of each."""

import time
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache

import torch
from torch import nn

from brrr.core.measurement import Estimate, Measurement, Point
from brrr.gpu import is_cpu, waiting
from brrr_course.experiments import recompiles as asked
from brrr_course.experiments.checked import compile_now, compiled, fresh_cache, no_garbage, quietly
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = 1e-4


class Program(nn.Module):
    """Layers of a matrix, a normalisation by its formula and a SiLU; a number scales the result."""

    def __init__(self, width: int, device: str) -> None:
        super().__init__()
        layers = torch.randn(asked.LAYERS, width, width, device=device) / width**0.5
        self.layers, self.step = nn.Parameter(layers, requires_grad=False), 1

    def forward(self, x: torch.Tensor, number: int) -> torch.Tensor:
        for matrix in self.layers:
            x = x @ matrix
            x = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
            x = x * torch.sigmoid(x)
        return x * (number / self.step)


@lru_cache(maxsize=16)
def series(way: str, device: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds of each of the forty calls, and the error of each result."""
    width = asked.CPU_WIDTH if is_cpu(device) else asked.WIDTH
    wait = waiting(device) or bool  # a CPU's call has ended
    program, times, errors = Program(width, device), list[float](), list[float]()
    wide = deepcopy(program).double()

    def forward(x: torch.Tensor, number: int) -> torch.Tensor:
        found: torch.Tensor = program(x, number)
        return found

    # what torch has seen to change it remembers by a program's file, line and name
    forward.__code__ = forward.__code__.replace(co_name=f"forward_{way}_{device}")
    options = {"backend": "eager" if is_cpu(device) else "inductor", "dynamic": False if way == asked.STATIC else None}
    call: Callable[..., torch.Tensor] = forward if way == asked.EAGER else compiled(forward, **options)
    compile_now(lambda: compiled(torch.neg, **options)(program.layers[0]))  # torch loads its compiler once
    program(torch.randn(8, width, device=device), 1)
    with fresh_cache(), quietly(), no_garbage():
        for number in asked.CALLS:
            x = torch.randn(asked.batch_of(way, number), width, device=device)
            if way == asked.MARK:
                torch._dynamo.mark_dynamic(x, 0)
            argument, program.step = number if way == asked.NUMBER else 1, number if way == asked.KEPT else 1
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
    times, errors = series(variant.way, variant.processor)
    place = int(point["call"]) - 1

    own = {"measured": lambda: Measurement(latency_s=Estimate.of([times[place]]), device=variant.device)}
    return Workload(lambda: None, asked.cost(variant, point), lambda _: errors[place], TOLERANCE, others=own)
