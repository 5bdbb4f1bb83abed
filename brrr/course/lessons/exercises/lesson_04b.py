"""Exercise 04b-mend: the 32 threads of a warp read together; let them read neighbours.

The student's function is called as `place(thread, step)` and says which number a thread reads in which step. A warp
that only keeps account counts the sectors, so the mark depends on no machine.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from brrr.course.lessons.checking import Exercise, Mark, ask

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
# Exercise 04b-share: which part of what the memory hands out is of use, with one float in every `stride`?

FLOAT_BYTES, NUMBERS = 4, 2**13
CLOSE = 0.02
"""The end of the array may cut a piece; a formula need not know that."""

PIECES, STRIDES = (32, 64, 128), (1, 2, 3, 4, 7, 8, 12, 16, 24, 32, 64, 100)


def share(stride: int, piece: int) -> float:
    """The useful bytes over those of all pieces that hold at least one of them, up to the widest stride of use.

    >>> share(1, 32), share(8, 32), share(32, 32), share(32, 64)
    (1.0, 0.125, 0.125, 0.0625)
    """
    return max(1 / stride, FLOAT_BYTES / piece)


def counted(stride: int, piece: int) -> float:
    """The same by counting.

    >>> counted(8, 64) == share(8, 64)
    True
    """
    places = range(0, NUMBERS, stride)
    touched = {place * FLOAT_BYTES // piece for place in places}
    return FLOAT_BYTES * len(places) / (piece * len(touched))


def grade_share(share: Any) -> Mark:
    """Right if it agrees with counting, for narrow strides and wide ones, for small pieces and large ones."""
    if not callable(share):
        return Mark("wrong", f"{share!r} is not a function.", 'Pass it itself: check("04b-share", share=share).')
    tried = [(stride, piece) for stride in STRIDES for piece in PIECES]
    random.shuffle(tried)
    answers = {given: ask(share, *given) for given in tried}
    wrong = sorted(given for given, found in answers.items() if not _close(found, counted(*given)))
    if not wrong:
        return Mark("right", _worth())
    for formula, what, hint in KNOWN:
        if all(_close(found, formula(*given)) for given, found in answers.items()):
            return Mark("wrong", what, hint)
    first = wrong[0]
    said = f"`share(stride={first[0]}, piece={first[1]})` gave {answers[first]!r}; counted: {counted(*first):.4g}."
    return Mark("wrong", said, "How many floats has a piece, and how many of them are touched?")


SHARE_EXERCISE = Exercise("04b-share", grade_share)


KNOWN: tuple[tuple[Callable[[int, int], float], str, str], ...] = (
    (
        lambda stride, piece: 1 / stride,
        "that is right as long as every piece is touched.",
        "With a wide stride whole pieces are left out. What does a piece give then?",
    ),
    (
        lambda stride, piece: FLOAT_BYTES / piece,
        "that is right as long as each piece holds one number that is touched.",
        "With a narrow stride a piece holds several.",
    ),
    (
        lambda stride, piece: min(1 / stride, FLOAT_BYTES / piece),
        "that is the smaller of the two.",
        "Could reading every number (stride 1) waste anything?",
    ),
    (
        lambda stride, piece: max(1 / stride, 1 / piece),
        "that takes the piece in floats.",
        f"`piece` is in bytes, and a float has {FLOAT_BYTES}.",
    ),
)
"""The usual mistakes: the formula, what it is, and a hint."""


def _close(found: Any, expected: float) -> bool:
    number = isinstance(found, int | float) and not isinstance(found, bool)
    return number and math.isclose(found, expected, rel_tol=CLOSE)


def _worth() -> str:
    wide = ", ".join(f"{share(64, piece):.1%} with pieces of {piece} bytes" for piece in PIECES)
    return f"it agrees with counting. Of what a stride of 64 fetches, this is of use: {wide}."
