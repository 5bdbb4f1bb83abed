"""Every view in pieces that a script puts together: of an explorer what is said of each line, and each line by itself.

Pictures, drawings, timelines and stacks have no lines to switch on and off: a picture for each place of their sliders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, permutations, product
from typing import Any, cast

from brrr.core.measurement import Estimate
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr_course.lessons.drawings import Drawing
from brrr_course.nouns.experiment import Line
from brrr_course.site.vector import Pieces, kept, measured
from brrr_course.view import words
from brrr_course.view.bars import BarCanvas, BarFrame, bar_frame, bars_figure, bars_of
from brrr_course.view.canvas import AT_LEFT, MOST_ABOVE, POINTS, SAID, SAME, WIDER, Canvas, asides
from brrr_course.view.display import Shown
from brrr_course.view.explorer import Explorer
from brrr_course.view.quantities import label
from brrr_course.view.scene import FEW, Scene
from brrr_course.view.selection import TimelineSelection
from brrr_course.view.timeline_view import TimelineView


def view(shown: Shown | Picture, pieces: Pieces) -> dict[str, Any]:
    """A view as what `site.js` reads; NotImplementedError for a kind that has no form there."""
    exports: Any = {Picture: _picture, Drawing: _drawing, TimelineView: _timeline, Explorer: _explorer}
    for kind, export in exports.items():
        if isinstance(shown, kind):
            return cast(dict[str, Any], export(shown, pieces))
    raise NotImplementedError(f"no page shows an {type(shown).__name__}: give it a form in brrr_course/site/views.py")


def _places(scene: Scene, sliders: Sequence[str]) -> Iterator[None]:
    """Move a scene to every place of the sliders, the first of which moves last."""
    for values in product(*(scene.values[name] for name in sliders)):
        for name, value in zip(sliders, values, strict=True):
            scene.move(name, value)
        yield


def _dials(scene: Scene, sliders: Sequence[str]) -> list[dict[str, Any]]:
    """The sliders: what they are called, their values as they read, where they stand, and which lies along x."""
    return [{"name": name, "title": scene.experiment.axis(name).title,
             "values": [style.readable(value) for value in scene.values[name]],
             "at": list(scene.values[name]).index(scene.point[name]), "x": name == scene.view.x,
             "spots": [words.spot(scene.experiment.axis(name), value) for value in scene.values[name]]}
            for name in sliders]  # fmt: skip


def _explorer(found: Explorer, pieces: Pieces) -> dict[str, Any]:
    """An explorer as what `site.js` reads: all texts, and the pieces of its lines or of its bars; a stack's states."""
    scene, sliders = found.fresh(), list(found.slider_names)
    if not scene.view.is_bars and scene.view.x not in sliders:
        sliders.append(scene.view.x)  # a figure that stands still: here it need not
    told: dict[str, Any] = {
        "name": scene.experiment.name, "sliders": _dials(scene, sliders), "badge": scene.source_said,
        "alt": words.alt(scene),
    }  # fmt: skip
    if scene.view.form == "stack":
        states = [pieces.draw(bars_figure(scene), {"text": words.verdict(scene), "more": words.details(scene),
                                                   "table": words.table_of(scene)})
                  for _ in _places(scene, sliders)]  # fmt: skip
        return told | {"form": "states", "states": states}
    told |= {
        "place": [[name, style.readable(value)] for name, value in scene.point.items()], "y": scene.y_label,
        "relation": scene.quantity.relation, "alike": words.ALIKE, "remark": words.no_datasheet(scene),
        "guessed": _guessed(scene, sliders),
        "caption": f"{scene.y_label}: median (95 % interval). {scene.source_said}",
        "predicts": scene.predictions.possible, "predicting": scene.predictions.on,
        "lines": [_line(scene, line) for line in scene.lines], "versus": _versus(scene, sliders),
        "guides": [label(guide) for guide in scene.guides.drawn],
    }  # fmt: skip
    scene.predictions.on = scene.predictions.possible
    for line in scene.lines:
        scene.switch(line.name, on=True)
    told |= _said(scene, sliders)
    return told | (_bars(scene, sliders, pieces) if scene.view.is_bars else _lines(found, scene, sliders, pieces))


