"""An explorer's lines over x, in pieces: a frame, each line at each place of the sliders that are not x, the marks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import mode
from typing import Any

from matplotlib.transforms import IdentityTransform

from brrr.course.view import words
from brrr.course.view.canvas import MOST_ABOVE, SEVERAL, Canvas, Curve, asides, covered
from brrr.course.view.explorer import Explorer
from brrr.course.view.predictions import together
from brrr.course.view.scene import FEW, Scene
from brrr.drawing import style
from brrr.site.vector import POINTS, Pieces, name
from brrr.site.words import places

_DPI = 72  # of an SVG
Limits = tuple[float, float]


def lines(explorer: Explorer, pieces: Pieces) -> dict[str, Any]:
    """The pieces of an explorer's lines, as what `site.js` reads."""
    held = {"|".join(names): limits for names, limits in _limits(explorer)}
    distinct = list(dict.fromkeys(held.values()))
    scene = with_all(explorer)
    frames = {f"{number}|{rows}": _frame(scene, explorer.slider_names, limits, rows, pieces)
              for number, limits in enumerate(distinct) for rows in _rows(explorer)}  # fmt: skip
    return {
        "form": "lines", "few": len(scene.lines) <= FEW,
        "held": {names: distinct.index(limits) for names, limits in held.items()},
        "frames": frames, "legend": _legend(scene, pieces), "asides": _asides(scene),
    }  # fmt: skip


def with_all(explorer: Explorer) -> Scene:
    """The explorer's scene with all lines on, and predictions where there are some."""
    scene = explorer.fresh()
    scene.predictions.on = scene.predictions.possible
    for line in scene.lines:
        scene.switch(line.name, on=True)
    return scene


def _limits(explorer: Explorer) -> Iterator[tuple[tuple[str, ...], Limits]]:
    """The limits for each set of lines that were off at first and have been on since."""
    scene = explorer.fresh()
    late = [line.name for line in scene.lines if line.name not in scene.on]
    for names in (chosen for count in range(len(late) + 1) for chosen in combinations(late, count)):
        fresh = explorer.fresh()
        for each in names:
            fresh.switch(each, on=True)
        yield names, fresh.limits


def _rows(explorer: Explorer) -> list[int]:
    """How many rows the legend may have."""
    scene = with_all(explorer)
    every = [line.name for line in scene.lines]
    sets = [every] if len(every) <= FEW else [c for n in range(len(every) + 1) for c in combinations(every, n)]
    found = set()
    for predicting in {False, scene.predictions.possible}:
        scene.predictions.on = predicting
        for chosen in sets:
            scene.on = list(chosen)
            found.add(scene.frame().legend_rows)
    return sorted(found)


def _asides(scene: Scene) -> list[list[float]]:
    """How far beside its category each marker stands, by how many lines are on; empty on other axes."""
    curves = [curve for curve in scene.curves() if not (curve.guide or curve.predicted)]
    if scene.x_axis.scale != "category":
        return []
    return [[round(each, 6) for each in asides(curves[:count]).values()] for count in range(len(curves) + 1)]


# ---------------------------------------------------------------------------------------------------------------------
# One frame: the axes with certain limits and a legend of so many rows, and all lines on them.


