"""Four sines in a row: little work for much data. On the CPU, on the GPU with transfers and without, and fused.

The function, the sizes and the claims follow the nested-sine part of "GPU Performance: Parallel Processing vs Overhead"
(2024), which timed it on an A100.
"""

from __future__ import annotations

import time
import types
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from brrr.core.measurement import Estimate, Measurement, Point
from brrr.counting.cost import Cost
from brrr.gpu import is_queue, kind_of, synchronize
from brrr.running.pipeline import host_array
from brrr.timing.activity import record_activity
from brrr.timing.cpu_queue import CpuQueue
from brrr_course.experiments.checked import PointInputs, drawn_on, must_fit, sampled_error
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import alone, kernel, pointwise, run
from brrr_course.experiments.sines import chain
from brrr_course.experiments.transfers import give_back_pinned
from brrr_course.nouns.experiment import Axis, Experiment, Line, PredictedRun, Run, Variant, Workload, accelerator

SINES, ITEMSIZE = 4, 4
SIZES = tuple(sorted((*(2**k for k in (0, 4, 8, *range(10, 25), 26, 28, 31)), 1000, 100_003, 10_000_019)))
COMPILED = tuple(2**k for k in (0, 4, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 31))
"""Fusing compiles anew for each size, which takes seconds."""
UP_TO_28 = ("gpu-transfers-sync", "gpu-transfers-then-sync", "gpu-transfers-kept", "cpu-drawing")
ONLY_AT: dict[str, Sequence[int]] = {
    **dict.fromkeys(UP_TO_28, range(2**28 + 1)), "gpu-compiled": COMPILED, "gpu-scripted": COMPILED[:-1],
    "gpu-scripted-first": (2**10, 2**24),
}  # fmt: skip
"""The sizes of ways that are not at all of them: at the largest some take half a minute more and show nothing new."""


def supports(variant: Variant, point: Point) -> bool:
    """Whether a variant exists at a size; whether the size fits into a machine's memory shows when it is run."""
    return point["elements"] in ONLY_AT.get(variant.implementation, (point["elements"],))


def cost(variant: Variant, point: Point) -> Cost:
    """A sine counted as one FLOP, each float32 read once and written once: what the work needs, however it is run.

    Sines that are not fused move four times as much within the device's memory.
    """
    elements = float(point["elements"])
    return Cost(flop=SINES * elements, bytes=2 * ITEMSIZE * elements)


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """Four sines, one by one or fused; None where data is sent or random numbers are drawn."""
    elements = int(point["elements"])
    nbytes = float(ITEMSIZE * elements)
    fused = kernel(["sin"] * SINES, SINES * elements, nbytes, nbytes)
    apart = run((pointwise("sin", elements, ITEMSIZE),) * SINES, 2 * nbytes, 3 * nbytes)
    made = {"gpu": apart, "cpu": apart, "gpu-compiled": alone(fused, "compiled"), "gpu-scripted": alone(fused)}
    return made.get(variant.implementation)