# ---------------------------------------------------------------------------------------------------------------------
# What is said of the lines.


def _guessed(scene: Scene, sliders: Sequence[str]) -> dict[str, Any] | None:
    """Where a guess stands in the figure: the sliders' places, and what its height is made of."""
    found = scene.guessed
    if found is None or any(found.point[name] != value for name, value in scene.point.items() if name not in sliders):
        return None
    at = [list(scene.values[name]).index(found.point[name]) for name in sliders]
    read = scene.said(found.measured or 0.0)
    return {"at": at, "measured": found.measured, "read": read, "base": found.base, "inverse": found.inverse}


def _versus(scene: Scene, sliders: Sequence[str]) -> list[dict[str, Any]]:
    """The comparisons of the verdict: two lines by their numbers, and where the second one's sliders stand."""
    return [{"lines": [scene.lines.index(scene.quantity.here(name)) for name in each[:2]],
             "over": [[sliders.index(name), scene.values[name].index(value)] for name, value in each.over.items()]}
            for each in scene.view.versus]  # fmt: skip


def _line(scene: Scene, line: Line) -> dict[str, Any]:
    look, device = scene.looks[line.name], scene.experiment.variant(line.variant).device
    return {
        "name": line.name, "label": line.label, "on": line.name in scene.on, "glyph": style.glyph(look),
        "colour": style.look(look)["color"], "ink": style.ink(look), "device": device,
        "known": scene.predictions.known([line]),
        "drift": scene.source.drifts(scene.experiment).get((line.variant, line.field), 0),
        "drifted": words.drifted(scene.experiment, scene.source, [line]),
    }  # fmt: skip


def _said(scene: Scene, sliders: Sequence[str]) -> dict[str, Any]:
    """At each place what is said of each line and of each theoretical line; and where predictions come from."""
    said, guided = [], []
    for _ in _places(scene, sliders):
        here, cells = scene.here(), {row.line: words.cells(row)[1:] for row in scene.predicted_here}
        said.append([[*_reading(scene, line, here.get(line.name)), _foretold(scene, line), *cells.get(line.name, ())]
                     for line in scene.lines])  # fmt: skip
        guided.append([words.height(scene, scene.guides.at(guide, scene.point)) for guide in scene.guides.drawn])
    devices: dict[str, Line] = {scene.experiment.variant(line.variant).device: line for line in scene.lines}
    origins = {"|".join(order): scene.predictions.origin(devices[each] for each in order)
               for order in _sets(devices, permutations) if scene.predictions.possible}  # fmt: skip
    return {"said": said, "guided": guided, "origins": origins}


def _reading(scene: Scene, line: Line, found: Estimate | None) -> tuple[float | None, str, str, str]:
    """A line's median, how it reads, what stands beside it, and its cell of the data table; else why it has none."""
    if found is None:
        return None, "", words.refused(scene, line), ""
    said = words.reading(scene, line, found)
    row = (scene.point[scene.view.x], found.median, found.low, found.high)
    return found.median, said.value, said.beside, words.cell(scene, line.name, row)


def _foretold(scene: Scene, line: Line) -> str:
    """What the data table says is predicted of a line where the sliders stand."""
    if not scene.predicts or scene.view.is_bars:
        return ""
    heights = scene.predictions.along_x(line, scene.view, [scene.point])
    return "".join(words.height(scene, height) for _, height in heights)


def _sets(names: Any, chosen: Any = combinations) -> Iterator[tuple[str, ...]]:
    """Every choice of some of the names."""
    return chain.from_iterable(chosen(names, count) for count in range(len(names) + 1))


# ---------------------------------------------------------------------------------------------------------------------
# Lines over x: frames, each of certain limits and rows of the legend, and in each all lines at each cut.


