"""One operation repeated on each element of an array: more and more arithmetic for the same bytes.

The question, the range of repeats and the claims follow "Making Deep Learning Go Brrrr From First Principles", which
multiplied by two with a fusing compiler on an A100. Here the factor is near one and drawn at run time: doubled 128
times, a float32 is infinite, and every infinity is as right as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import Any

from brrr.core.callables import giving
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Point, Value
from brrr.counting.cost import Cost, Form
from brrr.gpu import is_gpu, is_queue
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.checked import PointInputs, compile_now, compiled, error_against, must_fit, sampled_error
from brrr_course.experiments.lazily import np, torch
from brrr_course.experiments.predicted import BANDWIDTH, alone, how_of, kernel, pointwise, run
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Run, Variant, Workload, stand_in
from brrr_course.nouns.expression import Table
from brrr_course.nouns.source import Evidence

# ---------------------------------------------------------------------------------------------------------------------
# What FLOP and bytes say about one operation repeated on each element: cost, and the limits.

ITEMSIZE = {"float32": 4, "bfloat16": 2, "float16": 2}
MULTIPLY, FMA = "mul", "fma"
FLOP = {MULTIPLY: 1, FMA: 2}
"""Of a step on an element."""


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and compulsory bytes; without fusion every operator reads and writes all elements again (`eager_bytes`)."""
    kind, repeat = variant.operation, float(point["repeat"])
    once = 2.0 * ITEMSIZE[str(point["dtype"])] * float(point["elements"])
    operators = repeat if variant.implementation == "eager" else 1
    return Cost(repeat * FLOP[kind] * float(point["elements"]), once, eager_bytes=operators * once)


def peak(kind: str, hardware: Hardware | None, point: Point) -> float | None:
    """The datasheet's float32 peak for FMAs, and half of it for multiplications alone; None without a datasheet."""
    units = {unit for dtype, unit in hardware.peaks if dtype == "fp32"} if hardware else None
    if not hardware or not units:
        return None
    full = hardware.peak("fp32", "cuda cores" if "cuda cores" in units else None)
    return full * FLOP[kind] / FLOP[FMA]


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """Fused: one kernel, its steps in float32; eager: a multiplication a step."""
    kind, steps = variant.operation, int(point["repeat"])
    elements, dtype = int(point["elements"]), str(point["dtype"])
    size = ITEMSIZE[dtype]
    nbytes = float(size * elements)
    if variant.implementation == "eager":
        listed = (pointwise("mul", elements, size, dtype, form=Form("scalar", 1, elements)),) * steps
        return run(listed, 2 * nbytes, (2 if len(listed) == 1 else 3) * nbytes)
    made = kernel([kind], FLOP[kind] * steps * elements, nbytes, nbytes, fma=kind == FMA)
    return alone(made, how_of(variant.implementation))


REPEATS = (1, 2, 3, 4, 8, 16, 32, 33, 64, 100, 128, 256, 512)
ELEMENTS = (2**16, 2**20, 10_000_019, 2**24, 2**26, 2**28)
COMPILED_REPEATS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
COMPILED = {
    ("mul", "float32"): (2**20, 2**24, 2**26), ("fma", "float32"): (2**26,), ("mul", "bfloat16"): (2**26,),
}  # fmt: skip
"""torch.compile makes a new kernel for each number of steps and each size, which takes seconds."""

EAGER_BYTES, EAGER_ELEMENTS = 2**36, (2**20, 2**26)
"""Eager stops where a call would move more than this; in the half types it is there at two sizes."""

QUEUE_ELEMENTS, QUEUE_STEPS = 2**24, 2**30
"""The CPU queue stops at so many elements, more than its caches hold, and at so many steps on all of them together."""


def supports(variant: Variant, point: Point) -> bool:
    """Which variant exists where."""
    kind, repeat = variant.operation, int(point["repeat"])
    elements, dtype = int(point["elements"]), str(point["dtype"])
    if not is_gpu(variant.device):
        return elements <= QUEUE_ELEMENTS and repeat * elements <= QUEUE_STEPS
    if variant.implementation == "compile":
        return repeat in COMPILED_REPEATS and elements in COMPILED.get((kind, dtype), ())
    if variant.implementation == "eager":
        there = dtype == "float32" or elements in EAGER_ELEMENTS
        return there and cost(variant, point).eager_bytes <= EAGER_BYTES
    return True


