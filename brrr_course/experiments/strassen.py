"""Strassen's algorithm, level by level, over every kind of inner product: can a product be faster than the peak?

A square product, time and error of each way beside each other: without tensor cores, with them in short types, and with
them in float32's accuracy; each with up to three levels of Strassen's or Winograd's form outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import DeviceKind, Estimate, Point
from brrr.counting.cost import Cost, Matmul, OperatorCost
from brrr.gpu import is_cpu, is_gpu
from brrr.gpu.datasheet import Hardware
from brrr.strassen.algebra.blocks import block_shape
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

CHOSEN = ("fp32", "1e-5", "tf32", "bf16")
"""The accuracies that `matmul` is asked for: that of a classical product, by its name, or a number."""

BY_TORCH, BY_MATMUL = "torch", "matmul"
"""Operations that are no single way of `brrr.strassen`: split products of torch's calls, and what `matmul` chooses."""

CPU = "cpu-"


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
    "auto-fp32", "cpu-sgemm", "cpu-sgemm-strassen-1", "cpu-sgemm-strassen-1-prepared",
    "cpu-sgemm-winograd-1",
)  # fmt: skip


def _variant(name: str, label: str, device: DeviceKind, way: str, kind: str = "") -> Variant:
    twin = (way.replace("-", " "),) if is_cpu(device) and IMPLEMENTATIONS.get(way) in MEASURED else ()
    return Variant(name, label, device, implementation=way, operation=kind, shown=name in SHOWN, stands_in_for=twin)


def _label(way: Implementation) -> str:
    """Of Strassen's form the levels alone: seven names find room above a figure."""
    return way.label.replace("SGEMM (float32)", "SGEMM").replace(", Strassen,", ",")


def _matmul(accuracy: str) -> str:
    asked_for = f'"{accuracy}"' if isinstance(asked(accuracy), str) else accuracy
    return f"matmul(accuracy={asked_for})"


def asked(accuracy: str) -> str | float:
    """An accuracy as `matmul` takes it.

    >>> asked("fp32"), asked("1e-5")
    ('fp32', 1e-05)
    """
    return float(accuracy) if accuracy[:1].isdigit() else accuracy


VARIANTS = (
    *(_variant(way.name, _label(way), "cuda", way.name) for way in MEASURED),
    *(_variant(f"auto-{name}", _matmul(name), "cuda", name, BY_MATMUL) for name in CHOSEN),
    *(_variant(name, label, "cuda", name, BY_TORCH) for name, (_, label) in TORCH.items()),
    *(_variant(f"{CPU}{way.name}", f"CPU, {_label(way)}", "cpu", way.name) for way in ON_CPU),
    _variant(f"{CPU}auto-fp32", f"CPU, {_matmul('fp32')}", "cpu", "fp32", BY_MATMUL),
)
NAMED = {variant.name: variant for variant in VARIANTS}


def its_way(variant: Variant) -> Implementation | None:
    """The way of a variant; None where `matmul` chooses, and for torch's split products."""
    return None if variant.operation else IMPLEMENTATIONS[variant.implementation]


def its_accuracy(variant: Variant) -> str:
    """The accuracy that `matmul` is asked for by a variant; empty for all others."""
    return variant.implementation if variant.operation == BY_MATMUL else ""


def way_of(name: str) -> Implementation | None:
    """The way of the variant of that name; None where it has none, and where there is no such variant.

    >>> way_of("cpu-sgemm-winograd-1"), way_of("auto-fp32")
    (Implementation(inner='sgemm', level=1, form='winograd', prepared=False), None)
    """
    return its_way(NAMED[name]) if name in NAMED else None


def accuracy_of(name: str) -> str:
    """The accuracy that `matmul` is asked for by the variant of that name; empty for all others.

    >>> accuracy_of("cpu-auto-fp32"), accuracy_of("sgemm-strassen-1")
    ('fp32', '')
    """
    return its_accuracy(NAMED[name])


# ---- what is counted, and the bounds ----


OPERANDS = {"bf16": "bfloat16", "fp16": "float16"}
"""The short types of operands, by inner product or accuracy."""


