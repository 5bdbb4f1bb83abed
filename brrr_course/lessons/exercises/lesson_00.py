"""Exercises 00-launches and 00-queue: when is the last kernel done, with a host that launches while the GPU runs?"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from brrr_course.lessons.checking import Exercise, Mark, ask

KERNELS, LAUNCH_US, KERNEL_US = 100, 10, 2
"""So many kernels; launching one takes 10 µs, and running it 2 µs, while the next one is being launched."""

RIGHT = KERNELS * LAUNCH_US + KERNEL_US


def grade(microseconds: Any) -> Mark:
    """Right is the launches of all kernels, and the run of the last one, which nothing hides.

    >>> grade(1200).status, grade(1002).status
    ('wrong', 'right')
    """
    if isinstance(microseconds, bool) or not isinstance(microseconds, int | float):
        return Mark("wrong", f"{microseconds!r} is not a number.", "Write microseconds, as in microseconds=150.")
    if RIGHT - KERNEL_US <= microseconds <= RIGHT:
        return Mark("right", _why())
    if microseconds == KERNELS * (LAUNCH_US + KERNEL_US):
        return Mark("wrong", "the host does not wait for the GPU.", "The two work side by side.")
    if microseconds == KERNELS * KERNEL_US:
        return Mark("wrong", "that is the GPU's work alone.", "Who launches the kernels, and how long does that take?")
    return Mark("wrong", f"{microseconds} is not it.", "Draw two rows: the host above, the GPU below.")


EXERCISE = Exercise("00-launches", grade)


def _why() -> str:
    return (
        f"{KERNELS} launches of {LAUNCH_US} µs, and {KERNEL_US} µs for the last kernel. The others run while the host "
        "launches. A program like this is called overhead-bound: a faster GPU would not help it."
    )


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 00-queue: the same for launches and kernels of any length.

CASES = 20


def end_us(launches_us: Sequence[float], kernels_us: Sequence[float]) -> float:
    """When the last kernel is done: each starts when it is launched, and when the one before it is done.

    >>> end_us([10, 10], [2, 2]), end_us([10, 10], [50, 2])
    (22.0, 62.0)
    """
    launched = done = 0.0
    for launch, kernel in zip(launches_us, kernels_us, strict=True):
        launched += launch
        done = max(launched, done) + kernel
    return done


def grade_queue(finished: Any) -> Mark:
    """Right on made-up launches and kernels, of which now the host and now the GPU is the slower."""
    if not callable(finished):
        hint = 'Pass it itself: check("00-queue", finished=finished).'
        return Mark("wrong", f"{finished!r} is not a function.", hint)
    for case in range(CASES):
        count, longest = random.randint(1, 9), (5, 50)[case % 2]
        launches = [random.randint(1, 20) for _ in range(count)]
        kernels = [random.randint(1, longest) for _ in range(count)]
        found, right = ask(finished, list(launches), list(kernels)), end_us(launches, kernels)
        if isinstance(found, bool) or not isinstance(found, int | float):
            return Mark("wrong", f"`finished` gave {found!r}.", "Return microseconds, as a number.")
        if not math.isclose(found, right):
            text = f"`finished({launches}, {kernels})` gave {found:g}; the last kernel is done after {right:g} µs."
            return Mark("wrong", text, _hint(found, launches, kernels))
    return Mark("right", "a kernel waits for its launch and for the kernel before it, whichever is later. These two "
                "clocks are all that a timeline of one stream needs.")  # fmt: skip


QUEUE_EXERCISE = Exercise("00-queue", grade_queue)


def _hint(found: float, launches: Sequence[float], kernels: Sequence[float]) -> str:
    if found == sum(kernels):
        return "A kernel cannot start before it is launched."
    if found == sum(launches) + sum(kernels):
        return "The host launches the next kernel while the GPU runs this one."
    return "A kernel starts at the later of two times: when it is launched, and when the one before it is done."
