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
from typing import TYPE_CHECKING, Any

from brrr.core.callables import giving
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Point, Value
from brrr.counting.cost import Cost, Form
from brrr.gpu import is_gpu, is_queue
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.checked import PointInputs, compile_now, compiled, error_against, must_fit, sampled_error
from brrr_course.experiments.lazily import name_of, np, torch
from brrr_course.experiments.predicted import BANDWIDTH, alone, kernel, pointwise, run
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Run, Variant, Workload, stand_in
from brrr_course.nouns.expression import Table
from brrr_course.nouns.source import Evidence

# ---------------------------------------------------------------------------------------------------------------------
# What FLOP and bytes say about one operation repeated on each element: cost, and the limits.

ITEMSIZE = {"float32": 4, "bfloat16": 2, "float16": 2}
MULTIPLY, FMA = "mul", "fma"


def flop_a_step(kind: str) -> int:
    """FLOP of a step on an element."""
    return {MULTIPLY: 1, FMA: 2}[kind]


def moved_bytes(point: Point) -> float:
    """Each element read once and written once."""
    return 2.0 * ITEMSIZE[str(point["dtype"])] * float(point["elements"])


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and compulsory bytes; without fusion every operator reads and writes all elements again (`eager_bytes`)."""
    kind, repeat = variant.operation, float(point["repeat"])
    once = moved_bytes(point)
    operators = repeat if variant.implementation == "eager" else 1
    return Cost(repeat * flop_a_step(kind) * float(point["elements"]), once, eager_bytes=operators * once)


def peak(kind: str, hardware: Hardware | None, point: Point) -> float | None:
    """The datasheet's float32 peak for FMAs, and half of it for multiplications alone; None without a datasheet."""
    units = {unit for dtype, unit in hardware.peaks if dtype == "fp32"} if hardware else None
    if not hardware or not units:
        return None
    full = hardware.peak("fp32", "cuda cores" if "cuda cores" in units else None)
    return full * flop_a_step(kind) / flop_a_step(FMA)


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """Fused: one kernel, its steps in float32; eager: a multiplication a step."""
    kind, steps = variant.operation, int(point["repeat"])
    elements, dtype = int(point["elements"]), str(point["dtype"])
    size = ITEMSIZE[dtype]
    nbytes = float(size * elements)
    if variant.implementation == "eager":
        listed = (pointwise("mul", elements, size, dtype, form=Form("scalar", 1, elements)),) * steps
        return run(listed, 2 * nbytes, (2 if len(listed) == 1 else 3) * nbytes)
    flop = flop_a_step(kind) * steps * elements
    made = kernel([kind], flop, nbytes, nbytes, fma=kind == FMA)
    return alone(made, "compiled" if variant.implementation == "compile" else "eager")


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


def _variant(how: str, kind: str, label: str, shown: bool = True) -> Variant:
    return Variant(f"{how}-{kind}", label, implementation=how, operation=kind, shown=shown)


def _twin(how: str, kind: str, label: str, *lines: str) -> Variant:
    return Variant.twin(f"{how}-{kind}", "cpu-queue", label, implementation=how, operation=kind, field="period_s",
                        stands_in_for=lines)  # fmt: skip