LABELS = {"compile": "torch.compile", "triton": "Triton", "cuda": "CUDA C++", "eager": "one operator each"}
STEPS = {MULTIPLY: "multiplications", FMA: "FMAs"}
WAYS = {("compile", MULTIPLY): True, ("triton", MULTIPLY): True, ("cuda", MULTIPLY): True, ("cuda", FMA): True,
        ("triton", FMA): False, ("compile", FMA): False, ("eager", MULTIPLY): False}  # fmt: skip
"""How the GPU takes which steps, and whether that is shown."""
QUEUE_WAYS = {("fused", MULTIPLY): ("multiplications, fused", "cuda mul", "compile mul"),
              ("fused", FMA): ("multiply and add, fused", "cuda fma"),
              ("eager", MULTIPLY): ("multiplications, one order each", "eager mul")}  # fmt: skip
"""What the CPU queue's are called, and the lines in whose place they stand."""


EXPERIMENT = Experiment(
    title="One operation, repeated",
    question="How much arithmetic fits into the time of one read and one write?",
    axes=(
        Axis("repeat", REPEATS, label="steps on each element", quick=(1, 8, 64, 512), noun="steps"),
        Axis("elements", ELEMENTS, label="elements", quick=(2**16, 2**20)),
        Axis("dtype", tuple(ITEMSIZE), label="type of the elements", scale="category", quick=("float32",)),
    ),
    variants=(
        *(Variant(f"{how}-{kind}", f"{STEPS[kind]}, {LABELS[how]}", implementation=how, operation=kind, shown=shown)
          for (how, kind), shown in WAYS.items()),
        *(Variant.twin(f"{how}-{kind}", "cpu-queue", label, implementation=how, operation=kind, field="period_s",
                       stands_in_for=(*lines,)) for (how, kind), (label, *lines) in QUEUE_WAYS.items()),
        Variant("webgpu-fma", "FMAs on your GPU", "webgpu", timer="browser", operation=FMA,
                stands_in_for=("cuda fma",)),
    ),
    field="busy_s",
    lines=(stand_in("cuda mul", "webgpu-fma", "period_s", "FMAs on your GPU"),),
    package=__name__,
    anchors=tuple({"repeat": steps, "elements": 2**26, "dtype": "float32"} for steps in (1, 512)),
    rate=Rate("flop", "FLOP/s", "floating-point operations a second"),
    other_rates=(Rate("bytes", "B/s", "bytes that must move, a second"),),
    guides=(
        Guide("fma-peak", "float32 peak (FMA)", "DATASHEET", "rate", partial(peak, FMA)),
        Guide("multiply-peak", "half of it (no FMA)", "DATASHEET", "rate", partial(peak, MULTIPLY),
              ("compile mul", "triton mul", "cuda mul")),
        replace(BANDWIDTH, view="bytes"),
    ),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What the `repeat` experiment runs: one operation on each element, repeated, fused or one operator at a time.

TOLERANCE = {"float32": 4e-5, "float16": 7e-4, "bfloat16": 4e-3}
"""float32: 512 roundings of 2^-24 at most, each relative; the half types: one rounding of 2^-11 or 2^-8, at the end."""

EXACT = 1e-6
"""For a chain that rounds at each step, against one that rounds at the same places."""

SAMPLE = 2**18


def fused_error(x: torch.Tensor, factor: float, addend: float | None, repeat: int) -> Callable[[Any], float]:
    """||y - reference|| / ||reference|| over all elements, the steps as one; NaN for another shape or type.

    >>> fused_error(torch.ones(2), 2.0, 1.0, 3)(torch.tensor([15.0, 15.0]))
    0.0
    """
    scale = factor**repeat
    shift = 0.0 if addend is None else addend * (scale - 1) / (factor - 1)
    return error_against(lambda part: part * scale + shift, (x,))


def stepwise_error(x: torch.Tensor, factor: float, addend: float | None, repeat: int) -> Callable[[Any], float]:
    """The same for operators that each round to the type: against steps in float64 that round at the same places.

    In a half type that rounding adds up to far more than the type's own precision; it is the type's, not the kernel's.
    """

    def steps(part: torch.Tensor) -> torch.Tensor:
        y = part
        for _ in range(repeat):
            y = (y * factor).to(x.dtype).double()
            y = y if addend is None else (y + addend).to(x.dtype).double()
        return y

    return sampled_error(steps, x, SAMPLE)


NEAR_ONE = 1 / 128
"""The factor is 1 + NEAR_ONE to 1 + 2 NEAR_ONE: the half types hold such numbers, and 512 steps stay in their range."""

BLOCK = 2**15
"""Elements of a block on the CPU: 128 KB of float32, which stay in a core's cache from step to step."""


class RepeatInputs(PointInputs):
    """The data of one point, drawn once and used by all of its variants as long as one of them is there.

    `factor` and `addend` are numbers that the type holds exactly, so that all ways compute the same.
    """

    def __init__(self, elements: int, dtype: str, device: str) -> None:
        self.dtype, self.device = getattr(torch, dtype), device
        self.x = torch.randn(elements, device=device, dtype=self.dtype)
        self.factor_tensor = (1 + NEAR_ONE * (1 + torch.rand(()))).to(device, self.dtype)
        self.addend_tensor = (NEAR_ONE * (1 + torch.rand(()))).to(device, self.dtype)
        self.factor, self.addend = float(self.factor_tensor), float(self.addend_tensor)

    def addend_for(self, kind: str) -> float | None:
        """The addend where the operation has one."""
        return self.addend if kind == FMA else None


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's operation on fresh random input, which the point's variants share."""
    repeat, elements, dtype = int(point["repeat"]), int(point["elements"]), str(point["dtype"])
    device = variant.processor
    must_fit(3 * ITEMSIZE[dtype] * elements, device, f"{variant.label} on {elements} elements", elements)
    inputs, kind = RepeatInputs.of(elements, dtype, device), variant.operation
    rounds = variant.implementation == "eager" and dtype != "float32"  # at each step, and fused ones once
    check = (stepwise_error if rounds else fused_error)(inputs.x, inputs.factor, inputs.addend_for(kind), repeat)
    tolerance = EXACT if rounds else TOLERANCE[dtype]

    def error(found: Any, kept: RepeatInputs = inputs) -> float:  # what is kept is there for the other variants
        return check(found)

    if is_queue(variant.device):
        out = _empty(inputs)
        return Workload.in_orders(_orders(variant, inputs, repeat, out), out, error, tolerance)
    run = IMPLEMENTATIONS[variant.implementation](inputs, kind, repeat)
    compile_now(run)
    return Workload(run, error, tolerance)


def chain(kind: str, repeat: int) -> Callable[..., torch.Tensor]:
    """The operation as a student writes it: a loop over torch operators, on x, a factor and an addend.

    >>> chain("fma", 3)(torch.ones(2), 2.0, 1.0)
    tensor([15., 15.])
    """

    adds = kind == FMA

    def steps(x: torch.Tensor, factor: Any, addend: Any) -> torch.Tensor:
        for _ in range(repeat):
            x = x * factor + addend if adds else x * factor
        return x

    return steps


def _eager(inputs: RepeatInputs, kind: str, repeat: int) -> Run:
    """With plain numbers: for a tensor of one element on the GPU, torch takes a slower kernel."""
    return partial(chain(kind, repeat), inputs.x, inputs.factor, inputs.addend)


def _compiled(inputs: RepeatInputs, kind: str, repeat: int) -> Run:
    """One kernel: the loop unrolled; the factor is an argument, so that the compiler does not know its powers."""
    return partial(compiled(chain(kind, repeat)), inputs.x, inputs.factor_tensor, inputs.addend_tensor)


def _triton(inputs: RepeatInputs, kind: str, repeat: int) -> Run:
    from brrr.kernels.repeat import repeat_multiply

    return partial(repeat_multiply, inputs.x, repeat, inputs.factor, inputs.addend_for(kind), _empty(inputs))


def _cuda(inputs: RepeatInputs, kind: str, repeat: int) -> Run:
    from brrr.kernels.repeat import by_bindings

    out = _empty(inputs)
    return giving(out, by_bindings(inputs.x, out, repeat, inputs.factor, inputs.addend_for(kind)), inputs)


def _empty(inputs: RepeatInputs) -> torch.Tensor:
    """A result of NaN: only what a variant writes itself can pass the check."""
    return torch.full_like(inputs.x, float("nan"))


# ---- a CPU: fused means that a block stays in the cache from the first step to the last ----


def blockwise(inputs: RepeatInputs, kind: str, repeat: int, out: torch.Tensor) -> None:
    """All steps on one block, then on the next: the memory is read and written once, by as many threads as torch's.

    The steps are NumPy's, in float32 as in the kernels: torch would divide every one of them among its threads and
    wait for them, which takes ten times as long as the step on a block.
    """
    starts, threads = range(0, inputs.x.numel(), BLOCK), torch.get_num_threads()
    size = -(-len(starts) // threads)
    shares = [starts[first : first + size] for first in range(0, len(starts), size)]
    run = partial(_share, inputs, kind, repeat, out)
    list(_pool(threads).map(run, shares) if len(shares) > 1 else map(run, shares))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="brrr-repeat")


def _share(inputs: RepeatInputs, kind: str, repeat: int, out: torch.Tensor, starts: range) -> None:
    """One thread's blocks, one after the other."""
    factor, addend = (np.float32(each) for each in (inputs.factor, inputs.addend))
    for start in starts:
        source, target = (each[start : start + BLOCK] for each in (inputs.x, out))
        before, after = source.float().numpy(), target.float().numpy()  # a float32's are the tensors' own memory
        for _ in range(repeat):
            np.multiply(before, factor, out=after)
            if kind == FMA:
                np.add(after, addend, out=after)
            before = after
        if target.dtype != torch.float32:
            target.copy_(torch.from_numpy(after))


IMPLEMENTATIONS: dict[str, Callable[[RepeatInputs, str, int], Run]] = {
    "eager": _eager, "compile": _compiled, "triton": _triton, "cuda": _cuda,
}  # fmt: skip


def _orders(variant: Variant, inputs: RepeatInputs, repeat: int, out: torch.Tensor) -> list[Run]:
    """To the CPU queue: one for all steps (`fused`), or one for each (`eager`)."""
    if variant.implementation == "fused":
        return [partial(blockwise, inputs, variant.operation, repeat, out)]
    return [partial(torch.mul, inputs.x, inputs.factor, out=out), *[partial(out.mul_, inputs.factor)] * (repeat - 1)]


# ---------------------------------------------------------------------------------------------------------------------
# What the claims on repeated operations ask beside the notation: where the arithmetic becomes the limit.

FEWEST = 4
"""So many numbers of steps are needed to tell a knee."""


def knee(evidence: Evidence | None, times: Table) -> Estimate:
    """Where the memory's time and the arithmetic's are equal, in steps: the flat part over the slope of the steep one.

    >>> e = lambda t: Estimate(t, t, t, 9)
    >>> knee(None, Table(("repeat",), {(n,): e(max(50.0, float(n))) for n in (1, 32, 256, 512)})).median
    50.0

    The flat part is the time of the fewest steps, the slope what the last doubling of the steps adds to each of them.
    Where the elements are open, the most that have enough steps. NotRecordedError where none have, or where the last
    doubling took less than half as long again: then no knee shows.
    """
    curves: dict[tuple[Value, ...], dict[int, Estimate]] = {}
    for (repeat, *rest), time in times.values.items():
        curves.setdefault(tuple(rest), {})[int(repeat)] = time
    enough = {rest: curve for rest, curve in curves.items() if len(curve) >= FEWEST}
    if not enough:
        raise NotRecordedError(f"fewer than {FEWEST} numbers of steps were measured")
    curve = enough[max(enough)]
    first, last = min(curve), max(curve)
    before = max((repeat for repeat in curve if repeat <= last / 2), default=first)
    if curve[last].median < 1.5 * curve[before].median:
        raise NotRecordedError(f"{last} steps are too few to leave the flat part")
    return curve[first] * (last - before) / (curve[last] - curve[before])
