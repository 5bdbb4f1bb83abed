"""Peaks through torch's own operators: of a CPU, and of an accelerator for which there are no kernels of our own."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from brrr.core.measurement import Value
from brrr.gpu import free_bytes, is_gpu, tensors_on, waiting
from brrr.roofline.calibrate import host_cost, part
from brrr.roofline.calibrate.part import CALLS, Findings, Part, loop_estimate, measure_products
from brrr.roofline.calibrate.reference_calls import sweep_operators, sweep_products
from brrr.roofline.peak import Curve, Peak, better, sizes_between

SMALLEST, LARGEST = 64 * 2**10, 2**30
QUICK_LARGEST = 32 * 2**20
BUSY = 0.3
HIDDEN = 1.5
"""Issuing is hidden behind work that takes so many times as long."""
TWICE = 2
"""Each set is sampled twice, at different moments: another program's burst of work spoils one of them."""
IN_CACHE = 32 * 2**10
"""Floats a thread in the chain: torch gives a thread no fewer, and three arrays of 128 KiB lie in a core's L2."""


def bandwidth(found: Findings, kind: str = "cpu") -> None:
    """Copy, read, write and triad by working set. A call's whole time counts: on small sets the host's cost with it.

    Of an accelerator only sets count that take it longer than issuing takes the host.
    """
    sizes = _sizes(found.quick, kind)
    arena = torch.empty(sizes[-1] // 4, device=tensors_on(kind)).uniform_(0.5, 1.5)
    seconds = min(0.12, 0.3 * found.left_s / (len(sizes) * len(STREAMS)))
    issued_s = 0.0
    if is_gpu(kind):
        (issuing,) = part.issue_estimates([stream("copy", arena, SMALLEST)[1]], waiting(kind), seconds)
        issued_s = HIDDEN * issuing.median
    for name, by in STREAMS.items():
        best: dict[float, Peak] = {}
        for _ in range(TWICE):
            for place, rate in _rates(name, arena, sizes, seconds / TWICE, found, kind):
                if place >= rate.value * issued_s:
                    best[place] = better(best.get(place), rate)
        if not best:
            found.note(f"{name}: not measured: no working set keeps the device busy for longer than issuing takes")
            continue
        if max(best) < sizes[-1] / 2:
            found.note(f"{name}: working sets above {int(max(best))} B left out, for lack of time")
        conditions: dict[str, Value] = {"by": f"{by}, the better of two samples", **_threads(kind)}
        found.curves[name] = Curve("working_set_bytes", tuple(sorted(best.items())), conditions)


def _rates(
    name: str, arena: torch.Tensor, sizes: list[int], seconds: float, found: Findings, kind: str
) -> Iterator[tuple[float, Peak]]:
    """The rate on each working set, until the next one would take more than an eighth of the time that is left."""
    for size in sizes:
        moved, call = stream(name, arena, size)
        estimate = loop_estimate(call, seconds, kind)
        yield moved, Peak.rate(moved, estimate, "B/s")
        if not found.quick and CALLS * estimate.median > found.left_s / 8:
            return


def _sizes(quick: bool, kind: str) -> list[int]:
    if quick:
        return sizes_between(SMALLEST, QUICK_LARGEST, 8)
    return sizes_between(SMALLEST, min(LARGEST, free_bytes(kind) // 4), 2)


def _threads(kind: str = "cpu") -> dict[str, int]:
    return {} if is_gpu(kind) else {"threads": torch.get_num_threads()}


STREAMS = {
    "read": "x.sum()", "copy": "y.copy_(x)", "triad": "torch.add(b, c, alpha=scale, out=a)", "write": "x.fill_(value)",
}  # fmt: skip


def stream(kind: str, arena: torch.Tensor, size: int) -> tuple[int, Callable[[], Any]]:
    """The bytes that a call moves over a working set of about `size`, and the call, once it was right."""
    count = size // 4 // {"copy": 2, "triad": 3}.get(kind, 1)
    x, y, value = arena[:count], arena[count : 2 * count], float(torch.rand(())) + 0.5
    if kind == "read":
        exact = torch.stack([part.double(each).sum() for each in x.split(part.BLOCK)]).sum()
        part.close(x.sum(), exact, 1e-4, "torch's sum")
        return 4 * count, lambda: x.sum()
    if kind == "copy":
        return 8 * count, part.checked(lambda: y.copy_(x), y, lambda block: x[block], "torch's copy_")
    if kind == "write":
        expected = x.new_tensor(value).expand(count)
        return 4 * count, part.checked(lambda: x.fill_(value), x, lambda block: expected[block], "torch's fill_")
    z = arena[2 * count : 3 * count]
    call = lambda: torch.add(y, z, alpha=value, out=x)  # noqa: E731
    allowed = part.roundings(y, z, value)
    return 12 * count, part.checked(call, x, part.added(y, z, value), "torch's add", allowed)


def products(found: Findings, kind: str = "cpu") -> None:
    """Products of matrices in float32, float64 and bfloat16; of an accelerator in half precision, too."""
    dtypes = ("fp32", "bf16", "fp16", "fp64") if is_gpu(kind) else ("fp32", "fp64", "bf16")
    share_s = (0.4 if is_gpu(kind) else 0.15) * found.left_s / len(dtypes)
    sizes = (256, 512) if found.quick else (256, 512, 1024, 2048, 4096)
    by = "torch.matmul" if is_gpu(kind) else f"torch.matmul, {torch.get_num_threads()} threads"
    timed = partial(loop_estimate, kind=kind)
    for dtype in dtypes:
        try:
            measure_products(dtype, sizes, tensors_on(kind), timed, found, share_s=share_s, by=by)
        except (TypeError, RuntimeError) as error:  # a type that the device lacks
            found.note(f"matmul.{dtype}: not measured: {part.said(error)}")


def arithmetic(found: Findings) -> None:
    """Plain float32 with and without FMA, as near as torch's operators come: chains on arrays that stay in the cache.

    Each step reads and writes the cache, so these rates are a lower bound of what the units do in registers;
    `matmul.fp32` comes nearest to that.
    """
    what = "arrays that stay in the L2 cache: a lower bound of the units, for every step loads and stores"
    seconds = min(0.25, found.left_s / 10)
    x = torch.rand(IN_CACHE * torch.get_num_threads())
    recurrence = LinearRecurrence(64, addition=True)
    a, b, end = torch.full_like(x, recurrence.factor), torch.full_like(x, recurrence.addend), recurrence.end(x)
    y = x.clone()
    for _ in range(recurrence.steps):
        torch.addcmul(b, y, a, out=y)
    part.close(y, end, 1e-5, "a chain of torch.addcmul")
    z = torch.full_like(x, torch.nan)
    torch.mul(x, a, out=z)
    part.close(z, x.double() * recurrence.factor, 1e-6, "torch.mul")
    calls = {
        "fma": (2 * len(x), "torch.addcmul", lambda: torch.addcmul(b, y, a, out=y)),
        "mul": (len(x), "torch.mul", lambda: torch.mul(x, a, out=z)),
    }
    for name, (flop, by, call) in [*calls.items()] * TWICE:
        rate = Peak.rate(flop, loop_estimate(call, seconds / TWICE), "FLOP/s", by=by, what=what, **_threads())
        found.measured[f"arithmetic.fp32.{name}"] = better(found.measured.get(f"arithmetic.fp32.{name}"), rate)


def look_round(found: Findings) -> None:
    """Say so if other programs keep the processors busy: products and large sets then look slower than they are."""
    import psutil

    load, processors = psutil.getloadavg()[0], psutil.cpu_count() or 1
    if load > BUSY * processors:
        found.note(f"the machine was busy (load {load:.1f} on {processors} processors): the figures may be too low")


def parts_on(kind: str) -> tuple[Part, ...]:
    """What is measured of an accelerator by torch's operators alone."""
    return (
        Part("a look round", look_round), Part("bandwidth", partial(bandwidth, kind=kind)),
        Part("host", partial(host_cost.measure_host, kind)), Part("matmul", partial(products, kind=kind)),
    )  # fmt: skip


PARTS: tuple[Part, ...] = (
    Part("a look round", look_round),
    Part("host", partial(host_cost.measure_host, "cpu")),
    Part("host.line", partial(host_cost.measure_python, "cpu"), needs_s=10.0),
    Part("arithmetic", arithmetic),
    Part("host.compiled", host_cost.measure_compiled, needs_s=20.0),
    Part("sweep of products", partial(sweep_products, device="cpu"), needs_s=5.0),
    Part("sweep of operators", partial(sweep_operators, device="cpu"), needs_s=5.0),
    Part("matmul", products),
    Part("bandwidth", bandwidth),
)


# ---------------------------------------------------------------------------------------------------------------------
# The recurrence x = a x + b, whose solution is known: the check of every chain of arithmetic.


class LinearRecurrence:
    """x = factor * x + addend, so many times.

    >>> LinearRecurrence(4, addition=True).factor, LinearRecurrence(4, addition=True).addend
    (0.75, 0.5)

    The factor is so near 1 that after all steps the start still counts by 1/e; factor and addend need no rounding, for
    steps are a power of two. A step left out, or one too many, so shows in the end of the chain; the fixed point with
    an addition is 2.
    """

    def __init__(self, steps: int, *, addition: bool) -> None:
        self.steps, self.factor, self.addend = steps, 1 - 1 / steps, 2 / steps if addition else 0.0

    def end(self, start: torch.Tensor) -> torch.Tensor:
        """The last of the sequence in float64: a^n x + b (1 - a^n) / (1 - a)."""
        shrunk = self.factor**self.steps
        return start.double() * shrunk + self.addend * (1 - shrunk) / (1 - self.factor)
