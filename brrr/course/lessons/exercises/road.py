"""Exercise 02-road: mend a function that carries its data back and forth. A pretended factory counts the trips.

The student's function is called as `process(parts, factory)`. The factory computes on the CPU, so the exercise is the
same everywhere; what its trips would cost is told by measurements of the `transfers` experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.course.experiments import experiment
from brrr.course.experiments.judging import curve
from brrr.course.lessons.checking import Mark, ask
from brrr.course.nouns.evidence import Evidence
from brrr.course.sources.named import source

if TYPE_CHECKING:
    import numpy as np

LENGTHS = (1000, 3, 250, 4096, 17, 1, 600, 33)
"""Elements of the parts: small ones, of different lengths."""

SINES, TOLERANCE = 4, 1e-6


class Goods:
    """What lies in the factory: it can be worked on and fetched, not read."""

    __slots__ = ("_values",)

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __repr__(self) -> str:
        return f"goods in the factory, {self._values.size} elements: fetch them to read them"


@dataclass
class Factory:
    """What the student's function gets; it notes the bytes of each trip and how many elements it worked on.

    >>> import numpy as np
    >>> factory = Factory()
    >>> factory.fetch(factory.sin(factory.send(np.zeros(3, "float32")))).tolist()
    [0.0, 0.0, 0.0]
    >>> factory.trips, factory.worked
    ([12, 12], 3)
    """

    trips: list[int] = field(default_factory=list)
    worked: int = 0

    def send(self, array: Any) -> Goods:
        """Carry an array to the factory."""
        import numpy as np

        if isinstance(array, Goods):
            raise TypeError("send() takes an array; these goods are in the factory already")
        values = np.array(array)
        if values.dtype == object:
            raise TypeError("send() takes one array of numbers; np.concatenate makes one of several")
        self.trips.append(values.nbytes)
        return Goods(values)

    def sin(self, goods: Goods) -> Goods:
        """The sine of every element, in the factory."""
        import numpy as np

        values = self._of(goods, "sin")
        self.worked += values.size
        return Goods(np.sin(values))

    def fetch(self, goods: Goods) -> np.ndarray:
        """Carry the goods back: an array."""
        values = self._of(goods, "fetch")
        self.trips.append(values.nbytes)
        return values.copy()

    def _of(self, goods: Goods, call: str) -> np.ndarray:
        if not isinstance(goods, Goods):
            raise TypeError(f"{call}() takes what send() or sin() returned, not {type(goods).__name__}")
        return goods._values


def as_given(parts: Sequence[Any], factory: Factory) -> list[Any]:
    """The function as the lesson gives it: every sine of every part makes the way there and back."""
    results = []
    for part in parts:
        for _ in range(SINES):
            part = factory.fetch(factory.sin(factory.send(part)))
        results.append(part)
    return results


def grade(process: Any) -> Mark:
    """Right is one trip there with all parts, four sines, and one trip back."""
    if not callable(process):
        hint = 'Pass the function itself: check("02-road", process=process).'
        return Mark("wrong", f"{process!r} is not a function.", hint)
    import numpy as np

    draw = np.random.default_rng()
    parts = [draw.standard_normal(length, dtype="float32") for length in LENGTHS]
    factory = Factory()
    results = ask(process, [part.copy() for part in parts], factory)
    mistake = _wrong_results(parts, results) or _wrong_way(factory)
    if mistake is not None:
        return Mark("wrong", mistake[0], mistake[1])
    given = Factory()
    as_given(parts, given)
    text = f"{len(factory.trips)} trips with {units.nbytes(sum(factory.trips))} in place of {len(given.trips)} trips"
    return Mark("right", f"{text} with {units.nbytes(sum(given.trips))}. {_worth(given.trips, factory.trips)}".strip())


def _wrong_results(parts: Sequence[Any], results: Any) -> tuple[str, str] | None:
    """What is wrong with what came back, as (what, hint)."""
    import numpy as np

    if not isinstance(results, Sequence) or len(results) != len(parts):
        said = f"{len(results)} results" if isinstance(results, Sequence) else type(results).__name__
        return f"your function returned {said}; expected a list of {len(parts)}, one for each part.", SPLIT
    for number, (part, result) in enumerate(zip(parts, results, strict=True)):
        expected = part.astype("float64")
        for _ in range(SINES):
            expected = np.sin(expected)
        if isinstance(result, Goods):
            return f"result {number} is still in the factory.", "Fetch it."
        if np.shape(result) != expected.shape:
            return f"result {number} has the shape {np.shape(result)}; expected {expected.shape}.", SPLIT
        if not np.allclose(np.asarray(result, "float64"), expected, rtol=TOLERANCE, atol=TOLERANCE):
            return f"result {number} is not the sine of the sine of the sine of the sine.", "Four sines, no more."
    return None


SPLIT = "After np.concatenate, np.split(array, np.cumsum(lengths)[:-1]) makes the parts again."


def _wrong_way(factory: Factory) -> tuple[str, str] | None:
    """What is wrong with the way the goods took, as (what, hint)."""
    trips, elements = len(factory.trips), sum(LENGTHS)
    if factory.worked < SINES * elements:
        return "the results are right, but the factory did not compute all of them.", "Use factory.sin for each sine."
    said = f"your function makes {trips} trips for {len(LENGTHS)} parts."
    if trips > 2 * len(LENGTHS):
        return said, "What the next step needs can stay in the factory: fetch only what you want to read."
    if trips > 2:
        return said, "Each trip has a fixed cost, and the parts are small. Join them with np.concatenate first."
    if sum(factory.trips) > 2 * 4 * elements:
        return f"{said[:-1]}, but carries {units.nbytes(sum(factory.trips))}.", "The parts have 4 bytes an element."
    return None


def _worth(before: Sequence[int], after: Sequence[int]) -> str:
    """What both would take, from the fixed cost and the bandwidth that were measured; empty where nothing was."""
    transfers = experiment("transfers")
    for name in (None, "recorded:h200"):
        try:
            found = source(name)
            way_s = cost_of(Evidence(transfers, found))
            badge = str(found.badge(transfers))
        except BrrrError:
            continue
        was, now = (units.seconds(sum(map(way_s, trips))) for trips in (before, after))
        return f"With the fixed cost and the bandwidth of {badge}, that is {now} on the road in place of {was}."
    return ""


def cost_of(evidence: Evidence) -> Callable[[float], float]:
    """Seconds that a trip takes, by its bytes: a fixed cost, and the bytes over the bandwidth of the largest copy.

    NotRecordedError where no copy was measured, or one size only.
    """
    from brrr.core.errors import NotRecordedError

    times = curve(evidence, "up pageable once", "nbytes")
    if len(times) < 2:
        raise NotRecordedError("one size does not tell the fixed cost from the bandwidth")
    floor = min(time.median for time in times.values())
    bandwidth = max(times) / times[max(times)].median
    return lambda nbytes: floor + nbytes / bandwidth
