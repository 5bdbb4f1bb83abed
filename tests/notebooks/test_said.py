"""What the lessons' figures say: first of all the number that was guessed, and nothing as a program calls it."""

import os
import re
from functools import cache
from math import prod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from harness import build_script
from interpreter import load_before_a_cell_does

from brrr_course.lessons.answers import Quantity
from brrr_course.lessons.cells import Cells
from brrr_course.lessons.guessing import Guess, forget
from brrr_course.lessons.waiting import Waiting
from brrr_course.view import words
from brrr_course.view.explorer import Explorer
from brrr_course.view.figure import MOST_ON, figure_of

build = build_script()
LONGEST = words.LONGEST + 2  # a letter or two more do no harm
each_lesson = pytest.mark.parametrize("source", build.lessons(), ids=lambda source: source.stem)


@cache
def shown(source: Path) -> tuple[list[Any], dict[int, str]]:
    """What a lesson's cells show, and by guess the number that `compare` says was measured."""
    notebook, seen = build.read(source), list[Any]()
    cells = Cells(source.stem, seen.append, str)
    with patch.dict(os.environ, {**build.edition(notebook), "BRRR_STATIC": ""}), cells.on_stage():
        forget()
        load_before_a_cell_does()
        for cell in notebook.cells:
            if cell.cell_type == "code" and "your-turn" not in cell.metadata.get("tags", []):
                cells.run(cell.source)
        for asked in (each for each in seen if isinstance(each, Guess) and isinstance(each.form, Quantity)):
            asked.answer(f"3 {asked.form.unit}")
        waiting = [each for each in seen if isinstance(each, Waiting) and isinstance(each.guess.form, Quantity)]
        found = [(id(each.guess), re.search(r"measured (.+?)x?(?: \(no difference\))?: ", each.compared().text))
                 for each in waiting]  # fmt: skip
        forget()
    return seen, {guess: match[1] for guess, match in found if match}


@each_lesson
def test_a_figure_s_sentence_has_the_number_that_was_guessed_and_elsewhere_the_same_quantity(source: Path) -> None:
    seen, measured = shown(source)
    explorers = [each for each in seen if isinstance(each, Explorer) and not each.scene.source.live]  # that has to wait
    for explorer in (each for each in explorers if id(each.unlock) in measured):
        scene, number = explorer.scene, measured[id(explorer.unlock)]
        said = words.verdict(scene)
        number = "takes as long as" if number == "0.999" else f"{re.escape(number)}(?![\\d.]\\d)"
        assert said.startswith("You said 3") and re.search(rf"\s{number}", said), said
        for name in explorer.slider_names:
            scene.move(name, scene.values[name][0])
            if scene.answer is not None:
                assert scene.said(scene.answer).rstrip("×") in words.verdict(scene)
    assert any(isinstance(each, Guess) for each in seen)


@each_lesson
def test_a_figure_begins_with_few_lines_of_short_names_at_a_point_that_nothing_contradicts(source: Path) -> None:
    for explorer in (each for each in shown(source)[0] if isinstance(each, Explorer)):
        figure = figure_of(explorer.fresh(), explorer.slider_names)
        drawn = [line for line in figure.get("lines", ()) if not line.get("kind")]
        assert sum(line["on"] for line in drawn) <= MOST_ON
        assert [line["short"] for line in figure.get("lines", ()) if len(line["short"]) > LONGEST] == []
        sizes = [len(slider["texts"]) for slider in figure["sliders"]]
        place = sum(slider["at"] * prod(sizes[at + 1 :]) for at, slider in enumerate(figure["sliders"]))
        told = [figure[kind]["forms"][figure[kind]["at"][place]] for kind in ("say", "more")]
        assert not re.search(r"Doubtful|\d\^\d|nbytes", " ".join(told)), told
