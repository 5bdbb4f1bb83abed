"""Strassen's algorithm, level by level, over every kind of inner product: can a product be faster than the peak?

A square product, time and error of each way beside each other: without tensor cores, with them in short types, and with
them in float32's accuracy; each with up to three levels of Strassen's or Winograd's form outside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Point
from brrr.counting.cost import ITEMSIZE, Cost, Matmul, OperatorCost, matmul_cost
from brrr.gpu.datasheet import Hardware
from brrr.strassen.implementations import IMPLEMENTATIONS, LEVELS, Implementation, Problem
from brrr_course.experiments.checked import PointInputs, must_fit
from brrr_course.experiments.lazily import torch
from brrr_course.experiments.predicted import flop_of, kernel
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Run, Variant, Workload
from brrr_course.nouns.expression import Key, Table
from brrr_course.nouns.source import Evidence, Source

if TYPE_CHECKING:
    from brrr.strassen.operands import Arena, Right

# ---------------------------------------------------------------------------------------------------------------------
# Which ways of multiplying `strassen` measures, what is counted of them, and the bounds that a datasheet sets them.

TORCH = {"torch-fp16x3": (0, "two float16 terms, 3 torch products"),
         "torch-fp16x3-chunks": (1024, "two float16 terms, torch products of 1024 each")}  # fmt: skip
"""Split products of torch's calls: two float16 terms, three products, summed outside after so many of k (0: never)."""

CPU, CHOSEN = "cpu-", "auto-"
"""What the names of variants on a CPU, and of what `matmul` chooses, begin with."""


def _levels(inner: str, *levels: int, form: str = "strassen", prepared: bool = False) -> tuple[Implementation, ...]:
    return tuple(Implementation(inner, level, form, prepared) for level in levels)


MEASURED = (
    *_levels("sgemm", 0, 1, 2, 3), *_levels("sgemm", 1, 2, 3, prepared=True),
    *_levels("sgemm", 1, 2, 3, form="winograd", prepared=True),
    *_levels("tf32", 0), *_levels("fp16", 0),
    *_levels("bf16", 0, 1, 2, 3), *_levels("bf16", 1, 2, 3, prepared=True),
    *_levels("fp16x3", 0, 1, 2), *_levels("fp16x3", 0, 1, 2, prepared=True),
)  # fmt: skip
"""Every way of `brrr.strassen` that is measured on a GPU, in the figures' order."""

ON_CPU = (
    *_levels("sgemm", 0, 1, 2), *_levels("sgemm", 1, 2, prepared=True), *_levels("sgemm", 1, 2, form="winograd"),
    *_levels("fp16x3", 0),
)  # fmt: skip

ACCURATE = ("sgemm", "fp16x3")
"""Inner products that are meant to be as accurate as float32."""

SHOWN = (
    "sgemm", "sgemm-strassen-1-prepared", "sgemm-strassen-2-prepared", "sgemm-strassen-3-prepared", "bf16", "fp16x3",
    "auto-fp32", "cpu-sgemm", "cpu-sgemm-strassen-1", "cpu-sgemm-strassen-1-prepared", "cpu-sgemm-winograd-1",
)  # fmt: skip


def _label(way: Implementation) -> str:
    """Of Strassen's form the levels alone: seven names find room above a figure."""
    return way.label.replace("SGEMM (float32)", "SGEMM").replace(", Strassen,", ",")


LABELS = {
    **{way.name: _label(way) for way in MEASURED},
    "auto-fp32": 'matmul(accuracy="fp32")', "auto-1e-5": "matmul(accuracy=1e-5)",
    "auto-tf32": 'matmul(accuracy="tf32")', "auto-bf16": 'matmul(accuracy="bf16")',
    **{name: label for name, (_, label) in TORCH.items()},
}  # fmt: skip
"""Behind the ways what `matmul` chooses, asked for the accuracy of a classical product, by its name, or a number."""
CPU_LABELS = {**{way.name: _label(way) for way in ON_CPU}, "auto-fp32": LABELS["auto-fp32"]}


