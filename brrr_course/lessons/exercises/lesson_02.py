"""Exercise 02-trips: mend a function that sends its data back and forth. A pretended GPU counts the transfers.

The student's function is called as `process(parts, gpu)`. What it gets computes on the CPU, so the exercise is the
same everywhere; what its transfers would cost is told by measurements of the `transfers` experiment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from brrr.core import units
from brrr.core.errors import BrrrError, NotRecordedError
from brrr_course.experiments import experiment
from brrr_course.experiments.judging import Curve, curve
from brrr_course.experiments.nested_sine import SINES
from brrr_course.lessons.checking import Exercise, Mark, ask
from brrr_course.nouns.source import Evidence
from brrr_course.sources import source

if TYPE_CHECKING:
    import numpy as np

LENGTHS = (1000, 3, 250, 4096, 17, 1, 600, 33)
"""Elements of the parts: small ones, of different lengths."""

TRIP_SINES, TOLERANCE = 4, 1e-6


class OnGpu:
    """What lies in the GPU's memory: it can be computed with and fetched, not read."""

    __slots__ = ("_values",)

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __repr__(self) -> str:
        return f"{self._values.size} elements in the GPU's memory: fetch them to read them"


@dataclass
class Gpu:
    """What the student's function gets; it notes the bytes of each transfer and how many elements it computed.

    >>> import numpy as np
    >>> gpu = Gpu()
    >>> gpu.fetch(gpu.sin(gpu.send(np.zeros(3, "float32")))).tolist()
    [0.0, 0.0, 0.0]
    >>> gpu.trips, gpu.worked
    ([12, 12], 3)
    """

    trips: list[int] = field(default_factory=list)
    worked: int = 0

    def send(self, array: Any) -> OnGpu:
        """Copy an array to the GPU's memory."""
        import numpy as np

        if isinstance(array, OnGpu):
            raise TypeError("send() takes an array; this lies in the GPU's memory already")
        values = np.array(array)
        if values.dtype == object:
            raise TypeError("send() takes one array of numbers; np.concatenate makes one of several")
        self.trips.append(values.nbytes)
        return OnGpu(values)

    def sin(self, values_there: OnGpu) -> OnGpu:
        """The sine of every element, on the GPU."""
        import numpy as np

        values = self._of(values_there, "sin")
        self.worked += values.size
        return OnGpu(np.sin(values))

    def fetch(self, values_there: OnGpu) -> np.ndarray:
        """Copy back: an array."""
        values = self._of(values_there, "fetch")
        self.trips.append(values.nbytes)
        return values.copy()

    def _of(self, values_there: OnGpu, call: str) -> np.ndarray:
        if not isinstance(values_there, OnGpu):
            raise TypeError(f"{call}() takes what send() or sin() returned, not {type(values_there).__name__}")
        return values_there._values


def as_given(parts: Sequence[Any], gpu: Gpu) -> list[Any]:
    """The function as the lesson gives it: every sine of every part is sent there and back."""
    results = []
    for part in parts:
        for _ in range(TRIP_SINES):
            part = gpu.fetch(gpu.sin(gpu.send(part)))
        results.append(part)
    return results


def grade_trips(process: Any) -> Mark:
    """Right is one transfer there with all parts, four sines, and one back."""
    if not callable(process):
        hint = 'Pass the function itself: check("02-trips", process=process).'
        return Mark("wrong", f"{process!r} is not a function.", hint)
    import numpy as np

    draw = np.random.default_rng()
    parts = [draw.standard_normal(length, dtype="float32") for length in LENGTHS]
    gpu = Gpu()
    results = ask(process, [part.copy() for part in parts], gpu)
    mistake = _wrong_results(parts, results) or _wrong_trips(gpu)
    if mistake is not None:
        return Mark("wrong", mistake[0], mistake[1])
    given = Gpu()
    as_given(parts, given)
    text = f"{len(gpu.trips)} transfers with {units.nbytes(sum(gpu.trips))} in place of {len(given.trips)} transfers"
    return Mark("right", f"{text} with {units.nbytes(sum(given.trips))}. {_worth(given.trips, gpu.trips)}".strip())


TRIPS_EXERCISE = Exercise("02-trips", grade_trips)


def _wrong_results(parts: Sequence[Any], results: Any) -> tuple[str, str] | None:
    """What is wrong with what came back, as (what, hint)."""
    import numpy as np

    if not isinstance(results, Sequence) or len(results) != len(parts):
        said = f"{len(results)} results" if isinstance(results, Sequence) else type(results).__name__
        return f"your function returned {said}; expected a list of {len(parts)}, one for each part.", SPLIT
    for number, (part, result) in enumerate(zip(parts, results, strict=True)):
        expected = part.astype("float64")
        for _ in range(TRIP_SINES):
            expected = np.sin(expected)
        if isinstance(result, OnGpu):
            return f"result {number} is still in the GPU's memory.", "Fetch it."
        if np.shape(result) != expected.shape:
            return f"result {number} has the shape {np.shape(result)}; expected {expected.shape}.", SPLIT
        if not np.allclose(np.asarray(result, "float64"), expected, rtol=TOLERANCE, atol=TOLERANCE):
            return f"result {number} is not the sine of the sine of the sine of the sine.", "Four sines, no more."
    return None


SPLIT = "After np.concatenate, np.split(array, np.cumsum(lengths)[:-1]) makes the parts again."


