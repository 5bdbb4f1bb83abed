"""What the claims on fusion share: where eager and fused lines were measured together, and the ratio there."""

from __future__ import annotations

from collections.abc import Sequence

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr.course.experiments.judging import over
from brrr.course.nouns.evidence import Evidence

Ratio = tuple[float, float, float]
LARGE = {"": 2**24, "cpu ": 2**20}
"""Claims about bytes look at arrays from this size on, which no cache holds; those on a CPU have an own prefix."""


def together(evidence: Evidence, names: Sequence[str], dtype: str = "float32") -> tuple[int, dict[str, Estimate]]:
    """The most elements at which all lines were measured, at least a large array, and the times there."""
    prefix = "cpu " if names[0].startswith("cpu ") else ""
    try:
        curves = {name: evidence.curve(name, "elements", dtype=dtype) for name in names}
        common = set.intersection(*(set(each) for each in curves.values()))
        most = max((int(n) for n in common if int(n) >= LARGE[prefix]), default=None)
    except NotRecordedError:
        most = None
    if most is None:
        raise NotRecordedError(f"{', '.join(names)} were not measured together on arrays that no cache holds")
    return most, {name: curve[most] for name, curve in curves.items()}


def gains(evidence: Evidence, work: str, ways: Sequence[str]) -> tuple[int, dict[str, Ratio]]:
    """Eager over each fused way at the largest size that it shares with eager; on the CPU where there is no GPU.

    `work` is the part of the lines' names before the way, as in `chain eager`, or empty.
    """
    lines = {way: f"{work} {way}".strip() for way in ways}
    eager, blocks = f"{work} eager".strip(), f"cpu {work} blocks".replace("  ", " ")
    found: dict[str, Ratio] = {}
    size = 0
    for way, line in lines.items():
        if not any(each.name == line for each in evidence.experiment.lines):
            continue
        try:
            size, times = together(evidence, (eager, line))
        except NotRecordedError:
            continue
        found[way] = over(times[eager], times[line])
    if found:
        return size, found
    if not any(each.name == blocks for each in evidence.experiment.lines):
        raise NotRecordedError(f"{eager} and its fused forms were not measured together on arrays that no cache holds")
    size, times = together(evidence, (blocks.replace("blocks", "eager"), blocks))
    return size, {"blocks": over(*times.values())}


def counted(size: int) -> str:
    """A number of elements as a reader takes it in.

    >>> counted(2**26), counted(1000)
    ('2^26 elements', '1000 elements')
    """
    return f"{f'2^{size.bit_length() - 1}' if size & (size - 1) == 0 else size} elements"


def best(found: dict[str, Ratio]) -> tuple[str, Ratio]:
    """The way that gains most."""
    return max(found.items(), key=lambda each: each[1][0])
