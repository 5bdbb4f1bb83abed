"""What a compiler makes of a chain of operators: neighbours merged into one kernel, matrix products left as they are.

A fused kernel reads what comes from outside it, and writes its last result; what passes from one operator to the next
stays in registers. A `Cost` does not tell which operator reads which result, so each is taken to be read by the next
one; where all of it is one kernel, its bytes are the compulsory ones, which are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from brrr.counting.cost import Cost, OperatorCost

MERGED = {"pointwise", "copy", "random", "index", "softmax", "norm", "reduction", "loss", "fused"}
LAST = {"reduction", "loss"}
"""Nothing is merged behind these: their result is there only when the whole tensor has been read."""


def fused(cost: Cost) -> tuple[OperatorCost, ...]:
    """The kernels that a compiled form runs; views vanish.

    >>> cos = OperatorCost("aten.cos", 1e6, 4e6, 4e6, "float32", ((1000, 1000),))
    >>> [(kernel.name, kernel.bytes) for kernel in fused(Cost(2e6, 8e6, 16e6, operators=(cos, cos)))]
    [('fused(aten.cos, aten.cos)', 8000000.0)]
    """
    groups = _groups([each for each in cost.operators if each.kind != "view"])
    if len(groups) == 1 and len(groups[0]) > 1:
        return (_compulsory(groups[0], cost.bytes),)
    return tuple(group[0] if len(group) == 1 else _merged(group) for group in groups)


def _groups(operators: Sequence[OperatorCost]) -> list[list[OperatorCost]]:
    groups: list[list[OperatorCost]] = []
    for each in operators:
        if groups and _joins(groups[-1][-1], each):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _joins(before: OperatorCost, each: OperatorCost) -> bool:
    return before.kind in MERGED - LAST and each.kind in MERGED


def _merged(group: Sequence[OperatorCost]) -> OperatorCost:
    """One kernel in place of neighbours: what each wrote for the next one is neither written nor read."""
    read = group[0].read_bytes
    for before, each in pairwise(group):
        read += max(0.0, each.read_bytes - before.written_bytes)
    return _kernel(group, read, group[-1].written_bytes)


def _compulsory(group: Sequence[OperatorCost], nbytes: float) -> OperatorCost:
    written = min(group[-1].written_bytes, nbytes)
    return _kernel(group, nbytes - written, written)


def _kernel(group: Sequence[OperatorCost], read: float, written: float) -> OperatorCost:
    flop = None if any(each.flop is None for each in group) else sum(each.flop or 0.0 for each in group)
    name = f"fused({', '.join(each.name for each in group)})"
    return OperatorCost(name, flop, read, written, group[0].dtype, group[0].shapes, "fused")
