"""What the `remat` experiment runs: a chain of activations forward and backward, and how much memory that takes."""

from collections.abc import Callable
from functools import cache

import torch
from torch.utils.checkpoint import checkpoint

from brrr.core.measurement import Point
from brrr.gpu import waiting
from brrr_course.experiments.checked import (
    CHUNK,
    Function,
    PointInputs,
    compile_now,
    compiled,
    error_against,
    peak_bytes_of,
    refuse_too_large,
)
from brrr_course.experiments.remat import ITEMSIZE, cost, saved_arrays, segment
from brrr_course.nouns.experiment import Variant, Workload

TOLERANCE = 1e-5
INLINED = 4
"""Operations that the compiler writes out anew wherever their result is used. A hardswish uses its input twice, so with
the usual 30 it goes through a chain of d some 2^d times, for minutes; the kernel that it writes is the same."""
HIGHEST = 2.5
"""Inputs lie below: a hardswish leaves all from 3 on as it is, and these would hide in the norm how the others fare."""
Tensor = torch.Tensor
OPERATORS: dict[str, Function] = {"hardswish": torch.nn.functional.hardswish, "cos": torch.cos}


class RematInputs(PointInputs):
    """x and the gradient that comes from above, drawn once for all variants of a size."""

    def __init__(self, elements: int, device: str) -> None:
        self.x = torch.rand(elements, device=device).mul_(HIGHEST).requires_grad_()
        self.gradient = torch.randn(elements, device=device)


def chain(activation: str, depth: int) -> Function:
    """`depth` activations, one after the other.

    >>> chain("cos", 2)(torch.zeros(1))
    tensor([0.5403])
    """
    operator = OPERATORS[activation]

    def activations(x: Tensor) -> Tensor:
        for _ in range(depth):
            x = operator(x)
        return x

    return activations


def checkpointed(activation: str, depth: int) -> Function:
    """The chain in segments, of which only the first input is saved: the rest is computed again, going back."""
    length = segment(depth)
    parts = [chain(activation, min(length, depth - start)) for start in range(0, depth, length)]

    def activations(x: Tensor) -> Tensor:
        for part in parts:
            x = checkpoint(part, x, use_reentrant=False, preserve_rng_state=False)
        return x

    return activations


@cache
def its_own_choice(activation: str, depth: int) -> Function:
    """The compiled chain, for arrays of any size, since to compile it takes longer than all else here."""
    return compiled(chain(activation, depth), dynamic=True, options={"realize_opcount_threshold": INLINED})


@cache
def all_saved(activation: str, depth: int) -> Function:
    """Compiled by the same compiler, its passes divided so that everything forward computes is saved for backward."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import default_partition
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table

    backend = aot_autograd(
        fw_compiler=compile_fx_inner, decompositions=select_decomp_table, partition_fn=default_partition
    )
    return compiled(chain(activation, depth), backend=backend, dynamic=True)


WAYS: dict[str, Callable[[str, int], Function]] = {
    "eager": chain,
    "checkpoint": checkpointed,
    "compile-saved": all_saved,
    "compile": its_own_choice,
}


def workload(variant: Variant, point: Point) -> Workload:
    """Forward and backward of the chain on fresh random numbers, `(y, dx)` against float64; with the peak of memory."""
    activation, depth, elements = str(point["activation"]), int(point["depth"]), int(point["elements"])
    device = variant.processor
    arrays = 8 + saved_arrays(variant.way, depth)
    needed = ITEMSIZE * elements * arrays + 8 * (depth + 6) * min(elements, CHUNK)
    refuse_too_large(needed, device, f"{variant.label} of {elements} elements")
    inputs = RematInputs.of(elements, device)
    run = both(WAYS[variant.way](activation, depth), inputs)
    check = error_against(_reference(activation, depth), (inputs.x.detach(), inputs.gradient), results=2)
    counted = cost(variant, point)
    compile_now(run)  # loads and compiles: what happens once must not pass for a slow call
    peak = {"peak_bytes": peak_bytes_of(run, device)}
    return Workload(run, counted, check, TOLERANCE, synchronize=waiting(device), others=peak)


def both(function: Function, inputs: RematInputs) -> Callable[[], tuple[Tensor, Tensor]]:
    """The call that is timed: forward, then backward; `(y, dx)`."""

    def run() -> tuple[Tensor, Tensor]:
        y = function(inputs.x)
        (dx,) = torch.autograd.grad(y, inputs.x, inputs.gradient)
        return y.detach(), dx

    return run


def _reference(activation: str, depth: int) -> Function:
    """y and dx by the chain rule as it stands in a book: dx is g times the product of the derivatives."""
    step = _hardswish_by_hand if activation == "hardswish" else _cos_by_hand

    def by_hand(x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        for _ in range(depth):
            x, derivative = step(x)
            gradient = gradient * derivative
        return x, gradient

    return by_hand


def _hardswish_by_hand(x: Tensor) -> tuple[Tensor, Tensor]:
    """For x from 0 to 3, where the inputs and all that becomes of them lie: x (x + 3) / 6."""
    return x * (x + 3) / 6, (2 * x + 3) / 6


def _cos_by_hand(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.cos(), -x.sin()


def peak_bytes(variant: Variant, point: Point) -> int:
    """The most memory that forward and backward take at once beside x and g, in bytes, as the allocator counts it.

    >>> from brrr_course.experiments import experiment
    >>> eager = experiment("remat").variant("cpu-eager")
    >>> peak_bytes(eager, {"activation": "cos", "depth": 8, "elements": 2**16}) >= 8 * 4 * 2**16
    True
    """
    work = workload(variant, point)
    work.check()
    return int(work.others["peak_bytes"]())
