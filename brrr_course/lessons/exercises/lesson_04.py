"""Exercise 04-slips: a well-known calculation of bandwidth has two slips; find them and write it right.

The calculation: a float of 32 bits has 8 bytes, and the bandwidth achieved is `bytes * 2 * N / iterations per second`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from brrr_course.lessons.checking import Exercise, Mark, ask, not_above_zero

FLOAT_BYTES = 4
TRIALS = 5
CLOSE = 1e-9


def as_printed(elements: float, iterations_per_s: float) -> float:
    """The bandwidth as the source has it, both slips included.

    >>> as_printed(1e9, 100.0)
    160000000.0
    """
    return 8 * 2 * elements / iterations_per_s


def right_bandwidth(elements: float, iterations_per_s: float) -> float:
    """Each float32 is read once and written once in every iteration: bytes an iteration, times iterations a second.

    >>> right_bandwidth(1e9, 100.0)
    800000000000.0
    """
    return FLOAT_BYTES * 2 * elements * iterations_per_s


def right_rate(elements: float, repeat: float, iterations_per_s: float) -> float:
    """One FLOP an element and step in every iteration, in FLOP/s.

    >>> right_rate(1e9, 64.0, 100.0)
    6400000000000.0
    """
    return elements * repeat * iterations_per_s


def grade(float_bytes: Any, bandwidth: Any, flops: Any) -> Mark:
    """The bytes of a 32-bit float, and both rates as functions; right if all three are."""
    wrong = _wrong_bytes(float_bytes) or _wrong_function("bandwidth", bandwidth) or _wrong_function("flops", flops)
    if wrong is not None:
        return Mark("wrong", *wrong)
    tried = _arguments(2)
    answers = [ask(bandwidth, *given) for given in tried]
    if not _agree(answers, [right_bandwidth(*given) for given in tried]):
        return Mark("wrong", *_about_bandwidth(tried, answers))
    tried = _arguments(3)
    answers = [ask(flops, *given) for given in tried]
    if not _agree(answers, [right_rate(*given) for given in tried]):
        return Mark("wrong", *_about_flops(tried, answers))
    return Mark("right", _worth())


EXERCISE = Exercise("04-slips", grade)


def _wrong_bytes(answer: Any) -> tuple[str, str] | None:
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        return f"`float_bytes` is {answer!r}.", "Write a number of bytes."
    if answer == FLOAT_BYTES:
        return None
    hint = (
        "That is the slip: 8 bytes are 64 bits." if answer == 8 else "A byte has 8 bits; how many bits has a float32?"
    )
    return f"a 32-bit float has not {answer:g} bytes.", hint


def _wrong_function(name: str, answer: Any) -> tuple[str, str] | None:
    if callable(answer):
        return None
    return (
        f"`{name}` is {answer!r}, not a function.",
        f'Pass the function itself: check("04-slips", ..., {name}={name}).',
    )


def _arguments(count: int) -> list[tuple[float, ...]]:
    """Random sizes and speeds, such that no two formulas agree by chance: elements, (repeat,) iterations a second."""
    return [
        tuple(
            float(random.randint(*span)) for span in ((10**6, 10**8), (3, 500), (7, 5000)) if count == 3 or span[0] != 3
        )
        for _ in range(TRIALS)
    ]


def _agree(answers: list[Any], expected: list[float]) -> bool:
    return all(_number(a) and math.isclose(a, e, rel_tol=CLOSE) for a, e in zip(answers, expected, strict=True))


def _number(answer: Any) -> bool:
    return isinstance(answer, int | float) and not isinstance(answer, bool) and math.isfinite(answer)


def _about_bandwidth(tried: list[tuple[float, ...]], answers: list[Any]) -> tuple[str, str]:
    """What is wrong with the bandwidth, as (what, hint): the known mistakes are known by what they give."""
    known: tuple[tuple[Callable[[float, float], float], str, str], ...] = (
        (as_printed, "that is the calculation as printed, with both slips.", DIMENSION),
        (lambda n, s: FLOAT_BYTES * 2 * n / s, "the bytes are right, the division is not.", DIMENSION),
        (lambda n, s: 8 * 2 * n * s, "that counts 8 bytes a float.", "You found its bytes above: use them."),
        (lambda n, s: FLOAT_BYTES * n * s, "that counts one access to each float.", "It is read, and then written."),
        (lambda n, s: 2 * n * s, "that counts numbers, not bytes.", "Each number has some bytes."),
        (lambda n, s: FLOAT_BYTES * 2 * n * s / 1e9, "that is in GB/s.", "Give bytes a second."),
    )
    for formula, what, hint in known:
        if _agree(answers, [formula(*given) for given in tried]):
            return f"`bandwidth`: {what}", hint
    return f"`bandwidth{tried[0]}` gave {answers[0]!r}; expected {right_bandwidth(*tried[0]):g} B/s.", DIMENSION


def _about_flops(tried: list[tuple[float, ...]], answers: list[Any]) -> tuple[str, str]:
    """The same for the rate of arithmetic."""
    known: tuple[tuple[Callable[[float, float, float], float], str], ...] = (
        (lambda n, r, s: n * r / s, "the same division, where it is as wrong."),
        (lambda n, r, s: 2 * n * r * s, "a multiplication alone is one FLOP."),
        (lambda n, r, s: n * s, "every element is multiplied `repeat` times."),
    )
    for formula, what in known:
        if _agree(answers, [formula(*given) for given in tried]):
            return f"`flops`: {what}", DIMENSION
    return f"`flops{tried[0]}` gave {answers[0]!r}; expected {right_rate(*tried[0]):g} FLOP/s.", DIMENSION


DIMENSION = "Look at the units: bytes (or FLOP) an iteration, and iterations a second, should give something a second."


def _worth() -> str:
    """What the slips do to the source's own numbers, worked out here: its A100 has 1.5 TB/s and 19.5 TFLOP/s."""
    bandwidth, peak = 1.5e12, 19.5e12
    loaded = bandwidth / FLOAT_BYTES / 1e9
    crossing = peak / (bandwidth / (2 * FLOAT_BYTES))
    return (
        f"with {FLOAT_BYTES} bytes a float the source's A100 loads {loaded:.0f} billion numbers a second, not 200. "
        f"Its conclusion stands, for a number is also written: {2 * FLOAT_BYTES} bytes, and {crossing:.0f} operations "
        "in the time that they take. And dividing by iterations a second would have made the faster code the worse."
    )


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 04-knee: from how many multiplications on does the loop take longer?