def _frame(scene: Scene, sliders: Sequence[str], limits: Limits, rows: int, pieces: Pieces) -> dict[str, Any]:
    canvas = Canvas()
    canvas.draw_frame(replace(scene.frame(), limits=limits, legend_rows=rows, predicted=False), [])
    name(canvas.cursor, "cursor")
    others = [each for each in sliders if each != scene.view.x]
    curves: list[list[str]] = [[] for _ in scene.lines]
    guides: list[list[str]] = [[] for _ in scene.guides.drawn]
    wide: list[dict[str, Any]] = []
    foretold: list[list[Any]] = [[] for _ in scene.lines]
    said: list[str] = []
    for cut in places(scene, others):
        drawn = scene.curves()
        measured = drawn[: len(scene.lines)]
        for number, curve in enumerate(measured):
            curves[number].append(_named(canvas.curve_artists(curve), f"line {number} {cut}"))
        for number, curve in enumerate(drawn[len(scene.lines) :][: len(guides)]):
            guides[number].append(_named(canvas.curve_artists(curve), f"guide {number} {cut}"))
        wide.append(_wide(canvas, measured, limits, cut))
        for number, predicted in enumerate(_foretold(canvas, scene)):
            foretold[number].append(predicted)
        said.append(_message(canvas, scene, cut))
    for number, line in enumerate(scene.lines):
        name(_at_origin(canvas, scene.looks[line.name]), f"ring {number}")
    drawing = pieces.draw(canvas.figure)

    def piece(of: str) -> int:
        return pieces.add(drawing.named.get(of, "")) if of else -1

    xs, ys = _marks(canvas, scene, sliders, drawing.height)
    place = canvas.axes.get_position()
    return {
        "height": drawing.height, "still": pieces.add("".join(drawing.rest)), "cursor": piece("cursor"),
        "curves": [[piece(each) for each in row] for row in curves],
        "guides": [[piece(each) for each in row] for row in guides],
        "near": [each["near"] for each in wide],
        "wide": [{key: piece(name) for key, name in each["strokes"].items()} for each in wide],
        "foretold": [[each and [each[0], piece(each[1]), piece(each[2])] for each in row] for row in foretold],
        "rings": [piece(f"ring {number}") for number in range(len(scene.lines))],
        "messages": [piece(each) for each in said], "xs": xs, "ys": ys, "unit": _unit(canvas),
        "top": round(float(drawing.height * (1 - place.y1)), 2), "left": _left(canvas),
    }  # fmt: skip


def _named(artists: Sequence[Any], piece: str) -> str:
    for artist in artists:
        name(artist, piece)
    return piece if artists else ""


def _wide(canvas: Canvas, curves: Sequence[Curve], limits: Limits, cut: int) -> dict[str, Any]:
    """The strokes below each line: `near` says which later lines lie on each of its points, as bits.

    `strokes` are found by the line, how many are usual, and the points: all that some lines on may ask for.
    """
    near: list[list[int]] = []
    strokes: dict[str, str] = {}
    if canvas.apart:  # categories have none
        return {"near": near, "strokes": strokes}
    for number, curve in enumerate(curves):
        later = {n: covered([curve, other], limits)[curve] for n, other in enumerate(curves) if n > number}
        near.append([sum(1 << n for n, found in later.items() if x in found) for x in curve.xs])
        bits = [1 << n for n, found in later.items() if found]
        for on in (sum(chosen) for count in range(len(bits) + 1) for chosen in combinations(bits, count)):
            counts = {x: (mask & on).bit_count() for x, mask in zip(curve.xs, near[-1], strict=True)}
            above = {x: count for x, count in counts.items() if 0 < count <= MOST_ABOVE}
            key = f"{number}|{mode(above.values()) if above else 0}|{''.join('01'[x in above] for x in counts)}"
            if above and key not in strokes:
                strokes[key] = _named(canvas.wide_artists(curve, above), f"wide {cut} {key}")
    return {"near": near if strokes else [], "strokes": {key: piece for key, piece in strokes.items() if piece}}


def _foretold(canvas: Canvas, scene: Scene) -> Iterator[Any]:
    """For each line what it is grouped by, its prediction in its own colour, and in the grey of several."""
    data = scene.predicted_data
    for number, line in enumerate(scene.lines):
        if not data.get(line.name):
            yield None
            continue
        (heights,) = together({line.name: data[line.name]})
        xs = tuple(style.positions(scene.values[scene.view.x], scene.x_axis.scale, [x for x, _ in heights]))
        made = []
        for look in (scene.looks[line.name], SEVERAL):
            curve = Curve("", "", look, xs, tuple(y for _, y in heights), (), (), predicted=True)
            key = f"predicted {number} {look} {'_'.join(f'{scene.point[n]}' for n in scene.point)}"
            made.append(_named(canvas.curve_artists(curve), key))
        yield [",".join(f"{x}:{y:.3g}" for x, y in heights), *made]  # lines that should take as long share the first


def _message(canvas: Canvas, scene: Scene, cut: int) -> str:
    """What stands in the middle of the axes where none of the lines that are on has a point."""
    kept, without = list(scene.on), [line for line, rows in scene.data.items() if not rows]
    scene.on = without
    said = words.in_figure(scene)
    scene.on = kept
    return _named([canvas.message_artist(said)], f"message {cut}") if said else ""


