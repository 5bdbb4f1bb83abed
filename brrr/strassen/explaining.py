"""Why a way was chosen, in sentences.

Importing this loads no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from brrr import units
from brrr.strassen.fitting import copied, core_of
from brrr.strassen.pareto import Estimate
from brrr.strassen.requests import Request
from brrr.strassen.workspace import block_sizes, workspace_bytes

ROUNDED_UP = 1.01
"""From this on, what rounding blocks up adds to the work is worth a word."""


def why(
    chosen: Estimate,
    fitting: Sequence[Estimate],
    request: Request,
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
    elif chosen.seconds is not None:
        said.append(f"The fastest of {len(fitting)} with an error of at most {limit:.1e}{_against(chosen, fitting)}")
    return " ".join(f"{each}." for each in [*said, *_notes(chosen, request)])


def _against(chosen: Estimate, fitting: Sequence[Estimate]) -> str:
    """The fastest of the other kind, with levels or without."""
    other = next((each for each in fitting if each.way.classical != chosen.way.classical), None)
    if other is None or other.seconds is None:
        return ""
    kind = "with levels" if chosen.way.classical else "classical product"
    return f"; the fastest {kind} is {other.way.name}, {units.seconds(other.seconds)}"


def _paying(chosen: Estimate, classical_s: Callable[[], float | None]) -> str:
    """Whether levels that were asked for pay."""
    other_s = None if chosen.seconds is None else classical_s()
    if chosen.seconds is None or other_s is None:
        return "whether it pays is not known"
    begin = "it pays" if chosen.seconds < other_s else "it does not pay"
    return f"{begin}: the classical product ({chosen.way.inner}) is predicted to take {units.seconds(other_s)}"


def _notes(chosen: Estimate, request: Request) -> list[str]:
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


def _has_copies(chosen: Estimate, request: Request) -> bool:
    """Whether the workspace is that with copies."""
    return chosen.workspace_bytes == workspace_bytes(chosen.way, request.m, request.n, request.k, request.operand)
