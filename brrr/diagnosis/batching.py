"""*batched*: one product in place of many equal small ones, where it is known that none waits for another."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from brrr.diagnosis.assess import Assessed, multiplies
from brrr.diagnosis.evidence import Evidence, Remedy
from brrr.tracing.events import Event, Inputs

PICKS = ("aten::select", "aten::slice", "aten::unbind")
"""Slices, which a loop over what could be one call takes about as often."""
MANY = 16
"""From so many equal small calls a step on, a loop over what could be one call is suspected."""


def alike(name: str, sizes: Iterable[Sequence[int]]) -> str:
    """One name for products of equal sizes; what is no tensor has none.

    >>> alike("aten::mm", [(2, 3), (3, 4), ()])
    'aten::mm ((2, 3), (3, 4))'
    """
    return f"{name} {tuple(tuple(size) for size in sizes if size)}"


def looping(found: Evidence) -> Remedy | None:
    """Many equal small calls could be one, where none needs the result of another."""
    products = [each for each in found.calls if multiplies(each.call.cost)]
    groups = Counter((each.call.name, each.call.operator.inputs) for each in products)
    picks = [each for each in found.events if each.name in PICKS]
    refuted = None
    for (name, inputs), count in groups.most_common():
        if count < MANY * found.steps or len(picks) < 0.5 * count:
            break
        same = [each for each in products if (each.call.name, each.call.operator.inputs) == (name, inputs)]
        per = min(count / found.steps, _independent(found, same, picks))
        if per < MANY:
            why = f"{name} is called {count / found.steps:.3g} times a step with equal sizes, but one needs another."
            refuted = refuted or Remedy("batched", 1.0, why)
            continue
        kernels = sum(len(each.call.kernels) or 1 for each in same) / max(1, found.shares.kernels, len(found.calls))
        short_s = sum(each.work_s for each in same if each.limit in ("latency", "unknown"))
        idle_s = sum(found.split.idle_s.get(cause, 0.0) for cause in ("dispatcher", "launch", "Python"))
        part = (per - 1) * found.steps / count
        saved_s = part * (min(1.0, kernels) * idle_s + min(short_s, found.split.busy_s))
        why = f"{name} is called {per:.3g} times a step with equal sizes, on one slice after another."
        return Remedy("batched", found.wall_s / (found.wall_s - saved_s), why)
    return refuted


def _independent(found: Evidence, same: Sequence[Assessed], picks: Sequence[Event]) -> float:
    """How many of a step's equal products do not wait for each other; in a saved trace, of which there is no doubt.

    There each takes another slice of one tensor, its result cannot be what the next one takes, and between them nothing
    else computes.
    """
    one = same[0].call
    assert one.cost is not None and one.operator.inputs is not None
    told = found.flags.get(alike(one.operator.name, one.operator.inputs.sizes))
    if told is not None:
        return told
    step = next(step for step in found.by_step if same[0] in step)
    mine = [(each.call.name, each.call.operator.inputs) == (one.name, one.operator.inputs) for each in step]
    between = step[mine.index(True) : len(step) - mine[::-1].index(True)]
    costs = [each.call.cost for each in between if each.call.operator.inputs != one.operator.inputs]
    if any(cost is None or cost.kind != "copy" for cost in costs):
        return 0.0
    product = one.cost.matmuls[0]
    left, right = product.batch * product.m * product.k, product.batch * product.k * product.n
    made = product.batch * product.m * product.n
    sliced = [operand for operand, other in ((left, right), (right, left)) if other != made]
    slices = Counter(each.inputs for each in picks if any(_can_be(each.inputs, operand) for operand in sliced))
    unplaced = [each for each in slices if each is None or not any(map(str, each.numbers))]
    return sum(count if each in unplaced else min(count, found.steps) for each, count in slices.items()) / found.steps


def _can_be(pick: Inputs | None, numel: int) -> bool:
    """Whether a slice of a tensor, less than all of it, can have so many elements; where no sizes are told, it can."""
    if pick is None:
        return True
    size = next(iter(pick.sizes), ())
    whole = math.prod(size)
    return numel < whole and any(numel * length % whole == 0 for length in size)
