"""Exercise 06b-waits: for which blocks must a block wait, where the rows of a batch never meet?"""

from collections.abc import Iterable
from typing import Any

from brrr_course.lessons.marks import Wrong, ask, exercise

LAYERS, CLUSTERS, BLOCKS = 8, 4, 8
"""Layers; clusters, each with rows of its own; and blocks in each, which share the columns."""


def needed(block: int, layer: int) -> set[int]:
    """The blocks whose results of the layer before a block reads.

    >>> needed(9, 0), sorted(needed(9, 1))
    (set(), [8, 9, 10, 11, 12, 13, 14, 15])
    """
    first = block // BLOCKS * BLOCKS
    return set(range(first, first + BLOCKS)) if layer else set()


@exercise("06b-waits")
def waits(waits_for: Any) -> str:
    """Right if each block waits for the blocks of its own cluster and, before the first layer, for none."""
    total = 0
    for block in range(CLUSTERS * BLOCKS):
        for layer in range(LAYERS):
            found = ask(waits_for, block, layer)
            if isinstance(found, str) or not isinstance(found, Iterable):
                raise Wrong(f"`waits_for({block}, {layer})` gave {found!r}.", "Return the numbers of blocks.")
            given, right = set(found), needed(block, layer) - {block}
            if missing := right - given:
                text = f"before layer {layer}, block {block} does not wait for block {min(missing)}"
                raise Wrong(f"{text}, whose columns it needs.", "Each output needs all inputs of its row.")
            total += len(given - {block})
    least = CLUSTERS * BLOCKS * (LAYERS - 1) * (BLOCKS - 1)
    if total > least:
        hint = "Which blocks have other rows? And must any block write the input of the first layer?"
        raise Wrong(f"it is right, with {total} waits; {least} are enough.", hint)
    return f"{least} waits, all within a cluster, with no trip to L2; but each cluster reads all weights."
