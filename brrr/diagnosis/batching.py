"""*batched*: one call in place of equal small ones, where it is known that none waits for another."""

import math
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, groupby, pairwise
from typing import Any

from brrr.core.measurement import median
from brrr.counting.cost import ITEMSIZE
from brrr.diagnosis.assess import Assessed, multiplies
from brrr.diagnosis.calls import nested, phase
from brrr.diagnosis.evidence import Evidence, Remedy
from brrr.diagnosis.operator_cost import kind_of
from brrr.tracing.events import Event, Inputs

Turns = Sequence[Sequence[Assessed]]
SOME = 1.01
"""What gains less is not told beside equal calls of which one needs another."""
PICKS = ("aten::select", "aten::slice", "aten::unbind")
"""Slices, of which a loop over what could be one call takes one in each turn."""


def alike(name: str, sizes: Iterable[Sequence[int]]) -> str:
    """One name for calls of equal sizes; what is no tensor has none.

    >>> alike("aten::mm", [(2, 3), (3, 4), ()])
    'aten::mm ((2, 3), (3, 4))'
    """
    return f"{name} {tuple(tuple(size) for size in sizes if size)}"


def looping(found: Evidence) -> Remedy | None:
    """Equal calls could be one, where none needs the result of another; with them goes what a loop does beside them."""
    picks = [each for each in found.events if each.name in PICKS]
    steps, spared, why, refuted = _forward(found), dict[int, float](), "", ""
    for key, turns in _equal(found):
        calls, number = [*chain(*turns)], float(len(turns))
        left = number * (1 - found.flags[key]) if key in found.flags else number
        if key not in found.flags:
            if not picks or not multiplies(calls[0].call.cost):
                continue
            own = set(map(id, calls))
            loops = [loop for step in steps for loop in _loops(step, own) if _apart(loop)]
            calls = [each for loop in loops for each in chain(*loop) if isinstance(each, Assessed)]
            lines = {each.call.line for each in calls} - {""}
            calls += [each for each in found.calls if each.call.line in lines]
            number, left = sum(1 + len(loop) for loop in loops) or number, len(loops) or number
        said = f"{key.partition(' ')[0].removeprefix('aten::')} is called {number / found.steps:.3g} times a step with "
        said += f"equal sizes{f' (see {line})' if (line := turns[0][0].call.line) else ''}, "
        if left < number:
            spared |= {id(each): max(spared.get(id(each), 0.0), 1 - left / number) for each in calls}
            why = why or f"{said}on one slice after another: {left / found.steps:.3g} would do."
        else:
            doubt = "and the trace does not show whether each needs the result of the one before"
            refuted = refuted or f"{said}{'but each needs an earlier one' if key in found.flags else doubt}."
    host_s = _issuing_s(found, spared)
    gain = found.wall_s / (found.wall_s - host_s - min(_fixed_s(found, spared, picks), found.split.busy_s))
    made = Remedy("batched", gain, why) if why else None
    return made if gain > SOME or not refuted else Remedy("batched", 1.0, refuted)


def _equal(found: Evidence) -> list[tuple[str, Turns]]:
    """By `alike`, the most first: calls of known sizes, more than one a step, each with what worked inside of it."""
    told_of, groups = _told_of(found), dict[str, dict[int, list[Assessed]]]()
    for each in found.calls:
        one = told_of.get(id(each.call.operator), each.call.operator)
        if one.inputs is not None:
            groups.setdefault(alike(one.name, one.inputs.sizes), {}).setdefault(id(one), []).append(each)
    equal = [(key, [*group.values()]) for key, group in groups.items() if len(group) > found.steps]
    return sorted(equal, key=lambda group: -len(group[1]))


def _issuing_s(found: Evidence, spared: Mapping[int, float]) -> float:
    """Seconds in which the device waits for the calls that are spared, shared out by launches.

    A launch takes about as long as any other: 5.4 to 6.2 µs for a relu of 2^10 to 2^24 numbers, one or sixteen in a row
    (`host_cost` on an H200).
    """
    launches = {id(each): len(each.call.kernels) or 1 for each in found.calls}
    part = sum(share * launches[each] for each, share in spared.items()) / max(1, sum(launches.values()))
    return part * sum(found.split.idle_s.get(cause, 0.0) for cause in ("dispatcher", "launch", "Python"))


def _fixed_s(found: Evidence, spared: Mapping[int, float], picks: Sequence[Event]) -> float:
    """Seconds of the calls that are spared which those in their place do not take.

    On a GPU what kernels too small to fill it take beyond their bytes and FLOP: thirty-two products of 2048 x 64 x 2048
    in bfloat16 take 191 µs one by one, and 73 µs as one, their weights' bytes at 3.7 TB/s (`gemm_many` on an H200).
    On a CPU what dispatching takes: as long as slices, which do no work, under the same profiler.
    """
    dispatch_s = median([each.end_ns - each.start_ns for each in picks] or [0]) / 1e9
    total_s = 0.0
    for each in found.calls:
        work_s = each.time.work_s if each.time else 0.0
        beyond_s = max(0.0, each.work_s - work_s) if each.limit == "under-filled" else 0.0
        total_s += spared.get(id(each), 0.0) * (beyond_s if found.gpu else min(each.work_s, dispatch_s))
    return total_s