def operand_of(variant: Variant) -> str:
    """The type of the matrices that a variant is given, and of its result: short for the short ways, else float32.

    >>> operand_of(NAMED["bf16-strassen-1"]), operand_of(NAMED["auto-bf16"]), operand_of(NAMED["fp16x3"])
    ('bfloat16', 'bfloat16', 'float32')
    """
    found = its_way(variant)
    return OPERANDS.get(found.inner if found else variant.implementation, "float32")


def cost(variant: Variant, point: Point) -> Cost:
    """2n^3 FLOP, and the bytes of two operands and a result: the same for every way of a type.

    >>> cost(NAMED["sgemm-strassen-3"], {"size": 1000}).flop
    2000000000.0
    """
    n = int(point["size"])
    return Cost(2.0 * n**3, float(3 * n * n * (4 if operand_of(variant) == "float32" else 2)))


def flop_share(way: Implementation) -> float:
    """What a way multiplies over what the classical product does: 7/8 a level, times the products of a split one.

    >>> flop_share(Implementation("sgemm", 2, "strassen")), flop_share(Implementation("fp16x3"))
    (0.765625, 3.0)
    """
    return float((7 / 8) ** way.level * way.kind.products)


def buffers(way: Implementation, n: int) -> tuple[float, float, float]:
    """Bytes of both sides' factors and of the products; 0 for what a way does not need.

    >>> buffers(Implementation("sgemm"), 64), buffers(Implementation("bf16", 1, "strassen"), 64)
    ((0.0, 0.0, 0.0), (14336.0, 14336.0, 14336.0))
    """
    from brrr.strassen.cost import buffers_of

    needed = buffers_of(Problem(way, n, n, n, OPERANDS.get(way.inner, "float32")))
    return float(needed.left), float(needed.right), float(needed.products)


def workspace_bytes(way: Implementation, n: int) -> float:
    """What a way needs beside its operands and result: the buffers of both sides and of the products.

    >>> workspace_bytes(Implementation("sgemm", 1, "strassen"), 4096) / (4 * 4096**2)
    5.25
    """
    return sum(buffers(way, n))


def fp32_peak(hardware: Hardware | None, point: Point) -> float | None:
    """The datasheet's fp32 peak without tensor cores, FLOP/s."""
    return None if hardware is None else hardware.peaks.get(("fp32", "cuda cores"))


def fp32_bound(hardware: Hardware | None, point: Point) -> float | None:
    """The effective rate that the most levels cannot exceed: the peak times (8/7)^3, additions free."""
    peak = fp32_peak(hardware, point)
    return None if peak is None else peak * (8 / 7) ** LEVELS[-1]


# ---- what is predicted: a pass over each side, the products, a pass behind them ----

TYPES = {"sgemm": "float32", "bf16": "bfloat16", "fp16": "float16", "fp16x3": "float16"}


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The kernels of a way, as a CUDA Graph runs them; a CPU's as torch runs them, one by one."""
    found, n = its_way(variant), int(point["size"])
    if found is None or found.inner not in TYPES:
        return None
    listed = operators(found, n, operand_of(variant))
    whole = cost(variant, point)
    touched = whole.bytes + sum(buffers(found, n))
    work = Cost(flop_of(listed), whole.bytes, sum(each.bytes for each in listed), touched, listed)
    return PredictedRun(work, "graph" if variant.on_gpu else "eager", TYPES[found.inner])


def operators(way: Implementation, n: int, operand: str) -> tuple[OperatorCost, ...]:
    """The passes and the products of a way at a size.

    >>> [each.name for each in operators(Implementation("sgemm", 1, "strassen", prepared=True), 64, "float32")]
    ['fused(aten.sums)', 'aten.bmm', 'fused(aten.sums)']
    """
    left, right, products = buffers(way, n)
    matrix = float(n * n * (4 if operand == "float32" else 2))

    def sums(read: float, written: float) -> list[OperatorCost]:
        return [kernel(["sums"], 0.0, read, written)] if read and written else []

    before = sums(matrix, left) + sums(matrix, 0.0 if way.prepared else right)
    return (*before, _products(way, n), *sums(products, matrix))


