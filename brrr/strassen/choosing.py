"""Which way multiplies two matrices best: as exact as is asked for, within the memory given, the fastest by prediction.

>>> made = plan(8192, 8192, 8192, accuracy=1e-5, inner="sgemm", device="h200")
>>> made.way.name, made.predicted_error < 1e-5
('sgemm-strassen-3', True)

Importing this loads no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Processor
from brrr.gpu import GPU, is_gpu
from brrr.roofline.device_model import Where, known_here, model_of
from brrr.roofline.peaks import MissingPeakError
from brrr.strassen.accuracy import CLOSE, OF_TYPE, PLAIN, Constraints, Inners, accuracy_limit, checked, predicted_error
from brrr.strassen.calibration import CONSTANTS
from brrr.strassen.pareto import ParetoPoint, candidates, estimate, frontier, why
from brrr.strassen.peeling import copied, core_of, thin_parts
from brrr.strassen.ways import WAYS, Way
from brrr.strassen.workspace import fits_aligned
from brrr.strassen.workspace import workspace_bytes as least_bytes

GAIN = 1.03
"""Levels are taken where they are predicted faster than the classical product by so much: predictions are no better."""


@dataclass(frozen=True)
class ProductPlan:
    """How two matrices will be multiplied, and why; prints as that sentence.

    `predicted_s` is None where nothing is known of the device. `depth` of the levels go depth first. `estimates` are
    all ways that were looked at, the fastest first, with those that are dominated named as such.
    """

    way: Way
    m: int
    n: int
    k: int
    predicted_s: float | None
    predicted_error: float
    workspace_bytes: int
    depth: int
    why: str
    estimates: tuple[ParetoPoint, ...] = field(default=(), repr=False)

    @property
    def rate(self) -> float | None:
        """The effective rate, 2 m n k over the predicted time, in FLOP/s: above the hardware's peak if levels pay."""
        return 2.0 * self.m * self.n * self.k / self.predicted_s if self.predicted_s else None

    def __str__(self) -> str:
        size = f"{self.m} x {self.k} by {self.k} x {self.n}"
        time = f", predicted {units.seconds(self.predicted_s)}" if self.predicted_s is not None else ""
        said = f"error {self.predicted_error:.1e}, workspace {units.nbytes(self.workspace_bytes)}"
        return f"{size}: {self.way.label}{time}, {said}. {self.why}"


def plan(
    m: int, n: int, k: int, *, dtype: str = "float32", accuracy: float | str | None = None, level: int | None = None,
    form: str | None = None, inner: Inners = None, workspace_bytes: int | None = None, device: Where = None,
    prepared: bool = False, whole: bool = False,
) -> ProductPlan:  # fmt: skip
    """The way for an (m, k) by (k, n) product, chosen as `matmul` chooses it; nothing is multiplied.

    >>> print(plan(64, 64, 64, level=1, inner="sgemm", device="h200").why)
    As asked for; it does not pay: the classical product (sgemm) is predicted to take ...

    accuracy, level, form, inner, workspace_bytes: as for `matmul`. device: as `brrr.predict` takes it; None is the GPU
    of this machine, or its CPU. prepared: the right operand's sums are made beforehand. whole: odd sizes are rounded
    up, as in a chain of layers, and nothing is peeled off.
    """
    request = checked(m, n, k, dtype, accuracy, level, form, inner, workspace_bytes, prepared, whole=whole)
    return plan_of(request, device)


def plan_of(request: Constraints, device: Where) -> ProductPlan:
    """The plan for what is asked: of tensors on "cuda" or "cpu", or on a device as `brrr.predict` takes it."""
    if device in (None, "cuda", "cpu"):
        from brrr.gpu.device import default_device_kind

        return _planned(request, GPU if is_gpu(device) else "cpu" if device else default_device_kind(), None)
    return _planned(request, model_of(device).kind, device)


@lru_cache(maxsize=4096)
def _planned(request: Constraints, kind: Processor, device: Where) -> ProductPlan:
    """On a kind of device; by the figures of `device`, or of the one of this machine where that is None."""
    allowed = [way for way in candidates(request.operand, kind, request.prepared) if _asked_for(way, request)]
    if not allowed:
        asked = f"inner {', '.join(request.inner) or 'any'}, level {request.level}, form {request.form or 'any'}"
        raise ArgumentError("matmul", "inner", asked, f"a way of multiplying {request.operand} on {kind}")
    estimates = _estimates(request, kind, device, allowed)
    fitting = [each for each in estimates if _exact_enough(each, request)]
    if not fitting:
        _refuse(request, allowed, estimates)
    chosen = _chosen(fitting, request, request.eager and is_gpu(kind))
    return ProductPlan(
        chosen.way, request.m, request.n, request.k, chosen.seconds, chosen.error, chosen.workspace_bytes, chosen.depth,
        why(chosen, fitting, request, _limit(request), partial(_classical_s, request, kind, device, chosen.way.inner)),
        tuple(estimates),
    )  # fmt: skip


def _estimates(request: Constraints, kind: Processor, device: Where, allowed: list[Way]) -> list[ParetoPoint]:
    """By prediction; where nothing is known of the device, without times, the library's own product first."""
    sizes, limit = (request.m, request.n, request.k), request.limit_bytes
    try:
        device = known_here(kind) if device is None else device
        names = [way.name for way in allowed]
        found = frontier(
            *sizes, operand=request.operand, device=device, names=names, workspace_bytes=limit, whole=request.whole
        )
        return list(found.estimates)
    except MissingPeakError:
        made = [_untimed(way, request, kind) for way in allowed]
        plain = PLAIN[request.operand]
        return sorted((each for each in made if each), key=lambda each: (each.way.inner != plain, each.way.level))


