"""The views of a page at some places of their sliders; its comparisons and marks against Python's own."""

import math
import random
from html import unescape
from itertools import permutations, product
from typing import Any

from opened import NOTEBOOKS, Opened

from brrr_course.lessons.answers import Choice, Quantity, Ranking
from brrr_course.lessons.checking import exercises
from brrr_course.lessons.guessing import Guess
from brrr_course.site.exercises import typed
from brrr_course.view.display import signed
from brrr_course.view.figure import place_of

DRAWN = 8
"""Places of each view at which somebody looks."""


def swept(page: Opened) -> int:
    """Stand at some places of every view, with its guesses given; returns how many were seen."""
    page.answer([usual(each) for each in page.made.seen if isinstance(each, Guess)])
    chance, count = random.Random(page.made.name), 0
    for number, view in enumerate(page.made.lesson.shown["view"]):
        sliders = (view.get("scene") or view)["sliders"]
        every = list(product(*(range(len(each["texts"])) for each in sliders)))
        told = chance.sample(every, min(DRAWN, len(every)))
        if (scene := view.get("scene")) is not None:
            for place, (said, rows) in zip(told, page.places(number, told), strict=True):
                at = place_of([{**each, "at": at} for each, at in zip(sliders, place, strict=True)])
                told_here = scene["say"]["forms"][scene["say"]["at"][at]]
                assert said.endswith(told_here.replace("\u00a0", " ")), said  # behind what was guessed
                bars = [each for each in scene.get("bars", ()) if each["at"][at]]
                assert "lines" in scene or rows == len(bars) + len(scene.get("parts", ())), "the data table"
        else:
            for said, seen in page.states(number, [{"index": index} for index in told]):
                assert (said.startswith("At ") and seen) or not sliders
        count += len(told)
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
