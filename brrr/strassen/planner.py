"""Which way multiplies two matrices best: as exact as is asked for, within the memory given, the fastest by prediction.

>>> made = plan(8192, 8192, 8192, accuracy=1e-5, inner="sgemm", device="h200")
>>> made.implementation.name, made.predicted_error < 1e-5
('sgemm-strassen-3', True)

Importing this loads no torch.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from brrr.core import units
from brrr.core.errors import ArgumentError, DeviceMemoryError
from brrr.core.measurement import Processor
from brrr.gpu import is_cpu, is_gpu, tensors_on
from brrr.roofline.device_model import STAND_IN, STANDS_IN, DeviceModel, Where, known_here, model_of, unnamed
from brrr.roofline.peaks import MissingPeakError
from brrr.strassen.accuracy import CLOSE, PLAIN, accuracy_limit, predicted_error
from brrr.strassen.cost import host_slowness, issuing_s, seconds, workspace_bytes
from brrr.strassen.implementations import IMPLEMENTATIONS, Implementation
from brrr.strassen.odd_sizes import copied, core_of
from brrr.strassen.request import FEW_ROWS, Inners, Limits, Request

GAIN = 1.03
"""Levels are taken where they are predicted faster than the classical product by so much: predictions are no better."""


@dataclass(frozen=True)
class ProductPlan:
    """How two matrices will be multiplied, and why; prints as that sentence.

    `predicted_s` is None where nothing is known of the device, or of the implementation's type on it.
    """

    implementation: Implementation
    m: int
    n: int
    k: int
    predicted_s: float | None
    predicted_error: float
    workspace_bytes: int
    why: str = ""

    def __str__(self) -> str:
        size = f"{self.m} x {self.k} by {self.k} x {self.n}"
        time = f", predicted {units.seconds(self.predicted_s)}" if self.predicted_s is not None else ""
        said = f"error {self.predicted_error:.1e}, workspace {units.nbytes(self.workspace_bytes)}"
        return f"{size}: {self.implementation.label}{time}, {said}. {self.why}"


def plan(
    m: int, n: int, k: int, *, dtype: str = "float32", accuracy: float | str | None = None, level: int | None = None,
    form: str | None = None, inner: Inners = None, workspace_bytes: int | None = None, device: Where = None,
    prepared: bool = False, whole: bool = False,
) -> ProductPlan:  # fmt: skip
    """Choose the implementation of an (m, k) by (k, n) product, as `matmul` would on that device, without multiplying.

    >>> print(plan(64, 64, 64, level=1, inner="sgemm", device="h200").why)
    As asked for; it does not pay: the classical product (sgemm) is predicted to take ...

    No GPU is needed.

    Parameters
    ----------
    m, n, k : int
        The sizes; the result is (m, n).
    dtype : {"float32", "float64", "float16", "bfloat16"}
        The operands' type.
    accuracy, level, form, inner, workspace_bytes
        As for `matmul`.
    device : str, Peaks or Hardware, optional
        As for `predict`.
    prepared : bool
        Whether the right operand's sums are computed beforehand.
    whole : bool
        Whether odd sizes are padded, as in a chain of layers, rather than peeled.

    Returns
    -------
    ProductPlan
        The implementation with its predicted time (s), error and workspace (bytes); prints as a sentence.

    Raises
    ------
    ArgumentError
        For invalid sizes, types or limits.
    """
    limits = Limits(accuracy, level, form, inner, workspace_bytes)
    request = Request(m, n, k, dtype, limits, prepared, whole=whole)
    meant = unnamed() if device is None else device
    made = plan_of(request, meant)
    if device is None and meant == STAND_IN:
        return replace(made, why=f"{made.why}; planned for the H200, {STANDS_IN}")
    return made


def plan_of(request: Request, device: Where) -> ProductPlan:
    """The plan for what is asked: of tensors on a kind of device, or on a device as `brrr.predict` takes it."""
    if is_gpu(device) or is_cpu(device):
        return _planned(request, tensors_on(device), None)
    return _planned(request, model_of(device).kind, device)


@lru_cache(maxsize=4096)
def _planned(request: Request, kind: Processor, device: Where) -> ProductPlan:
    """On a kind of device; by the figures of `device`, or of the one of this machine where that is None."""
    mine = [how for how in IMPLEMENTATIONS.values() if how.here(request.operand, kind) and _asked_for(how, request)]
    ready = request.prepared  # then those that can be are
    allowed = [how for how in mine if how.prepared == (ready and bool(how.level or how.kind.split))]
    limits = request.limits
    if not allowed:
        asked = f"inner {', '.join(limits.inners) or 'any'}, level {limits.level}, form {limits.form or 'any'}"
        raise ArgumentError("matmul", "inner", asked, f"a way of multiplying {request.operand} on {kind}")
    model = None
    with suppress(MissingPeakError):  # where nothing is known, the library's own product comes first
        model = model_of(known_here(kind) if device is None else device)
    looked_at = [each for how in allowed if (each := _estimate(how, request, is_gpu(kind), model)) is not None]
    looked_at.sort(key=lambda each: _rank(each, request, known=model is not None))
    fitting = [each for each in looked_at if _exact_enough(each, request)]
    if not fitting:
        _refuse(request, allowed, looked_at)
    chosen = _chosen(fitting, request, request.eager and is_gpu(kind))
    own = Limits(level=0, inner=chosen.implementation.inner)
    plain = replace(request, limits=own, prepared=False, free_bytes=None, eager=False)
    other = _planned(plain, kind, device) if limits.level else None  # beside levels that were asked for
    return replace(chosen, why=_why(chosen, fitting, request, other))


def _estimate(how: Implementation, request: Request, gpu: bool, model: DeviceModel | None) -> ProductPlan | None:
    """What is expected of a way; None where it needs too much memory. On a CPU nothing is copied to aligned rows, nor
    where there is no room for that.
    """
    problem, limit = request.problem(how, aligned=gpu), request.limit_bytes
    if not how.level and workspace_bytes(problem) > limit:
        problem = replace(problem, aligned=False)
    needed, taken_s = workspace_bytes(problem), None
    if needed > limit:
        return None
    with suppress(MissingPeakError):
        taken_s = None if model is None else seconds(problem, model)
    error = predicted_error(how, request.k, request.operand)
    return ProductPlan(how, request.m, request.n, request.k, taken_s, error, needed)


def _rank(each: ProductPlan, request: Request, known: bool) -> tuple[float, float]:
    """The fastest first; where nothing is known of the device, the library's own product."""
    if known:
        return math.inf if each.predicted_s is None else each.predicted_s, each.predicted_error
    return each.implementation.inner != PLAIN[request.operand], each.implementation.level


