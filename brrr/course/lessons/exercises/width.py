"""Exercise 03b-width: from which width on is the pseudo-linear layer at least twice as fast as the linear one?

The mark comes from the course's recording.
"""

from __future__ import annotations

from typing import Any

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.values import Value
from brrr.course.lessons.checking import Mark
from brrr.course.sources.transition import Transition, find_transition, pays

RECORDING = "recorded:h200"
FACTOR = 2
TWICE = pays("pseudo eager", over="linear eager", at_least=FACTOR)
AT: dict[str, Value] = {"batch": 128, "direction": "forward"}


def grade(width: Any) -> Mark:
    """The answer must lie above the last width that does not pay, up to the first one that does."""
    if isinstance(width, bool) or not isinstance(width, int | float) or not width > 0:
        return Mark("wrong", f"`width` is {width!r}.", "Write a width, as in 300.")
    found = transition()
    where = f"{found.badge}: no factor of {FACTOR} at width {found.low}, at least {FACTOR} at {found.high}"
    if found.holds(width):
        return Mark("right", f"that is where it starts to pay ({where}). Below, both layers cost their orders.")
    if width <= float(found.low):
        hint = "Too narrow: at this width, or a wider one, both layers still cost about what their orders cost."
    else:
        hint = "It pays already on narrower layers: the product grows with the square of the width, the orders do not."
    return Mark("wrong", f"`width={width}` does not fit ({found.badge}).", hint)


def transition() -> Transition:
    """Where the stand-in starts to be twice as fast in the course's recording; NotRecordedError where it has no such.

    One recording for everybody: the place depends on the machine, and a live source would have to measure.
    """
    try:
        found = find_transition("pseudo_linear", "width", TWICE, at=AT, source=RECORDING)
    except ArgumentError as error:
        raise NotRecordedError(
            f"check('03b-width'): {RECORDING} does not show where it starts to pay: {error}"
        ) from None
    return found