def _wrong_trips(gpu: Gpu) -> tuple[str, str] | None:
    """What is wrong with the transfers, as (what, hint)."""
    trips, elements = len(gpu.trips), sum(LENGTHS)
    if gpu.worked < TRIP_SINES * elements:
        return "the results are right, but the GPU did not compute all of them.", "Use gpu.sin for each sine."
    said = f"your function makes {trips} transfers for {len(LENGTHS)} parts."
    if trips > 2 * len(LENGTHS):
        return said, "What the next step needs can stay in the GPU's memory: fetch only what you want to read."
    if trips > 2:
        return said, "Each transfer has a fixed cost, and the parts are small. Join them with np.concatenate first."
    if sum(gpu.trips) > 2 * 4 * elements:
        return f"{said[:-1]}, but sends {units.nbytes(sum(gpu.trips))}.", "The parts have 4 bytes an element."
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
        return f"With the fixed cost and the bandwidth of {badge}, that is {now} of transfers in place of {was}."
    return ""


def cost_of(evidence: Evidence) -> Callable[[float], float]:
    """Seconds that a transfer takes, by its bytes: a fixed cost, and the bytes over the bandwidth of the largest copy.

    NotRecordedError where no copy was measured, or one size only.
    """
    from brrr.core.errors import NotRecordedError

    times = curve(evidence, "up pageable once", "nbytes")
    if len(times) < 2:
        raise NotRecordedError("one size does not tell the fixed cost from the bandwidth")
    floor = min(time.median for time in times.values())
    bandwidth = max(times) / times[max(times)].median
    return lambda nbytes: floor + nbytes / bandwidth


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 02-sines: with how many sines for each element is the GPU faster, although the data must travel?

LARGE = 2**20
"""Elements: below, fixed costs spoil the sum."""

NEAR = 0.1


@dataclass(frozen=True)
class Rates:
    """At one size: seconds of a sine on the CPU and on the GPU, and of the transfers there and back.

    >>> Rates(2**24, cpu_s=3e-3, gpu_s=1e-3, way_s=30e-3).sines
    15.0
    """

    elements: int
    cpu_s: float
    gpu_s: float
    way_s: float

    @property
    def sines(self) -> float:
        """From so many sines on, `way_s + k gpu_s` is less than `k cpu_s`; infinite where the GPU is no faster."""
        gain = self.cpu_s - self.gpu_s
        return self.way_s / gain if gain > 0 else math.inf

    def fits(self, answer: float) -> bool:
        """Whether an answer is the next whole number, give or take one or a tenth: the times are not known better."""
        wanted = math.ceil(self.sines) if math.isfinite(self.sines) else math.inf
        return abs(answer - wanted) <= max(1.0, NEAR * wanted) if math.isfinite(wanted) else False


def grade_sines(sines: Any) -> Mark:
    """Right is the transfers' time over what a sine costs less on the GPU, at any large size that was measured."""
    if isinstance(sines, bool) or not isinstance(sines, int | float) or not 0 < sines < math.inf:
        return Mark("wrong", f"{sines!r} is no number of sines.", "Write a whole number, as in sines=7.")
    told = measured_rates()
    for where, found in told:
        fitting = next((rates for rates in found if rates.fits(sines)), None)
        if fitting is not None:
            return Mark(
                "right", f"{_why(fitting)} ({where}). Work that reuses what it was sent pays for the transfers."
            )
    where, found = told[0]
    return Mark("wrong", f"{sines} sines do not fit ({where}).", _hint(float(sines), found[0]))


SINES_EXERCISE = Exercise("02-sines", grade_sines)


def _why(rates: Rates) -> str:
    way, gain = units.seconds(rates.way_s), units.seconds(rates.cpu_s - rates.gpu_s)
    return f"at {rates.elements} elements the transfers cost {way}, and each sine is {gain} faster on the GPU"


def _hint(answer: float, rates: Rates) -> str:
    if (
        Rates(rates.elements, SINES * rates.cpu_s, SINES * rates.gpu_s, rates.way_s).fits(answer)
        and rates.sines > SINES
    ):
        return "The figure's times are those of four sines. What does one cost?"
    side = "So few do not pay for the transfers yet." if answer < rates.sines else "Fewer are enough."
    return f"{side} The transfers cost what they add; a sine gains a quarter of CPU less GPU."


def measured_rates() -> list[tuple[str, list[Rates]]]:
    """For this lesson's source and for the recording: the badge, and what each large size says, the largest first.

    Sources that show no crossing are left out; NotRecordedError where none is left.
    """
    described = experiment("nested_sine")
    told: dict[str, list[Rates]] = {}
    for name in (None, "recorded:h200"):
        try:
            found = source(name)
            rates = [each for each in rates_of(Evidence(described, found)) if math.isfinite(each.sines)]
            if rates:
                told.setdefault(str(found.badge(described)), rates)
        except BrrrError:
            continue
    if not told:
        raise NotRecordedError(
            "check('02-sines'): no source here holds the CPU's time and the GPU's with transfers and without; "
            "see `brrr doctor`"
        )
    return list(told.items())


def rates_of(evidence: Evidence) -> list[Rates]:
    """The rates at each large size at which the three lines were measured, the largest first."""
    lines = ("cpu", "with transfers", "without transfers")
    cpu, sent, there = (_large(curve(evidence, line, "elements")) for line in lines)
    sizes = sorted(set(cpu) & set(sent) & set(there), reverse=True)
    return [_rates(size, cpu[size], sent[size], there[size]) for size in sizes]


def _large(times: Curve) -> dict[int, float]:
    return {size: time.median for size, time in times.items() if size >= LARGE}


def _rates(size: int, cpu_s: float, sent_s: float, there_s: float) -> Rates:
    return Rates(size, cpu_s / SINES, there_s / SINES, max(0.0, sent_s - there_s))
