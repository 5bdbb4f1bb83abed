"""How long each way takes, before it runs, and which ways no other beats in time and error.

>>> predictor = Predictor.of("h200")
>>> both = (Problem(IMPLEMENTATIONS[name], 8192, 8192, 8192) for name in ("sgemm-strassen-1", "sgemm"))
>>> parts, plain = map(predictor.parts, both)
>>> parts.total_s < plain.total_s, parts.left_s < parts.products_s
(True, True)

A way's passes over memory and its products take what the roofline's model of the device says, corrected by the
constants of `calibration.py`. Importing this loads no torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from brrr.core import units
from brrr.core.measurement import Processor, median
from brrr.counting.cost import ITEMSIZE, Matmul
from brrr.gpu import CUDA, is_gpu
from brrr.roofline.corrections import kernel_time
from brrr.roofline.device_model import LAUNCH_S, DeviceModel, Where, model_of
from brrr.roofline.gemm_families import operator_of
from brrr.roofline.peaks import MissingPeakError
from brrr.roofline.terms import stream_s
from brrr.strassen.accuracy import PLAIN, predicted_error
from brrr.strassen.calibration import BY_SIZE_ON, CONSTANTS
from brrr.strassen.implementations import IMPLEMENTATIONS, INNERS, Implementation, Inner
from brrr.strassen.odd_sizes import copied, core_of, thin_parts
from brrr.strassen.problem import Problem, Sizes, aligned_size
from brrr.strassen.request import Limits, Request
from brrr.strassen.workspace import Traffic, launches, workspace_bytes
from brrr.timing.host_times import HostTimes

TRIAL_S = 0.004

_LIBRARY = {"fp16x3": "fp16"}
"""The library product whose predicted rate an inner product of ours goes by."""

_CPU_LIBRARY = {"fp16x3": "sgemm", "fp16": "sgemm"}
"""What stands for a type that a CPU has no units for."""


@dataclass(frozen=True)
class Parts:
    """Seconds of a way: the pass before the products on each side, the products, and the pass behind them.

    `thin_s` is for the products of what an odd size leaves over, where that is split off.
    """

    left_s: float
    right_s: float
    products_s: float
    post_add_s: float
    thin_s: float = 0.0

    @property
    def total_s(self) -> float:
        """All of it, one after the other, as a CUDA Graph runs it."""
        return self.left_s + self.right_s + self.products_s + self.post_add_s + self.thin_s


@dataclass(frozen=True)
class Predictor:
    """Times on one device; `basis` is what is known of it, looked up once."""

    basis: DeviceModel = field(hash=False, compare=False)

    @classmethod
    def of(cls, device: Where) -> Predictor:
        """For a device as `brrr.predict` takes it; MissingPeakError where nothing is known of it."""
        return cls(model_of(device))

    def parts(self, problem: Problem) -> Parts:
        """The seconds of a way's passes and products; MissingPeakError where the device lacks its type."""
        m, n, k = (max(1, size) for size in problem.sizes)  # an empty product takes no less
        problem = replace(problem, m=m, n=n, k=k, aligned=problem.aligned and self.basis.is_gpu)
        core = core_of(problem)
        inside = replace(problem, m=core[0], n=core[1], k=core[2])
        left_s, right_s, post_add_s = self._passes(inside)
        if copied(inside).any:
            inside = replace(inside, n=aligned_size(inside.n), k=aligned_size(inside.k), aligned=False)
        rows, deep, columns = inside.block
        products_s = self._product_s(problem.implementation.kind, problem.implementation.products, rows, columns, deep)
        return Parts(left_s, right_s, products_s, post_add_s, self._thin_s(core, problem))

    def _passes(self, problem: Problem) -> tuple[float, float, float]:
        """The passes before the products on each side and behind them."""
        traffic = (Traffic.of if self.basis.is_gpu else Traffic.by_blocks)(problem)
        touched = float(traffic.touched)
        plain = copied(problem).any or problem.implementation.level or not self.basis.is_gpu
        split = ("sums", "turned", "sums") if problem.implementation.inner == "fp16x3" else ("casts",) * 3
        left, right, post_add = ("sums",) * 3 if plain else split
        return (
            self._pass(traffic.left, touched, left),
            self._pass(traffic.right, touched, right),
            self._pass(traffic.post_add, touched, post_add),
        )

    def _thin_s(self, core: Sizes, problem: Problem) -> float:
        """The thin products beside a core, by the library; what is added to is read too."""
        seconds, operand = 0.0, problem.operand
        for m, n, k in thin_parts(core, problem.sizes):
            again = ITEMSIZE[operand] * m * n if k < problem.k else 0
            seconds += self._product_s(INNERS[PLAIN[operand]], 1, m, n, k) + self._pass((again, 0), float(again))
        return seconds

    def _pass(self, moved: tuple[int, int], touched: float, rate: str = "sums") -> float:
        """One pass over memory, by the constant of its kind against a plain stream."""
        return stream_s(self.basis, *moved, touched) / CONSTANTS[f"rate.{rate}"].value if moved[0] else 0.0

    def _product_s(self, inner: Inner, count: int, m: int, n: int, k: int) -> float:
        """The library product of its kind, as many times, by the rate of the inner product against it."""
        gpu = self.basis.is_gpu
        if inner.name == "fp16x3" and gpu:  # its terms are filled up: no size is an odd one
            m, n, k = (-(-size // 8) * 8 for size in (m, n, k))
        library = (_LIBRARY if gpu else _CPU_LIBRARY).get(inner.name, inner.name)
        each = operator_of(Matmul(m, n, k, count, INNERS[library].dtype, (False, True)))
        made = kernel_time(each, self.basis, tf32=library == "tf32")
        assert made.device_s is not None  # no view
        size = (float(count) * m * n * k) ** (1 / 3)
        return inner.products * made.device_s / self._product_rate(inner.name, count, size)

    def _product_rate(self, inner: str, count: int, size: float) -> float:
        """By what a rate differs from the predictor's; where it was measured, by the size of a cube of as much work."""
        batched = CONSTANTS.get(f"rate.{inner}.batched") if count > 1 else None
        found = batched or CONSTANTS[f"rate.{inner}"]
        if not found.by_size or self.basis.peaks is None or self.basis.device != BY_SIZE_ON:
            return found.value
        places, factors = zip(*found.by_size, strict=True)
        return found.value * float(np.interp(math.log(max(size, 1.0)), np.log(places), factors))


def issuing_s(how: Implementation, request: Request) -> float:
    """Seconds of the host for all launches of a way; `matmul` also makes those of what is not torch's own product."""
    first, ours = (CONSTANTS[f"host.{name}"].value for name in ("call", "matmul"))
    made = how.name != PLAIN[request.operand] and not request.whole  # a chain of layers keeps its own
    return first + LAUNCH_S["strassen"] * launches(request.problem(how)) + ours * made


def host_slowness() -> float:
    """How many times as long this host takes to issue a product as the one that the constants were measured on.

    1 where there is no GPU to issue it to, and while a CUDA Graph is captured, of which the host issues nothing later.
    """
    import torch

    if not torch.cuda.is_available() or torch.cuda.is_current_stream_capturing():
        return 1.0
    return _slowness()


@lru_cache(maxsize=1)
def _slowness() -> float:
    import torch

    x = torch.ones(8, 8, device=CUDA)
    times = HostTimes(lambda: torch.mm(x, x), torch.cuda.synchronize)
    times.one()  # it loads the library
    times.round(TRIAL_S)
    return median(times.host) / CONSTANTS["host.torch"].value


# ---------------------------------------------------------------------------------------------------------------------
# The frontier: every way by its predicted time and error, and which no other way beats.


@dataclass(frozen=True)
class ParetoPoint:
    """What is expected of a way: seconds (None where nothing is known), relative error, and bytes besides the operands.

    `beaten_by` names a way that is neither slower nor less exact: such a way is dominated, and there is no reason to
    take it but memory.
    """

    implementation: Implementation
    seconds: float | None
    error: float
    workspace_bytes: int
    beaten_by: str | None = None

    def __str__(self) -> str:
        time = "unknown" if self.seconds is None else units.seconds(self.seconds)
        memory = units.nbytes(self.workspace_bytes)
        beaten = f", dominated by {self.beaten_by}" if self.beaten_by else ""
        return f"{self.implementation.name}: {time}, error {self.error:.1e}, workspace {memory}{beaten}"


def frontier(
    m: int, n: int, k: int, *, operand: str = "float32", device: Where = "h200", prepared: bool = False,
    names: Iterable[str] | None = None, workspace_bytes: int | None = None, whole: bool = False,
) -> tuple[ParetoPoint, ...]:  # fmt: skip
    """List the implementations of an (m, k) by (k, n) product with predicted time and error, the fastest first.

    >>> found = frontier(4096, 4096, 4096, device="h200", names=["sgemm", "sgemm-strassen-2", "tf32"])
    >>> [each.implementation.name for each in found], found[-1].beaten_by is None
    (['tf32', 'sgemm-strassen-2', 'sgemm'], True)

    device: as `brrr.predict` takes it. prepared: the right operand's part is computed beforehand. names: only these
    implementations. workspace_bytes: those that need more are left out. whole: odd sizes are padded, as in a chain of
    layers. `beaten_by` names an implementation that is at least as fast and as accurate. MissingPeakError for an
    unknown device; implementations whose type was not measured on it have no time and come last.
    """
    predictor = Predictor.of(device)
    kind = predictor.basis.kind
    among = candidates(operand, kind, prepared) if names is None else [IMPLEMENTATIONS[name] for name in names]
    request = Request(m, n, k, operand, Limits(workspace_bytes=workspace_bytes), whole=whole)
    return marked(estimates(among, request, kind, predictor))


def candidates(operand: str, kind: str, prepared: bool = False) -> list[Implementation]:
    """The ways for operands of a type on a kind of device; where prepared, those that can be are.

    >>> [how.name for how in candidates("float64", "cpu")][:3]
    ['fp64', 'fp64-strassen-1', 'fp64-winograd-1']
    """
    mine = [how for how in IMPLEMENTATIONS.values() if how.here(operand, kind)]
    names = {how.name for how in mine}
    return [how for how in mine if how.prepared == (prepared and replace(how, prepared=True).name in names)]


def marked(estimates: Sequence[ParetoPoint]) -> tuple[ParetoPoint, ...]:
    """By time, each with the fastest way that dominates it.

    >>> a, b = (ParetoPoint(IMPLEMENTATIONS[name], 1.0, error, 0) for name, error in (("sgemm", 1e-6), ("tf32", 1e-3)))
    >>> [each.beaten_by for each in marked([b, a])]
    [None, 'sgemm']
    """
    order = sorted(estimates, key=lambda each: (math.inf if each.seconds is None else each.seconds, each.error))
    kept: list[ParetoPoint] = []
    found = []
    for each in order:
        known = each.seconds is not None
        better = (other.implementation.name for other in kept if known and other.error <= each.error)
        beaten = next(better, None)
        found.append(replace(each, beaten_by=beaten))
        if known and beaten is None:
            kept.append(each)
    return tuple(found)


def estimates(
    among: Iterable[Implementation], request: Request, kind: Processor, predictor: Predictor | None
) -> list[ParetoPoint]:
    """What is expected of ways for a product; those that cannot stay within its memory are left out.

    Without a predictor, and for a type that was not measured on the device, without seconds.
    """
    found = (_estimate(how, request, is_gpu(kind), predictor) for how in among)
    return [each for each in found if each is not None]


def _estimate(how: Implementation, request: Request, gpu: bool, predictor: Predictor | None) -> ParetoPoint | None:
    """Without copies to aligned rows where there is no room for them, and on a CPU."""
    problem, limit = request.problem(how, aligned=gpu), request.limit_bytes
    if limit is not None and not how.level and workspace_bytes(problem) > limit:
        problem = replace(problem, aligned=False)
    needed, seconds = workspace_bytes(problem), None
    if limit is not None and needed > limit:
        return None
    with suppress(MissingPeakError):
        seconds = None if predictor is None else predictor.parts(problem).total_s
    return ParetoPoint(how, seconds, predicted_error(how, request.k, request.operand), needed)