def way_of(name: str) -> Implementation | None:
    """The way of the variant of that name; None where `matmul` chooses, and for torch's split products.

    >>> way_of("cpu-sgemm-winograd-1"), way_of("auto-fp32")
    (Implementation(inner='sgemm', level=1, form='winograd', prepared=False), None)
    """
    return IMPLEMENTATIONS.get(name.removeprefix(CPU))


def accuracy_of(name: str) -> str:
    """The accuracy that `matmul` is asked for by the variant of that name; empty for all others.

    >>> accuracy_of("cpu-auto-fp32"), accuracy_of("sgemm-strassen-1")
    ('fp32', '')
    """
    return name.partition(CHOSEN)[2]


def asked(name: str) -> str | float:
    """The same as `matmul` takes it.

    >>> asked("auto-fp32"), asked("auto-1e-5")
    ('fp32', 1e-05)
    """
    accuracy = accuracy_of(name)
    return float(accuracy) if accuracy[:1].isdigit() else accuracy


# ---- what is counted, and the bounds ----


OPERANDS = {"bf16": "bfloat16", "fp16": "float16"}
"""The short types of operands, by inner product or accuracy."""


def operand_of(name: str) -> str:
    """The type of the matrices that a variant is given, and of its result: short for the short ways, else float32.

    >>> operand_of("bf16-strassen-1"), operand_of("auto-bf16"), operand_of("fp16x3")
    ('bfloat16', 'bfloat16', 'float32')
    """
    found = way_of(name)
    return OPERANDS.get(found.inner if found else accuracy_of(name), "float32")


def cost(variant: Variant, point: Point) -> Cost:
    """2n^3 FLOP, and the bytes of two operands and a result: the same for every way of a type.

    >>> cost(EXPERIMENT.variant("sgemm-strassen-3"), {"size": 1000}).flop
    2000000000.0
    """
    n = int(point["size"])
    return matmul_cost(n, n, n, ITEMSIZE[operand_of(variant.implementation)])


def buffers(way: Implementation, n: int) -> tuple[int, int, int]:
    """Bytes of both sides' factors and of the products; 0 for what a way does not need.

    >>> buffers(Implementation("sgemm"), 64), buffers(Implementation("bf16", 1, "strassen"), 64)
    ((0, 0, 0), (14336, 14336, 14336))
    """
    from brrr.strassen.cost import buffers_of

    return buffers_of(Problem(way, n, n, n, operand_of(way.name)))[:3]


def workspace_bytes(way: Implementation, n: int) -> int:
    """What a way needs beside its operands and result: the buffers of both sides and of the products.

    >>> workspace_bytes(Implementation("sgemm", 1, "strassen"), 4096) / (4 * 4096**2)
    5.25
    """
    return sum(buffers(way, n))


def fp32_peak(hardware: Hardware | None, point: Point, gain: float = 1.0) -> float | None:
    """The datasheet's fp32 peak without tensor cores, FLOP/s, or what so large a gain over it would be."""
    peak = hardware.peaks.get(("fp32", "cuda cores")) if hardware else None
    return peak and gain * peak


# ---- what is predicted: a pass over each side, the products, a pass behind them ----


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The kernels of a way, as a CUDA Graph runs them; a CPU's as torch runs them, one by one."""
    way, n = way_of(variant.implementation), int(point["size"])
    if way is None or way.inner == "tf32":
        return None
    listed, whole = operators(way, n), cost(variant, point)
    touched = whole.bytes + workspace_bytes(way, n)
    work = Cost(flop_of(listed), whole.bytes, sum(each.bytes for each in listed), touched, listed)
    return PredictedRun(work, "graph" if variant.on_gpu else "eager", way.dtype)


