"""A scene as bars: a ladder has one for each line, a stack one for all and then each part in its place."""

from __future__ import annotations

import math
from collections.abc import Iterator

from brrr.widget import wording
from brrr.widget.bars import Bar, BarFrame, Rule
from brrr.widget.guides import label
from brrr.widget.scene import Scene
from brrr.widget.stack import Part, part_label, parts_of, stacked

LINEAR_UP_TO = 20.0
"""Where the values at all places of the sliders differ by more than this factor, a short bar would not be seen."""
_ROOM = 1.04
_FIRST = 2.0  # on a log scale the shortest bar ends at this factor from its start


def bar_frame(scene: Scene) -> BarFrame:
    """All that stands still while a slider moves: the rows' names, the axis and its limits, the badge."""
    stack = scene.view.form == "stack"
    names = [line.name for line in scene.lines if stack or line.name in scene.on]
    labels = [part_label(scene, n) if stack else scene.experiment.line(n).label for n in names]
    whole = ["all together"] if stack and names else []
    looks = [scene.looks[name] for name in names]
    log = not stack and _is_log(scene)
    title = f"{scene.y_label}{' (log scale)' if log else ''}"
    shares = stack and _as_shares(scene)
    unit = "%" if shares else scene.quantity.unit
    if shares:
        title = f"share of the {scene.y_label}"
    guides = tuple(label(guide) for guide in scene.guides.drawn) if not stack else ()
    badge = scene.source.badge(scene.experiment)
    return BarFrame(
        (*whole, *labels), (*[None] * len(whole), *looks), log, _limits(scene, log, shares), unit, title, badge, guides
    )


def bars_of(scene: Scene, frame: BarFrame) -> tuple[list[Bar], list[Rule]]:
    """The bars where the sliders stand, and the theoretical values there."""
    if scene.view.form == "stack":
        return list(_stack_bars(scene, shares=frame.unit == "%")), []
    return list(_ladder_bars(scene)), list(_rules(scene))


def _ladder_bars(scene: Scene) -> Iterator[Bar]:
    here = scene.here()
    absent = "not measured yet" if scene.source.live else "not recorded here"
    for row, name in enumerate(scene.on):
        found = here.get(name)
        if found is None:
            yield Bar(row, None, None, scene.looks[name], absent)
        else:
            above = wording.is_above(scene, name, found.median)
            said = scene.quantity.short(found.median) + ("\nabove the limit" if above else "")
            yield Bar(row, None, found.median, scene.looks[name], said, (found.low, found.high))


def _rules(scene: Scene) -> Iterator[Rule]:
    for index, guide in enumerate(scene.guides.drawn):
        height = scene.guides.at(guide, scene.point)
        if height is not None:
            yield Rule(index, height)


def _stack_bars(scene: Scene, *, shares: bool) -> Iterator[Bar]:
    """The whole in the first row, then each part below its place in it, with a dotted line between the two."""
    parts = stacked(scene)
    rows = {line.name: row for row, line in enumerate(scene.lines, start=1)}
    unit = 100 / parts[-1].end if parts and shares else 1.0
    for part in parts:
        yield Bar(0, part.start * unit, part.end * unit, scene.looks[part.line], "")
    if parts:
        total = parts[-1].end
        yield Bar(0, total * unit, total * unit, None, scene.quantity.short(total))
    for part in parts:
        yield Bar(rows[part.line], part.start * unit, part.end * unit, scene.looks[part.line], _said(scene, part))
    there = {part.line for part in parts}
    for line in scene.lines:
        if line.name not in there:
            said = "not measured yet" if scene.source.live else "not recorded here"
            yield Bar(rows[line.name], None, None, scene.looks[line.name], said)


def _said(scene: Scene, part: Part) -> str:
    return f"{scene.quantity.short(part.value)}, {wording.share(part.share)}"


def _is_log(scene: Scene) -> bool:
    low, high = _span(scene)
    return high > LINEAR_UP_TO * low


def _span(scene: Scene) -> tuple[float, float]:
    """The least and the largest value at all places of the sliders, the theoretical ones among them."""
    found = [e.median for points in scene.everywhere.values() for e in points.values()]
    for guide in scene.guides.drawn:
        found += scene.guides.all_heights(guide)
    positive = [value for value in found if 0 < value < math.inf]
    return (min(positive), max(positive)) if positive else scene.limits


def _totals(scene: Scene) -> list[float]:
    """The stack's length at each place of the sliders."""
    everywhere = scene.everywhere
    keys = {key for points in everywhere.values() for key in points}
    rungs = [[(name, "", points.get(key)) for name, points in everywhere.items()] for key in keys]
    ends = [parts[-1].end for each in rungs if (parts := parts_of(each))]
    return ends or [scene.limits[1]]


def _as_shares(scene: Scene) -> bool:
    """Whether the totals differ too much for one axis of times: then each part is drawn as a share."""
    totals = _totals(scene)
    return max(totals) > LINEAR_UP_TO * min(totals)


def _limits(scene: Scene, log: bool, shares: bool) -> tuple[float, float]:
    if scene.view.form == "stack":
        return 0.0, 100.0 if shares else _ROOM * max(_totals(scene))
    low, high = _span(scene)
    return low / _FIRST if log else 0.0, _ROOM * high
