"""*batched*: one call in place of equal small ones, where it is known that none waits for another."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from brrr.core.measurement import median
from brrr.diagnosis.assess import Assessed, multiplies
from brrr.diagnosis.calls import nested
from brrr.diagnosis.evidence import WORTH, Evidence, Remedy
from brrr.tracing.events import Event, Inputs

Turns = Sequence[Sequence[Assessed]]
PICKS = ("aten::select", "aten::slice", "aten::unbind")
"""Slices, of which a loop over what could be one call takes one in each turn."""


def alike(name: str, sizes: Iterable[Sequence[int]]) -> str:
    """One name for calls of equal sizes; what is no tensor has none.

    >>> alike("aten::mm", [(2, 3), (3, 4), ()])
    'aten::mm ((2, 3), (3, 4))'
    """
    return f"{name} {tuple(tuple(size) for size in sizes if size)}"


def looping(found: Evidence) -> Remedy | None:
    """Equal calls could be one, where none needs the result of another."""
    picks, host_s, device_s = [each for each in found.events if each.name in PICKS], 0.0, 0.0
    why = refuted = ""
    for key, turns in _equal(found):
        name, at_once = key.partition(" ")[0].removeprefix("aten::"), _at_once(found, key, turns, picks)
        said = f"{name} is called {{:.3g}} times a step with equal sizes, "
        if at_once >= 2:
            part = (at_once - 1) * found.steps / len(turns)
            host_s += part * _issuing_s(found, turns)
            device_s += part * _fixed_s(found, turns, picks)
            why = why or f"{said.format(at_once)}on one slice after another."
        elif at_once:
            refuted = refuted or f"{said.format(len(turns) / found.steps)}but one needs another."
    gain = found.wall_s / (found.wall_s - host_s - min(device_s, found.split.busy_s))
    made = Remedy("batched", gain, why) if why else None
    return made if gain >= WORTH or not refuted else Remedy("batched", 1.0, refuted)


def _equal(found: Evidence) -> list[tuple[str, Turns]]:
    """By `alike`, the most first: calls of known sizes, more than one a step, each with what worked inside of it."""
    told_of, groups = _told_of(found), dict[str, dict[int, list[Assessed]]]()
    for each in found.calls:
        one = told_of.get(id(each.call.operator), each.call.operator)
        if one.inputs is not None:
            groups.setdefault(alike(one.name, one.inputs.sizes), {}).setdefault(id(one), []).append(each)
    equal = [(key, [*group.values()]) for key, group in groups.items() if len(group) > found.steps]
    return sorted(equal, key=lambda group: -len(group[1]))


def _at_once(found: Evidence, key: str, turns: Turns, picks: Sequence[Event]) -> float:
    """How many of a step's equal calls could be one: as followed live, else of products on slices; 0 if unknown."""
    called, first = len(turns) / found.steps, turns[0][0]
    if key in found.flags:
        return called * found.flags[key]
    return max(1.0, min(called, _independent(found, first, picks))) if picks and multiplies(first.call.cost) else 0.0


def _issuing_s(found: Evidence, turns: Turns) -> float:
    """Seconds in which the device waits for these calls to be issued, shared out by launches.

    A launch takes about as long as any other: 5.4 to 6.2 µs for a relu of 2^10 to 2^24 numbers, one or sixteen in a row
    (`host_cost` on an H200).
    """
    mine, every = (sum(len(each.call.kernels) or 1 for each in calls) for calls in (chain(*turns), found.calls))
    return mine / every * sum(found.split.idle_s.get(cause, 0.0) for cause in ("dispatcher", "launch", "Python"))


def _fixed_s(found: Evidence, turns: Turns, picks: Sequence[Event]) -> float:
    """Seconds of these calls that one call in their place takes once, not as often.

    On a GPU what kernels too small to fill it take beyond their bytes and FLOP: thirty-two products of 2048 x 64 x 2048
    in bfloat16 take 191 µs one by one, and 73 µs as one, their weights' bytes at 3.7 TB/s (`gemm_many` on an H200).
    On a CPU what dispatching takes: as long as slices, which do no work, under the same profiler.
    """
    if found.gpu:
        small = [each for each in chain(*turns) if each.limit == "under-filled"]
        return sum(each.work_s - min(each.work_s, each.time.work_s if each.time else 0.0) for each in small)
    dispatch_s = median([each.end_ns - each.start_ns for each in picks] or [0]) / 1e9
    return sum(min(each.work_s, dispatch_s) for each in chain(*turns))


def _told_of(found: Evidence) -> dict[int, Event]:
    """By operator, the outermost around it that was followed, or itself: what works inside of one was not."""
    made: dict[int, Event] = {}
    for event, around in nested([each for each in found.events if each.sort == "operator"]):
        if around and id(around[-1]) in made:
            made[id(event)] = made[id(around[-1])]
        elif event.inputs is not None and alike(event.name, event.inputs.sizes) in found.flags:
            made[id(event)] = event
    return made


def _independent(found: Evidence, first: Assessed, picks: Sequence[Event]) -> float:
    """How many of a step's equal products do not wait for each other in a saved trace, of which there is no doubt.

    There each takes another slice of one tensor, its result cannot be what the next one takes, and between them nothing
    else computes.
    """
    one = first.call
    assert one.cost is not None and one.operator.inputs is not None
    step = next(step for step in found.by_step if first in step)
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
