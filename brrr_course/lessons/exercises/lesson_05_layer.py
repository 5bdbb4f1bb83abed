"""Exercise 05-transformer: how can a fraction of a percent of the FLOP take a good part of the time?

A layer of a transformer with `WIDTH` features on `TOKENS` tokens, its attention's scores left out. In the source's
table of whole models, products have 99.8 % of the FLOP, and everything else takes a third of the time.
"""

from __future__ import annotations

import math
from typing import Any

from brrr.core import units
from brrr_course.lessons.checking import Exercise, Mark, ask, not_above_zero

WIDTH, TOKENS, ITEMSIZE = 1024, 8192, 2
FLOP_PER_S, BYTES_PER_S = 660e12, 4.2e12
"""What the exercise states: a layer in bfloat16, and the rates that a GPU reaches."""

PRODUCTS = 2 * TOKENS * (4 * WIDTH**2 + 2 * WIDTH * 4 * WIDTH)
"""FLOP of four products of width x width, and of two with four times the width."""

PASSES = 2 * 2 + 2 * 3 + 4 * 2
"""Arrays of tokens x width that two layer norms, two additions and a GELU of four times the width read and write."""
BYTES = PASSES * TOKENS * WIDTH * ITEMSIZE
SHARE = (BYTES / BYTES_PER_S) / (BYTES / BYTES_PER_S + PRODUCTS / FLOP_PER_S)
CLOSE = 0.03


def grade_transformer(flop: Any, nbytes: Any, share: Any) -> Mark:
    """The products' FLOP, the bytes of the other operators, and their share of the time."""
    if mark := not_above_zero(flop=flop, nbytes=nbytes, share=share):
        return mark
    for name, answer, right, hints in (("flop", flop, PRODUCTS, _FLOP), ("nbytes", nbytes, BYTES, _BYTES)):
        if not math.isclose(answer, right, rel_tol=CLOSE):
            hint = next((text for factor, text in hints.items() if math.isclose(answer, right * factor)), hints[0])
            return Mark("wrong", f"`{name}` is {answer:.4g}.", hint)
    if not math.isclose(share, SHARE, rel_tol=2 * CLOSE):
        percent = math.isclose(share, 100 * SHARE, rel_tol=2 * CLOSE)
        hint = "Write a share, from 0 to 1." if percent else "Each part's time: FLOP over FLOP/s, bytes over bytes/s."
        return Mark("wrong", f"`share` is {share:.4g}.", hint)
    times = units.seconds(PRODUCTS / FLOP_PER_S), units.seconds(BYTES / BYTES_PER_S)
    return Mark("right", f"the products take {times[0]}, the rest {times[1]}, at a few FLOP a number.")


TRANSFORMER_EXERCISE = Exercise("05-transformer", grade_transformer)

_FLOP = {
    0: "A product of (tokens, a) by (a, b) has 2 · tokens · a · b FLOP. There are six of them.",
    0.5: "Each multiplication comes with an addition: two FLOP.",
    4 / 12: "Those are the four square ones. Two more go to four times the width, and back.",
}
_BYTES = {
    0: "Each operator reads its inputs and writes its result, tokens x width numbers of two bytes each.",
    2: "bfloat16 has two bytes.",
    0.5: "bfloat16 has two bytes.",
    (PASSES - 6) / PASSES: "GELU works between the two products of the MLP, on four times the width.",
    (PASSES - 2) / PASSES: "An addition reads two arrays.",
}


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 05-passes: three passes over memory as one. A pretended memory counts what is read and written.

NUMBERS, FEWEST = 50, 4
"""Numbers in an array, and how often each place must be read or written: three inputs, one result."""


class Memory:
    """What the student's function gets: arrays of numbers by name, each access counted.

    >>> memory = Memory({"x": [1.0, 2.0]})
    >>> memory.write("y", 0, memory.read("x", 1))
    >>> memory.accesses
    2
    """

    def __init__(self, arrays: dict[str, list[float]]) -> None:
        self.accesses = 0
        self._arrays = {name: dict(enumerate(values)) for name, values in arrays.items()}

    def read(self, name: str, place: int) -> float:
        """The number at a place of an array."""
        if place not in self._arrays.get(name, {}):
            raise KeyError(f"nothing was written to {name!r} at {place}")
        self.accesses += 1
        return self._arrays[name][place]

    def write(self, name: str, place: int, value: float) -> None:
        """Store a number at a place of an array, which may be a new one."""
        self.accesses += 1
        self._arrays.setdefault(name, {})[place] = float(value)

    def array(self, name: str) -> list[float]:
        """What was written, uncounted."""
        return [value for _, value in sorted(self._arrays.get(name, {}).items())]


def grade_passes(gated: Any) -> Mark:
    """Right is relu(x + b) * g in "y", with each input read once and the result written once."""
    import random

    if not callable(gated):
        return Mark("wrong", f"{gated!r} is not a function.", 'Pass it itself: check("05-passes", gated=gated).')
    given = {name: [random.uniform(-1, 1) for _ in range(NUMBERS)] for name in "xbg"}
    memory = Memory(given)
    ask(gated, memory, NUMBERS)
    expected = [max(x + b, 0.0) * g for x, b, g in zip(*given.values(), strict=True)]
    found = memory.array("y")
    if len(found) != NUMBERS or not all(map(math.isclose, found, expected)):
        return Mark("wrong", '"y" is not relu(x + b) * g.', "Keep the arithmetic as it was; change only its order.")
    each = memory.accesses / NUMBERS
    if each > FEWEST:
        hint = "What the next operation needs can stay in a variable: a register."
        return Mark("wrong", f"it is right, with {each:g} reads and writes for each number.", hint)
    return Mark("right", f"{FEWEST} reads and writes for each number in place of 8: half the bytes, half the time.")


PASSES_EXERCISE = Exercise("05-passes", grade_passes)
