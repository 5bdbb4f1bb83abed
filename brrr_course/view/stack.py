"""A stack: what each rung adds to the one before, as parts that together make the dearest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brrr.core.measurement import Estimate
from brrr_course.nouns.experiment import OUT_OF_MEMORY

if TYPE_CHECKING:
    from brrr_course.view.scene import Scene


@dataclass(frozen=True)
class Part:
    """One part of a stack: from `start` to `end`, in the unit of the figure, with its share of the whole.

    `low` and `high` bound the difference by the widest interval that the two times allow; `note` says what a reader
    must know: a rung that is not slower than the one before, or one that was not measured.
    """

    line: str
    label: str
    start: float
    end: float
    low: float
    high: float
    share: float
    note: str = ""

    @property
    def value(self) -> float:
        """How much it adds."""
        return self.end - self.start


Rung = tuple[str, str, Estimate | None]
"""A line's name, its part's label, and its time at the point if it is there."""


def parts_of(rungs: Sequence[Rung]) -> list[Part]:
    """The parts of rungs from the cheapest to the dearest; a rung below the highest so far adds nothing, and says so.

    >>> a, b = Estimate(2.0, 1.9, 2.1, 9), Estimate(5.0, 4.8, 5.2, 9)
    >>> [(part.label, part.value, part.share) for part in parts_of([("a", "launch", a), ("b", "dispatch", b)])]
    [('launch', 2.0, 0.4), ('dispatch', 3.0, 0.6)]
    """
    highest = Estimate(0.0, 0.0, 0.0, 1)
    made: list[Part] = []
    missing: list[str] = []
    whole = max((time.median for _, _, time in rungs if time), default=0.0)
    for line, name, time in rungs:
        if time is None:
            missing.append(name)
            continue
        top = max(highest.median, time.median)
        note = _note(name, missing, time, highest)
        low, high = max(0.0, time.low - highest.high), max(0.0, time.high - highest.low)
        share = (top - highest.median) / whole if whole else 0.0
        made.append(Part(line, name, highest.median, top, low, high, share, note))
        highest = time if time.median >= highest.median else highest
        missing = []
    return made


def _note(label: str, missing: Sequence[str], time: Estimate, highest: Estimate) -> str:
    inside = f"{label} contains what was not measured: {'; '.join(missing)}." if missing else ""
    if time.median >= highest.median:
        return inside
    if time.high >= highest.low:
        said = f"{label} is shown as zero: its difference is negative, within the noise."
    else:
        said = f"{label} is shown as zero: with it the call was faster than without, by more than the noise."
    return f"{inside} {said}".strip()


def stacked(scene: Scene) -> list[Part]:
    """The parts of a scene's stack where its sliders stand."""
    here, rungs = scene.here(), [scene.quantity.here(name).name for name in scene.view.parts]
    return parts_of([(name, part_label(scene, name), here.get(name)) for name in rungs])


def is_full(scene: Scene) -> bool:
    """Whether what is shown did not fit into the memory where the sliders stand."""
    key, known = tuple(scene.point.values()), scene.source.known
    found = [known(scene.experiment, line.variant).get(key) for line in scene.lines]
    return any(each is not None and OUT_OF_MEMORY in each.flags for each in found)


def part_label(scene: Scene, line: str) -> str:
    """What a line's part is called: as `show` names it."""
    parts, drawn = scene.view.parts, scene.experiment.line(line)
    return next((parts[name] for name in (line, *drawn.stands_in_for) if parts.get(name)), drawn.label)
