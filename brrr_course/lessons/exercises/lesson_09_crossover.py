"""Exercise 09-crossover: from which size on does a Strassen level pay? Two measured sizes of each line tell.

The model has two terms, T(n) = a n^3 + b n^2: arithmetic, and what touches each element once. The student's function is
marked on made-up lines, whose crossing is known, then put to the source's own measurements.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr_course.experiments import experiment
from brrr_course.lessons.comparison import lines_here, time_at
from brrr_course.lessons.marks import Wrong, ask, exercise, is_number
from brrr_course.nouns.source import Evidence, Source
from brrr_course.sources import source

PAIR = ("sgemm", "sgemm strassen 1")
"""The classical line and the one with a level, both sides' additions in its time."""

CLOSE = 0.01
"""The function must find a made-up crossing this near."""

NEAR = 1.25
"""A model of two terms that is no further off than this has done its work."""

Times = Mapping[int, float]
Crossing = Callable[[Times, Times], float]


@dataclass(frozen=True)
class Crossover:
    """Where the lines of a source cross: the last size at which the level loses, the first from which it wins."""

    loses: int | None
    wins: int | None

    def __str__(self) -> str:
        if self.wins is None:
            return f"the level never wins among the sizes measured, up to {self.loses}"
        if self.loses is None:
            return f"the level wins from the smallest size measured, {self.wins}, on"
        return f"the level loses at {self.loses} and wins from {self.wins} on"


@exercise("09-crossover", values=("sizes",))
def crossover(sizes: Any, crossing: Any) -> str:
    """`sizes` are two measured sizes; `crossing(classical, strassen)` takes {size: seconds} twice and returns a size.

    inf stands for lines that never cross: the level loses at every size.
    """
    _look_at_sizes(sizes)
    _look_at_function(crossing)
    return _applied(sorted(sizes), crossing)


def _look_at_sizes(sizes: Any) -> None:
    there = list(sizes) if isinstance(sizes, list | tuple) else []
    whole = all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in there)
    if len(there) != 2 or not whole or there[0] == there[1]:
        raise Wrong(f"`sizes` is {sizes!r}.", "Write two sizes of the explorer's slider: sizes=(1024, 4096).")


def _look_at_function(crossing: Crossing) -> None:
    """The function on lines that cross at a known size, and on two that never do."""
    for _ in range(4):
        at = random.uniform(300, 5000)
        a, b, gain = random.uniform(1, 3) * 1e-14, random.uniform(1, 9) * 1e-12, random.uniform(0.05, 0.125)
        _look_at_case(ask(crossing, _line(a, b), _line((1 - gain) * a, b + gain * a * at)), at)
    _look_at_case(ask(crossing, _line(1e-14, 1e-12), _line(1.02e-14, 2e-12)), math.inf)


def _line(a: float, b: float) -> dict[int, float]:
    """Two points of a line of the model."""
    return {n: a * n**3 + b * n**2 for n in (1024, 4096)}


def _look_at_case(found: Any, right: float) -> None:
    if not is_number(found) or math.isnan(found):
        raise Wrong(f"`crossing` returned {found!r}.", "It returns a size, as a number.")
    if found == right or abs(found / right - 1) <= CLOSE:
        return
    if math.isinf(right):
        raise Wrong(f"two lines that never cross: `crossing` returned {found:.4g}.",
                    "Where the level's a is not the smaller one, return float('inf').")  # fmt: skip
    hint = "Divide each time by n^2: what is left is a n + b, a straight line through two points."
    raise Wrong(f"two lines that cross at {right:.4g}: `crossing` returned {found:.4g}.", hint)


def _applied(sizes: Sequence[int], crossing: Crossing) -> str:
    """The student's function on measurements, beside where the measured lines cross."""
    here = source()
    for origin in [here, source("recorded:h200")] if here.live else [here]:
        try:
            classical, strassen = _points(origin, sizes)
            break
        except BrrrError as error:
            missing = str(error)
    else:
        raise Wrong(f"`sizes={tuple(sizes)}` were not measured ({missing}).", "Choose sizes of the slider.")
    size, where = ask(crossing, classical, strassen), measured(origin)
    said = "never pays" if math.isinf(size) else f"pays from {round(size)} on"
    badge = origin.badge(experiment("strassen"))
    told = f"From {_shown(classical)}, and {_shown(strassen)} with a level, the level {said} ({badge})"
    return f"your function is right. {told}. Measured: {where}.{_note(size, where)}"


def _note(size: float, where: Crossover) -> str:
    """What to think of a model that misses."""
    low, high = where.loses or 0, where.wins or math.inf
    if low / NEAR <= size <= high * NEAR:
        return ""
    return " The two terms miss it: waves of tiles and launches are in neither. Try two sizes nearer to the crossing."


def _shown(times: Times) -> str:
    return ", ".join(f"{units.seconds(time)} at {size}" for size, time in times.items())


def _points(origin: Source, sizes: Sequence[int]) -> tuple[dict[int, float], dict[int, float]]:
    """Both lines at the sizes, measured now by a live source; BrrrError where one is missing."""
    described = experiment("strassen")
    lines = lines_here(described, origin, PAIR)
    for size in sizes:
        origin.measure_together(described, [line.variant for line in lines], {"size": size})
    found: list[dict[int, float]] = []
    for line in lines:
        times = {size: time_at(described, origin, line, {"size": size}) for size in sizes}
        lacking = [size for size, time in times.items() if time is None]
        if lacking:
            raise BrrrError(f"{origin.name} has no {line.label} at {lacking[0]}")
        found.append({size: time.median for size, time in times.items() if time is not None})
    return found[0], found[1]


def measured(origin: Source) -> Crossover:
    """Where the level begins to win for good, by the medians that a source has."""
    evidence = Evidence(experiment("strassen"), origin)
    lines = lines_here(evidence.experiment, origin, PAIR)
    classical, level = (evidence.curve(line.name, "size") for line in lines)
    sizes = sorted(int(size) for size in set(classical) & set(level))
    losing = [size for size in sizes if level[size].median >= classical[size].median]
    after = [size for size in sizes if not losing or size > losing[-1]]
    return Crossover(losing[-1] if losing else None, after[0] if after else None)
