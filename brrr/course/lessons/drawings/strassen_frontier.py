"""The drawing of time against error with the size as a slider: the frontier, and what is dominated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from brrr.core import units
from brrr.core.values import Value
from brrr.course.experiments.strassen.frontier import clocks_note, frontier
from brrr.course.experiments.strassen.ways import short
from brrr.course.lessons.drawings import LessonDrawing
from brrr.course.lessons.drawings.strassen_measured import described, fullest, nothing_measured, sizes_with_errors
from brrr.course.view.stepped import Dial, Drawing

if TYPE_CHECKING:
    from brrr.course.nouns.source import Source
    from brrr.course.view.display import Lock
    from brrr.drawing.style import Picture

SIDES = ("as they come", "prepared")


def drawing(source: Source, at: Mapping[str, Value], unlock: Lock | None) -> Drawing:
    """Two sliders: the size, and whether the right sides are prepared; NotRecordedError where nothing was measured."""
    there = sizes_with_errors(source)
    if not there:
        raise nothing_measured(source)
    dials = (Dial("size", "size", tuple(there), start=fullest(source, there)), Dial("right", "right sides", SIDES))
    return Drawing(dials, partial(draw, source=source), at, badge=str(source.badge(described())), unlock=unlock)


DRAWING = LessonDrawing("strassen-frontier", drawing)


def draw(settings: Mapping[str, Value], source: Source) -> Picture:
    """The frontier at a size."""
    from brrr.course.view.strassen_frontier_drawing import strassen_frontier

    size, prepared = int(settings["size"]), settings["right"] == "prepared"
    return replace(strassen_frontier(source, size=size, prepared=prepared), alt=text(source, size, prepared))


def text(source: Source, size: int, prepared: bool) -> str:
    """The frontier's names, its two ends, and how many ways are beaten: three lines above the picture, not more."""
    places = frontier(source, size, prepared=prepared)
    best = [place for place in places if not place.dominated_by]
    named = ", ".join(short(place.variant) for place in best)
    ends = " to ".join(f"{units.seconds(p.time_s)} (error {p.error:.1e})" for p in dict.fromkeys((best[0], best[-1])))
    said = f"on the frontier are {named}: {ends}. {len(places) - len(best)} of {len(places)} ways are dominated."
    return said + clocks_note(place.clock_hz for place in places)
