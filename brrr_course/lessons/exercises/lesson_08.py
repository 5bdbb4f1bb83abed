"""Exercise 08-floor: what a step's recurrent product takes at least, by the bytes of its weights and by its FLOP."""

from __future__ import annotations

import math
from typing import Any

from brrr.core import units
from brrr_course.lessons.checking import Exercise, Mark, not_above_zero, slip

GATES, HIDDEN, ITEMSIZE = 4, 512, 4
BYTES_PER_S, FLOP_PER_S = 4.2e12, 54e12
"""What the exercise states: an LSTM layer in float32, and a GPU's rates."""
WEIGHTS = GATES * HIDDEN**2
CLOSE = 0.03


def least_s(batch: int) -> float:
    """What the product takes at least: its weights' bytes or its FLOP, whichever takes longer.

    >>> least_s(1) == least_s(25) < least_s(26)
    True
    """
    return max(WEIGHTS * ITEMSIZE / BYTES_PER_S, 2 * WEIGHTS * batch / FLOP_PER_S)


def largest() -> int:
    """The most samples with which the weights' bytes set the limit.

    >>> largest()
    25
    """
    return int(ITEMSIZE / BYTES_PER_S * FLOP_PER_S / 2)


def grade_floor(weight_bytes: Any, seconds: Any, batch: Any) -> Mark:
    """The bytes of the recurrent weights, their product's least time, and the most samples that they pay for."""
    if mark := not_above_zero(weight_bytes=weight_bytes, seconds=seconds, batch=batch):
        return mark
    if hint := _about_bytes(weight_bytes) or _about_seconds(seconds) or _about_batch(batch):
        return Mark("wrong", *hint)
    text = f"up to {largest()} samples the step's floor stays at {units.seconds(least_s(1))}"
    return Mark("right", f"{text}; with 64 it is {units.seconds(least_s(64))}, and the FLOP set it.")


FLOOR_EXERCISE = Exercise("08-floor", grade_floor)


def _about_bytes(answer: float) -> tuple[str, str] | None:
    if math.isclose(answer, WEIGHTS * ITEMSIZE, rel_tol=CLOSE):
        return None
    known = {
        WEIGHTS: ("one four is missing.", "There are four gates, and a float32 has four bytes."),
        HIDDEN**2: ("those are one gate's numbers.", f"An LSTM has {GATES} gates, a float32 four bytes."),
        2 * WEIGHTS * ITEMSIZE: ("that is with the input's weights.", "Only the state's are asked for."),
    }
    what, hint = slip(answer, known, ("not so many.", "Gates times hidden size squared times bytes of a number."))
    return f"`weight_bytes`: {what}", hint


def _about_seconds(answer: float) -> tuple[str, str] | None:
    if math.isclose(answer, least_s(1), rel_tol=CLOSE):
        return None
    load_s, flop_s = WEIGHTS * ITEMSIZE / BYTES_PER_S, 2 * WEIGHTS / FLOP_PER_S
    if math.isclose(answer, flop_s, rel_tol=CLOSE) or math.isclose(answer, flop_s / 2, rel_tol=CLOSE):
        return "`seconds`: that is the arithmetic.", "Fetching the weights takes longer."
    if math.isclose(answer, load_s + flop_s, rel_tol=CLOSE / 10):
        return "`seconds`: that is the sum of both.", "They overlap: the longer one counts."
    if math.isclose(answer, 1e6 * load_s, rel_tol=CLOSE):
        return "`seconds`: those are microseconds.", "Write seconds, as 2e-6."
    return f"`seconds` is {answer:g}.", "The weights' bytes over what the memory hands out a second."


def _about_batch(answer: float) -> tuple[str, str] | None:
    right = largest()
    if answer == right:
        return None
    if right < answer <= right + 1:
        return f"`batch`: with {answer:g} samples the FLOP take longer already.", "Round down."
    if math.isclose(answer, 2 * right, abs_tol=2):
        return "`batch`: an FMA is two FLOP.", "Each weight is multiplied and added, once for each sample."
    return (
        f"`batch` is {answer:g}.",
        "For how many samples does 2 · weights · samples / rate take as long as the fetch?",
    )
