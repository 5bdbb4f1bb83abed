"""*batched*: one call in place of many equal small ones, where it is known that none waits for another."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from brrr.diagnosis.assess import Assessed, multiplies
from brrr.diagnosis.calls import DISPATCHED_NS, nested
from brrr.diagnosis.evidence import Evidence, Remedy
from brrr.tracing.events import Event, Inputs

PICKS = ("aten::select", "aten::slice", "aten::unbind")
"""Slices, which a loop over what could be one call takes about as often."""
MANY = 16
"""From so many equal small calls a step on, a loop over what could be one call is suspected."""


def alike(name: str, sizes: Iterable[Sequence[int]]) -> str:
    """One name for calls of equal sizes; what is no tensor has none.

    >>> alike("aten::mm", [(2, 3), (3, 4), ()])
    'aten::mm ((2, 3), (3, 4))'
    """
    return f"{name} {tuple(tuple(size) for size in sizes if size)}"


def looping(found: Evidence) -> Remedy | None:
    """Many equal small calls could be one, where none needs the result of another."""
    picks, groups = [each for each in found.events if each.name in PICKS], dict[str, dict[int, list[Assessed]]]()
    told_of = _told_of(found)
    for each in found.calls:
        one = told_of.get(id(each.call.operator), each.call.operator)
        if one.inputs is not None:
            groups.setdefault(alike(one.name, one.inputs.sizes), {}).setdefault(id(one), []).append(each)
    refuted, why, saved_s, short_s = "", "", 0.0, 0.0
    for key, by_call in sorted(groups.items(), key=lambda group: -len(group[1])):
        told, count, same = found.flags.get(key), len(by_call), list(chain(*by_call.values()))
        sliced = multiplies(same[0].call.cost) and len(picks) >= 0.5 * count
        if count < MANY * found.steps or not (told or sliced):
            continue
        per = count / found.steps * told if told else min(count / found.steps, _independent(found, same, picks))
        said = f"{key.partition(' ')[0].removeprefix('aten::')} is called {{:.3g}} times a step with equal sizes, "
        if per < MANY:
            refuted = refuted or f"{said.format(count / found.steps)}but one needs another."
            continue
        why = why or f"{said.format(per)}on one slice after another."
        part = (per - 1) * found.steps / count
        kernels = sum(len(each.call.kernels) or 1 for each in same) / max(1, found.shares.kernels, len(found.calls))
        idle_s = sum(found.split.idle_s.get(cause, 0.0) for cause in ("dispatcher", "launch", "Python"))
        saved_s += part * min(1.0, kernels) * idle_s
        short_s += part * sum(each.work_s for each in same if _is_short(each, found.gpu))
    if not why:
        return Remedy("batched", 1.0, refuted) if refuted else None
    return Remedy("batched", found.wall_s / (found.wall_s - saved_s - min(short_s, found.split.busy_s)), why)


def _told_of(found: Evidence) -> dict[int, Event]:
    """By operator, the outermost around it that was followed, or itself: what works inside of one was not."""
    made: dict[int, Event] = {}
    for event, around in nested([each for each in found.events if each.sort == "operator"]):
        if around and id(around[-1]) in made:
            made[id(event)] = made[id(around[-1])]
        elif event.inputs is not None and alike(event.name, event.inputs.sizes) in found.flags:
            made[id(event)] = event
    return made


def _is_short(each: Assessed, gpu: bool) -> bool:
    """Whether many of them take little longer at once: on a CPU, where a call takes about what dispatching it does."""
    return each.limit in ("latency", "unknown") if gpu else each.call.work_ns < DISPATCHED_NS


def _independent(found: Evidence, same: Sequence[Assessed], picks: Sequence[Event]) -> float:
    """How many of a step's equal products do not wait for each other in a saved trace, of which there is no doubt.

    There each takes another slice of one tensor, its result cannot be what the next one takes, and between them nothing
    else computes.
    """
    one = same[0].call
    assert one.cost is not None and one.operator.inputs is not None
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
