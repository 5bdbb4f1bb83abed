"""`drawing`: a lesson's drawings with sliders, by their names. What they show is computed, not measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from brrr.core.errors import ArgumentError
from brrr.core.values import Value
from brrr.course.lessons import registered
from brrr.course.nouns.source import Source
from brrr.course.sources import source as source_named
from brrr.course.view.display import Lock
from brrr.course.view.stepped import Drawing


@dataclass(frozen=True)
class LessonDrawing:
    """A drawing of a module in this folder, found by that: `make` makes it from a source, a start and a guess."""

    name: str
    make: Callable[[Source, Mapping[str, Value], Lock | None], Drawing]


def drawings() -> dict[str, LessonDrawing]:
    """All drawings by name."""
    return registered(LessonDrawing, "drawings")


def drawing(name: str, /, *, unlock: Lock | None = None, source: Source | str | None = None, **at: Value) -> Drawing:
    """A drawing with its sliders; `at` says where they start, by name.

    >>> drawing("strassen-tiles", gpu="gtx-1070", batch=128, hidden=4096).settings["hidden"]
    4096

    unlock: a guess; the drawing stays covered until it is answered. source: for those that show measurements too.
    ArgumentError for a drawing, slider or value that does not exist.
    """
    there = drawings()
    if name not in there:
        raise ArgumentError("drawing", "name", name, f"one of {', '.join(there)}")
    return there[name].make(source_named(source) if source is None or isinstance(source, str) else source, at, unlock)
