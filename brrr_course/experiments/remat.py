"""Activations saved for the backward pass, or computed again: time and memory.

A chain of activations, forward and backward. The claim follows "Making Deep Learning Go Brrrr From First
Principles": to compute again can lower memory and time at once, for what is not saved need not be moved. One
activation is cheap: hardswish, a few FLOP. The other is dear: an accurate cosine, whose arithmetic a second time may
take longer than the bytes that it spares. Both need their input going back.

With N elements and d activations, arrays of N moved: eager 5dN for a hardswish (2N, its gradient 3N) and 9dN for a
cosine (2N; its gradient -sin(x) g in three operators, 7N). Fused with all d inputs saved: forward (d + 1)N, backward
(d + 2)N. Fused and computed again: forward 2N, backward 3N. Between forward and backward memory holds x, y and g, and
what was saved: d - 1 arrays or none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from math import isqrt
from typing import TYPE_CHECKING

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, OperatorCost
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.checked import PointInputs, compile_now, compiled, error_against, must_fit, peak_bytes_of
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import flop_of, kernel, least_s, own_names, pointwise, run
from brrr_course.nouns.experiment import Axis, Experiment, Function, Guide, PredictedRun, Rate, Variant, Workload

ITEMSIZE = 4
ACTIVATIONS = ("hardswish", "cos")
DEPTHS = (2, 4, 8, 16)
ELEMENTS = (2**16, 2**21, 2**26)

Operators = tuple[OperatorCost, ...]


def steps(activation: str, n: int) -> tuple[Operators, Operators]:
    """One activation of n numbers; its gradient, from its input and the gradient that comes from above."""
    if activation == "hardswish":
        backward = pointwise("hardswish_backward", n, ITEMSIZE, reads=2 * n, flop=7)
        return (pointwise("hardswish", n, ITEMSIZE, flop=5),), (backward,)
    back = (pointwise("sin", n, ITEMSIZE), pointwise("neg", n, ITEMSIZE), pointwise("mul", n, ITEMSIZE, reads=2 * n))
    return (pointwise("cos", n, ITEMSIZE),), back


def segment(depth: int) -> int:
    """Activations of a checkpointed segment: as many as there are segments, so that the memory is least.

    >>> [segment(depth) for depth in (2, 8, 16)]
    [1, 2, 4]
    """
    return isqrt(depth)


def moved_arrays(how: str, depth: int, activation: str = "hardswish") -> int:
    """Arrays that forward and backward move, as the head of this module counts them.

    >>> moved_arrays("eager", 8), moved_arrays("compile-saved", 8), moved_arrays("compile", 8)
    (40, 19, 5)
    """
    forth, back = (sum(int(each.bytes) for each in part) // ITEMSIZE for part in steps(activation, 1))
    again = (2 * forth + back) * depth  # each activation once more
    return {"eager": (forth + back) * depth, "checkpoint": again, "compile-saved": 2 * depth + 3, "compile": 5}[how]


def saved_arrays(how: str, depth: int) -> int:
    """Arrays that wait for the backward pass, x, y and g not counted.

    >>> saved_arrays("eager", 8), saved_arrays("checkpoint", 8), saved_arrays("compile", 8)
    (7, 3, 0)
    """
    segments = -(-depth // segment(depth))
    return {"eager": depth - 1, "checkpoint": segments - 1, "compile-saved": depth - 1, "compile": 0}[how]


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP as `brrr.cost` counts them, those computed again not among them; compulsory bytes (x, g, y, dx once)."""
    elements, depth, activation = int(point["elements"]), int(point["depth"]), str(point["activation"])
    nbytes, (forth, back) = float(ITEMSIZE * elements), steps(activation, elements)
    moved = moved_arrays(variant.implementation, depth, activation) * nbytes
    return Cost(flop_of(forth + back) * depth, 4 * nbytes, eager_bytes=moved)


def predicted(variant: Variant, point: Point) -> PredictedRun:
    """Forward and backward: operators one by one, with a part of them twice, or two kernels.

    Fused, what is saved is written once and read once, or computed again in the backward kernel.
    """
    how, depth, n = variant.implementation, int(point["depth"]), int(point["elements"])
    nbytes, saved = float(ITEMSIZE * n), saved_arrays(how, depth)
    most = (saved + 4) * nbytes
    forth, back = steps(str(point["activation"]), n)
    if how in ("eager", "checkpoint"):
        return run(forth * (2 * depth if how == "checkpoint" else depth) + back * depth, 4 * nbytes, most + nbytes)
    forward = kernel(own_names(forth) * depth, flop_of(forth) * depth, nbytes, nbytes * (1 + saved))
    again = forth * (0 if how == "compile-saved" else depth - 1) + back * depth
    # fma: what counts as a whole is not merged with its neighbour
    backward = kernel(own_names(again), flop_of(again), nbytes * (2 + saved), nbytes, fma=True)
    return run((forward, backward), 4 * nbytes, most, "compiled")


