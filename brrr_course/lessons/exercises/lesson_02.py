"""Exercise 02-trips: mend a function that sends its data back and forth. A pretended GPU counts the transfers.

The student's function is called as `process(parts, gpu)`. What it gets computes on the CPU, so the exercise is the
same everywhere; what its transfers would cost is told by measurements of the `transfers` experiment. Those of
`nested_sine` say what is right in exercise 02-sines.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from brrr.core import units
from brrr.core.errors import BrrrError, NotRecordedError
from brrr_course.experiments import experiment
from brrr_course.experiments.nested_sine import SINES
from brrr_course.lessons.marks import Wrong, ask, exercise
from brrr_course.lessons.pretend import Gpu, OnGpu
from brrr_course.nouns.source import Evidence
from brrr_course.sources import source

LENGTHS = (1000, 3, 250, 4096, 17, 1, 600, 33)
"""Elements of the parts: small ones, of different lengths."""

TRIP_SINES, TOLERANCE = 4, 1e-6


@exercise("02-trips")
def trips(process: Any) -> str:
    """Right is one transfer there with all parts, four sines, and one back."""
    draw = np.random.default_rng()
    parts = [draw.standard_normal(length, dtype="float32") for length in LENGTHS]
    gpu = Gpu()
    _look_at_results(parts, ask(process, [part.copy() for part in parts], gpu))
    _look_at_trips(gpu)
    given = [part.nbytes for part in parts for _ in range(2 * TRIP_SINES)]  # as the lesson gives the function
    text = f"{len(gpu.trips)} transfers with {units.nbytes(sum(gpu.trips))} in place of {len(given)} transfers"
    return f"{text} with {units.nbytes(sum(given))}. {_worth(given, gpu.trips)}".strip()


def _look_at_results(parts: Sequence[Any], results: Any) -> None:
    if not isinstance(results, Sequence) or len(results) != len(parts):
        said = f"{len(results)} results" if isinstance(results, Sequence) else type(results).__name__
        raise Wrong(f"your function returned {said}; expected a list of {len(parts)}, one for each part.", SPLIT)
    for number, (part, result) in enumerate(zip(parts, results, strict=True)):
        expected = part.astype("float64")
        for _ in range(TRIP_SINES):
            expected = np.sin(expected)
        if isinstance(result, OnGpu):
            raise Wrong(f"result {number} is still in the GPU's memory.", "Fetch it.")
        if np.shape(result) != expected.shape:
            raise Wrong(f"result {number} has the shape {np.shape(result)}; expected {expected.shape}.", SPLIT)
        if not np.allclose(np.asarray(result, "float64"), expected, rtol=TOLERANCE, atol=TOLERANCE):
            raise Wrong(f"result {number} is not the sine of the sine of the sine of the sine.", "Four sines, no more.")


SPLIT = "After np.concatenate, np.split(array, np.cumsum(lengths)[:-1]) makes the parts again."


def _look_at_trips(gpu: Gpu) -> None:
    trips, elements = len(gpu.trips), sum(LENGTHS)
    if gpu.worked < TRIP_SINES * elements:
        raise Wrong("the results are right, but the GPU did not compute all of them.", "Use gpu.sin for each sine.")
    said = f"your function makes {trips} transfers for {len(LENGTHS)} parts."
    if trips > 2 * len(LENGTHS):
        raise Wrong(said, "What the next step needs can stay in the GPU's memory: fetch only what you want to read.")
    if trips > 2:
        raise Wrong(
            said, "Each transfer has a fixed cost, and the parts are small. Join them with np.concatenate first."
        )
    if sum(gpu.trips) > 2 * 4 * elements:
        raise Wrong(f"{said[:-1]}, but sends {units.nbytes(sum(gpu.trips))}.", "The parts have 4 bytes an element.")


def _measured(name: str) -> Iterator[tuple[str, Evidence]]:
    """What the lesson's source has of an experiment, then what the course's recording has: the badge, and that."""
    described = experiment(name)
    for origin in (None, "recorded:h200"):
        try:
            found = source(origin)
            yield str(found.badge(described)), Evidence(described, found)
        except BrrrError:
            continue


def _worth(before: Sequence[int], after: Sequence[int]) -> str:
    """What both would take, from the fixed cost and the bandwidth that were measured; empty where nothing was."""
    for badge, evidence in _measured("transfers"):
        try:
            way_s = cost_of(evidence)
        except BrrrError:
            continue
        was, now = (units.seconds(sum(map(way_s, trips))) for trips in (before, after))
        return f"With the fixed cost and the bandwidth of {badge}, that is {now} of transfers in place of {was}."
    return ""


def cost_of(evidence: Evidence) -> Callable[[float], float]:
    """Seconds that a transfer takes, by its bytes: a fixed cost, and the bytes over the bandwidth of the largest copy.

    NotRecordedError where no copy was measured, or one size only.
    """
    times = evidence.twin_curve("up pageable once", "nbytes")
    if len(times) < 2:
        raise NotRecordedError("one size does not tell the fixed cost from the bandwidth")
    floor = min(time.median for time in times.values())
    bandwidth = max(times) / times[max(times)].median
    return lambda nbytes: floor + nbytes / bandwidth


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 02-sines: with how many sines for each element is the GPU faster, although the data must travel?

ELEMENTS = 2**24
"""Where the lesson says to read the times."""


def sines_that_pay(_: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is right in 02-sines, by the lesson's source and by the recording.

    NotRecordedError where neither shows a crossing.
    """
    told = [case for where, evidence in _measured("nested_sine") for case in _crossing(where, evidence)]
    if not told:
        lacking = "no source here holds the CPU's time and the GPU's with transfers and without"
        raise NotRecordedError(f"check('02-sines'): {lacking}; see `brrr doctor`")
    return told


def _crossing(where: str, evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Where k sines on the GPU and the transfers take as long as k on the CPU; nothing where the GPU is no faster."""
    try:
        lines = [evidence.twin_curve(line, "elements") for line in ("cpu", "with transfers", "without transfers")]
        cpu_s, sent_s, there_s = (line[ELEMENTS].median for line in lines)
    except (BrrrError, KeyError):
        return
    way_s, gain_s = sent_s - there_s, (cpu_s - there_s) / SINES
    if min(way_s, gain_s) > 0:
        yield {"where": where, "way_s": way_s, "gain_s": gain_s, "exact": way_s / gain_s}
