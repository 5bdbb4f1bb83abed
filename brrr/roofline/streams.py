"""The memory's term: how long bytes take, from the level of memory that holds the working set.

On a datasheet there is one level, the memory, at its full rate. On measured peaks two curves tell: the rate of a single
pass (`copy-once` and the like), whose start and end weigh on small sets, and the sustained rate of the level that holds
the working set of the whole call. The slower of the two counts.
"""

from __future__ import annotations

from brrr.roofline.basis import Basis
from brrr.roofline.peaks.peak import Curve


def memory_s(
    basis: Basis, read: float, written: float, working_set: float, start_s: float, *, in_place: bool = False
) -> float:
    """Seconds that reading and writing so many bytes take, without the `start_s` that every operator has.

    `in_place`: what is written is what was read, so that a cache has to hold half as much.

    `working_set` are the bytes that the whole call touches: what does not fit into a cache comes from the level below.
    More bytes never take less time, whatever the curves look like.
    """
    moved = read + written
    if moved <= 0:
        return 0.0
    if not basis.curves:
        return moved / basis.value("copy")
    traffic = traffic_kind(read, written)
    sustained, single = _curves(basis, traffic)
    passing = single_pass_s(basis.curves[single], moved, start_s)
    if in_place:
        passing = min(passing, 2 * single_pass_s(basis.curves[single], moved / 2, start_s))
    basis.use(single, basis.curves[single].at(moved), basis.curves[single].points[0][1])
    rate = level_rate(basis.curves[sustained], max(working_set, moved / 2 if in_place else moved))
    basis.use(sustained, rate, basis.curves[sustained].points[0][1])
    return max(passing, moved / rate)


def level_s(basis: Basis, read: float, written: float, working_set: float) -> float:
    """Seconds at the sustained rate of the level that holds the working set, without a kernel's start and end."""
    moved = read + written
    if moved <= 0:
        return 0.0
    if not basis.curves:
        return moved / basis.value("copy")
    sustained, _ = _curves(basis, traffic_kind(read, written))
    curve = basis.curves[sustained]
    return moved / basis.use(sustained, level_rate(curve, max(working_set, moved)), curve.points[0][1])


def traffic_kind(read: float, written: float) -> str:
    """Which of the measured streams a traffic is like, by the share that is written: none, a third, half, all.

    >>> traffic_kind(8, 0), traffic_kind(8, 4), traffic_kind(4, 4), traffic_kind(0, 4)
    ('read', 'triad', 'copy', 'write')
    """
    share = written / (read + written)
    return "read" if share < 1 / 6 else "triad" if share < 5 / 12 else "copy" if share < 3 / 4 else "write"


def level_rate(curve: Curve, working_set: float) -> float:
    """B/s of the level that holds the working set: the best measured at this size or a larger one.

    A larger set is never faster in itself; where a small one was slower, starting and ending was the reason.
    """
    return max(curve.at(working_set), *(peak.value for place, peak in curve.points if place >= working_set), 0.0)


def single_pass_s(curve: Curve, moved: float, start_s: float) -> float:
    """Seconds of one pass over so many bytes, less its start; below the smallest measured set in proportion."""
    smallest = curve.points[0][0]
    if moved < smallest:
        return moved / smallest * single_pass_s(curve, smallest, start_s)
    sizes = [place for place, _ in curve.points if place < moved] + [moved]
    return max(0.0, max(size / curve.at(size) for size in sizes) - start_s)


def _curves(basis: Basis, traffic: str) -> tuple[str, str]:
    """The curve of the sustained rate, and that of a single pass: torch's own operator's where it was measured."""
    sustained = traffic if traffic in basis.curves else "copy"
    if sustained not in basis.curves:
        basis.value("copy")  # raises, and says what to run
    torch_curve = "torch-pointwise" if traffic == "copy" else ""
    wanted = (torch_curve, f"{traffic}-once", "copy-once", sustained)
    return sustained, next(name for name in wanted if name in basis.curves)
