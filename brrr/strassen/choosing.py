"""Which way multiplies two matrices best: as exact as is asked for, within the memory given, the fastest by prediction.

>>> made = plan(8192, 8192, 8192, accuracy=1e-5, inner="sgemm", device="h200")
>>> made.way.name, made.predicted_error < 1e-5
('sgemm-strassen-3', True)

Importing this loads no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Processor
from brrr.gpu import is_cpu, is_gpu, tensors_on
from brrr.roofline.device_model import STAND_IN, STANDS_IN, Where, known_here, model_of, unnamed
from brrr.roofline.peaks import MissingPeakError
from brrr.strassen.accuracy import CLOSE, OF_TYPE, PLAIN, Constraints, Inners, accuracy_limit, checked, predicted_error
from brrr.strassen.peeling import block_sizes, copied, core_of
from brrr.strassen.predicting import ParetoPoint, Predictor, candidates, estimates, issuing_s, marked
from brrr.strassen.ways import WAYS, Way
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

    accuracy, level, form, inner, workspace_bytes: as for `matmul`. device: as `brrr.predict` takes it, without it too.
    prepared: the right operand's sums are made beforehand. whole: odd sizes are rounded
    up, as in a chain of layers, and nothing is peeled off.
    """
    request = checked(m, n, k, dtype, accuracy, level, form, inner, workspace_bytes, prepared, whole=whole)
    meant = unnamed() if device is None else device
    made = plan_of(request, meant)
    if device is None and meant == STAND_IN:
        return replace(made, why=f"{made.why}; planned for the H200, {STANDS_IN}")
    return made


def plan_of(request: Constraints, device: Where) -> ProductPlan:
    """The plan for what is asked: of tensors on "cuda" or "cpu", or on a device as `brrr.predict` takes it."""
    if is_gpu(device) or is_cpu(device):
        return _planned(request, tensors_on(device), None)
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
        _why(chosen, fitting, request, _limit(request), partial(_classical_s, request, kind, device, chosen.way.inner)),
        tuple(estimates),
    )  # fmt: skip


def _estimates(request: Constraints, kind: Processor, device: Where, allowed: list[Way]) -> Sequence[ParetoPoint]:
    """By prediction; where nothing is known of the device, without times, the library's own product first."""
    try:
        predictor = Predictor.of(known_here(kind) if device is None else device)
    except MissingPeakError:
        plain = PLAIN[request.operand]
        found = estimates(allowed, request, kind, None)
        return sorted(found, key=lambda each: (each.way.inner != plain, each.way.level))
    return marked(estimates(allowed, request, kind, predictor))


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
    return each.error <= _limit(request)


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


def _refuse(request: Constraints, allowed: list[Way], estimates: Sequence[ParetoPoint]) -> None:
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
# Why a way was chosen, in sentences.

ROUNDED_UP = 1.01
"""From this on, what rounding blocks up adds to the work is worth a word."""


def _why(
    chosen: ParetoPoint,
    fitting: Sequence[ParetoPoint],
    request: Constraints,
    limit: float,
    classical_s: Callable[[], float | None],
) -> str:
    """Sentences on a choice: against what it won, whether levels that were asked for pay, what sizes and memory cost.

    fitting: all that might have been chosen, the fastest first; limit: the error they may have; classical_s: what the
    classical product of the same kind takes.
    """
    said = ["Nothing is predicted, as no peaks of this device are known"] if chosen.seconds is None else []
    if request.level is not None or (request.inner and len(fitting) == 1):
        said.append("As asked for" + (f"; {_paying(chosen, classical_s)}" if request.level else ""))
    elif request.few_rows and chosen.way.classical:
        said.append("With so few rows the right operand is most of the bytes, of which other ways read more")
    elif chosen.seconds is not None:
        said.append(f"The fastest of {len(fitting)} with an error of at most {limit:.1e}{_against(chosen, fitting)}")
    return " ".join(f"{each}." for each in [*said, *_notes(chosen, request)])


def _against(chosen: ParetoPoint, fitting: Sequence[ParetoPoint]) -> str:
    """The fastest of the other kind, with levels or without."""
    other = next((each for each in fitting if each.way.classical != chosen.way.classical), None)
    if other is None or other.seconds is None:
        return ""
    kind = "with levels" if chosen.way.classical else "classical product"
    return f"; the fastest {kind} is {other.way.name}, {units.seconds(other.seconds)}"


def _paying(chosen: ParetoPoint, classical_s: Callable[[], float | None]) -> str:
    """Whether levels that were asked for pay."""
    other_s = None if chosen.seconds is None else classical_s()
    if chosen.seconds is None or other_s is None:
        return "whether it pays is not known"
    begin = "it pays" if chosen.seconds < other_s else "it does not pay"
    return f"{begin}: the classical product ({chosen.way.inner}) is predicted to take {units.seconds(other_s)}"


def _notes(chosen: ParetoPoint, request: Constraints) -> list[str]:
    """What the sizes and the memory bring with them."""
    found = []
    way, sizes = chosen.way, (request.m, request.n, request.k)
    core = sizes if request.whole or chosen.depth else core_of(way, *sizes, request.operand)
    if core != sizes:
        m, n, k = core
        found.append(f"The levels take {m} x {k} by {k} x {n}; what is left over, the library's thin products")
    elif copied(way, *sizes, request.operand).any and _has_copies(chosen, request):
        found.append("Operands are copied to rows that start at 16 bytes, without which the library is slow")
    rows, deep, columns = block_sizes(way, *core)
    work, needed = rows * deep * columns * 8**way.level, core[0] * core[1] * core[2]
    if needed and work > ROUNDED_UP * needed:
        added = f"{100 * (work / needed - 1):.0f} %"
        found.append(f"Blocks are {rows} x {deep} x {columns}: rounding up adds {added} of work")
    if chosen.depth:
        found.append(f"{chosen.depth} of its levels go depth first, to stay within {request.limit_bytes} bytes")
    return found


def _has_copies(chosen: ParetoPoint, request: Constraints) -> bool:
    """Whether the workspace is that with copies."""
    return chosen.workspace_bytes == least_bytes(chosen.way, request.m, request.n, request.k, request.operand)
