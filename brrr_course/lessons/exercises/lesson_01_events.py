"""Exercise 01-events: what does an event pair say of one tiny kernel, and of many behind each other?"""

from __future__ import annotations

import math
from typing import Any

from brrr_course.lessons.checking import Exercise, Mark, not_above_zero

MANY_US, CALLS, ONE_US = 460.0, 100, 10.6
"""What the exercise states: microseconds between two events around many calls, and around one."""
CALL_US = MANY_US / CALLS
CLOSE = 0.01


def grade(call_us: Any, pair_us: Any) -> Mark:
    """Microseconds of a call, amortised; and those that the pair around one call has more than that."""
    if mark := not_above_zero(call_us=call_us, pair_us=pair_us):
        return mark
    if not math.isclose(call_us, CALL_US, rel_tol=CLOSE):
        seconds = math.isclose(call_us, CALL_US * 1e-6, rel_tol=CLOSE) or math.isclose(
            call_us, CALL_US * 1e-3, rel_tol=CLOSE
        )
        hint = "Write microseconds." if seconds else "The time between the events over the calls between them."
        return Mark("wrong", f"`call_us` is {call_us:g}.", hint)
    if not math.isclose(pair_us, ONE_US - CALL_US, rel_tol=CLOSE):
        hint = "What the pair around one call says, less one call."
        return Mark("wrong", f"`pair_us` is {pair_us:g}.", hint)
    return Mark("right", "the larger part of the single pair is waiting for the host to issue the call.")


EXERCISE = Exercise("01-events", grade)
