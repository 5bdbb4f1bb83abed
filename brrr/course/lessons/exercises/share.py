"""Exercise 04b-share: which part of what the memory hands out is of use, with one float in every `stride`?

The student's formula is compared with counting, for random strides and pieces. So the mark depends on no machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from brrr.course.lessons.checking import Mark, ask

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


def grade(share: Any) -> Mark:
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
