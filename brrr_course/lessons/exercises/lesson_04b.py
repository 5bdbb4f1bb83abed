"""Exercise 04b-mend: the 32 threads of a warp read together; let them read neighbours.

The student's function is called as `place(thread, step)` and says which number a thread reads in which step. A warp
that only keeps account counts the sectors, so the mark depends on no machine.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from brrr_course.lessons.marks import Wrong, ask, exercise

THREADS, STEPS, SECTOR_FLOATS = 32, 16, 8
MATRIX_NUMBERS = THREADS * STEPS
FEWEST = MATRIX_NUMBERS // SECTOR_FLOATS
"""Sectors that must be asked for: each of them once."""

Place = Callable[[int, int], int]


def sectors(place: Place) -> int:
    """How many sectors the warp asks for in all: in each step those that hold what its threads read.

    >>> sectors(lambda thread, step: thread * 16 + step), sectors(lambda thread, step: step * 32 + thread)
    (512, 64)
    """
    steps = [{place(thread, step) // SECTOR_FLOATS for thread in range(THREADS)} for step in range(STEPS)]
    return sum(map(len, steps))


@exercise("04b-mend")
def coalesce(place: Any) -> str:
    """Right if every number is read once, and each step asks for as few sectors as can be."""
    answers = {(thread, step): ask(place, thread, step) for thread in range(THREADS) for step in range(STEPS)}
    _look_at(answers)
    found = sectors(lambda thread, step: answers[thread, step])
    said = f"the warp asks for {found} sectors; {FEWEST} hold all {MATRIX_NUMBERS} numbers"
    if found == FEWEST:
        return f"{said}. In each step, neighbours read neighbours: the reads are coalesced."
    hint = "They should be neighbours: then 8 threads share a sector."
    raise Wrong(f"{said}.", f"Write down what threads 0, 1 and 2 read in step 0. {hint}")


def _look_at(answers: dict[tuple[int, int], Any]) -> None:
    """What is wrong before sectors count: no number, outside, twice."""
    for (thread, step), found in answers.items():
        where = f"`place({thread}, {step})` gave {found!r}"
        if isinstance(found, bool) or not isinstance(found, int):
            raise Wrong(f"{where}, which is no whole number.", "Return the place of a number, such as 0 for the first.")
        if not 0 <= found < MATRIX_NUMBERS:
            what = f"{where}; there are the places 0 to {MATRIX_NUMBERS - 1}."
            raise Wrong(what, f"{THREADS} threads, {STEPS} steps each.")
    most, times = Counter(answers.values()).most_common(1)[0]
    if times > 1:
        raise Wrong(f"number {most} is read {times} times, so another one never.", "Read each number once.")
