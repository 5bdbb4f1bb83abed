"""What `strassen` runs: a product of two random matrices, by each way of `brrr.strassen` and by torch's own calls."""

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import torch

from brrr.core.measurement import Point
from brrr.gpu import is_cpu, is_gpu
from brrr.strassen.accuracy import accuracy_limit, predicted_error
from brrr.strassen.execution import prepare_right, run_all, steps
from brrr.strassen.operands import Arena, Right
from brrr.strassen.ways import Way
from brrr_course.experiments.checked import PointInputs, refuse_too_large
from brrr_course.experiments.strassen import ways
from brrr_course.nouns.experiment import Run, Variant, Workload

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
        self.rights: dict[tuple[Way, str], Right] = {}
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

    def right(self, way: Way, operand: str) -> Right:
        """The right operand, its sums or terms made where the way has them prepared: once for all ways of that kind."""
        b = self.matrices(operand)[1]
        if not way.prepared:
            return Right.of(b)
        if (way, operand) not in self.rights:
            self.rights[way, operand] = prepare_right(b, way, cut=True)
        return self.rights[way, operand]

    def arena(self, needed: float) -> Arena:
        """The workspace, large enough for every way of this size from the start where the device is a GPU."""
        measured = ways.MEASURED if is_gpu(self.device) else ways.ON_CPU
        if self._arena is None or self._arena.nbytes < needed:
            from brrr_course.experiments.strassen import MEMORY_BYTES

            every = [each for way in measured if (each := ways.workspace_bytes(way, self.n)) <= MEMORY_BYTES]
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
    refuse_too_large(needed_bytes(variant, n), device, f"{variant.label} of size {n}")
    given = SquareInputs.of(n, device)
    run = {ways.BY_MATMUL: _chosen, ways.BY_TORCH: _torch}.get(variant.kind, _way)(variant, given)
    work, allowed = ways.cost(variant, point), tolerance(variant, n)
    wait = None if is_cpu(device) else torch.cuda.synchronize
    return Workload(run, work, given.error, allowed, wait)


def needed_bytes(variant: Variant, n: int) -> int:
    """Operands, result, workspace, and the rows in float64."""
    way = ways.way(variant)
    work = ways.workspace_bytes(way, n) if way is not None else 5.25 * 4 * n * n
    return int(work) + 4 * 4 * n * n + 8 * n * (n + 2 * min(n, ROWS))


def tolerance(variant: Variant, n: int) -> float:
    """The largest relative error that is no mistake: `ROOM` times what `brrr.strassen` expects of the way.

    >>> 1e-6 < tolerance(ways.NAMED["sgemm"], 1024) < 2.9e-4 < tolerance(ways.NAMED["tf32"], 1024) < 0.02
    True
    """
    if variant.kind == ways.BY_TORCH:  # their sums over all of k stay in the tensor cores, which truncate
        return ROOM * 1.2e-9 * n + 1e-6
    way, operand = ways.way(variant), ways.operand(variant)
    expected = predicted_error(way, n, operand) if way else accuracy_limit(ways.asked(variant.way), n, operand)
    return min(ROOM * expected + 1e-7, NO_SHORT_TYPE if way and way.inner in ways.ACCURATE else 1.0)


def _way(variant: Variant, given: SquareInputs) -> Run:
    """A way's steps on the shared workspace; what it takes of it is free again for the next way."""
    way = ways.way(variant)
    assert way is not None
    operand = ways.operand(variant)
    a, right, out = given.matrices(operand)[0], given.right(way, operand), given.out(operand)
    arena = given.arena(ways.workspace_bytes(way, given.n))
    with arena.mark():
        made = steps(way, a, right, out, arena)
    return partial(_steps, made, out, given)


def _steps(made: list[Callable[[], None]], out: torch.Tensor, given: SquareInputs) -> torch.Tensor:
    run_all(made)
    return out


def _chosen(variant: Variant, given: SquareInputs) -> Run:
    """`matmul` as it is called, asked for an accuracy."""
    from brrr.strassen.multiply import matmul

    operand = ways.operand(variant)
    (a, b), out = given.matrices(operand), given.out(operand)

    def run() -> torch.Tensor:
        return matmul(a, b, accuracy=ways.asked(variant.way), out=out)

    run()  # its plan is made and kernels load now: so long a first call would be taken for a slow one, and timed once
    out.fill_(math.nan)
    return run


def _torch(variant: Variant, given: SquareInputs) -> Run:
    """A split product of torch's calls."""
    return partial(split_products, *given.matrices("float32"), given.out("float32"), chunk=ways.TORCH[variant.way])