def _asked_for(how: Implementation, request: Request) -> bool:
    limits = request.limits
    if (limits.inners and how.inner not in limits.inners) or limits.level not in (None, how.level):
        return False
    if how.level and limits.nothing:
        return False  # badly scaled matrices lose digits in a level's sums: only who asks for one gets it
    return not how.level or limits.form in (None, how.form)


def _exact_enough(each: ProductPlan, request: Request) -> bool:
    """By the accuracy asked for; without one, the inner product's own counts where level or inner are asked for."""
    operand, k = request.operand, request.k
    if request.limits.accuracy is None and request.limits.level is not None:
        classical = predicted_error(IMPLEMENTATIONS[each.implementation.inner], k, operand)
        return bool(request.limits.inners) or classical <= accuracy_limit(None, k, operand)
    return each.predicted_error <= _limit(request)


def _chosen(fitting: list[ProductPlan], request: Request, issued: bool) -> ProductPlan:
    """The fastest; others than the simpler ones only where they are ahead by more than predictions err, and rows many.

    issued: the host issues each launch, for which who waits for the product waits as well.
    """
    slower = host_slowness() if issued else 0.0
    taken = {each: each.predicted_s + slower * issuing_s(request.problem(each.implementation))
             for each in fitting if each.predicted_s is not None}  # fmt: skip
    if not taken:
        return fitting[0]
    chosen = min(taken, key=taken.__getitem__)
    classical = (each for each in taken if each.implementation.classical)
    plain = (each for each in taken if each.implementation.name in PLAIN.values())
    for each in (next(classical, chosen), next(plain, chosen)):
        if request.m < FEW_ROWS or request.short or taken[chosen] * GAIN > taken[each]:
            chosen = each
    return chosen


