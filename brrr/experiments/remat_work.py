"""What the `remat` experiment runs: a chain of cosines forward and backward, and how much memory that takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import torch
from torch.utils.checkpoint import checkpoint

from brrr.experiment import Point, Variant, Workload
from brrr.experiments.fusion_check import CHUNK, Function, compiled, error_against
from brrr.experiments.matmul_work import refuse_too_large
from brrr.experiments.pseudo_linear_work import compile_now
from brrr.experiments.remat import ITEMSIZE, cost, saved_arrays, segment, way

TOLERANCE = 1e-5
Tensor = torch.Tensor


class Inputs:
    """x and the gradient that comes from above, drawn once for all variants of a size."""

    _alive: ClassVar[WeakValueDictionary[tuple[int, str], Inputs]] = WeakValueDictionary()

    def __init__(self, elements: int, device: str) -> None:
        self.x = torch.randn(elements, device=device, requires_grad=True)
        self.gradient = torch.randn(elements, device=device)

    @classmethod
    def of(cls, elements: int, device: str) -> Inputs:
        """The inputs of a point: those that another of its variants holds, or new ones."""
        found = cls._alive.get((elements, device))
        if found is None:
            found = cls._alive[elements, device] = cls(elements, device)
        return found


def chain(depth: int) -> Function:
    """`depth` cosines, one after the other.

    >>> chain(2)(torch.zeros(1))
    tensor([0.5403])
    """

    def cosines(x: Tensor) -> Tensor:
        for _ in range(depth):
            x = x.cos()
        return x

    return cosines


def checkpointed(depth: int) -> Function:
    """The chain in segments, of which only the first input is saved: the rest is computed again, going back."""
    length = segment(depth)
    parts = [chain(min(length, depth - start)) for start in range(0, depth, length)]

    def cosines(x: Tensor) -> Tensor:
        for part in parts:
            x = checkpoint(part, x, use_reentrant=False, preserve_rng_state=False)
        return x

    return cosines


def all_saved(depth: int) -> Function:
    """Compiled by the same compiler, its passes divided so that everything forward computes is saved for backward."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import default_partition
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table

    backend = aot_autograd(
        fw_compiler=compile_fx_inner, decompositions=select_decomp_table, partition_fn=default_partition
    )
    return compiled(chain(depth), backend=backend)


WAYS: dict[str, Callable[[int], Function]] = {
    "eager": chain,
    "checkpoint": checkpointed,
    "compile-saved": all_saved,
    "compile": lambda depth: compiled(chain(depth)),
}


def workload(variant: Variant, point: Point) -> Workload:
    """Forward and backward of the chain on fresh random numbers, `(y, dx)` against float64."""
    elements, depth = int(point["elements"]), int(point["depth"])
    device = "cuda" if variant.device == "cuda" else "cpu"
    arrays = 8 + saved_arrays(way(variant), depth)
    needed = ITEMSIZE * elements * arrays + 8 * (depth + 6) * min(elements, CHUNK)
    refuse_too_large(needed, device, f"{variant.label} of {elements} elements")
    inputs = Inputs.of(elements, device)
    run = both(WAYS[way(variant)](depth), inputs)
    check = error_against(_reference(depth), (inputs.x.detach(), inputs.gradient), results=2)
    if device == "cpu":
        return Workload(run, cost(variant, point), check, TOLERANCE)
    compile_now(run)  # loads and compiles: what happens once must not pass for a slow call
    torch.cuda.synchronize()
    return Workload(run, cost(variant, point), check, TOLERANCE, synchronize=torch.cuda.synchronize)


def both(function: Function, inputs: Inputs) -> Callable[[], tuple[Tensor, Tensor]]:
    """The call that is timed: forward, then backward; `(y, dx)`."""

    def run() -> tuple[Tensor, Tensor]:
        y = function(inputs.x)
        (dx,) = torch.autograd.grad(y, inputs.x, inputs.gradient)
        return y.detach(), dx

    return run


def _reference(depth: int) -> Function:
    """y and dx by the chain rule as it stands in a book: dx is g times the product of -sin of each cosine's input."""

    def by_hand(x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        for _ in range(depth):
            gradient = gradient * -x.sin()
            x = x.cos()
        return x, gradient

    return by_hand


def peak_bytes(variant: Variant, point: Point) -> int:
    """The most memory that forward and backward take at once beside x and g, in bytes, as the allocator counts it.

    >>> from brrr.experiments import experiment
    >>> eager = experiment("remat").variant("cpu-eager")
    >>> peak_bytes(eager, {"depth": 8, "elements": 2**16}) >= 8 * 4 * 2**16
    True
    """
    work = workload(variant, point)
    work.check()
    return _peak_on_cuda(work.run) if variant.device == "cuda" else _peak_on_cpu(work.run)


def _peak_on_cuda(run: Callable[[], Any]) -> int:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated()) - before


def _peak_on_cpu(run: Callable[[], Any]) -> int:
    """The profiler reports what the CPU's allocator gives and takes back; the peak is the largest sum."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        run()
    assert found.profiler is not None and found.profiler.kineto_results is not None
    events = [event for event in found.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most