EXPERIMENT = Experiment(
    title="One operation, repeated",
    question="How much arithmetic fits into the time of one read and one write?",
    axes=(
        Axis("repeat", REPEATS, label="steps on each element", quick=(1, 8, 64, 512), noun="steps"),
        Axis("elements", ELEMENTS, label="elements", quick=(2**16, 2**20)),
        Axis("dtype", tuple(ITEMSIZE), label="type of the elements", scale="category", quick=("float32",)),
    ),
    variants=(
        _variant("compile", MULTIPLY, "multiplications, torch.compile"),
        _variant("triton", MULTIPLY, "multiplications, Triton"),
        _variant("cuda", MULTIPLY, "multiplications, CUDA C++"),
        _variant("cuda", FMA, "FMAs, CUDA C++"),
        _variant("triton", FMA, "FMAs, Triton", shown=False),
        _variant("compile", FMA, "FMAs, torch.compile", shown=False),
        _variant("eager", MULTIPLY, "multiplications, one operator each", shown=False),
        _twin("fused", MULTIPLY, "multiplications, fused", "cuda mul", "compile mul"),
        _twin("fused", FMA, "multiply and add, fused", "cuda fma"),
        _twin("eager", MULTIPLY, "multiplications, one order each", "eager mul"),
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


def scale_and_shift(factor: float, addend: float | None, repeat: int) -> tuple[float, float]:
    """What `repeat` steps amount to: y = scale * x + shift.

    >>> scale_and_shift(2.0, 1.0, 3)
    (8.0, 7.0)
    """
    scale = factor**repeat
    return scale, 0.0 if addend is None else addend * (scale - 1) / (factor - 1)


def fused_error(x: torch.Tensor, factor: float, addend: float | None, repeat: int) -> Callable[[Any], float]:
    """||y - reference|| / ||reference|| over all elements; NaN for another shape or type."""
    scale, shift = scale_and_shift(factor, addend, repeat)
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
    error, tolerance = _check(variant, inputs, kind, repeat)
    if is_queue(variant.device):
        return _queued(variant, repeat, inputs, error, tolerance)
    run = IMPLEMENTATIONS[variant.implementation](inputs, kind, repeat)
    compile_now(run)
    return Workload(run, error, tolerance)


def _check(variant: Variant, inputs: RepeatInputs, kind: str, repeat: int) -> tuple[Callable[[Any], float], float]:
    """What checks the result, and how far off it may be: operators one by one round at each step, fused ones once."""
    what = inputs.x, inputs.factor, inputs.addend_for(kind), repeat
    if variant.implementation == "eager" and inputs.dtype != torch.float32:
        return stepwise_error(*what), EXACT
    return fused_error(*what), TOLERANCE[name_of(inputs.dtype)]


if TYPE_CHECKING:
    Factor = torch.Tensor | float


def chain(kind: str, repeat: int) -> Callable[..., torch.Tensor]:
    """The operation as a student writes it: a loop over torch operators, on x, a factor and an addend.

    >>> chain("fma", 3)(torch.ones(2), 2.0, 1.0)
    tensor([15., 15.])
    """

    def multiply(x: torch.Tensor, factor: Factor, addend: Factor) -> torch.Tensor:
        for _ in range(repeat):
            x = x * factor
        return x

    def multiply_and_add(x: torch.Tensor, factor: Factor, addend: Factor) -> torch.Tensor:
        for _ in range(repeat):
            x = x * factor + addend
        return x

    return multiply_and_add if kind == FMA else multiply


def _eager(inputs: RepeatInputs, kind: str, repeat: int) -> Run:
    """With plain numbers: for a tensor of one element on the GPU, torch takes a slower kernel."""
    function = chain(kind, repeat)
    return lambda: function(inputs.x, inputs.factor, inputs.addend)


def _compiled(inputs: RepeatInputs, kind: str, repeat: int) -> Run:
    """One kernel: the loop unrolled; the factor is an argument, so that the compiler does not know its powers."""
    fused = compiled(chain(kind, repeat))
    return lambda: fused(inputs.x, inputs.factor_tensor, inputs.addend_tensor)


def _triton(inputs: RepeatInputs, kind: str, repeat: int) -> Run:
    from brrr.kernels.repeat import repeat_multiply

    out, addend = _empty(inputs), inputs.addend_for(kind)
    return lambda: repeat_multiply(inputs.x, repeat, inputs.factor, addend, out)


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


def _queued(
    variant: Variant, repeat: int, inputs: RepeatInputs, error: Callable[[Any], float], tolerance: float
) -> Workload:
    """On the CPU queue: one order for all (`fused`), or one for each step (`eager`)."""
    out = _empty(inputs)
    orders: list[Run] = [partial(blockwise, inputs, variant.operation, repeat, out)]
    if variant.implementation == "eager":
        again = [partial(out.mul_, inputs.factor)] * (repeat - 1)
        orders = [partial(torch.mul, inputs.x, inputs.factor, out=out), *again]
    return Workload.in_orders(orders, out, error, tolerance, held=inputs)


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