def _refuse(request: Request, allowed: list[Implementation], looked_at: Sequence[ProductPlan]) -> None:
    """What cannot be: so exact, or in so little memory."""
    if not looked_at:
        given = request.limits.workspace_bytes
        needed = min(workspace_bytes(request.problem(how, aligned=False)) for how in allowed)
        if given is not None and needed > given:
            hint = "Take fewer levels, or level=0"
            raise ArgumentError("matmul", "workspace_bytes", given, f"at least {needed} for this way", hint)
        raise DeviceMemoryError(f"matmul: it needs a workspace of {needed} bytes, and {request.limit_bytes} are free")
    nearest = min(looked_at, key=lambda each: each.predicted_error)
    of = f"what is allowed here ({nearest.implementation.name})"
    expected = f"at least {nearest.predicted_error:.1e}, the smallest error of {of}"
    raise ArgumentError("matmul", "accuracy", request.limits.accuracy or f"{request.operand}'s", expected)


def _limit(request: Request) -> float:
    limits = request.limits
    if limits.accuracy is None and limits.inners:
        return CLOSE * max(predicted_error(IMPLEMENTATIONS[name], request.k, request.operand) for name in limits.inners)
    return accuracy_limit(limits.accuracy, request.k, request.operand)


# ---------------------------------------------------------------------------------------------------------------------
# Why a way was chosen, in sentences.

ROUNDED_UP = 1.01
"""From this on, what rounding blocks up adds to the work is worth a word."""


def _why(chosen: ProductPlan, fitting: Sequence[ProductPlan], request: Request, classical: ProductPlan | None) -> str:
    """Sentences on a choice: against what it won, whether levels that were asked for pay, what sizes and memory cost.

    fitting: all that might have been chosen, the fastest first; classical: the product without levels of the same kind.
    """
    limits = request.limits
    said = ["Nothing is predicted, as no peaks of this device are known"] if chosen.predicted_s is None else []
    if limits.level is not None or (limits.inners and len(fitting) == 1):
        said.append("As asked for" + (f"; {_paying(chosen, classical)}" if classical else ""))
    elif request.m < FEW_ROWS and chosen.implementation.classical:
        said.append("With so few rows the right operand is most of the bytes, of which other ways read more")
    elif request.short and chosen.implementation.classical:
        said.append("So small an operand is multiplied before another way has made its launches")
    elif chosen.predicted_s is not None:
        bound = f"an error of at most {_limit(request):.1e}"
        said.append(f"The fastest of {len(fitting)} with {bound}{_against(chosen, fitting)}")
    return " ".join(f"{each}." for each in [*said, *_notes(chosen, request)])


def _against(chosen: ProductPlan, fitting: Sequence[ProductPlan]) -> str:
    """The fastest of the other kind, with levels or without."""
    other = next((each for each in fitting if each.implementation.classical != chosen.implementation.classical), None)
    if other is None or other.predicted_s is None:
        return ""
    kind = "with levels" if chosen.implementation.classical else "classical product"
    return f"; the fastest {kind} is {other.implementation.name}, {units.seconds(other.predicted_s)}"


def _paying(chosen: ProductPlan, classical: ProductPlan) -> str:
    """Whether levels that were asked for pay."""
    if chosen.predicted_s is None or classical.predicted_s is None:
        return "whether it pays is not known"
    begin = "it pays" if chosen.predicted_s < classical.predicted_s else "it does not pay"
    other = units.seconds(classical.predicted_s)
    return f"{begin}: the classical product ({chosen.implementation.inner}) is predicted to take {other}"


def _notes(chosen: ProductPlan, request: Request) -> list[str]:
    """What the sizes bring with them."""
    found, problem = [], request.problem(chosen.implementation)
    core = core_of(problem)
    if core != problem.sizes:
        m, n, k = core
        found.append(f"The levels take {m} x {k} by {k} x {n}; what is left over, the library's thin products")
    elif any(copied(problem)) and chosen.workspace_bytes == workspace_bytes(problem):
        found.append("Operands are copied to rows that start at 16 bytes, without which the library is slow")
    rows, deep, columns = replace(problem, m=core[0], n=core[1], k=core[2]).block
    work, needed = rows * deep * columns * 8**chosen.implementation.level, core[0] * core[1] * core[2]
    if needed and work > ROUNDED_UP * needed:
        added = f"{100 * (work / needed - 1):.0f} %"
        found.append(f"Blocks are {rows} x {deep} x {columns}: rounding up adds {added} of work")
    return found