def _lines(found: Explorer, scene: Scene, sliders: Sequence[str], pieces: Pieces) -> dict[str, Any]:
    held = _held(found)
    distinct = list(dict.fromkeys(held.values()))
    few = len(scene.lines) <= FEW
    frames = {f"{number}|{rows}": _frame(scene, sliders, pieces, limits=limits, legend_rows=rows)
              for rows in _rows(scene, few) for number, limits in enumerate(distinct)}  # fmt: skip
    return {
        "form": "lines", "few": few, "held": {names: distinct.index(limits) for names, limits in held.items()},
        "frames": frames, "legend": _legend(scene, pieces),
        "strokes": {"same": SAME, "most": MOST_ABOVE, "width": style.STYLE["lines.linewidth"], "wider": WIDER,
                    "several": style.FAINT},
        "texts": {**vars(SAID), "left": AT_LEFT, "ink": style.INK, "paper": style.PAPER},
    }  # fmt: skip


def _held(found: Explorer) -> dict[str, tuple[float, float]]:
    """The limits by the lines, off at first, that have been on since."""
    first, held = found.fresh(), {}
    for names in _sets([line.name for line in first.lines if line.name not in first.on]):
        scene = found.fresh()
        for name in names:
            scene.switch(name, on=True)
        held["|".join(names)] = scene.limits
    return held


def _rows(scene: Scene, few: bool) -> range:
    """How many rows the legend may have."""
    most, every = scene.frame().legend_rows, scene.on
    scene.on, scene.predictions.on = every if few else [], False
    least = scene.frame().legend_rows
    scene.on, scene.predictions.on = every, scene.predictions.possible
    return range(least, most + 1)


def _frame(scene: Scene, sliders: Sequence[str], pieces: Pieces, **held: Any) -> dict[str, Any]:
    """The axes with certain limits and rows of the legend, and all lines on them."""
    canvas, frame = Canvas(), replace(scene.frame(), predicted=False, **held)
    canvas.draw_frame(frame, [])
    low = frame.limits[0]
    x, every = scene.x_axis, scene.on
    across = style.positions(scene.values[x.name], x.scale)
    places = canvas.at(across, [low] * len(across)).tolist()
    guides = {f"guide {guide.name}": guide for guide in scene.guides.drawn}
    cuts = [_cut(scene, canvas) for _ in _places(scene, [name for name in sliders if name != x.name])]
    heights = []
    for _ in _places(scene, sliders):
        there = scene.marks()[1] | {name: scene.guides.at(guide, scene.point) for name, guide in guides.items()}
        found = map(there.get, [*every, *guides])
        heights.append([None if height is None else canvas.at(across[:1], [height])[0, 1] for height in found])
    curves = [curve for curve in scene.curves() if not (curve.guide or curve.predicted)]
    return pieces.draw(canvas.figure, {
        "cursor": kept([canvas.cursor]), "chosen": [kept([canvas.chosen_artist(each)]) for each in across],
        "rings": [kept([canvas.mark_artist(across[0], low, scene.looks[name])]) for name in every], "cuts": cuts,
        "ys": heights, "xs": [right for right, _ in places], "low": places[0][1],
        **_corner(canvas), "limits": [f"{limit:.9g}" for limit in frame.limits], "scattered": canvas.scattered,
        "asides": [[each * (canvas.at([1], [low])[0, 0] - places[0][0]) for each in asides(curves[:count]).values()]
                   for count in range(len(curves) + 1) if x.scale == "category"],
    })  # fmt: skip


def _corner(canvas: Canvas | BarCanvas) -> dict[str, float]:
    """Where the axes begin, how high they are, and where the legend begins, in points."""
    (wide, high), place = canvas.figure.get_size_inches() * POINTS, canvas.axes.get_position()
    return {"top": high * (1 - place.y1), "inner": high * place.height,
            "left": wide * (place.x0 - style.LEFT * place.width), "margin": wide * style.LEFT * place.width,
            "wide": wide * place.width}  # fmt: skip


def _cut(scene: Scene, canvas: Canvas) -> dict[str, Any]:
    """The pieces of all lines, of what is predicted for each, and of the theoretical ones, where the sliders stand."""
    every = scene.on
    cut: dict[str, Any] = {"lines": [], "foretold": [], "guides": [], "message": None}
    for name in every:
        scene.on = [name]
        measured, *others = scene.curves()
        cut["lines"].append(kept(canvas.curve_artists(measured)))
        cut["foretold"].append(kept(chain.from_iterable(canvas.curve_artists(c) for c in others if c.predicted)))
        if message := words.in_figure(scene):
            cut["message"] = kept([canvas.message_artist(message)])
    cut["guides"] = [kept(canvas.curve_artists(each)) for each in others if each.guide]
    scene.on = every
    return cut