EXPERIMENT = Experiment(
    title="Nested sine",
    question="Four sines of each element: who is faster?",
    axes=(
        Axis("elements", SIZES, label="elements (float32, 4 bytes each)", quick=(2**10, 2**16, 2**20),
             most={"cpu-queue": 2**24}),
    ),
    variants=(
        Variant("cpu", "CPU", "cpu"),
        Variant("gpu-transfers", "GPU, data sent there and back",
                line="with transfers", line_label="GPU with transfers"),
        Variant("gpu-transfers-sync", "GPU with transfers, one more wait", line="extra synchronize", shown=False),
        Variant("gpu-transfers-then-sync", "GPU with transfers, a wait after fetching", line="wait after", shown=False),
        Variant("gpu-transfers-kept", "GPU, data sent there and back into an existing array",
                line="kept", line_label="GPU with transfers, into an existing array", shown=False),
        Variant("gpu-pinned", "GPU with transfers, pinned memory", line="pinned"),
        Variant("gpu", "GPU, data already there", line="without transfers", line_label="GPU without transfers"),
        Variant("gpu-compiled", "GPU without transfers, torch.compile", line="compiled", shown=False, needs="Triton"),
        Variant("gpu-scripted", "GPU without transfers, torch.jit.script", line="scripted", shown=False),
        Variant("gpu-scripted-first", "the first call of torch.jit.script", timer="own",
                line="scripted first", shown=False, needs="CUDA"),
        Variant("cpu-drawing", "CPU, drawing the random numbers", "cpu", line="drawing", shown=False),
        Variant.twin("gpu-transfers", "cpu-queue", "CPU queue, data sent there and back",
                     line_label="CPU queue with transfers", stands_in_for=("with transfers",)),
        Variant.twin("gpu-transfers-sync", "cpu-queue", "CPU queue, extra wait", shown=False,
                     stands_in_for=("extra synchronize",)),
        Variant.twin("gpu", "cpu-queue", "CPU queue without transfers", stands_in_for=("without transfers",)),
    ),
    field="latency_s",
    lines=(
        Line("kernels", "gpu", "kernel_s", "the four kernels alone", shown=False),
        Line("compiled kernel", "gpu-compiled", "kernel_s", "torch.compile's kernel alone", shown=False),
        Line("scripted kernel", "gpu-scripted", "kernel_s", "torch.jit.script's kernel alone", shown=False),
    ),
    package=__name__,
    anchors=({"elements": 2**16}, {"elements": 2**24}),
    traces=(
        *(("gpu-transfers", {"elements": 2**k}) for k in (10, 16, 20, 24, 28)),
        ("gpu-transfers-kept", {"elements": 2**24}),
        *(("gpu", {"elements": 2**k}) for k in (10, 20, 24, 28)),
        *(("queue-gpu-transfers", {"elements": 2**k}) for k in (10, 16, 20, 24)),
    ),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `nested_sine` experiment runs: four sines of a float32 array, checked against float64 on a sample.

TOLERANCE = 2e-6
"""float32 sines are right to about 1e-7; a hardware approximation of the sine would be found out."""

SAMPLE = 4096
QUICK = 2**24
"""Elements: up to here one call more costs nothing, and beyond, what happens once no longer weighs."""

UNIFORM_TOLERANCE = 6.0
"""So many standard deviations the mean of random numbers may be off: a good generator is once in 500 million draws."""


def nested_sine(x: torch.Tensor) -> torch.Tensor:
    """The sine of the sine of the sine of the sine.

    >>> nested_sine(torch.zeros(2))
    tensor([0., 0.])
    """
    return torch.sin(torch.sin(torch.sin(torch.sin(x))))


def workload(variant: Variant, point: Point) -> Workload:
    """Four sines of that many fresh random numbers, run as the variant says."""
    n = int(point["elements"])
    where = variant.processor if variant.implementation in ON_DEVICE else "cpu"
    if variant.on_gpu and n > QUICK:
        torch.cuda.empty_cache()  # what torch keeps for later is not counted as free
    for place in dict.fromkeys((variant.processor, where)):
        # the input, what a sine reads and what it writes, and the result of the call before
        must_fit(4 * ITEMSIZE * n, place, f"nested sine of {n} elements")
    if variant.implementation == "cpu-drawing":
        return Workload(lambda: torch.rand(n), uniform_error(n), UNIFORM_TOLERANCE)
    held = Normal.of(n, where)
    error = sampled_error(chain(SINES), held.x, SAMPLE)
    if is_queue(variant.device):
        return _on_queue(variant, held, error)
    run = RUNS[variant.implementation](held.x)
    if variant.on_gpu and (n <= QUICK or variant.implementation in ON_DEVICE):
        run()  # makes the context, compiles: what happens once must not pass for a slow call
        synchronize()
    return Workload(run, error, TOLERANCE, others={"measured": lambda: first_calls(held.x)})


class Normal(PointInputs):
    """Normal numbers, drawn where it is fast (a CPU needs half a minute for 2^31), shared by a point's variants."""

    def __init__(self, n: int, device: str) -> None:
        self.x = torch.randn(n, device=drawn_on(device)).to(device)


def uniform_error(n: int) -> Callable[[Any], float]:
    """How far the mean of n random numbers is from a half, in its standard deviations; NaN outside 0 to 1."""

    def error(drawn: Any) -> float:
        low, high = (float(each) for each in torch.aminmax(drawn))
        if drawn.numel() != n or not 0 <= low <= high < 1:
            return float("nan")
        return abs(float(drawn.mean(dtype=torch.float64)) - 0.5) * float((12 * n) ** 0.5)

    return error


def _transfers(x: torch.Tensor, wait_before: bool = False, wait_after: bool = False) -> Run:
    """With a wait before the result is fetched, as the source had it, or with one after it has been."""
    there = accelerator()

    def run() -> torch.Tensor:
        y = nested_sine(x.to(there))
        if wait_before:
            synchronize()
        y = y.cpu()
        if wait_after:
            synchronize()
        return y

    return run


def _transfers_kept(x: torch.Tensor) -> Run:
    """Into ordinary memory that was written to before: a new result's pages are mapped when they are first touched."""
    result, there = torch.full_like(x, float("nan")), accelerator()
    return lambda: result.copy_(nested_sine(x.to(there)))


def _pinned(x: torch.Tensor) -> Run:
    """From and to pinned memory that is there before; the call returns before the result has arrived."""
    give_back_pinned()
    (source, result), there = (host_array(x.numel(), x.dtype) for _ in range(2)), accelerator()
    source.copy_(x)
    result.fill_(float("nan"))

    def run() -> torch.Tensor:
        result.copy_(nested_sine(source.to(there, non_blocking=True)), non_blocking=True)
        return result  # type: ignore[no-any-return]

    return run


def _compiled(x: torch.Tensor) -> Run:
    """One kernel made for this size; the earlier ones are forgotten, or torch would give up after eight sizes."""
    torch.compiler.reset()
    return partial(torch.compile(nested_sine, dynamic=False), x)


def _scripted(x: torch.Tensor) -> Run:
    """TorchScript runs the first calls as they stand and fuses what it has seen; so it is called until it has."""
    run = partial(scripted_anew(), x)
    for _ in range(3):
        run()
    return run


def scripted_anew() -> Callable[[torch.Tensor], torch.Tensor]:
    """The function scripted, knowing nothing of earlier calls: torch keeps what it made for a function object."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is on its way out, and says so
        return torch.jit.script(types.FunctionType(nested_sine.__code__, globals(), "nested_sine"))


FIRST_CALLS = 7
"""Newly scripted functions whose first call is timed."""


def first_calls(x: torch.Tensor) -> Measurement:
    """The first call of newly scripted functions, to its synchronised end, and the kernels of one."""
    activities, _ = record_activity(lambda: scripted_anew()(x))
    times, kind = [], kind_of(x.device)
    for _ in range(FIRST_CALLS):
        anew = scripted_anew()
        synchronize()
        start = time.perf_counter()
        anew(x)
        synchronize()
        times.append(time.perf_counter() - start)
    return Measurement(latency_s=Estimate.of(times), kernels=len(activities) or None, device=kind)


RUNS: dict[str, Callable[[torch.Tensor], Run]] = {
    **dict.fromkeys(("cpu", "gpu"), lambda x: partial(nested_sine, x)), "gpu-transfers": _transfers,
    "gpu-transfers-sync": partial(_transfers, wait_before=True),
    "gpu-transfers-then-sync": partial(_transfers, wait_after=True), "gpu-transfers-kept": _transfers_kept,
    "gpu-pinned": _pinned, "gpu-compiled": _compiled, "gpu-scripted": _scripted,
    "gpu-scripted-first": lambda x: lambda: scripted_anew()(x),
}  # fmt: skip
ON_DEVICE = ("gpu", "gpu-compiled", "gpu-scripted", "gpu-scripted-first")


def _on_queue(variant: Variant, held: Normal, error: Callable[[Any], float]) -> Workload:
    """On the CPU queue, which takes new memory for each sine, as the CPU does: only the way differs."""
    queue, sends = CpuQueue(), variant.implementation != "gpu"
    there: dict[str, torch.Tensor] = {}  # the accelerator's memory: only the worker looks into it

    def send() -> None:
        there["y"] = held.x.clone() if sends else held.x

    def sine() -> None:
        there["y"] = torch.sin(there["y"])

    def fetch() -> None:
        there["fetched"] = there["y"].clone()

    def run() -> dict[str, torch.Tensor]:
        for order in (send, *[sine] * SINES):
            queue.submit(order)
        if variant.implementation == "gpu-transfers-sync":
            queue.synchronize()
        if sends:
            queue.submit(fetch)
            queue.synchronize()
        return there

    return Workload(run, lambda memory: error(memory["fetched" if sends else "y"]), TOLERANCE,
                    synchronize=queue.synchronize, close=queue.close, queue=queue)  # fmt: skip
