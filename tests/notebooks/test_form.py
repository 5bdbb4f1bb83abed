"""The lessons keep the form, and each rule of the form can be broken."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import rules
from harness import LESSONS, NOTEBOOKS, SOLUTIONS, read
from parts_rules import ALL_RULES

CASES = [pytest.param(lesson, rule, id=f"{lesson.stem}-{rule.__name__}") for lesson in LESSONS for rule in ALL_RULES]


@pytest.mark.parametrize(("lesson", "rule"), CASES)
def test_lesson_keeps_the_form(lesson: Path, rule: Callable[[Any], list[str]]) -> None:
    assert rule(read(lesson)) == []


def test_there_are_lessons() -> None:
    assert {"00_start_here", "01_async_timing"} <= {path.stem for path in LESSONS}


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_every_exercise_has_its_answer(lesson: Path) -> None:
    solution = NOTEBOOKS / "solutions" / lesson.name
    assert solution in SOLUTIONS
    asked, answered = _exercises(lesson), _exercises(solution)
    assert asked == answered
    assert asked


def _exercises(path: Path) -> list[str]:
    return [tag for cell in read(path).cells for tag in rules.tags(cell) if tag.startswith("exercise:")]


def _markdown(source: str, *tags: str) -> Any:
    return nbformat.v4.new_markdown_cell(source, metadata={"tags": list(tags)})


def _code(source: str, *tags: str) -> Any:
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)})


def _notebook(*cells: Any) -> Any:
    return nbformat.v4.new_notebook(cells=list(cells))


def _printed(source: str) -> Any:
    cell = _code(source, "nbval-check-output")
    cell.outputs = [nbformat.v4.new_output("display_data", data={"text/html": "<b>1</b>"})]
    return cell


def _in_order() -> list[Any]:
    return [_markdown("a", stage) for stage in rules.STAGES]


BROKEN = [
    (rules.too_long, _notebook(*[_code("1") for _ in range(26)]), "26 cells"),
    (rules.too_long, _notebook(_code("1\n" * 13)), "13 lines"),
    (rules.too_long, _notebook(_markdown("word " * 1001)), "1001 words"),
    (rules.too_long, _notebook(_code("explore(1)\n" * 4)), "4 explorers"),
    (rules.too_long, _notebook(_code("check(1)\n" * 3)), "3 exercises"),
    (rules.out_of_order, _notebook(*_in_order()[1:]), "no question"),
    (rules.out_of_order, _notebook(*_in_order(), _markdown("b", "run")), "run comes after next"),
    (rules.out_of_order, _notebook(*_in_order(), _markdown("b")), "no tag says"),
    (rules.helpers, _notebook(_code("def f(): pass")), "FunctionDef"),
    (rules.helpers, _notebook(_code("f = lambda: 1")), "Lambda"),
    (rules.figures_in_prose, _notebook(_markdown("It takes 25 µs.")), "25 µs"),
    (rules.figures_in_prose, _notebook(_markdown("It is 2.4x faster.")), "2.4x"),
    (rules.checks_text_only, _notebook(_code("print(compare())", "nbval-check-output")), "no recording"),
    (rules.checks_text_only, _notebook(_printed("1")), "more than text"),
    (rules.shows_what_held, _notebook(_markdown("# 01 · a")), "0 cells"),
    (rules.shows_what_held, _notebook(_markdown("# 01 · a"), _code('claims("01")'), _code("claims()")), "2 cells"),
    (rules.shows_what_held, _notebook(_markdown("# 01 · a"), _code('claims("01")')), "claims stand below '# 01"),
    (rules.shows_what_held, _notebook(_markdown("# 01 · a"), _code('claims("02")')), "in lesson 01"),
]


@pytest.mark.parametrize(("rule", "notebook", "found"), BROKEN)
def test_each_rule_can_be_broken(rule: Callable[[Any], list[str]], notebook: Any, found: str) -> None:
    assert found in "\n".join(rule(notebook))


def test_a_figure_without_sliders_is_no_explorer() -> None:
    standing = _code('explore("a", sliders=[])\n' * 3 + 'explore("a", sliders=["b"])\n' * 3)
    assert rules.too_long(_notebook(standing)) == []
    assert rules.too_long(_notebook(_markdown(f"```\n{'word ' * 1001}\n```"))) == []


def test_the_order_allows_a_second_round() -> None:
    again = [*_in_order()[:5], *_in_order()[1:5], *_in_order()[5:]]
    assert rules.out_of_order(_notebook(*again)) == []