def _products(way: Implementation, n: int) -> OperatorCost:
    """All inner products as one call; those of a split product as one that is so many times as deep."""
    rows, depth = block_shape(n, n, way.level) if way.level else (n, n)
    count, dtype = 7**way.level, TYPES[way.inner]
    each = Matmul(rows, depth, depth * way.kind.products, count, dtype)
    read = float(way.kind.itemsize * count * depth * (rows + depth))
    shapes, name = ((rows, depth), (depth, depth)), "aten.bmm" if way.level else "aten.mm"
    return OperatorCost(name, each.flop, read, 4.0 * count * rows * depth, dtype, shapes, "matmul", (each,))


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
    n = int(point["size"])
    if not variant.on_gpu:
        return True
    if n in SMALL:
        return False
    if accuracy := its_accuracy(variant):
        return n not in BETWEEN and (n not in OFF_GRID or accuracy != "tf32")
    way = its_way(variant)
    return n in CLAIMED if way is None else _on_gpu(way, n)


def settle_s(point: Point) -> float:
    """How long a way runs unmeasured before its samples: the way before it left a clock of its own.

    >>> settle_s({"size": 1537}), settle_s({"size": 2048})
    (0.0, 0.1)
    """
    return SETTLE_S if int(point["size"]) >= SETTLE_FROM else 0.0


def _on_gpu(way: Implementation, n: int) -> bool:
    smallest = SMALLEST if way.kind.exact_sums else SHORT_SMALLEST
    if n < smallest[way.level] or workspace_bytes(way, n) > MEMORY_BYTES:
        return False
    if way.form == "winograd":
        return n <= WINOGRAD_LARGEST and n not in (*OFF_GRID, *BETWEEN)
    if n in OFF_GRID:  # how blocks that overhang are handled
        return way.inner in ("sgemm", "bf16", "fp16x3")
    if n in BETWEEN:  # each level once; of SGEMM in every way
        return way.inner == "sgemm" or way.prepared or not way.level
    return True


EXACT = tuple(way.name.replace("-", " ") for way in MEASURED if way.kind.exact_sums)

