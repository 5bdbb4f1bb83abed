"""Every view of a page against Python's own, at each place of its sliders, with the usual lines and random ones."""

import math
import random
import re
from collections import Counter
from html import unescape
from itertools import permutations, product
from typing import Any

from opened import NOTEBOOKS, Opened

from brrr.drawing.style import kept_figures
from brrr_course.lessons.answers import Choice, Quantity, Ranking
from brrr_course.lessons.checking import exercises
from brrr_course.lessons.drawings import Drawing
from brrr_course.lessons.guessing import Guess
from brrr_course.site.exercises import typed
from brrr_course.site.vector import Pieces
from brrr_course.view import words
from brrr_course.view.bars import bars_figure
from brrr_course.view.canvas import Canvas
from brrr_course.view.display import signed
from brrr_course.view.explorer import Explorer
from brrr_course.view.scene import Scene
from brrr_course.view.timeline_view import TimelineView

RANDOM_SETS, DRAWN = 2, 3
"""Sets of lines tried at each place beside the usual one, and states of each view held against a drawing."""


def swept(page: Opened) -> int:
    """Sweep all views of a page; returns how many states were compared."""
    asked = [each for each in page.made.seen if isinstance(each, Guess)]
    page.answer([usual(each) for each in asked])
    for each in asked:
        each.value = each.form.parse(usual(each))  # as the page has it
    chance = random.Random(page.made.name)
    count = 0
    for number, view in enumerate(page.made.views):
        if isinstance(view, Explorer):
            count += _explorer(page, number, view, chance)
        elif isinstance(view, Drawing):
            count += _drawing(page, number, view, chance)
        elif isinstance(view, TimelineView):
            count += _timeline(page, number, view)
    assert page.complaints == []
    return count


def usual(guess: Guess) -> Any:
    """An answer that a form takes."""
    form = guess.form
    if isinstance(form, Choice):
        return form.options[0]
    if isinstance(form, Ranking):
        return list(form.items)
    assert isinstance(form, Quantity)
    return "1 ms" if form.unit == "s" else "3"


def _explorer(page: Opened, number: int, view: Explorer, chance: random.Random) -> int:
    names, fresh = view.slider_names, view.fresh()
    if not fresh.view.is_bars and fresh.view.x not in names:
        names = (*names, fresh.view.x)  # a figure that stands still has a slider on a page
    indices = list(product(*(range(len(fresh.values[name])) for name in names)))
    shown = [line.name in fresh.on for line in fresh.lines]
    stack = view.scene.view.form == "stack"
    sets = [shown] if stack else [shown] + [[chance.random() < 0.6 for _ in shown] for _ in range(RANDOM_SETS)]
    drawn = {chance.randrange(len(indices) * len(sets)) for _ in range(DRAWN)}
    states, expected = [], []
    scenes = [_switched(view.fresh(), on) for on in sets]
    for nth, (index, (on, scene)) in enumerate(product(indices, list(zip(sets, scenes, strict=True)))):
        for name, at in zip(names, index, strict=True):
            scene.move(name, scene.values[name][at])
        if on is not shown:
            scene.predictions.on = scene.predictions.possible and chance.random() < 0.5
        predicting = scene.predictions.on
        held = [line.name for line, was, now in zip(scene.lines, shown, on, strict=True) if now and not was]
        states.append({"index": index, "on": [] if stack else on, "held": held, "predicting": predicting, "variant": 0,
                       "texts": nth in drawn})  # fmt: skip
        expected.append((words.text(scene), _of_drawing(scene, predicting=predicting) if nth in drawn else None))
    for state, found, (text, extra) in zip(states, page.states(number, states), expected, strict=True):
        assert found["said"] == text, (found["said"], text, state)
        if extra is not None:
            _same_drawing(found, extra, state, stack=stack)
    return len(states)


def _switched(scene: Scene, on: list[bool]) -> Scene:
    """The scene with these lines on; that predictions are on or off meanwhile moves no axis."""
    predicting = scene.predictions.on
    scene.predictions.on = scene.predictions.possible and not predicting
    for line, switched in zip(scene.lines, on, strict=True):
        if (line.name in scene.on) != switched:
            scene.switch(line.name, on=switched)
    scene.predictions.on = predicting
    return scene


def _of_drawing(scene: Scene, *, predicting: bool) -> dict[str, Any]:
    """What the figure, the table of predictions and the data table say, by matplotlib and by `words`."""
    if scene.view.is_bars:
        figure = bars_figure(scene)
    else:
        canvas = Canvas()
        canvas.draw_frame(scene.frame(), scene.curves())  # all texts: what it draws of the curves has none
        canvas.said_artists(scene.marks()[0], scene.curves(), words.beside_marks(scene))
        for curve in scene.curves():
            if curve.name == "you":
                canvas.curve_artists(curve)
        if message := words.in_figure(scene):
            canvas.message_artist(message)
        figure = canvas.figure
    table = re.findall(r"<(?:td|th|caption|div)[^>]*>([^<]+)<", words.table_of(scene))
    predicted = [text for row in scene.predicted_here for text in words.cells(row)] if predicting else []
    return {"drawing": svg_of(figure), "table": table, "predicted": predicted,
            "origin": words.origin(scene) if predicting else ""}  # fmt: skip


def svg_of(figure: Any) -> str:
    """A whole drawing, as matplotlib makes it."""
    pieces = Pieces()
    return "".join(pieces.all[number] for number in pieces.draw(figure)["still"])


def texts_of(drawing: str) -> list[str]:
    """The texts of a drawing, line by line."""
    return [unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)<", drawing)]


