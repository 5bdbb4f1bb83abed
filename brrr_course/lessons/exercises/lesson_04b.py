"""Exercise 04b-mend: the 32 threads of a warp read together; let them read neighbours.

The student's function is called as `place(thread, step)` and says which number a thread reads in which step. A warp
that only keeps account counts the sectors, so the mark depends on no machine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from brrr.core import units
from brrr_course.lessons.checking import Exercise, Mark, ask, not_above_zero

THREADS, STEPS, SECTOR_FLOATS = 32, 16, 8
MATRIX_NUMBERS = THREADS * STEPS
FEWEST = MATRIX_NUMBERS // SECTOR_FLOATS
"""Sectors that must be asked for: each of them once."""

Place = Callable[[int, int], int]


def as_given(thread: int, step: int) -> int:
    """Each thread has a stretch of its own.

    >>> as_given(1, 0), sectors(as_given)
    (16, 512)
    """
    return thread * STEPS + step


def coalesced(thread: int, step: int) -> int:
    """All threads together read a stretch in each step.

    >>> coalesced(1, 0), sectors(coalesced)
    (1, 64)
    """
    return step * THREADS + thread


def sectors(place: Place) -> int:
    """How many sectors the warp asks for in all: in each step those that hold what its threads read."""
    steps = [{place(thread, step) // SECTOR_FLOATS for thread in range(THREADS)} for step in range(STEPS)]
    return sum(map(len, steps))


def grade_coalesce(place: Any) -> Mark:
    """Right if every number is read once, and each step asks for as few sectors as can be."""
    if not callable(place):
        return Mark("wrong", f"{place!r} is not a function.", 'Pass it itself: check("04b-mend", place=place).')
    answers = {(thread, step): ask(place, thread, step) for thread in range(THREADS) for step in range(STEPS)}
    mistake = _mistake(answers)
    if mistake is not None:
        return Mark("wrong", *mistake)
    found = sectors(lambda thread, step: answers[thread, step])
    said = f"the warp asks for {found} sectors; {FEWEST} hold all {MATRIX_NUMBERS} numbers"
    if found == FEWEST:
        return Mark("right", f"{said}. In each step, neighbours read neighbours: the reads are coalesced.")
    hint = (
        "Write down what threads 0, 1 and 2 read in step 0. They should be neighbours: then 8 threads share a sector."
    )
    return Mark("wrong", f"{said}.", hint)


COALESCE_EXERCISE = Exercise("04b-mend", grade_coalesce)


def _mistake(answers: dict[tuple[int, int], Any]) -> tuple[str, str] | None:
    """What is wrong before sectors count: no number, outside, twice; as (what, hint)."""
    for (thread, step), found in answers.items():
        where = f"`place({thread}, {step})` gave {found!r}"
        if isinstance(found, bool) or not isinstance(found, int):
            return f"{where}, which is no whole number.", "Return the place of a number, as 0 for the first."
        if not 0 <= found < MATRIX_NUMBERS:
            return (
                f"{where}; there are the places 0 to {MATRIX_NUMBERS - 1}.",
                f"{THREADS} threads, {STEPS} steps each.",
            )
    most, times = Counter(answers.values()).most_common(1)[0]
    if times > 1:
        return f"number {most} is read {times} times, and so another one never.", "Each number must be read once."
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 04b-little: how many bytes must be in flight, and how many loads in each thread?

BYTES_PER_S, LATENCY_S, MULTIPROCESSORS, RESIDENT_THREADS, LOAD_BYTES = 4.8e12, 400e-9, 132, 2048, 4
"""What the exercise states."""
IN_FLIGHT = BYTES_PER_S * LATENCY_S
EACH_LOAD = MULTIPROCESSORS * RESIDENT_THREADS * LOAD_BYTES
"""Bytes in flight at full occupancy with one load a thread."""
NEEDED = math.ceil(IN_FLIGHT / EACH_LOAD)
CLOSE = 0.03


def grade_little(bytes_in_flight: Any, loads: Any) -> Mark:
    """Right is bandwidth times latency, and the whole number of loads that reaches it at full occupancy."""
    if mark := not_above_zero(bytes_in_flight=bytes_in_flight, loads=loads):
        return mark
    if not math.isclose(bytes_in_flight, IN_FLIGHT, rel_tol=CLOSE):
        return Mark("wrong", *_about_bytes(bytes_in_flight))
    if loads != NEEDED:
        return Mark("wrong", *_about_loads(loads))
    one = EACH_LOAD / LATENCY_S
    return Mark("right", f"with one load a thread, full occupancy reaches {units.rate(one, 'B/s')} and no more.")


LITTLE_EXERCISE = Exercise("04b-little", grade_little)


def _about_bytes(answer: float) -> tuple[str, str]:
    for scale, what in (
        (1e9, "nanoseconds for seconds"),
        (1e-12, "terabytes for bytes"),
        (1 / MULTIPROCESSORS, "one multiprocessor"),
    ):
        if math.isclose(answer, IN_FLIGHT * scale, rel_tol=CLOSE):
            return f"`bytes_in_flight`: that takes {what}.", "All of the GPU together: bytes a second times seconds."
    return f"`bytes_in_flight` is {answer:g}.", "Little's law: bandwidth times latency."


def _about_loads(answer: float) -> tuple[str, str]:
    if math.isclose(answer, IN_FLIGHT / EACH_LOAD, rel_tol=CLOSE) or answer == NEEDED - 1:
        return f"`loads`: {answer:g} are a little too few.", "A thread has a whole number of loads in flight: round up."
    return f"`loads` is {answer:g}.", "The bytes in flight over multiprocessors times threads times bytes of a load."
