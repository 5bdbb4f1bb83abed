"""Exercise 00-orders: how long do a hundred small orders take, when the paper takes longer than the work?"""

from __future__ import annotations

from typing import Any

from brrr.course.lessons.checking import Exercise, Mark

ORDERS, PAPER_US, WORK_US = 100, 10, 2
"""So many orders; writing one takes 10 µs, working it off 2 µs, while the next one is being written."""

RIGHT = ORDERS * PAPER_US + WORK_US


def grade(microseconds: Any) -> Mark:
    """Right is the paper of all orders, and the work of the last one, which nothing hides.

    >>> grade(1200).status, grade(1002).status
    ('wrong', 'right')
    """
    if isinstance(microseconds, bool) or not isinstance(microseconds, int | float):
        return Mark("wrong", f"{microseconds!r} is not a number.", "Write microseconds, as in microseconds=150.")
    if RIGHT - WORK_US <= microseconds <= RIGHT:
        return Mark("right", _why())
    if microseconds == ORDERS * (PAPER_US + WORK_US):
        return Mark("wrong", "the factory does not wait for the office to stop writing.", "The two work side by side.")
    if microseconds == ORDERS * WORK_US:
        return Mark("wrong", "that is the work alone.", "Who writes the orders, and how long does that take?")
    return Mark("wrong", f"{microseconds} is not it.", "Draw two rows: the office above, the factory below.")


EXERCISE = Exercise("00-orders", grade)


def _why() -> str:
    return (
        f"{ORDERS} times {PAPER_US} µs of paper, and {WORK_US} µs for the last order. The other work is hidden "
        "behind the paper. A program like this is called host-bound: a faster factory would not help it."
    )
