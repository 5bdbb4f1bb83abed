"""What marks the exercises of data/exercises.toml: formulas, kinds, slips, measurements, and the file itself."""

import math
import re
from typing import Any

import pytest

from brrr.core.errors import ArgumentError
from brrr_course.lessons.calculations import KINDS, cases, exercise_of, rules, tables, told, value_of
from brrr_course.lessons.marks import Mark

MADE_UP = {
    "given": {"n": 3, "right": "2 * n"},
    "right": "{x:g} of {right}, after a {word}",
    "answers": {
        "word": {"words": ["cat", "dog"], "is": "dog", "text": "no {word}", "hint": "it barks"},
        "x": {"is": "right", "within": 0.1, "text": "{x:x}?", "hint": "double it",
              "slips": [{"is": "n", "hint": "twice"}, {"to": 1, "text": "{x!r} is little"}, {"from": 100, "to": 200}]},
        "f": {"arguments": {"a": [2, 9], "b": [2, 9]}, "is": "right * a / b", "text": "{returned!r}?",
              "hint": "six times", "slips": [{"is": "n * a / b", "text": "{arguments} gives half"}]},
        "whole": {"from": 8, "to": 20, "multiple_of": 4, "kind": "whole", "hint": "fours", "junk": "{whole} in parts"},
    },
}  # fmt: skip


def marked(table: dict[str, Any] = MADE_UP, **answers: Any) -> Mark:
    given = {"word": "dog", "x": 6, "f": lambda a, b: 6 * a / b, "whole": 12, **answers}
    return exercise_of("made up", table).marked(**given)


@pytest.mark.parametrize(
    ("answers", "text", "hint"),
    [
        ({}, "6 of 6, after a dog", ""),
        ({"x": 5.5, "whole": 8}, "5.5 of 6, after a dog", ""),
        ({"word": "cat", "x": 3}, "no cat", "it barks"),
        ({"word": "cow"}, "you wrote 'cow' for `word`.", "One of cat, dog."),
        ({"x": 3.2}, "3.2x?", "twice"),
        ({"x": 0.5}, "0.5 is little", "double it"),
        ({"x": 150}, "150x?", "double it"),
        ({"x": 50}, "50x?", "double it"),
        ({"x": True, "word": "cat"}, "you wrote True for `x`.", "Write a number above 0."),
        ({"x": math.nan}, "you wrote nan for `x`.", "Write a number above 0."),
        ({"f": lambda a, b: None}, "None?", "six times"),
        ({"f": lambda a, b: math.nan}, "nan?", "six times"),
        ({"whole": 10}, "you wrote 10 for `whole`.", "fours"),
        ({"whole": 24}, "you wrote 24 for `whole`.", "fours"),
        ({"whole": 8.0}, "6 of 6, after a dog", ""),
        ({"whole": 8.5}, "8.5 in parts", "Write a whole number."),
    ],
)
def test_the_first_answer_that_is_not_right_decides(answers: dict[str, Any], text: str, hint: str) -> None:
    mark = marked(**answers)
    assert (mark.text, mark.hint, mark.right) == (text, hint, "after a" in text)


def test_a_function_that_is_known_to_be_wrong_is_told_on_what_it_was_tried() -> None:
    mark = marked(f=lambda a, b: 3 * a / b)
    assert re.fullmatch(r"\((\d\.0), (\d\.0)\) gives half", mark.text) and mark.hint == "six times"


def measured(answers: Any) -> list[dict[str, Any]]:
    return [{"right": 6, "where": "here"}, {"right": 9 * answers["factor"], "where": "there"}]


def test_an_answer_fits_one_of_several_measurements_and_the_first_ones_slips_are_told() -> None:
    table: dict[str, Any] = {"names": f"{__name__}:measured", "given": {"half": "right / 2"}, "right": "{where}"}
    numbers = {"is": "right", "text": "not {where}", "hint": "no", "slips": [{"is": "half", "hint": "half of it"}]}
    table["answers"] = {"factor": {"is": 2, "hint": ""}, "x": numbers}
    found = exercise_of("", table)
    assert found.marked(factor=2, x=6) == Mark("right", "here")
    assert found.marked(factor=2, x=18) == Mark("right", "there")
    assert found.marked(factor=2, x=3) == Mark("wrong", "not here", "half of it")
    assert found.marked(factor=2, x=9) == Mark("wrong", "not here", "no")


def test_formulas() -> None:
    assert value_of("-(a + 2) * 3 / 2 ** 2 - 1", {"a": 6}) == -7
    assert value_of("max(1, ceil(a), floor(2.5), min(9, 4)) + sqrt(16) + log2(8)", {"a": 0.5}) == 11
    assert value_of(5, {}) == 5


@pytest.mark.parametrize(
    "formula",
    ["b", "a.real", "a[0]", "'x' * 3", "True", "a // 2", "open('x')", "max(1, key=a)", "max(*a)", "a < 1",
     "(lambda: 1)()", "__import__('os')", "1 +", "[1]"],
)  # fmt: skip
def test_a_formula_is_of_numbers_alone(formula: str) -> None:
    with pytest.raises(ArgumentError, match=r"exercises\.toml"):
        value_of(formula, {"a": 1})


def test_texts() -> None:
    assert told("{a} {a!r} {a:g} {a:.2f} {a:s} {a:B/s} {a:x} {a:%}", {"a": 0.25}) == (
        "0.25 0.25 0.25 0.25 250 ms 0.25 B/s 0.25x 25 %"
    )


KEYS = {"is", "within", "from", "to", "multiple_of", "arguments", "text", "hint", "slips", "kind", "words"}
KEYS |= {"junk", "junk_hint", "unit"}


@pytest.mark.parametrize("exercise", tables())
def test_the_file_says_what_its_head_allows_and_each_slip_can_be_told(exercise: str) -> None:
    table = tables()[exercise]
    assert set(table) <= KEYS | {"given", "names", "right", "answers"}
    for name, answer in table["answers"].items():
        found = [] if "arguments" in answer else rules(name, answer, cases(table, {}))
        rows, kind = [answer, *answer.get("slips", [])], answer.get("kind", "above 0")
        assert all(set(row) <= KEYS and {*row} & {"is", "from", "to"} for row in rows) and kind in KINDS
        assert all(rule.text and rule.hint for rule in found)
        if found and "words" not in answer:
            tried = [x for rule in found[:-1] for x in (rule.low, rule.high, 50_264, 80_000)]
            first = [next((n for n, rule in enumerate(found[:-1]) if rule.takes(x)), None) for x in tried]
            behind = {*range(len(found) - len(rows), len(found) - 1)}
            assert {*first} >= behind, "no slip stands behind another that takes all of its answers"