def operators(way: Implementation, n: int) -> tuple[OperatorCost, ...]:
    """The passes and the products of a way at a size; those of a split product as one that is so many times as deep.

    >>> [each.name for each in operators(Implementation("sgemm", 1, "strassen", prepared=True), 64)]
    ['fused(aten.sums)', 'aten.bmm', 'fused(aten.sums)']
    """
    (left, right, products), matrix = buffers(way, n), n * n * ITEMSIZE[operand_of(way.name)]
    moved = (matrix, left), (matrix, 0 if way.prepared else right), (products, matrix)
    to_left, to_right, behind = ([kernel(["sums"], 0.0, *each)] if all(each) else [] for each in moved)
    rows, depth, _ = Problem(way, n, n, n).block
    each = Matmul(rows, depth, depth * way.kind.products, way.products, way.dtype)
    read = float(way.kind.itemsize * way.products * depth * (rows + depth))
    shapes, name = ((rows, depth), (depth, depth)), "aten.bmm" if way.level else "aten.mm"
    written = 4.0 * way.products * rows * depth
    made = OperatorCost(name, each.flop, read, written, way.dtype, shapes, "matmul", (each,))
    return (*to_left, *to_right, made, *behind)


SMALL = (128, 256)
"""Sizes for a CPU only."""