def _legend(scene: Scene, pieces: Pieces) -> dict[str, Any]:
    """Every entry drawn once, all below each other; how wide each is, and in how many columns it lets them stand."""
    curves = [curve for curve in scene.curves() if not curve.predicted]
    frame = replace(scene.frame(), predicted=scene.predictions.possible, legend_rows=len(curves) + 1)
    canvas = Canvas()
    canvas.draw_frame(frame, curves)
    style.legend(canvas.axes, columns=1)
    texts = (drawn := canvas.axes.get_legend()).get_texts()
    gaps = drawn._fontsize * (drawn.handlelength + drawn.handletextpad + drawn.columnspacing)
    entries = [
        {"piece": kept([handle, text]),
         "wide": gaps + measured(text.get_text(), text.get_fontproperties(), False)[0],
         "columns": [style.legend_columns([text.get_text()]), style.legend_columns([text.get_text()] * 9)]}
        for handle, text in zip(drawn.legend_handles, texts, strict=True)
    ]  # fmt: skip
    told = pieces.draw(canvas.figure, {"entries": entries, **_corner(canvas)})
    ups = [text.get_transform().transform((0, 0))[1] for text in texts]  # where it was drawn just now
    return told | {"pitch": float(ups[0] - ups[-1]) / max(len(ups) - 1, 1)}


# ---------------------------------------------------------------------------------------------------------------------
# Bars: an axis for each number of rows, and each line's bar as it stands with all on.

_LOW = 3.2  # bars and markers lie below the theoretical values, intervals and texts above them


def _bars(scene: Scene, sliders: Sequence[str], pieces: Pieces) -> dict[str, Any]:
    frame = bar_frame(scene)
    canvas, placed = BarCanvas(), []
    canvas.draw_frame(frame)
    for _ in _places(scene, sliders):
        drawn, rules = bars_of(scene, frame)
        artists = [canvas.bar_artists(bar) for bar in drawn]
        across = {rule.index: canvas.rule_artists(rule) for rule in rules}
        placed.append({
            "low": [kept(each for each in bar if each.get_zorder() <= _LOW) for bar in artists],
            "top": [kept(each for each in bar if each.get_zorder() > _LOW) for bar in artists],
            "rules": [kept(across.get(number, ())) for number in range(len(frame.guides))],
        })  # fmt: skip
    names = [kept([each]) for each in canvas.axes.get_yticklabels()]
    frames = [_bar_frame(replace(frame, rows=("",) * rows), pieces) for rows in range(len(scene.lines) + 1)]
    told = pieces.draw(canvas.figure, {"names": names, "bars": placed, **_corner(canvas)})
    return {**told, "form": "bars", "scaled": not frame.log, "frames": frames}


def _bar_frame(frame: BarFrame, pieces: Pieces) -> dict[str, Any]:
    canvas = BarCanvas()
    canvas.draw_frame(frame)
    return pieces.draw(canvas.figure, _corner(canvas))


# ---------------------------------------------------------------------------------------------------------------------
# What has a picture for each place of its sliders.


def _picture(found: Picture, pieces: Pieces) -> dict[str, Any]:
    """A picture without sliders."""
    return {"form": "states", "sliders": [], "alt": found.alt, "states": [pieces.draw(found.figure, {"text": ""})]}


def _drawing(found: Drawing, pieces: Pieces) -> dict[str, Any]:
    """A drawing at every place of its sliders."""
    sliders = [{"name": dial.name, "title": dial.title, "values": [dial.reading(value) for value in dial.values],
                "at": list(dial.values).index(found.settings[dial.name])} for dial in found.dials]  # fmt: skip
    states = [pieces.draw(made.figure, {"text": text}) for text, made in found.everywhere()]
    return {"form": "states", "sliders": sliders, "badge": found.badge, "states": states}


def _timeline(found: TimelineView, pieces: Pieces) -> dict[str, Any]:
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
