"""Exercises 04-knee and 04-slips: the check takes right answers, and says which slip is in a wrong one."""

from __future__ import annotations

from typing import Any

import pytest

from brrr.core.errors import ArgumentError
from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises.lesson_04 import as_printed, right_bandwidth, right_rate


def marked(**changed: Any) -> Any:
    given = {"float_bytes": 4, "bandwidth": right_bandwidth, "flops": right_rate, **changed}
    return check("04-slips", **given)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"float_bytes": 32 / 8},
        {"bandwidth": lambda n, s: 8 * n / (1 / s)},
        {"flops": lambda n, repeat, per_second: n * repeat * per_second},
    ],
)
def test_right_answers(changed: dict[str, Any]) -> None:
    mark = marked(**changed)
    assert mark.right and "104 operations" in mark.text and "375 billion" in mark.text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"float_bytes": 8}, "8 bytes are 64 bits"),
        ({"float_bytes": 32}, "a byte has 8 bits"),
        ({"float_bytes": "4"}, "number of bytes"),
        ({"float_bytes": True}, "number of bytes"),
        ({"float_bytes": float("nan")}, "a 32-bit float has not nan bytes"),
        ({"bandwidth": 5}, "not a function"),
        ({"bandwidth": as_printed}, "both slips"),
        ({"bandwidth": lambda n, s: 8 * n / s}, "the division is not"),
        ({"bandwidth": lambda n, s: 16 * n * s}, "8 bytes a float"),
        ({"bandwidth": lambda n, s: 4 * n * s}, "one access"),
        ({"bandwidth": lambda n, s: 2 * n * s}, "not bytes"),
        ({"bandwidth": lambda n, s: 8 * n * s / 1e9}, "gb/s"),
        ({"bandwidth": lambda n, s: 1.0}, "expected"),
        ({"bandwidth": lambda n, s: None}, "gave none"),
        ({"bandwidth": lambda n, s: float("nan")}, "gave nan"),
        ({"bandwidth": lambda n: n}, "raised typeerror"),
        ({"flops": lambda n, r, s: n * r / s}, "the same division"),
        ({"flops": lambda n, r, s: 2 * n * r * s}, "one flop"),
        ({"flops": lambda n, r, s: n * s}, "`repeat` times"),
        ({"flops": lambda n, r, s: 0}, "expected"),
        ({"flops": None}, "not a function"),
    ],
)
def test_wrong_answers_are_refused_with_a_hint(changed: dict[str, Any], said: str) -> None:
    mark = marked(**changed)
    assert mark.status == "wrong" and said in repr(mark).lower(), mark


def test_not_answered() -> None:
    assert check("04-slips", float_bytes=..., bandwidth=right_bandwidth, flops=...).status == "not answered"
    with pytest.raises(ArgumentError, match="04-slips"):
        check("04-slips", float_bytes=4)


def test_the_knee_is_calculated() -> None:
    assert check("04-knee", intensity=7, repeat=56).right


@pytest.mark.parametrize(
    ("intensity", "repeat", "hint"),
    [
        (7e-12, 56, "like by like"),
        (0.143, 56, "not the other way"),
        (13.96, 56, "half that of FMAs"),
        (3, 56, "peak over the bandwidth"),
        (7, 28, "and it is written"),
        (7, 7, "so many bytes"),
        (-7, 56, ""),
        ("seven", 56, ""),
    ],
)
def test_each_slip_at_the_knee_has_its_hint(intensity: Any, repeat: Any, hint: str) -> None:
    mark = check("04-knee", intensity=intensity, repeat=repeat)
    assert mark.status == "wrong" and hint in mark.hint