def _time(how: str, hardware: Hardware | None, point: Point) -> float | None:
    """The bytes of a fused pass at the datasheet's bandwidth, in seconds."""
    return least_s(hardware, 0.0, ITEMSIZE * float(point["elements"]) * moved_arrays(how, int(point["depth"])))


EXPERIMENT = Experiment(
    title="Saved, or computed again",
    question="Is it faster to save activations for the backward pass, or to compute them again?",
    axes=(
        Axis("activation", ACTIVATIONS, label="activation", scale="category"),
        Axis("depth", DEPTHS, label="activations in the chain", quick=(2, 16)),
        Axis("elements", ELEMENTS, label="elements", quick=(2**16, 2**21), most={"cpu": 2**22}),
    ),
    variants=(
        Variant("eager", "operator by operator, all saved"),
        Variant("checkpoint", "torch.utils.checkpoint"),
        Variant("compile-saved", "torch.compile, all saved"),
        Variant("compile", "torch.compile, its own choice"),
        Variant.twin("eager", "cpu", "CPU, all saved"),
        Variant.twin("checkpoint", "cpu", "CPU, torch.utils.checkpoint"),
    ),
    package=__name__,
    anchors=tuple({"activation": name, "depth": 8, "elements": 2**26} for name in ACTIVATIONS),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=tuple(Guide(name, f"fused, {told}, at the memory's bandwidth", "PREDICTED", "time", partial(_time, how))
                 for name, told, how in (("all-saved", "all saved", "compile-saved"),
                                         ("again", "computed again", "compile"))),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `remat` experiment runs: a chain of activations forward and backward, and how much memory that takes.

TOLERANCE = 1e-5
INLINED = 4
"""Operations that the compiler writes out anew wherever their result is used. A hardswish uses its input twice, so with
the usual 30 it goes through a chain of d some 2^d times, for minutes; the kernel that it writes is the same."""
HIGHEST = 2.5
"""Inputs lie below: a hardswish leaves all from 3 on as it is, and these would hide in the norm how the others fare."""
if TYPE_CHECKING:
    Tensor = torch.Tensor


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
    operator = torch.cos if activation == "cos" else torch.nn.functional.hardswish

    def activations(x: Tensor) -> Tensor:
        for _ in range(depth):
            x = operator(x)
        return x

    return activations


def checkpointed(activation: str, depth: int) -> Function:
    """The chain in segments, of which only the first input is saved: the rest is computed again, going back."""
    from torch.utils.checkpoint import checkpoint

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

    backend = aot_autograd(fw_compiler=compile_fx_inner, decompositions=select_decomp_table,
                           partition_fn=default_partition)  # fmt: skip
    return compiled(chain(activation, depth), backend=backend, dynamic=True)


IMPLEMENTATIONS: dict[str, Callable[[str, int], Function]] = {
    "eager": chain, "checkpoint": checkpointed, "compile-saved": all_saved, "compile": its_own_choice,
}  # fmt: skip


def workload(variant: Variant, point: Point) -> Workload:
    """Forward and backward of the chain on fresh random numbers, `(y, dx)` against float64; with the peak of memory."""
    activation, depth, elements = str(point["activation"]), int(point["depth"]), int(point["elements"])
    device = variant.processor
    nbytes = ITEMSIZE * elements * (8 + saved_arrays(variant.implementation, depth))
    must_fit(nbytes, device, f"{variant.label} of {elements} elements", elements, wide=depth + 6)
    inputs = RematInputs.of(elements, device)
    run = both(IMPLEMENTATIONS[variant.implementation](activation, depth), inputs)
    check = error_against(_reference(activation, depth), (inputs.x.detach(), inputs.gradient), results=2)
    compile_now(run)  # loads and compiles: what happens once must not pass for a slow call
    return Workload(run, check, TOLERANCE, others={"peak_bytes": peak_bytes_of(run, device)})


def both(function: Function, inputs: RematInputs) -> Callable[[], tuple[Tensor, Tensor]]:
    """The call that is timed: forward, then backward; `(y, dx)`."""

    def run() -> tuple[Tensor, Tensor]:
        y = function(inputs.x)
        (dx,) = torch.autograd.grad(y, inputs.x, inputs.gradient)
        return y.detach(), dx

    return run


def _reference(activation: str, depth: int) -> Function:
    """y and dx by the chain rule as it stands in a book: dx is g times the product of the derivatives."""

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        """Of a hardswish for x from 0 to 3, where the inputs and all that becomes of them lie: x (x + 3) / 6."""
        return (x * (x + 3) / 6, (2 * x + 3) / 6) if activation == "hardswish" else (x.cos(), -x.sin())

    def by_hand(x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        for _ in range(depth):
            x, derivative = step(x)
            gradient = gradient * derivative
        return x, gradient

    return by_hand
