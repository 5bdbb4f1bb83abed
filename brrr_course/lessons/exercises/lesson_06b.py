"""Exercise 06b-floor: what does a network need at least, and what do barriers between its layers add?

8 layers of hidden size 1024 in float32, an H200's memory at 4.8 TB/s, a barrier across the GPU of 1 µs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from brrr.core import units
from brrr_course.lessons.checking import Exercise, Mark, ask, not_above_zero

LAYERS, HIDDEN, ITEMSIZE = 8, 1024, 4
MEMORY_BYTES_PER_S, BARRIER_S = 4.8e12, 1e-6
NEAR = 0.02
"""So close an answer is right: whether the biases are in it does not matter."""

WEIGHT_BYTES = LAYERS * HIDDEN * HIDDEN * ITEMSIZE
MEMORY_US = 1e6 * WEIGHT_BYTES / MEMORY_BYTES_PER_S
BARRIERS_US = 1e6 * (LAYERS - 1) * BARRIER_S


def grade(weight_bytes: Any, memory_us: Any, barriers_us: Any) -> Mark:
    """Bytes of all weights, their microseconds through the memory, and those of the barriers between the layers."""
    if mark := not_above_zero(weight_bytes=weight_bytes, memory_us=memory_us, barriers_us=barriers_us):
        return mark
    if not _near(weight_bytes, WEIGHT_BYTES):
        return Mark("wrong", f"the weights are not {units.quantity(weight_bytes, 'B')}.", _about_bytes(weight_bytes))
    if not _near(memory_us, MEMORY_US):
        return Mark("wrong", f"they do not take {memory_us} µs through the memory.", _about_memory(memory_us))
    if not _near(barriers_us, BARRIERS_US):
        return Mark("wrong", f"the barriers do not take {barriers_us} µs.", _about_barriers(barriers_us))
    share = units.percent(BARRIERS_US / MEMORY_US, 2)
    return Mark("right", f"the barriers cost {share} of what the weights take: a narrower network is nothing but "
                "barriers, unless fewer multiprocessors share a row of it, or one of them owns it.")  # fmt: skip


EXERCISE = Exercise("06b-floor", grade)


def _near(answer: float, truth: float) -> bool:
    return math.isclose(answer, truth, rel_tol=NEAR)


def _about_bytes(answer: float) -> str:
    if _near(answer, WEIGHT_BYTES / ITEMSIZE):
        return "That is how many weights there are. How many bytes has each?"
    if _near(answer, WEIGHT_BYTES / LAYERS):
        return "That is one layer."
    if _near(answer, WEIGHT_BYTES / HIDDEN):
        return "A layer maps 1024 numbers to 1024 numbers: it has a weight for each pair."
    return "Each layer has 1024 times 1024 weights of 4 bytes."


def _about_memory(answer: float) -> str:
    if any(_near(answer, MEMORY_US * factor) for factor in (1e-6, 1e-3, 1e3, 1e6)):
        return "Look at the unit: microseconds."
    return "Bytes over bytes a second are seconds; a second has a million microseconds."


def _about_barriers(answer: float) -> str:
    if _near(answer, LAYERS):
        return "A barrier stands between two layers: how many such places are there?"
    return "One barrier between each layer and the next."


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 06b-waits: for which blocks must a block wait, where the rows of a batch never meet?

CLUSTERS, BLOCKS = 4, 8
"""Clusters, each with rows of its own, and blocks in each, which share the columns."""


def needed(block: int, layer: int) -> set[int]:
    """The blocks whose results of the layer before a block reads.

    >>> needed(9, 0), sorted(needed(9, 1))
    (set(), [8, 9, 10, 11, 12, 13, 14, 15])
    """
    first = block // BLOCKS * BLOCKS
    return set(range(first, first + BLOCKS)) if layer else set()


def grade_waits(waits_for: Any) -> Mark:
    """Right if each block waits for the blocks of its own cluster and, before the first layer, for none."""
    if not callable(waits_for):
        hint = 'Pass it itself: check("06b-waits", waits_for=waits_for).'
        return Mark("wrong", f"{waits_for!r} is not a function.", hint)
    total = 0
    for block in range(CLUSTERS * BLOCKS):
        for layer in range(LAYERS):
            found = ask(waits_for, block, layer)
            if isinstance(found, str) or not isinstance(found, Iterable):
                return Mark("wrong", f"`waits_for({block}, {layer})` gave {found!r}.", "Return the numbers of blocks.")
            given, right = set(found), needed(block, layer) - {block}
            if missing := right - given:
                text = f"before layer {layer}, block {block} does not wait for block {min(missing)}"
                return Mark("wrong", f"{text}, whose columns it needs.", "Each output needs all inputs of its row.")
            total += len(given - {block})
    least = CLUSTERS * BLOCKS * (LAYERS - 1) * (BLOCKS - 1)
    if total > least:
        hint = "Who has other rows? And who has written the input of the first layer?"
        return Mark("wrong", f"it is right, with {total} waits; {least} are enough.", hint)
    return Mark(
        "right", f"{least} waits, all within a cluster, with no trip to L2; but each cluster reads all weights."
    )


WAITS_EXERCISE = Exercise("06b-waits", grade_waits)