def _untimed(way: Way, request: Constraints, kind: str) -> ParetoPoint | None:
    sizes, limit = (request.m, request.n, request.k, request.operand), request.limit_bytes
    return estimate(way, *sizes, limit, aligned=is_gpu(kind) and fits_aligned(way, *sizes, limit))


def _asked_for(way: Way, request: Constraints) -> bool:
    if request.inner and way.inner not in request.inner:
        return False
    if request.level is not None and way.level != request.level:
        return False
    if way.level and (request.accuracy, request.level, request.form, request.inner) == (None, None, None, ()):
        return False  # badly scaled matrices lose digits in a level's sums: only who asks for one gets it
    return not way.level or request.form is None or way.form == request.form


def _exact_enough(each: ParetoPoint, request: Constraints) -> bool:
    """By the accuracy asked for; without one, the inner product's own counts where level or inner are asked for."""
    operand, k = request.operand, request.k
    if request.accuracy is None and request.level is not None:
        classical = predicted_error(WAYS[each.way.inner], k, operand)
        return bool(request.inner) or classical <= accuracy_limit(None, k, operand)
    if request.accuracy is None and request.inner:
        return each.error <= CLOSE * max(predicted_error(WAYS[name], k, operand) for name in request.inner)
    return each.error <= accuracy_limit(request.accuracy, k, operand)


def _chosen(fitting: list[ParetoPoint], request: Constraints, issued: bool) -> ParetoPoint:
    """The fastest; others than the simpler ones only where they are ahead by more than predictions err, and rows many.

    issued: the host issues each launch, and a way takes no less than that does.
    """

    def taken(each: ParetoPoint) -> float:
        assert each.seconds is not None
        return max(each.seconds, issuing_s(each.way, request)) if issued else each.seconds

    timed = [each for each in fitting if each.seconds is not None]
    if not timed:
        return fitting[0]
    chosen = min(timed, key=taken)
    simpler = [next((each for each in timed if each.way.classical), None)]
    simpler.append(next((each for each in timed if each.way.name in PLAIN.values()), None))
    for each in simpler:
        if each is not None and (request.few_rows or taken(chosen) * GAIN > taken(each)):
            chosen = each
    return chosen


def _classical_s(request: Constraints, kind: Processor, device: Where, inner: str) -> float | None:
    """What the classical product of the same kind is predicted to take."""
    plain = Constraints(request.m, request.n, request.k, request.operand, level=0, inner=(inner,), whole=request.whole)
    return _planned(plain, kind, device).predicted_s


def _refuse(request: Constraints, allowed: list[Way], estimates: list[ParetoPoint]) -> None:
    """What cannot be: so exact, or in so little memory."""
    if not estimates:
        sizes = request.m, request.n, request.k, request.operand
        needed = min(least_bytes(way, *sizes, 0 if way.prepared else way.level, aligned=False) for way in allowed)
        if request.workspace_bytes is not None and needed > request.workspace_bytes:
            hint = "Take fewer levels, or level=0"
            raise ArgumentError(
                "matmul", "workspace_bytes", request.workspace_bytes, f"at least {needed} for this way", hint
            )
        from brrr.core.errors import DeviceMemoryError

        raise DeviceMemoryError(f"matmul: it needs a workspace of {needed} bytes, and {request.limit_bytes} are free")
    nearest = min(estimates, key=lambda each: each.error)
    expected = f"at least {nearest.error:.1e}, the smallest error of what is allowed here ({nearest.way.name})"
    raise ArgumentError("matmul", "accuracy", request.accuracy or OF_TYPE[request.operand], expected)


def _limit(request: Constraints) -> float:
    if request.accuracy is None and request.inner:
        return CLOSE * max(predicted_error(WAYS[name], request.k, request.operand) for name in request.inner)
    return accuracy_limit(request.accuracy, request.k, request.operand)


# ---------------------------------------------------------------------------------------------------------------------
# How long the host takes to issue a way's launches, where no CUDA Graph does it.


def issuing_s(way: Way, request: Constraints) -> float:
    """Seconds of the host for all launches of a way; `matmul` also finds those of what is not torch's own product."""
    each, first, ours = (CONSTANTS[f"host.{name}"].value for name in ("launch", "call", "matmul"))
    found = way.name != PLAIN[request.operand] and not request.whole  # a chain of layers keeps its own
    return first + each * launches(way, request) + ours * found


def launches(way: Way, request: Constraints) -> int:
    """How many launches a way is, those of thin products and of copies with it."""
    sizes = request.m, request.n, request.k
    thin = 0 if request.whole else len(thin_parts(core_of(way, *sizes, request.operand), *sizes))
    return _whole(way, request) + thin


def _whole(way: Way, request: Constraints) -> int:
    if way.nested:
        return 7 * _whole(way.within, request) + 3 - way.prepared
    if way.level:
        return (7 if way.kind.split else 4) - (3 if way.kind.split else 1) * way.prepared
    if way.kind.split:
        return 2
    if way.dtype != request.operand:
        return 4
    return 1 + sum(copied(way, request.m, request.n, request.k, request.operand))
