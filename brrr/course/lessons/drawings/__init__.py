"""`drawing`: a lesson's drawings with sliders, by their names. What they show is computed, not measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from brrr.core.errors import ArgumentError
from brrr.core.values import Value
from brrr.course.nouns.source import Source
from brrr.course.sources.named import source as source_named
from brrr.course.view.covered import Lock
from brrr.course.view.stepped import Drawing

DRAWINGS: Mapping[str, str] = {
    "strassen-flow": "brrr.course.lessons.drawings.strassen_flow:drawing",
    "strassen-tiles": "brrr.course.lessons.drawings.strassen_tiles:drawing",
    "strassen-bytes": "brrr.course.lessons.drawings.strassen_bytes:drawing",
    "strassen-roofline": "brrr.course.lessons.drawings.strassen_roofline:drawing",
    "strassen-frontier": "brrr.course.lessons.drawings.strassen_frontier:drawing",
    "strassen-panel": "brrr.course.lessons.drawings.strassen_panel:drawing",
    "strassen-errors": "brrr.course.lessons.drawings.strassen_errors:drawing",
    "mlp-divide": "brrr.course.lessons.drawings.network_divide:drawing",
}
"""Each drawing, and the `module:function` that makes it from a source, a start and a guess."""

Make = Callable[[Source, Mapping[str, Value], Lock | None], Drawing]


def drawing(name: str, /, *, unlock: Lock | None = None, source: Source | str | None = None, **at: Value) -> Drawing:
    """A drawing with its sliders; `at` says where they start, by name.

    >>> drawing("strassen-tiles", gpu="gtx-1070", batch=128, hidden=4096).settings["hidden"]
    4096

    unlock: a guess; the drawing stays covered until it is answered. source: for those that show measurements too.
    ArgumentError for a drawing, slider or value that does not exist.
    """
    if name not in DRAWINGS:
        raise ArgumentError("drawing", "name", name, f"one of {', '.join(DRAWINGS)}")
    module, _, function = DRAWINGS[name].partition(":")
    make: Make = getattr(import_module(module), function)
    origin = source if source is not None and not isinstance(source, str) else source_named(source)
    return make(origin, at, unlock)