MULTIPLICATIONS_PER_S, BYTES_PER_S = 33.5e12, 4.8e12
"""What the exercise states."""
ELEMENT_BYTES = 2 * FLOAT_BYTES
KNEE = MULTIPLICATIONS_PER_S / BYTES_PER_S * ELEMENT_BYTES
NEAR = 0.03


def grade_knee(intensity: Any, repeat: Any) -> Mark:
    """The ridge point for multiplications, in FLOP/B, and the `repeat` at which the loop has that intensity."""
    if mark := not_above_zero(intensity=intensity, repeat=repeat):
        return mark
    ridge = KNEE / ELEMENT_BYTES
    if not math.isclose(intensity, ridge, rel_tol=NEAR):
        known = {
            ridge / 1e12: "bytes a second are in TB/s too: divide like by like.",
            1 / ridge: "FLOP over bytes, not the other way round.",
            2 * ridge: "a multiplication alone is one FLOP of its own instruction: the peak is half that of FMAs.",
        }
        hint = next((text for value, text in known.items() if math.isclose(intensity, value, rel_tol=NEAR)), RIDGE)
        return Mark("wrong", f"`intensity` is {intensity:g}.", hint)
    if not math.isclose(repeat, KNEE, rel_tol=NEAR):
        once = math.isclose(repeat, KNEE / 2, rel_tol=NEAR)
        hint = "An element is read, and it is written." if once else "One FLOP a step, for so many bytes an element."
        return Mark("wrong", f"`repeat` is {repeat:g}.", hint)
    return Mark("right", f"{KNEE:.0f} multiplications are free. In the figure, the line rises from there on.")


RIDGE = "The ridge point is the peak over the bandwidth, in FLOP/B."
KNEE_EXERCISE = Exercise("04-knee", grade_knee)
