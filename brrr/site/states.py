"""What has a picture for each place of its sliders: drawings, timelines and stacks, each place as numbers of pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib import rc_context

from brrr.course.lessons.drawings import Drawing
from brrr.course.view import words
from brrr.course.view.bars import BarCanvas, bar_frame, bars_of
from brrr.course.view.explorer import Explorer
from brrr.course.view.selection import TimelineSelection
from brrr.course.view.timeline import TimelineView
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr.site.vector import Drawn, Pieces
from brrr.site.words import places


def picture(found: Picture, pieces: Pieces) -> dict[str, Any]:
    """A picture without sliders."""
    assert found.figure is not None  # it was made within `kept_figures`
    return {
        "form": "states",
        "sliders": [],
        "alt": found.alt,
        **_states([(found.alt, pieces.draw(found.figure))], pieces),
    }


def drawing(found: Drawing, pieces: Pieces) -> dict[str, Any]:
    """A drawing at every place of its sliders."""
    at = found.settings
    sliders = [{"name": dial.name, "title": dial.title, "values": [dial.reading(value) for value in dial.values],
                "at": list(dial.values).index(at[dial.name])} for dial in found.dials]  # fmt: skip
    drawn = [(text, pieces.draw(made.figure)) for text, made in found.everywhere() if made.figure is not None]
    return {"form": "states", "sliders": sliders, "badge": found.badge, **_states(drawn, pieces)}


def timeline(found: TimelineView, pieces: Pieces) -> dict[str, Any]:
    """The timelines of all variants; the slider's values, and where another variant stands, depend on the variant."""
    kept = found.selection
    fresh = TimelineSelection(kept.experiment, kept.source, kept.variants, kept.at, kept.calls)
    if not fresh.variants:
        return {"form": "states", "sliders": [], "badge": "", "texts": [fresh.text], "states": [[]], "heights": [0]}
    first, start = fresh.variant, fresh.value
    drawn: list[tuple[str, Drawn]] = []
    places_of, badges = {}, []
    for variant, value in _everywhere(fresh):
        places_of[variant, value] = len(drawn)
        badges.append(str(fresh.timeline.badge if fresh.timeline else fresh.badge))
        drawn.append((fresh.text, pieces.draw(fresh.figure())))
    variants = []
    for variant in fresh.variants:
        fresh.choose(variant)
        values = fresh.values
        variants.append({
            "label": fresh.experiment.variant(variant).label, "states": [places_of[variant, each] for each in values],
            "values": ["" if each is None else style.readable(each) for each in values],
            "to": [[_other(fresh, variant, value, other) for value in values] for other in fresh.variants],
        })  # fmt: skip
        if variant == first:
            at = list(values).index(start)
    slider = {"name": fresh.axis.name, "title": fresh.axis.title} if fresh.axis else {"name": "", "title": ""}
    return {"form": "states", "sliders": [{**slider, "values": variants[0]["values"], "at": at}], "variants": variants,
            "badges": badges, "badge": badges[0], **_states(drawn, pieces)}  # fmt: skip


def _everywhere(fresh: TimelineSelection) -> Iterator[tuple[str, Any]]:
    """Every variant at every value; the selection stands there."""
    for variant in fresh.variants:
        fresh.choose(variant)
        for value in fresh.values:
            if value is not None:
                fresh.move(value)
            yield variant, value


def _other(fresh: TimelineSelection, variant: str, value: Any, other: str) -> int:
    """Where the slider stands when another variant is chosen at a value."""
    fresh.choose(variant)
    if value is not None:
        fresh.move(value)
    fresh.choose(other)
    return list(fresh.values).index(fresh.value)


def stack(found: Explorer, pieces: Pieces) -> dict[str, Any]:
    """An explorer's stack at every place of its sliders."""
    scene, names = found.fresh(), found.slider_names
    sliders = [{"name": name, "title": scene.experiment.axis(name).title,
                "values": [style.readable(value) for value in scene.values[name]],
                "at": list(scene.values[name]).index(scene.point[name])} for name in names]  # fmt: skip
    drawn, tables = [], []
    for _ in places(scene, names):
        canvas, frame = BarCanvas(), bar_frame(scene)
        bars, _rules = bars_of(scene, frame)
        with rc_context(style.STYLE):
            canvas.draw_frame(frame)
            for bar in bars:
                canvas.bar_artists(bar)
        drawn.append((words.text(scene), pieces.draw(canvas.figure)))
        tables.append(pieces.add(words.table_of(scene)))
    return {"form": "states", "name": scene.experiment.name, "sliders": sliders, "badge": scene.source_said,
            "alt": words.alt(scene), "tables": tables, **_states(drawn, pieces)}  # fmt: skip


def _states(drawn: list[tuple[str, Drawn]], pieces: Pieces) -> dict[str, Any]:
    return {
        "texts": [pieces.add(text) for text, _ in drawn],
        "states": pieces.states([each.rest for _, each in drawn]), "heights": [each.height for _, each in drawn],
    }  # fmt: skip
