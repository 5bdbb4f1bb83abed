"""Exercise 04-slips: a well-known calculation of bandwidth has two slips; find them and write it right.

The calculation: a float of 32 bits has 8 bytes, and the bandwidth achieved is `bytes * 2 * N / iterations per second`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brrr_course.lessons.marks import Wrong, ask, exercise, is_number

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


@exercise("04-slips", values=("float_bytes",))
def slips(float_bytes: Any, bandwidth: Any, flops: Any) -> str:
    """The bytes of a 32-bit float, and both rates as functions; right if all three are."""
    if not is_number(float_bytes):
        raise Wrong(f"`float_bytes` is {float_bytes!r}.", "Write a number of bytes.")
    if float_bytes != FLOAT_BYTES:
        slip, other = "That is the slip: 8 bytes are 64 bits.", "A byte has 8 bits; how many bits has a float32?"
        raise Wrong(f"a 32-bit float has not {float_bytes:g} bytes.", slip if float_bytes == 8 else other)
    elements, repeat, per_second = (10**6, 10**8), (3, 500), (7, 5000)
    _try("bandwidth", bandwidth, right_bandwidth, "B/s", (elements, per_second), {
        as_printed: ("that is the calculation as printed, with both slips.", DIMENSION),
        lambda n, s: FLOAT_BYTES * 2 * n / s: ("the bytes are right, the division is not.", DIMENSION),
        lambda n, s: 8 * 2 * n * s: ("that counts 8 bytes a float.", "You found its bytes above: use them."),
        lambda n, s: FLOAT_BYTES * n * s: ("that counts one access to each float.", "It is read, and then written."),
        lambda n, s: 2 * n * s: ("that counts numbers, not bytes.", "Each number has some bytes."),
        lambda n, s: FLOAT_BYTES * 2 * n * s / 1e9: ("that is in GB/s.", "Give bytes a second."),
    })  # fmt: skip
    _try("flops", flops, right_rate, "FLOP/s", (elements, repeat, per_second), {
        lambda n, r, s: n * r / s: ("the same division, where it is as wrong.", DIMENSION),
        lambda n, r, s: 2 * n * r * s: ("a multiplication alone is one FLOP.", DIMENSION),
        lambda n, r, s: n * s: ("every element is multiplied `repeat` times.", DIMENSION),
    })  # fmt: skip
    return _worth()


DIMENSION = "Look at the units: bytes (or FLOP) an iteration, and iterations a second, should give something a second."
Rate = Callable[..., Any]


def _try(
    name: str,
    mine: Rate,
    right: Rate,
    unit: str,
    spans: Sequence[tuple[int, int]],
    known: Mapping[Rate, tuple[str, str]],
) -> None:
    """Compare with the right one on random sizes and speeds, such that no two formulas agree by chance."""
    tried = [[float(random.randint(*span)) for span in spans] for _ in range(TRIALS)]
    found = [ask(mine, *given) for given in tried]

    def agrees(formula: Rate) -> bool:
        pairs = [(each, formula(*given)) for each, given in zip(found, tried, strict=True)]
        return all(is_number(one) and math.isclose(one, other, rel_tol=CLOSE) for one, other in pairs)

    if agrees(right):
        return
    for formula, (what, hint) in known.items():
        if agrees(formula):
            raise Wrong(f"`{name}`: {what}", hint)
    given = tuple(tried[0])
    raise Wrong(f"`{name}{given}` gave {found[0]!r}; expected {right(*given):g} {unit}.", DIMENSION)


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