def _told_of(found: Evidence) -> dict[int, Event]:
    """By operator, the outermost around it that was followed, or itself: what works inside of one was not."""
    made: dict[int, Event] = {}
    for event, around in nested([each for each in found.events if each.sort == "operator"]):
        if around and id(around[-1]) in made:
            made[id(event)] = made[id(around[-1])]
        elif event.inputs is not None and alike(event.name, event.inputs.sizes) in found.flags:
            made[id(event)] = event
    return made


Row = Event | Assessed
"""A slice that is taken, or a call."""


def _forward(found: Evidence) -> list[list[Row]]:
    """By step, the slices and the calls of the forward pass, in their order."""
    host = [each for each in found.events if each.sort == "operator"]
    rows: list[Row] = [each for each, around in nested(host) if each.name in PICKS[:2] and phase(around) == "forward"]
    rows += [each for each in found.calls if each.call.phase == "forward"]
    rows.sort(key=_start)
    ends = [bisect_left(rows, _start(step[0]), key=_start) for step in found.by_step[1:]]
    return [rows[one:two] for one, two in pairwise([0, *ends, len(rows)])]


def _start(row: Row) -> int:
    return row.start_ns if isinstance(row, Event) else row.call.operator.start_ns


def _loops(rows: Sequence[Row], own: Container[int]) -> list[list[Sequence[Row]]]:
    """Rows of turns, each of which ends with one of the equal calls, and does the same as the others before it."""
    at = [place for place, row in enumerate(rows) if id(row) in own]
    turns = [rows[one + 1 : two + 1] for one, two in pairwise(at)]
    alike = groupby(turns, lambda turn: [row.name if isinstance(row, Event) else row.call.name for row in turn])
    return [loop for _, group in alike if len(loop := list(group)) > 1]


def _apart(loop: Sequence[Sequence[Row]]) -> bool:
    """Whether there is no doubt that no turn needs what another one makes.

    Each takes other slices, and what could be another turn's result is one of the same turn, that nothing has taken
    yet. The last call's result is there for what follows, but not for the next such call.
    """
    taken = [frozenset(row.inputs for row in turn if isinstance(row, Event)) for turn in loop]
    made, lacking = set[float](), set[float]()
    for turn in loop:
        there: list[tuple[float, bool, bool]] = [(_made(turn[-1]), False, True)]
        for row in turn:
            if isinstance(row, Event):
                there.append((_taken(row.inputs), True, False))
                continue
            direct = waits = False
            for size in _operands(row):
                if fits := [each for each in there if each[0] == size]:
                    there.remove(chosen := max(fits, key=lambda each: each[1]))
                    direct, waits = direct or chosen[1], waits or chosen[2]
                else:
                    lacking.add(size)
            made.add(_made(row))
            there.append((_made(row), direct and kind_of(row.call.operator.name) == "copy", waits))
        if waits:
            return False
    return len({*taken}) == len(loop) and not lacking & made


def _made(row: Row) -> float:
    """How many numbers a call makes; NaN where nobody knows."""
    cost = row.call.cost if isinstance(row, Assessed) else None
    return cost.written_bytes / ITEMSIZE.get(cost.dtype, 4) if cost is not None else math.nan


def _operands(row: Assessed) -> list[int]:
    """The numbers of each tensor that a call reads, also in a list; a copy reads the last."""
    inputs = row.call.operator.inputs
    sizes: list[Any] = [size for size in inputs.sizes if size] if inputs is not None else []
    every = [math.prod(one) for size in sizes for one in (size if isinstance(size[0], tuple) else (size,))]
    return every[-1:] if kind_of(row.call.operator.name) == "copy" else every


def _taken(pick: Inputs | None) -> float:
    """How many numbers a slice has, by the dimension and the places that it takes; NaN where they are not told.

    >>> _taken(Inputs(((8, 6),), (), (), ("", "1", "0", "9223372036854775807", "2")))
    24.0
    """
    with suppress(AttributeError, TypeError, ValueError, IndexError, ZeroDivisionError):  # a trace may tell anything
        dim, *places = (int(each) if each else None for each in pick.numbers[1:])  # type: ignore[union-attr]
        length = pick.sizes[0][dim]  # type: ignore[union-attr]
        taken = len(range(length)[slice(*places)]) if len(places) > 1 else 1
        return float(math.prod(pick.sizes[0]) / length * taken)  # type: ignore[union-attr]
    return math.nan