def _same_drawing(found: dict[str, Any], extra: dict[str, Any], state: Any, *, stack: bool) -> None:
    drawing = extra["drawing"]
    assert Counter(found["words"]) == Counter(texts_of(drawing)), state
    lacking = Counter(unescape(text) for text in extra["table"]) - Counter(found["table"])
    assert not lacking, (state, lacking)
    for text in extra["predicted"]:
        assert text in found["predicted"], (state, text)
    assert extra["origin"] in found["predicted"] or stack, state
    for x, y, text in re.findall(r'<text x="([-\d.]+)" y="([-\d.]+)"(?![^>]*transform)[^>]*>([^<]*)<', drawing):
        there = [place for said, place in zip(found["words"], found["places"], strict=True) if said == unescape(text)]
        assert any(abs(left - float(x)) < 1 and abs(top - float(y)) < 1 for left, top in there), (
            state,
            text,
            x,
            y,
            there,
        )


def _drawing(page: Opened, number: int, view: Drawing, chance: random.Random) -> int:
    indices = list(product(*(range(len(dial.values)) for dial in view.dials)))
    drawn = {chance.randrange(len(indices)) for _ in range(DRAWN)}
    states = [{"index": index, "on": [], "held": [], "predicting": False, "variant": 0, "texts": n in drawn}
              for n, index in enumerate(indices)]  # fmt: skip
    found = page.states(number, states)
    for n, index in enumerate(indices):
        if n in drawn:
            settings = {dial.name: dial.values[at] for dial, at in zip(view.dials, index, strict=True)}
            with kept_figures():
                made = view._draw(settings)
            assert found[n]["said"] == f"At {view._place(settings)}: {made.alt}"
            assert Counter(found[n]["words"]) == Counter(texts_of(svg_of(made.figure)))
    return len(indices)


def _timeline(page: Opened, number: int, view: TimelineView) -> int:
    selection, states, expected = view.selection, [], []
    for at, variant in enumerate(selection.variants):
        selection.choose(variant)
        for index, value in enumerate(selection.values):
            if value is not None:
                selection.move(value)
            states.append({"index": [index], "on": [], "held": [], "predicting": False, "variant": at, "texts": True})
            expected.append((selection.text, Counter(texts_of(svg_of(selection.figure())))))
    for found, (text, drawn) in zip(page.states(number, states), expected, strict=True):
        assert found["said"] == text
        assert Counter(found["words"]) == drawn
    return len(states)


def lessons() -> list[str]:
    """The numbers of the lessons, the last ones first: they take the longest."""
    return [path.name.partition("_")[0] for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb"), reverse=True)]


def compared(page: Opened) -> None:
    """Every comparison says of random guesses what Python says."""
    asked = [each for each in page.made.seen if isinstance(each, Guess)]
    chance = random.Random(page.made.name)
    for _ in range(2):
        given = [_some(guess, chance) for guess in asked]
        page.page.evaluate("localStorage.clear()")
        page.load()
        page.answer(given)
        said = page.page.evaluate("[...document.querySelectorAll('.comparison')].map(each => each.textContent)")
        for waiting, text in zip(page.made.comparisons, said, strict=True):
            guess = waiting.guess
            guess.value = guess.form.parse(given[next(n for n, each in enumerate(asked) if each is guess)])
            found = waiting.compared()
            guess.value = None
            assert text.startswith(_signed(found.text))
            assert all(_signed(cell) in text for row in found.rows for cell in row)


def _signed(text: str) -> str:
    """A text as a page has it."""
    return unescape(signed(text))


def _some(guess: Guess, chance: random.Random) -> Any:
    form = guess.form
    if isinstance(form, Ranking):
        return chance.choice(list(permutations(form.items)))
    if isinstance(form, Choice):
        return chance.choice(form.options)
    return f"{chance.uniform(1, 900):.3g} {chance.choice(('µs', 'ms', 'ns'))}" if form.unit == "s" else usual(guess)


def marked(page: Opened) -> None:
    """Every tabulated mark is that of `check`."""
    chance = random.Random(page.made.name)
    for place, table in enumerate(page.made.lesson.shown["exercise"]):
        found_here = exercises()[table["name"]]
        cases = [[_answer(field, chance) for field in table["fields"]] for _ in range(300)]
        said = page.page.evaluate("([place, cases]) => cases.map(given => brrr.marked(brrr.D.exercise[place], given))",
                                  [place, cases])  # fmt: skip
        for given, found in zip(cases, said, strict=True):
            answers = {field["name"]: typed(each) if isinstance(each, float) else each
                       for field, each in zip(table["fields"], given, strict=True)}  # fmt: skip
            mark = found_here.marked(**answers)
            assert found == [mark.status, mark.text, mark.hint], answers


def _answer(field: dict[str, Any], chance: random.Random) -> Any:
    """A number among those at which the mark changes, between them, or anywhere; mostly one that is right."""
    if "words" in field:
        return chance.choice([*field["words"], *[w for w, mark in field["words"].items() if mark[0] == "right"] * 6])
    starts = field["segments"]
    right = [n for n, each in enumerate(starts) if each[1] == "right"]
    at = chance.choice(right) if chance.random() < 0.6 else chance.randrange(len(starts))
    low = starts[at][0] if abs(starts[at][0]) > 1e-300 else 1e-12  # nobody types smaller ones
    high = starts[at + 1][0] if at + 1 < len(starts) else 2 * low + 1
    if "whole" in field:
        return float(chance.choice([low, field["to"] + chance.randrange(10_000)]))
    return chance.choice([low, math.nextafter(high, -math.inf), low + (high - low) * chance.random()])
