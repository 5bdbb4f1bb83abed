"""What has a picture for each place of its sliders: pictures, drawings and timelines, as numbers of pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from brrr.course.lessons.drawings import Drawing
from brrr.course.view.selection import TimelineSelection
from brrr.course.view.timeline import TimelineView
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr.site.vector import Pieces


def picture(found: Picture, pieces: Pieces) -> dict[str, Any]:
    """A picture without sliders."""
    return {"form": "states", "sliders": [], "alt": found.alt, "states": [pieces.draw(found.figure, {"text": ""})]}


def drawing(found: Drawing, pieces: Pieces) -> dict[str, Any]:
    """A drawing at every place of its sliders."""
    sliders = [{"name": dial.name, "title": dial.title, "values": [dial.reading(value) for value in dial.values],
                "at": list(dial.values).index(found.settings[dial.name])} for dial in found.dials]  # fmt: skip
    states = [pieces.draw(made.figure, {"text": text}) for text, made in found.everywhere()]
    return {"form": "states", "sliders": sliders, "badge": found.badge, "states": states}


def timeline(found: TimelineView, pieces: Pieces) -> dict[str, Any]:
    """The timelines of all variants; each state names those that stand beside it under the other variants."""
    kept = found.selection
    fresh = TimelineSelection(kept.experiment, kept.source, kept.variants, kept.at, kept.calls)
    if not fresh.variants:
        return {"form": "states", "sliders": [], "states": [{"height": 0, "still": [], "text": fresh.text}]}
    axis, start, states, at = fresh.axis, (fresh.variant, fresh.value), [], []
    for place in _everywhere(fresh):
        at.append(place)
        badge = str(fresh.timeline.badge if fresh.timeline else fresh.badge)
        states.append(pieces.draw(fresh.figure(), {"text": fresh.text, "badge": badge}))
    for state, place in zip(states, at, strict=True):
        state["to"] = [at.index(_beside(fresh, *place, variant)) for variant in fresh.variants]
    variants = [{"label": fresh.experiment.variant(variant).label,
                 "states": [number for number, place in enumerate(at) if place[0] == variant],
                 "values": ["" if value is None else style.readable(value) for name, value in at if name == variant]}
                for variant in fresh.variants]  # fmt: skip
    slider = {"name": axis.name if axis else "", "title": axis.title if axis else "", "at": at.index(start)}
    return {"form": "states", "sliders": [slider], "badge": states[0]["badge"], "variants": variants, "states": states}


def _everywhere(fresh: TimelineSelection) -> Iterator[tuple[str, Any]]:
    """Every variant at every value; the selection stands there."""
    for variant in fresh.variants:
        fresh.choose(variant)
        for value in fresh.values:
            yield _beside(fresh, variant, value, variant)


def _beside(fresh: TimelineSelection, variant: str, value: Any, other: str) -> tuple[str, Any]:
    """Where the selection stands when another variant is chosen at a value."""
    fresh.choose(variant)
    if value is not None:
        fresh.move(value)
    fresh.choose(other)
    return fresh.variant, fresh.value
