"""Exercise 05-bytes: count by hand the bytes that three operators move, and those of one kernel in their place.

The work: `torch.relu(x + b) * g`, with x and g of 4096 x 1024 and b of 1024 float32. The truth is counted by
`brrr.cost`, on descriptions of the arrays.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from brrr.core import units
from brrr.counting.cost import Cost
from brrr.course.lessons.checking import Mark

ROWS, WIDTH, ITEMSIZE = 4096, 1024, 4
NEAR = 0.005
"""So close an answer is right: whether the bias's few kilobytes are in it does not matter."""


def gated(x: Any, b: Any, g: Any) -> Any:
    """What is counted: a bias, a ReLU and a gate."""
    import torch

    return torch.relu(x + b) * g


@lru_cache(maxsize=1)
def counted() -> Cost:
    """The cost of the work.

    >>> counted().eager_bytes, counted().bytes
    (117444608.0, 50335744.0)
    """
    from brrr.counting.description import array
    from brrr.counting.tracing import cost

    return cost(gated, array((ROWS, WIDTH)), array(WIDTH), array((ROWS, WIDTH)))


def grade(eager: Any, fused: Any) -> Mark:
    """Bytes of the three operators, and of one fused kernel; right if both are."""
    truth = counted()
    for name, answer in (("eager", eager), ("fused", fused)):
        if isinstance(answer, bool) or not isinstance(answer, int | float) or not 0 < answer < math.inf:
            return Mark("wrong", f"`{name}` is {answer!r}.", "Write a number of bytes, as in 4 * 4096 * 1024.")
    if not _near(eager, truth.eager_bytes):
        return Mark("wrong", f"the three operators do not move {units.quantity(eager, 'B')}.", _about_eager(eager))
    if not _near(fused, truth.bytes):
        return Mark("wrong", f"a fused kernel does not move {units.quantity(fused, 'B')}.", _about_fused(fused))
    ratio = units.ratio(truth.eager_bytes / truth.bytes)
    return Mark("right", f"{units.quantity(truth.eager_bytes, 'B')} become {units.quantity(truth.bytes, 'B')}, {ratio} "
                "less: no kernel for large arrays that memory limits can gain more than that by fusion.")  # fmt: skip


def _near(answer: float, truth: float) -> bool:
    return math.isclose(answer, truth, rel_tol=NEAR)


ARRAY = ROWS * WIDTH * ITEMSIZE


def _about_eager(answer: float) -> str:
    """A hint for a known mistake: arrays counted, elements counted, reads alone, writes alone."""
    known = (
        (7 * ARRAY / ITEMSIZE, "That many elements are moved. How many bytes has each?"),
        (2 * 7 * ARRAY, "That would be right for numbers of eight bytes; a float32 has four."),
        (4 * ARRAY, "Those are the reads. What does each operator write?"),
        (3 * ARRAY, "Those are the writes, or the bytes of a fused kernel. What does each operator read and write?"),
        (6 * ARRAY, "One array is missing: the multiplication reads two large arrays."),
        (8 * ARRAY, "One array is too many: the bias is a row, and is so small that it hardly counts."),
    )
    return _first(known, answer, "Go through the three operators: what does each read, and what does it write?")


def _about_fused(answer: float) -> str:
    known = (
        (2 * ARRAY, "One large array is missing: the kernel has two large inputs, and a result."),
        (3 * ARRAY / ITEMSIZE, "That many elements are moved. How many bytes has each?"),
        (6 * ARRAY, "That would be right for numbers of eight bytes; a float32 has four."),
        (4 * ARRAY, "One array is too many: the bias is a row, and what stands between stays in registers."),
        (7 * ARRAY, "Those are the bytes of the three operators. What stands between need not go to the memory."),
    )
    return _first(known, answer, "Every input is read once, the result is written once, and nothing else is moved.")


def _first(known: tuple[tuple[float, str], ...], answer: float, otherwise: str) -> str:
    return next((hint for value, hint in known if _near(answer, value)), otherwise)
