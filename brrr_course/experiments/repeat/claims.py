"""What the claims on repeated operations ask beside the notation: where the arithmetic becomes the limit."""

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Value
from brrr_course.nouns.expression import Table
from brrr_course.nouns.source import Evidence

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
