"""An explorer's ladder in pieces: an axis for each number of rows, and each line's bar as it stands with all on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matplotlib import rc_context

from brrr.course.view.bars import BarCanvas, BarFrame, bar_frame, bars_of
from brrr.course.view.explorer import Explorer
from brrr.drawing import style
from brrr.site.lines import with_all
from brrr.site.vector import Pieces, name
from brrr.site.words import places


def bars(explorer: Explorer, pieces: Pieces) -> dict[str, Any]:
    """The pieces of an explorer's ladder, as what `site.js` reads: what is low, the rules over it, what is on top."""
    scene = with_all(explorer)
    frame, count = bar_frame(scene), len(scene.lines)
    canvas = _canvas(frame)
    low: list[list[str]] = [[] for _ in scene.lines]
    top: list[list[str]] = [[] for _ in scene.lines]
    rules: list[list[str]] = [[] for _ in frame.guides]
    for at in places(scene, explorer.slider_names):
        found, across = bars_of(scene, frame)
        for bar in found:
            artists = canvas.bar_artists(bar)
            flat = [each for each in artists if each.get_zorder() <= _LOW]
            low[bar.row].append(_named(flat, f"low {bar.row} {at}"))
            top[bar.row].append(_named([each for each in artists if each not in flat], f"top {bar.row} {at}"))
        here = {rule.index: canvas.rule_artists(rule) for rule in across}
        for number, row in enumerate(rules):
            row.append(_named(here.get(number, ()), f"rule {number} {at}"))
    for number, label in enumerate(canvas.axes.get_yticklabels()):
        name(label, f"name {number}")
    drawn = pieces.draw(canvas.figure)

    def numbers(rows: Sequence[Sequence[str]]) -> list[list[int]]:
        return [[pieces.add(drawn.named.get(each, "")) for each in row] for row in rows]

    return {
        "form": "bars", "scaled": not frame.log, "low": numbers(low), "top": numbers(top), "rules": numbers(rules),
        "names": numbers([[f"name {number}" for number in range(count)]])[0],
        "frames": [_frame(frame, rows, pieces) for rows in range(count + 1)],
    }  # fmt: skip


_LOW = 3.2  # bars and markers lie below the theoretical values, intervals and texts above them


def _canvas(frame: BarFrame) -> BarCanvas:
    canvas = BarCanvas()
    with rc_context(style.STYLE):
        canvas.draw_frame(frame)
    return canvas


def _named(artists: Sequence[Any], piece: str) -> str:
    for artist in artists:
        name(artist, piece)
    return piece


def _frame(frame: BarFrame, rows: int, pieces: Pieces) -> dict[str, Any]:
    """The axis under so many rows without names, and where its rows begin and how high each is."""
    canvas = _canvas(replace(frame, rows=("",) * rows, looks=frame.looks[:rows]))
    drawn, place = pieces.draw(canvas.figure), canvas.axes.get_position()
    return {"height": drawn.height, "still": pieces.add("".join(drawn.rest)),
            "top": round(float(drawn.height * (1 - place.y1)), 2),
            "row": round(float(drawn.height * place.height) / max(rows, 1), 3)}  # fmt: skip
