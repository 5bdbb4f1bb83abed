"""Views as what a page reads: an explorer as its scene, all else as pictures, one for each place of its sliders."""

from __future__ import annotations

from typing import Any, cast

from brrr.drawing.style import Picture
from brrr_course.lessons.drawings import Drawing
from brrr_course.lessons.roofline_points import Roofline
from brrr_course.site.vector import Pieces
from brrr_course.view.display import Shown
from brrr_course.view.explorer import Explorer
from brrr_course.view.figure import figure_of
from brrr_course.view.spans import timelines_of
from brrr_course.view.timeline_view import TimelineView


def view(shown: Shown | Picture, pieces: Pieces) -> dict[str, Any]:
    """A view as what `site.js` reads; NotImplementedError for a kind that has no form there."""
    exports: Any = {
        Picture: _picture,
        Drawing: _drawing,
        TimelineView: lambda shown, _: _scene(timelines_of(shown.selection)),
        Explorer: _explorer,
        Roofline: lambda shown, _: _scene(shown.figure),
    }
    for kind, export in exports.items():
        if isinstance(shown, kind):
            return cast(dict[str, Any], export(shown, pieces))
    raise NotImplementedError(f"no page shows an {type(shown).__name__}: give it a form in brrr_course/site/views.py")


def _explorer(found: Explorer, _: Pieces) -> dict[str, Any]:
    """An explorer's scene."""
    scene = found.fresh()
    for name in found.slider_names:
        scene.move(name, found.scene.point[name])  # where the lesson left it
    made = figure_of(scene, found.slider_names)
    made["predictable"] = made["predictions"]  # elsewhere a kernel would have to work them out
    return _scene(made)


def _picture(found: Picture, pieces: Pieces) -> dict[str, Any]:
    """A picture without sliders."""
    return {"form": "states", "sliders": [], "alt": found.alt, "states": [pieces.draw(found.figure, text="")]}


def _drawing(found: Drawing, pieces: Pieces) -> dict[str, Any]:
    """A drawing at every place of its sliders."""
    if figure := found.figure:
        return _scene(figure)
    sliders = [{"name": dial.name, "title": dial.title, "texts": [dial.reading(value) for value in dial.values],
                "at": list(dial.values).index(found.settings[dial.name])} for dial in found.dials]  # fmt: skip
    states = [pieces.draw(made.figure, text=text) for text, made in found.everywhere()]
    return {"form": "states", "sliders": sliders, "badge": found.badge, "states": states}


def _scene(made: dict[str, Any]) -> dict[str, Any]:
    return {"name": made["name"], "badge": made["badge"], "alt": made["alt"], "scene": made}