SIZES = (512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
OFF_GRID = (1537, 4097, 5000)
"""An odd size, one that just misses a power of two, one that levels do not divide."""

BETWEEN = (3072, 6144, 12288)
CLAIMED = (2048, 4096, 8192, 16384)
"""Sizes that sentences are about: every way is measured there."""

SMALLEST = (512, 512, 1024, 2048)
"""From which size on so many levels are measured: they need blocks of 256 at least."""

SHORT_SMALLEST = (512, 512, 1024, 8192)
"""The same for short types, whose products are fast: three levels of them lose on anything smaller."""

WINOGRAD_LARGEST = 8192
"""Winograd's form shows its speed and its error up to here."""

SETTLE_FROM, SETTLE_S = 2048, 0.1
"""From this size on a product of tensor cores may pull the clock down: so long each way runs before it is measured."""

MEMORY_BYTES = 60e9
"""A way that needs more beside its operands is left out: its buffers share the card with the other ways' inputs."""


def supports(variant: Variant, point: Point) -> bool:
    """Which way is measured at which size."""
    n, way = int(point["size"]), way_of(variant.implementation)
    off, between = n in OFF_GRID, n in BETWEEN
    if not variant.on_gpu or n in SMALL:
        return not variant.on_gpu
    if way is None:
        return (
            n in CLAIMED
            if variant.implementation in TORCH
            else not between and (not off or variant.implementation != "auto-tf32")
        )
    smallest = SMALLEST if way.kind.exact_sums else SHORT_SMALLEST
    if n < smallest[way.level] or workspace_bytes(way, n) > MEMORY_BYTES:
        return False
    if way.form == "winograd":
        return n <= WINOGRAD_LARGEST and not off and not between
    if off:  # how blocks that overhang are handled
        return way.inner in ("sgemm", "bf16", "fp16x3")
    return not between or way.inner == "sgemm" or way.prepared or not way.level  # each level once; of SGEMM every way


def settle_s(point: Point) -> float:
    """How long a way runs unmeasured before its samples: the way before it left a clock of its own.

    >>> settle_s({"size": 1537}), settle_s({"size": 2048})
    (0.0, 0.1)
    """
    return SETTLE_S if int(point["size"]) >= SETTLE_FROM else 0.0


EXPERIMENT = Experiment(
    title="Strassen's algorithm",
    question="Can a product of matrices be faster than the hardware's peak?",
    axes=(
        Axis("size", tuple(sorted((*SMALL, *SIZES, *OFF_GRID))), quick=(128, 512, 1024), alone=OFF_GRID,
             most={"cpu": 1024},
             label=f"matrix size n (an n × n by n × n product; single markers: {', '.join(map(str, OFF_GRID))})"),
    ),
    variants=(
        *(Variant(name, label, shown=name in SHOWN) for name, label in LABELS.items()),
        *(Variant.twin(name, "cpu", f"CPU, {label}", shown=CPU + name in SHOWN,
                       stands_in_for=(name.replace("-", " "),) * (IMPLEMENTATIONS.get(name) in MEASURED))
          for name, label in CPU_LABELS.items()),
    ),
    field="span_s",
    package=__name__, needs="CUDA",
    anchors=({"size": 4096},),
    rate=Rate("flop", "FLOP/s", "effective rate, 2n^3 over the time"),
    guides=(
        # a product with levels may have an effective rate above the peak; at most this, if additions were free
        Guide("fp32 peak", "fp32 peak, CUDA cores", "DATASHEET", "rate", fp32_peak, ("sgemm",)),
        Guide("three levels", "the peak times (8/7)³", "PREDICTED", "rate",
              partial(fp32_peak, gain=(8 / 7) ** LEVELS[-1]),
              tuple(way.name.replace("-", " ") for way in MEASURED if way.kind.exact_sums)),
    ),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What `strassen` runs: a product of two random matrices, by each way of `brrr.strassen` and by torch's own calls.

# ---- torch's own calls in float32's accuracy through the tensor cores: two float16 terms, three products ----

SHIFT = 2.0**11
"""float16 keeps 11 bits: the rest is as much smaller, and is stored so much larger."""


def split(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x as two float16 terms, hi + lo / 2^11; numbers beyond float16's range are lost, as torch's call would have it.

    >>> hi, lo = split(torch.tensor([1.0 + 2.0**-12]))
    >>> float(hi.float() + lo.float() / SHIFT) == 1.0 + 2.0**-12
    True
    """
    hi = x.half()
    return hi, ((x - hi.float()) * SHIFT).half()


def split_products(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, *, chunk: int = 0) -> torch.Tensor:
    """hi hi + (hi lo + lo hi) / 2^11 into `out`, float32; `chunk`: the sums over k in parts of so many, 0 for one part.

    >>> a, b = torch.randn(64, 96), torch.randn(96, 32)
    >>> found = split_products(a, b, torch.empty(64, 32), chunk=32)
    >>> bool(torch.linalg.norm(found - a.double() @ b.double()) < 1e-5 * torch.linalg.norm(a @ b))
    True
    """
    (a_hi, a_lo), (b_hi, b_lo), step = split(a), split(b), chunk or a.shape[1]
    out.zero_()
    for left_hi, left_lo, right_hi, right_lo in zip(
        *(each.split(step, 1) for each in (a_hi, a_lo)), *(each.split(step) for each in (b_hi, b_lo)), strict=True
    ):
        out.add_(_wide(left_hi, right_lo).add_(_wide(left_lo, right_hi)), alpha=1 / SHIFT)
        out.add_(_wide(left_hi, right_hi))
    return out


def _wide(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """A float16 product whose sums are kept in float32."""
    return torch.mm(left, right, out_dtype=torch.float32) if left.is_cuda else left.float() @ right.float()


# ---- the workloads ----

ROWS = 4096
"""So many rows of the result, drawn at random, are compared with float64's; all of a smaller one."""

ROOM = 10.0
"""An error may be so many times the expected one; TF32 in place of float32, or a wrong sign, is far beyond."""

NO_SHORT_TYPE = 2.5e-4
"""Whatever is meant to be as accurate as float32 may not be as wrong as TF32, which is off by 3e-4."""

SLACK_BYTES = 4 * 2**20
"""Rounding up of each buffer in the workspace, and the exponents of split rows."""


class SquareInputs(PointInputs):
    """The operands of a size, the expected rows, and the memory that its ways share."""

    def __init__(self, n: int, device: str) -> None:
        self.n, self.device = n, device
        a, b = (torch.randn(n, n, device=device) for _ in range(2))
        self.operands = {"float32": (a, b)}
        self.outs: dict[str, torch.Tensor] = {}
        self.rights: dict[Implementation, Right] = {}

    def matrices(self, operand: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Both operands in a type, rounded beforehand, once; and the result's memory, spoilt: writing nothing shows."""
        a, b = self.operands["float32"]
        if operand not in self.outs:
            dtype = getattr(torch, operand)
            self.operands[operand], self.outs[operand] = (a.to(dtype), b.to(dtype)), torch.empty_like(a, dtype=dtype)
        return *self.operands[operand], self.outs[operand].fill_(math.nan)

    def right(self, way: Implementation, b: torch.Tensor) -> Right:
        """The right operand, its sums or terms made where the way has them prepared: once for all ways of that kind."""
        from brrr.strassen.execution import prepare_right
        from brrr.strassen.operands import Right

        if way not in self.rights:
            self.rights[way] = prepare_right(b, way, rows=self.n) if way.prepared else Right.of(b)
        return self.rights[way]

    @cached_property
    def arena(self) -> Arena:
        """The workspace, large enough for every way of this size."""
        from brrr.strassen.operands import Arena

        every = [each for way in MEASURED if (each := workspace_bytes(way, self.n)) <= MEMORY_BYTES]
        return Arena(max(every) + SLACK_BYTES, self.device)

    def error(self, found: Any) -> float:
        """||found - expected|| / ||expected|| on some rows; NaN for what is no such matrix.

        The reference is float64's product of the float32 operands, so that rounding operands to a short type counts.
        """
        if not isinstance(found, torch.Tensor) or found.shape != (self.n, self.n) or found.device.type != self.device:
            return math.nan
        rows, expected = self._reference
        return float(torch.linalg.norm(found[rows].double() - expected) / torch.linalg.norm(expected))

    @cached_property
    def _reference(self) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = self.operands["float32"]
        rows = torch.randperm(self.n, device=self.device)[:ROWS].sort().values
        return rows, a[rows].double() @ b.double()


def workload(variant: Variant, point: Point) -> Workload:
    """A variant's product of the size's two matrices; UnavailableError, with the reason, where it cannot run here."""
    (n, device), way = (int(point["size"]), variant.processor), way_of(variant.implementation)
    work = workspace_bytes(way, n) if way else 21 * n * n
    rows = 8 * n * (n + 2 * min(n, ROWS))  # in float64
    must_fit(work + 4 * 4 * n * n + rows, device, f"{variant.label} of size {n}")
    given = SquareInputs.of(n, device)
    return Workload(_run(variant.implementation, given), given.error, tolerance(variant, n))


def tolerance(variant: Variant, n: int) -> float:
    """The largest relative error that is no mistake: `ROOM` times what `brrr.strassen` expects of the way.

    >>> exact, short = (tolerance(EXPERIMENT.variant(name), 1024) for name in ("sgemm", "tf32"))
    >>> 1e-6 < exact < 2.9e-4 < short < 0.02
    True
    """
    from brrr.strassen.accuracy import accuracy_limit, predicted_error

    if variant.implementation in TORCH:  # their sums over all of k stay in the tensor cores, which truncate
        return ROOM * 1.2e-9 * n + 1e-6
    way, operand = way_of(variant.implementation), operand_of(variant.implementation)
    expected = predicted_error(way, n, operand) if way else accuracy_limit(asked(variant.implementation), n, operand)
    return min(ROOM * expected + 1e-7, NO_SHORT_TYPE if way and way.inner in ACCURATE else 1.0)


def _run(name: str, given: SquareInputs) -> Run:
    """A split product of torch's calls, `matmul` as it is called, or a way's steps."""
    (a, b, out), way = given.matrices(operand_of(name)), way_of(name)
    if chunk := TORCH.get(name):
        return partial(split_products, a, b, out, chunk=chunk[0])
    if way is None:
        from brrr.strassen.multiply import matmul

        asked_for = partial(matmul, a, b, accuracy=asked(name), out=out)
        asked_for()  # its plan is made and kernels load now: so long a first call would be taken for a slow one
        out.fill_(math.nan)
        return asked_for
    from brrr.strassen.execution import steps

    with given.arena.mark():  # what it takes of the workspace is free again for the next way
        made = steps(way, a, given.right(way, b), out, given.arena)

    def run() -> torch.Tensor:
        for step in made:
            step()
        return out

    return run


# ---------------------------------------------------------------------------------------------------------------------
# Time against error: every way of multiplying at one size, and which of them others beat in both.

CLOSE = 1.05
"""Two errors this near count as equal, as `brrr.strassen.accuracy` has it."""

PROMISED = {"fp32": "sgemm", "tf32": "tf32", "bf16": "bf16"}
"""Whose error an accuracy's name stands for."""

APART = 0.05
"""Clocks that differ by more than this share of the higher one are two clocks."""


def apart(clocks: Iterable[float | None]) -> bool:
    """Whether the lowest of some clocks is further below the highest than `APART`; those unknown are left out.

    >>> apart([1.98e9, 1.90e9, None]), apart([1.98e9, 1.40e9])
    (False, True)
    """
    known = [each for each in clocks if each]
    return bool(known) and min(known) < (1 - APART) * max(known)


@dataclass(frozen=True)
class Place:
    """A way at one size: seconds, the relative error, the variant that beats it in both, if one does, the SM clock."""

    variant: str
    time_s: float
    error: float
    dominated_by: str = ""
    clock_hz: float | None = None

    def beats(self, other: Place) -> bool:
        """Faster and no less accurate, or more accurate and no slower."""
        no_worse = self.time_s <= other.time_s and self.error <= other.error
        return no_worse and (self.time_s < other.time_s or self.error < other.error)


def chosen(source: Source, size: int) -> list[Place]:
    """What `matmul(accuracy=)` took, by accuracy; on no frontier itself."""
    return [place for place in places(source, size) if accuracy_of(place.variant)]


def places(source: Source, size: int) -> list[Place]:
    """Every way with time and error at a size: a GPU's where the source has one, else the CPU's."""
    variants = [EXPERIMENT.variant(name) for name in source.variants(EXPERIMENT)]
    gpu, found = any(each.on_gpu for each in variants), []
    for name in (each.name for each in variants if each.on_gpu == gpu):
        measured = source.known(EXPERIMENT, name).get((size,))
        time = measured and (measured.span_s if gpu else measured.period_s)
        if measured and measured.error and time:
            found.append(Place(name, time.median, measured.error, clock_hz=measured.sm_clock_hz))
    return found


def sizes(source: Source) -> list[int]:
    """The sizes at which the source has at least two ways with time and error."""
    there = {int(point[0]) for name in source.variants(EXPERIMENT) for point in source.known(EXPERIMENT, name)}
    return [size for size in sorted(there) if len(places(source, size)) > 1]


# ---------------------------------------------------------------------------------------------------------------------
# What the claims on Strassen's algorithm call beside the notation's own functions: the fastest way, and clocks.


def quickest(
    evidence: Evidence, inner: str, *, size: int, prepared: bool | None = None, fewest: int = 1, error: float = math.inf
) -> str:
    """The fastest variant over an inner product of those with so many levels at least and no larger an error.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("strassen"), Recorded("h200"))
    >>> quickest(evidence, "sgemm", size=8192, prepared=True)
    'sgemm-strassen-3-prepared'

    Empty where none is as accurate; NotRecordedError where none was measured.
    """
    names = [way.name for way in MEASURED
             if way.inner == inner and way.level >= fewest and prepared in (None, way.prepared)]  # fmt: skip
    times = {name: time.median for name in names if (time := _at(evidence, name, "span_s", size))}
    if not times:
        raise NotRecordedError(f"no way of {inner} with its levels was measured at size {size}")
    accurate = [name for name in times if (_at(evidence, name, "error", size) or 0.0) <= error]
    return min(accurate, key=times.__getitem__, default="")


def _at(evidence: Evidence, variant: str, column: str, size: int) -> Any:
    """A cell of a column; None where it is not there."""
    return evidence.table(variant, column, {"size": size}).values.get(())


def compared(evidence: Evidence, one: str, other: str, *, size: int, other_size: int = 0) -> Estimate:
    """One variant's time over another's, 0 where there is no other.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("strassen"), Recorded("h200"))
    >>> f"{compared(evidence, 'sgemm', 'sgemm-strassen-3', size=8192):x}"
    '1.37x (1.37x to 1.37x)'

    Where their SM clocks are apart, the interval holds the ratio in cycles too: nothing is decided by clocks alone.
    """
    if not other:
        return Estimate.of([0.0])
    sides = (one, size), (other, other_size or size)
    a, b = (evidence.get(name.replace("-", " "), size=n) for name, n in sides)
    ratio, (x, y) = a / b, [_at(evidence, name, "sm_clock_hz", n) for name, n in sides]
    if not (x and y and apart((x, y))):
        return ratio
    cycles = ratio * (x / y)
    return Estimate(ratio.median, min(ratio.low, cycles.low), max(ratio.high, cycles.high), ratio.n)


def multiplied(evidence: Evidence, variant: str) -> float:
    """What a way multiplies over what the textbook's product does.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("strassen"), Recorded("h200"))
    >>> multiplied(evidence, "sgemm-strassen-1")
    0.875
    """
    way = way_of(variant)
    assert way is not None
    return float((7 / 8) ** way.level * way.kind.products)


def growth(evidence: Evidence, form: str) -> Table:
    """By variant and size, how much a level of a form makes SGEMM's error grow, on the GPU or else on the CPU.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("strassen"), Recorded("h200"))
    >>> f"{max(growth(evidence, 'strassen').listed()):.3g}x"
    '2.82x'
    """
    plain = evidence.table("sgemm", "error", {}).values
    ways = [way for way in MEASURED if way.inner == "sgemm" and way.form == form]
    found: dict[Key, float] = {
        (way.name, *at): (error / plain[at]) ** (1 / way.level)
        for way in ways for at, error in evidence.table(way.name, "error", {}).values.items() if at in plain
    }  # fmt: skip
    if not found:
        raise NotRecordedError(f"no errors of {form}'s form and of the library's own product were measured")
    return Table(("way", "size"), found)


def choices(evidence: Evidence) -> Table:
    """By what `matmul` was asked for and the size, its time over that of the fastest way that it could have taken.

    Nothing prepared, on operands of the same type, with an error at most a twentieth above the named product's.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("strassen"), Recorded("h200"))
    >>> len(choices(evidence).listed())
    33
    """
    source, found = evidence.source, dict[Key, Estimate]()
    for name in source.variants(evidence.experiment):
        evidence.known(name)  # each may be the fastest: a recording's plan holds all of them
    for size in sizes(source):
        there = places(source, size)
        ways = [(place, way) for place in there if (way := way_of(place.variant))]
        errors = {way.name: place.error for place, way in ways}
        for mine in (place.variant for place in there if accuracy_of(place.variant)):
            wanted = asked(mine)
            bound = CLOSE * errors.get(PROMISED[wanted], 0.0) if isinstance(wanted, str) else wanted
            may = [(place.time_s, place.variant) for place, way in ways if place.error <= bound
                   and not way.prepared and operand_of(place.variant) == operand_of(mine)]  # fmt: skip
            if may:
                found[mine, size] = compared(evidence, mine, min(may)[1], size=size)
    if not found:
        raise NotRecordedError("no choice of matmul was measured beside the ways")
    return Table(("choice", "size"), found)