EXPERIMENT = Experiment(
    title="Strassen's algorithm",
    question="Can a product of matrices be faster than the hardware's peak?",
    axes=(
        Axis("size", tuple(sorted((*SMALL, *SIZES, *OFF_GRID))), quick=(128, 512, 1024), alone=OFF_GRID,
             most={"cpu": 1024},
             label=f"matrix size n (an n × n by n × n product; single markers: {', '.join(map(str, OFF_GRID))})"),
    ),
    variants=VARIANTS,
    field="span_s",
    package=__name__, needs="CUDA",
    anchors=({"size": 4096},),
    rate=Rate("flop", "FLOP/s", "effective rate, 2n^3 over the time"),
    guides=(
        # a product with levels may have an effective rate above the peak
        Guide("fp32 peak", "fp32 peak, CUDA cores", "DATASHEET", "rate", fp32_peak, ("sgemm",)),
        Guide("three levels", "the peak times (8/7)³", "PREDICTED", "rate", fp32_bound, EXACT),
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
    (a_hi, a_lo), (b_hi, b_lo) = split(a), split(b)
    k = a.shape[1]
    out.zero_()
    for start in range(0, k, chunk or k):
        part = slice(start, start + (chunk or k))
        left_hi, left_lo, right_hi, right_lo = a_hi[:, part], a_lo[:, part], b_hi[part], b_lo[part]
        out.add_(_wide(left_hi, right_lo).add_(_wide(left_lo, right_hi)), alpha=1 / SHIFT)
        out.add_(_wide(left_hi, right_hi))
    return out


def _wide(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """A float16 product whose sums are kept in float32."""
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


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
        self.rights: dict[tuple[Implementation, str], Right] = {}
        self._arena: Arena | None = None

    def matrices(self, operand: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Both operands in a type: rounded beforehand, once."""
        if operand not in self.operands:
            a, b = self.operands["float32"]
            dtype = getattr(torch, operand)
            self.operands[operand] = a.to(dtype), b.to(dtype)
        return self.operands[operand]

    def out(self, operand: str) -> torch.Tensor:
        """The result's memory, spoilt: a way that writes nothing is found out."""
        if operand not in self.outs:
            self.outs[operand] = torch.empty(self.n, self.n, dtype=getattr(torch, operand), device=self.device)
        return self.outs[operand].fill_(math.nan)

    def right(self, way: Implementation, operand: str) -> Right:
        """The right operand, its sums or terms made where the way has them prepared: once for all ways of that kind."""
        from brrr.strassen.execution import prepare_right
        from brrr.strassen.operands import Right

        b = self.matrices(operand)[1]
        if not way.prepared:
            return Right.of(b)
        if (way, operand) not in self.rights:
            self.rights[way, operand] = prepare_right(b, way, rows=self.n)
        return self.rights[way, operand]

    def arena(self, needed: float) -> Arena:
        """The workspace, large enough for every way of this size from the start where the device is a GPU."""
        from brrr.strassen.operands import Arena

        measured = MEASURED if is_gpu(self.device) else ON_CPU
        if self._arena is None or self._arena.nbytes < needed:
            every = [each for way in measured if (each := workspace_bytes(way, self.n)) <= MEMORY_BYTES]
            self._arena = Arena(int(max(needed, *every)) + SLACK_BYTES, self.device)
        return self._arena

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
    n, device = int(point["size"]), variant.processor
    must_fit(needed_bytes(variant, n), device, f"{variant.label} of size {n}")
    given = SquareInputs.of(n, device)
    run = {BY_MATMUL: _chosen, BY_TORCH: _torch}.get(variant.operation, _way)(variant, given)
    return Workload(run, given.error, tolerance(variant, n))


def needed_bytes(variant: Variant, n: int) -> int:
    """Operands, result, workspace, and the rows in float64."""
    way = its_way(variant)
    work = workspace_bytes(way, n) if way is not None else 5.25 * 4 * n * n
    return int(work) + 4 * 4 * n * n + 8 * n * (n + 2 * min(n, ROWS))


def tolerance(variant: Variant, n: int) -> float:
    """The largest relative error that is no mistake: `ROOM` times what `brrr.strassen` expects of the way.

    >>> 1e-6 < tolerance(NAMED["sgemm"], 1024) < 2.9e-4 < tolerance(NAMED["tf32"], 1024) < 0.02
    True
    """
    from brrr.strassen.accuracy import accuracy_limit, predicted_error

    if variant.operation == BY_TORCH:  # their sums over all of k stay in the tensor cores, which truncate
        return ROOM * 1.2e-9 * n + 1e-6
    way, operand = its_way(variant), operand_of(variant)
    expected = predicted_error(way, n, operand) if way else accuracy_limit(asked(variant.implementation), n, operand)
    return min(ROOM * expected + 1e-7, NO_SHORT_TYPE if way and way.inner in ACCURATE else 1.0)


def _way(variant: Variant, given: SquareInputs) -> Run:
    """A way's steps on the shared workspace; what it takes of it is free again for the next way."""
    from brrr.strassen.execution import steps

    way = its_way(variant)
    assert way is not None
    operand = operand_of(variant)
    a, right, out = given.matrices(operand)[0], given.right(way, operand), given.out(operand)
    arena = given.arena(workspace_bytes(way, given.n))
    with arena.mark():
        made = steps(way, a, right, out, arena)
    return partial(_steps, made, out, given)


def _steps(made: list[Callable[[], None]], out: torch.Tensor, given: SquareInputs) -> torch.Tensor:
    for step in made:
        step()
    return out


def _chosen(variant: Variant, given: SquareInputs) -> Run:
    """`matmul` as it is called, asked for an accuracy."""
    from brrr.strassen.multiply import matmul

    operand = operand_of(variant)
    (a, b), out = given.matrices(operand), given.out(operand)

    def run() -> torch.Tensor:
        return matmul(a, b, accuracy=asked(variant.implementation), out=out)

    run()  # its plan is made and kernels load now: so long a first call would be taken for a slow one, and timed once
    out.fill_(math.nan)
    return run


def _torch(variant: Variant, given: SquareInputs) -> Run:
    """A split product of torch's calls."""
    chunk, _ = TORCH[variant.implementation]
    return partial(split_products, *given.matrices("float32"), given.out("float32"), chunk=chunk)


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
    variants = [NAMED[name] for name in source.variants(EXPERIMENT)]
    gpu, found = any(each.on_gpu for each in variants), []
    for each in variants:
        measured = source.known(EXPERIMENT, each.name).get((size,))
        if each.on_gpu != gpu or measured is None or not measured.error:
            continue
        time = measured.span_s if gpu else measured.period_s
        if time is not None:
            found.append(Place(each.name, time.median, measured.error, clock_hz=measured.sm_clock_hz))
    return found


def sizes(source: Source) -> list[int]:
    """The sizes at which the source has at least two ways with time and error."""
    there = {int(point[0]) for name in source.variants(EXPERIMENT) for point in source.known(EXPERIMENT, name)}
    return [size for size in sorted(there) if len(places(source, size)) > 1]


def picks(source: Source) -> Iterator[tuple[str, int, str]]:
    """What `matmul` was asked for at each size, and the fastest way that it could have taken.

    Nothing prepared, on operands of the same type, with an error at most a twentieth above the named product's.
    """
    for size in sizes(source):
        found = places(source, size)
        errors = {way.name: place.error for place in found if (way := way_of(place.variant)) is not None}
        for mine in chosen(source, size):
            wanted = asked(accuracy_of(mine.variant))
            bound = CLOSE * errors.get(PROMISED[wanted], 0.0) if isinstance(wanted, str) else wanted
            may = [place for place in found if _may(place.variant, mine.variant) and place.error <= bound]
            if may:
                yield mine.variant, size, min(may, key=lambda place: place.time_s).variant


def _may(name: str, variant: str) -> bool:
    """Whether `matmul` could have taken a way in a variant's place."""
    way = way_of(name)
    return way is not None and not way.prepared and operand_of(NAMED[name]) == operand_of(NAMED[variant])


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
    (a, x), (b, y) = _timed(evidence, one, size), _timed(evidence, other, other_size or size)
    ratio = a / b
    if not (x and y and apart((x, y))):
        return ratio
    cycles = ratio * (x / y)
    return Estimate(ratio.median, min(ratio.low, cycles.low), max(ratio.high, cycles.high), ratio.n)


def _timed(evidence: Evidence, variant: str, size: int) -> tuple[Estimate, float | None]:
    """The time and the SM clock, if it is known."""
    column = "span_s" if evidence.experiment.variant(variant).on_gpu else "period_s"
    time, clock = _at(evidence, variant, column, size), _at(evidence, variant, "sm_clock_hz", size)
    if time is None:
        raise NotRecordedError(f"{variant} at size {size} was not measured")
    return time, clock


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
    return flop_share(way)


def growth(evidence: Evidence, form: str) -> Table:
    """By variant and size, how much a level of a form makes SGEMM's error grow, on the GPU or else on the CPU.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("strassen"), Recorded("h200"))
    >>> f"{max(growth(evidence, 'strassen').listed()):.3g}x"
    '2.82x'
    """
    found: dict[Key, float] = {}
    plain = evidence.table("sgemm", "error", {}).values
    for way in MEASURED:
        if way.inner == "sgemm" and way.form == form and way.level:
            errors = evidence.table(way.name, "error", {}).values.items()
            found |= {(way.name, *at): (error / plain[at]) ** (1 / way.level) for at, error in errors if at in plain}
    if not found:
        raise NotRecordedError(f"no errors of {form}'s form and of the library's own product were measured")
    return Table(("way", "size"), found)


def choices(evidence: Evidence) -> Table:
    """By what `matmul` was asked for and the size, its time over that of the fastest way that it could have taken.

    >>> from brrr_course.experiments import experiment
    >>> from brrr_course.sources.recorded import Recorded
    >>> evidence = Evidence(experiment("strassen"), Recorded("h200"))
    >>> len(choices(evidence).listed())
    33
    """
    for way in evidence.source.variants(evidence.experiment):
        evidence.known(way)  # each may be the fastest: a recording's plan holds all of them
    chosen = picks(evidence.source)
    found: dict[Key, Estimate] = {(mine, n): compared(evidence, mine, best, size=n) for mine, n, best in chosen}
    if not found:
        raise NotRecordedError("no choice of matmul was measured beside the ways")
    return Table(("choice", "size"), found)
