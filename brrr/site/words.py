"""What an explorer says, line by line and point by point, so that a script need only put together what is on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from typing import Any

from brrr.core.measurement import Value
from brrr.course.view import words
from brrr.course.view.quantities import label
from brrr.course.view.scene import Scene
from brrr.drawing import style
from brrr.site.vector import Pieces


def places(scene: Scene, sliders: Sequence[str]) -> Iterator[int]:
    """Every place of the sliders, the first of which moves last; the scene stands there while its number is given."""
    for number, values in enumerate(product(*(scene.values[name] for name in sliders))):
        for name, value in zip(sliders, values, strict=True):
            scene.move(name, value)
        yield number


def told(scene: Scene, sliders: Sequence[str], pieces: Pieces) -> dict[str, Any]:
    """Everything that is said of a scene, as what `site.js` reads: where its sliders stand, and all texts.

    The scene is moved, and has all its lines switched on.
    """
    shown = [line.name for line in scene.lines if line.name in scene.on]
    at = [list(scene.values[name]).index(scene.point[name]) for name in sliders]
    dials = [_dial(scene, name, start) for name, start in zip(sliders, at, strict=True)]
    place = [[name, sliders.index(name) if name in sliders else style.readable(scene.point[name])]
             for name in scene.point]  # fmt: skip
    found = {
        "name": scene.experiment.name, "sliders": dials, "place": place, "badge": scene.source_said,
        "alt": words.alt(scene), "extremes": scene.quantity.extremes, "remark": _still_remark(scene),
        "predicts": scene.predictions.possible, "predicting": scene.predictions.on,
        "caption": f"{scene.y_label}: median (95 % interval). {scene.source_said}",
        "published": words.published_tables(scene),
    }  # fmt: skip
    for line in scene.lines:
        scene.switch(line.name, on=True)
    found["lines"] = [_line(scene, line.name, line.name in shown) for line in scene.lines]
    found["guides"] = [label(guide) for guide in scene.guides.drawn]
    return found | _everywhere(scene, sliders, pieces) | {"origins": _origins(scene)}


def _dial(scene: Scene, name: str, start: int) -> dict[str, Any]:
    axis = scene.experiment.axis(name)
    along = name == scene.view.x
    values = [style.readable(value) for value in scene.values[name]]
    return {"name": name, "title": axis.title, "values": values, "at": start, "x": along}


def _line(scene: Scene, name: str, on: bool) -> dict[str, Any]:
    line, look = scene.experiment.line(name), scene.looks[name]
    variant = scene.experiment.variant(line.variant)
    drifts = scene.source.drifts(scene.experiment)
    return {
        "name": name, "label": line.label, "on": on, "glyph": style.glyph(look), "colour": style.look(look)["color"],
        "drift": drifts.get((line.variant, line.field), 0),
        "drifted": words.drifted(scene.experiment, scene.source, [line]),
        "device": variant.device, "known": scene.predictions.known([line]),
    }  # fmt: skip


def _still_remark(scene: Scene) -> str:
    """What stands behind every text line, whatever is on."""
    return " ".join(part for part in (words.no_datasheet(scene), words.below(scene)) if part)


def _everywhere(scene: Scene, sliders: Sequence[str], pieces: Pieces) -> dict[str, Any]:
    """At each place, for each line: its median, how it reads, its cell of the data table, and its prediction."""
    medians: list[list[float | None]] = [[] for _ in scene.lines]
    said: list[list[int]] = [[] for _ in scene.lines]  # the value, then what stands beside it
    table: list[list[int]] = [[] for _ in scene.lines]
    predicted: list[list[int]] = [[] for _ in scene.lines]
    guides: list[list[int]] = [[] for _ in scene.guides.drawn]
    heights: list[list[int]] = [[] for _ in scene.lines]
    scene.predictions.on = scene.predictions.possible
    for _ in places(scene, sliders):
        here, x = scene.here(), scene.point[scene.view.x]
        rows = {row.line: row for row in scene.predicted_here}
        foretold = _predicted_here(scene, x)
        for number, line in enumerate(scene.lines):
            estimate = here.get(line.name)
            medians[number].append(estimate.median if estimate else None)
            reading = words.reading(scene, line, estimate) if estimate else None
            said[number] += [pieces.add(reading.value), pieces.add(reading.beside)] if reading else [-1, -1]
            row = (x, estimate.median, estimate.low, estimate.high) if estimate else None
            table[number].append(pieces.add(words.cell(scene, line.name, row)))
            cells = words.cells(rows[line.name])[1:] if line.name in rows else ()
            predicted[number] += [pieces.add(each) for each in cells]
            height = foretold.get(line.name)
            heights[number].append(-1 if height is None else pieces.add(scene.quantity.short(height)))
        for number, guide in enumerate(scene.guides.drawn):
            guided = scene.guides.at(guide, scene.point)
            guides[number].append(-1 if guided is None else pieces.add(scene.quantity.short(guided)))
    return {"medians": medians, "said": said, "cells": table, "predicted": predicted, "guideSaid": guides,
            "heights": heights}  # fmt: skip


def _predicted_here(scene: Scene, x: Value) -> Mapping[str, float]:
    """Of each line what the data table says is predicted at a place along x."""
    return {name: height for name, rows in scene.predicted_data.items() for at, height in rows if at == x}


def _origins(scene: Scene) -> dict[str, str]:
    """Where predictions come from, by the devices of the lines that are on, in the order of their first lines."""
    lines = {scene.experiment.variant(line.variant).device: line for line in scene.lines}
    if not scene.predictions.possible:
        return {}
    orders = [order for count in range(len(lines) + 1) for order in permutations(lines, count)]
    return {"|".join(order): scene.predictions.origin(lines[device] for device in order) for order in orders}
