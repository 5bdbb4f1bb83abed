"""The frontier: every way of multiplying two matrices by its predicted time and error, and which no other way beats.

>>> found = frontier(8192, 8192, 8192, device="h200")
>>> found["sgemm"].beaten_by in WAYS, found.best[0].seconds < found.best[-1].seconds
(True, True)
>>> all(one.error > other.error for one, other in zip(found.best, found.best[1:]))
True

Importing this loads no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from brrr.core import units
from brrr.gpu import is_gpu
from brrr.roofline.peaks import MissingPeakError
from brrr.strassen.accuracy import Constraints, predicted_error
from brrr.strassen.peeling import block_sizes, copied, core_of
from brrr.strassen.predicting import Predictor
from brrr.strassen.ways import WAYS, Way
from brrr.strassen.workspace import fits_aligned, least_depth, workspace_bytes


@dataclass(frozen=True)
class ParetoPoint:
    """What is expected of a way: seconds (None where nothing is known), relative error, and bytes besides the operands.

    `depth` of its levels go depth first, to stay within a limit. `beaten_by` names a way that is neither slower nor
    less exact: such a way is dominated, and there is no reason to take it but memory.
    """

    way: Way
    seconds: float | None
    error: float
    workspace_bytes: int
    depth: int = 0
    beaten_by: str | None = None

    def __str__(self) -> str:
        time = "unknown" if self.seconds is None else units.seconds(self.seconds)
        memory = units.nbytes(self.workspace_bytes)
        beaten = f", dominated by {self.beaten_by}" if self.beaten_by else ""
        return f"{self.way.name}: {time}, error {self.error:.1e}, workspace {memory}{beaten}"


@dataclass(frozen=True)
class Frontier:
    """All estimates for one size, the fastest first; `best` are those that no other beats."""

    m: int
    n: int
    k: int
    estimates: tuple[ParetoPoint, ...]

    @property
    def best(self) -> tuple[ParetoPoint, ...]:
        """The Pareto set: from fast and coarse to slow and exact."""
        return tuple(each for each in self.estimates if each.beaten_by is None and each.seconds is not None)

    def __getitem__(self, name: str) -> ParetoPoint:
        return next(each for each in self.estimates if each.way.name == name)

    def __iter__(self) -> Iterator[ParetoPoint]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def __str__(self) -> str:
        return "\n".join([f"{self.m} x {self.k} by {self.k} x {self.n}", *map(str, self.estimates)])


def frontier(
    m: int, n: int, k: int, *, operand: str = "float32", device: object = "h200", prepared: bool = False,
    names: Iterable[str] | None = None, workspace_bytes: int | None = None, whole: bool = False,
) -> Frontier:  # fmt: skip
    """Every way for an (m, k) by (k, n) product with its predicted time and error.

    >>> found = frontier(4096, 4096, 4096, device="h200", names=["sgemm", "sgemm-strassen-2", "tf32"])
    >>> [each.way.name for each in found]
    ['tf32', 'sgemm-strassen-2', 'sgemm']

    device: as `brrr.predict` takes it. prepared: the right operand's part is made beforehand. names: of these ways
    only. workspace_bytes: ways that need more go depth first, or are left out. whole: odd sizes are rounded up, as in a
    chain of layers. MissingPeakError where nothing is known of the device; a type that was not measured there has no
    time, and comes last.
    """
    predictor = Predictor.of(device)
    ways = candidates(operand, predictor.kind, prepared) if names is None else [WAYS[name] for name in names]
    made = (_estimate(predictor, way, m, n, k, operand, workspace_bytes, whole) for way in ways)
    return Frontier(m, n, k, marked([each for each in made if each is not None]))


def candidates(operand: str, kind: str, prepared: bool = False) -> list[Way]:
    """The ways for operands of a type on "cuda" or "cpu"; where prepared, those that can be are.

    >>> [way.name for way in candidates("float64", "cpu")][:3]
    ['fp64', 'fp64-strassen-1', 'fp64-winograd-1']
    """
    mine = [way for way in WAYS.values() if way.here(operand, kind)]
    names = {way.name for way in mine}
    return [way for way in mine if way.prepared == (prepared and replace(way, prepared=True).name in names)]


def marked(estimates: Sequence[ParetoPoint]) -> tuple[ParetoPoint, ...]:
    """By time, each with the fastest way that dominates it.

    >>> a, b = (ParetoPoint(WAYS[name], 1.0, error, 0) for name, error in (("sgemm", 1e-6), ("tf32", 1e-3)))
    >>> [each.beaten_by for each in marked([b, a])]
    [None, 'sgemm']
    """
    order = sorted(estimates, key=lambda each: (_time(each), each.error))
    kept: list[ParetoPoint] = []
    found = []
    for each in order:
        known = each.seconds is not None
        beaten = next((other.way.name for other in kept if other.error <= each.error), None) if known else None
        found.append(replace(each, beaten_by=beaten))
        if known and beaten is None:
            kept.append(each)
    return tuple(found)


def estimate(
    way: Way, m: int, n: int, k: int, operand: str, limit_bytes: int | None, seconds: float | None = None, *,
    aligned: bool = True,
) -> ParetoPoint | None:  # fmt: skip
    """What can be said without a device; None where a way cannot stay within the limit."""
    depth = least_depth(way, m, n, k, operand, limit_bytes, aligned=aligned)
    if depth is None:
        return None
    needed = workspace_bytes(way, m, n, k, operand, depth, aligned=aligned)
    return ParetoPoint(way, seconds, predicted_error(way, k, operand, depth=depth), needed, depth)


def _estimate(
    predictor: Predictor, way: Way, m: int, n: int, k: int, operand: str, limit_bytes: int | None, whole: bool = False
) -> ParetoPoint | None:
    """Without copies to aligned rows where there is no room for them, and in a chain, which makes none."""
    sizes = m, n, k
    room = is_gpu(predictor.kind) and fits_aligned(way, *sizes, operand, limit_bytes)
    aligned = room and not (whole and way.dtype == operand)
    made = estimate(way, *sizes, operand, limit_bytes, aligned=aligned)
    if made is None:
        return None
    try:
        seconds = predictor.total_s(way, *sizes, operand, made.depth, whole=whole, aligned=aligned)
        return replace(made, seconds=seconds)
    except MissingPeakError:
        return made


def _time(each: ParetoPoint) -> float:
    return float("inf") if each.seconds is None else each.seconds


# ---------------------------------------------------------------------------------------------------------------------
# Why a way was chosen, in sentences.

ROUNDED_UP = 1.01
"""From this on, what rounding blocks up adds to the work is worth a word."""


def why(
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
    return chosen.workspace_bytes == workspace_bytes(chosen.way, request.m, request.n, request.k, request.operand)
