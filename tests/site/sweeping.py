"""The views of a page against Python's own: pictures at each place of their sliders, explorers at some."""

import math
import random
import re
from collections import Counter
from html import unescape
from itertools import permutations, product
from typing import Any

from opened import NOTEBOOKS, Opened

from brrr.drawing.style import kept_figures
from brrr.tracing.timeline import verdict
from brrr_course.lessons.answers import Choice, Quantity, Ranking
from brrr_course.lessons.checking import exercises
from brrr_course.lessons.drawings import Drawing
from brrr_course.lessons.guessing import Guess
from brrr_course.lessons.roofline_points import Roofline
from brrr_course.site.exercises import typed
from brrr_course.site.vector import Pieces
from brrr_course.view import words
from brrr_course.view.display import signed
from brrr_course.view.explorer import Explorer
from brrr_course.view.spans import values_of
from brrr_course.view.timeline_view import TimelineView

DRAWN, FEW = 5, 40
"""Places of each view at which it is held against Python; an explorer that has few is held at all of them."""


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
        elif isinstance(view, Drawing | Roofline) and view.figure:
            count += _figure(page, number, view.figure)
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
    """The figure says what Python says, and its points are the medians: at every place where these are few."""
    names, scene = view.slider_names, view.fresh()
    if scene.view.form == "lines" and scene.view.x not in names:
        names = (*names, scene.view.x)  # a figure that stands still has a slider on a page
    every = list(product(*(range(len(scene.values[name])) for name in names)))
    told = every if len(every) <= FEW else chance.sample(every, DRAWN)
    for index, (said, points) in zip(told, page.places(number, told), strict=True):
        for name, at in zip(names, index, strict=True):
            scene.move(name, scene.values[name][at])
        assert said == words.verdict(scene), index
        for name, value in points:
            assert math.isclose(value, scene.here()[name].median, rel_tol=1e-4), (index, name)
    return len(told)


def _figure(page: Opened, number: int, figure: Any) -> int:
    """At each place what the data have there."""
    places = list(product(*(range(len(slider["texts"])) for slider in figure["sliders"])))
    for form, (said, _) in zip(figure["say"]["at"], page.places(number, places), strict=True):
        assert said == figure["say"]["forms"][form]
    return len(places)


def svg_of(figure: Any) -> str:
    """A whole drawing, as matplotlib makes it."""
    pieces = Pieces()
    return "".join(pieces.all[number] for number in pieces.draw(figure)["still"])


def texts_of(drawing: str) -> list[str]:
    """The texts of a drawing, line by line."""
    return [unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)<", drawing)]


def _drawing(page: Opened, number: int, view: Drawing, chance: random.Random) -> int:
    indices = list(product(*(range(len(dial.values)) for dial in view.dials)))
    found = page.states(number, [{"index": index} for index in indices])
    for n in {chance.randrange(len(indices)) for _ in range(DRAWN)}:
        settings = {dial.name: dial.values[at] for dial, at in zip(view.dials, indices[n], strict=True)}
        with kept_figures():
            made = view._draw(settings)
        said, seen = found[n]
        assert said == f"At {view._place(settings)}: {made.alt}"
        assert Counter(seen) == Counter(texts_of(svg_of(made.figure)))
    return len(indices)


def _timeline(page: Opened, number: int, view: TimelineView) -> int:
    """At each place what the timeline there says, and the spans that begin in its window."""
    selection, values = view.selection, values_of(view.selection)
    every = list(product(range(len(selection.variants)), range(len(values)) if values != [None] else (0,)))
    places = [(one, other) if selection.axis else (one,) for one, other in every]
    for (one, other), (said, _) in zip(every, page.places(number, places), strict=True):
        found = selection.at_place(selection.variants[one], values[other])
        assert said == ("Not traced here." if found is None else verdict(found))
    return len(places)


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