def _at_origin(canvas: Canvas, look: int) -> Any:
    """The ring of a mark, in the drawing's upper left corner."""
    ring = canvas.mark_artist(1.0, 1.0, look)
    ring.set_transform(IdentityTransform())
    ring.set_clip_on(False)
    ring.set_data([0], [canvas.figure.get_figheight() * _DPI])
    return ring


def _left(canvas: Canvas) -> float:
    """Where the legend begins."""
    place = canvas.axes.get_position()
    return round(float(style.WIDTH * POINTS * (place.x0 - 0.118 * place.width)), 2)


def _marks(canvas: Canvas, scene: Scene, sliders: Sequence[str], height: float) -> tuple[list[float], list[Any]]:
    """Where the marks stand: along x at each of its values, and in y of each line at each place of the sliders."""
    scale = _DPI / canvas.figure.dpi
    to_pixels, x = canvas.axes.transData.transform, scene.x_axis
    low = canvas.axes.get_ylim()[0]
    across = style.positions(scene.values[x.name], x.scale)
    ys: list[list[float | None]] = [[] for _ in scene.lines]
    for _ in places(scene, sliders):
        place, heights = scene.marks()
        for number, line in enumerate(scene.lines):
            found = heights.get(line.name)
            up = None if found is None else height - to_pixels((place, found))[1] * scale
            ys[number].append(None if up is None else round(float(up), 1))
    return [round(float(to_pixels((each, low))[0] * scale), 1) for each in across], ys


def _unit(canvas: Canvas) -> float:
    """Points of the drawing for one step from category to category."""
    low = canvas.axes.get_ylim()[0]
    first, second = (canvas.axes.transData.transform((x, low))[0] for x in (1.0, 2.0))
    return round(float((second - first) * _DPI / canvas.figure.dpi), 3)


# ---------------------------------------------------------------------------------------------------------------------
# The legend: each entry drawn once, how wide it is, and in how many columns it lets the others stand.


def _legend(scene: Scene, pieces: Pieces) -> dict[str, Any]:
    """Of each line, theoretical line and "PREDICTED" the entry's piece, its column's width and what decides columns."""
    curves = [curve for curve in scene.curves() if not curve.predicted]
    rows = len(curves) + 2  # room for all of them below each other: what lies outside is not drawn
    frame = replace(scene.frame(), predicted=scene.predictions.possible, legend_rows=rows)
    canvas = Canvas()
    canvas.draw_frame(frame, curves)
    labels = canvas.axes.get_legend_handles_labels()[1]
    style.draw_line(canvas.axes, [], [], 0, "·")  # its place tells how wide the last entry is
    _relabelled(canvas, len(labels) + 1)
    across = [_start(each) for each in _entries(pieces, canvas, len(labels) + 1)]
    _relabelled(canvas, 1)
    entries = _entries(pieces, canvas, len(labels) + 1)
    ups = [_start(each, "y") for each in entries]
    place, height = canvas.axes.get_position(), canvas.figure.get_figheight() * _DPI
    return {
        "entries": [{"piece": pieces.add(entries[n]), "wide": round(across[n + 1] - across[n], 1), "up": ups[n],
                     "columns": [style.legend_columns([label]), style.legend_columns([label] * 9)]}
                    for n, label in enumerate(labels)],
        "pitch": round(ups[1] - ups[0], 2) if len(ups) > 1 else 0, "bottom": ups[-1] if ups else 0,
        "top": round(float(height * (1 - place.y1)), 2), "left": _left(canvas),
    }  # fmt: skip


def _relabelled(canvas: Canvas, columns: int) -> None:
    style.legend(canvas.axes, columns=columns)
    legend = canvas.axes.get_legend()
    for number, (handle, text) in enumerate(zip(legend.legend_handles, legend.get_texts(), strict=True)):
        name(handle, f"entry {number}")
        name(text, f"entry {number}")


def _entries(pieces: Pieces, canvas: Canvas, count: int) -> list[str]:
    named: Mapping[str, str] = pieces.draw(canvas.figure).named
    return [named[f"entry {number}"] for number in range(count)]


def _start(entry: str, axis: str = "x") -> float:
    """Where an entry's text begins."""
    found = re.search(rf'<text [^>]*?\b{axis}="(-?[\d.]+)"', entry)
    assert found is not None, entry
    return float(found[1])
