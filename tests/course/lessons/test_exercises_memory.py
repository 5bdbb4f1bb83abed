"""Exercises 04b-mend and 04b-little: right answers are taken, each usual mistake gets its own hint."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises import lesson_04b

Place = Callable[[int, int], object]


def reversed_stretch(thread: int, step: int) -> int:
    """Also coalesced: the stretches from behind, the threads turned round."""
    return lesson_04b.MATRIX_NUMBERS - 1 - lesson_04b.coalesced(thread, step)


@pytest.mark.parametrize("place", [lesson_04b.coalesced, reversed_stretch])
def test_neighbours_are_right(place: Place) -> None:
    mark = check("04b-mend", place=place)
    assert mark.right and "64 sectors" in mark.text


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (lesson_04b.as_given, "512 sectors"),
        (lambda thread, step: step * 32 + thread ^ 8, "64 sectors"),
        (lambda thread, step: (thread % 16) * 32 + thread // 16 + 2 * step, "256 sectors"),
        (lambda thread, step: thread, "read 16 times"),
        (lambda thread, step: step * 33 + thread, "gave 512"),
        (lambda thread, step: thread / 2, "no whole number"),
        (lambda thread, step: True, "no whole number"),
        (3, "not a function"),
        (lambda thread, step: 1 // 0, "ZeroDivisionError"),
    ],
)
def test_places_by_what_is_said(place: object, said: str) -> None:
    mark = check("04b-mend", place=place)
    assert said in mark.text
    assert mark.right == (said == "64 sectors")


def test_sectors_by_hand() -> None:
    assert lesson_04b.sectors(lesson_04b.coalesced) == lesson_04b.FEWEST == 512 * 4 // 32
    assert lesson_04b.sectors(lesson_04b.as_given) == 32 * 16, "each thread its own sector, in each step"
    assert lesson_04b.sectors(lambda thread, step: 4 + lesson_04b.coalesced(thread, step)) == 16 * 5, "crooked"


def test_a_right_number_of_loads() -> None:
    assert check("04b-little", bytes_in_flight=1.92e6, loads=2).right


@pytest.mark.parametrize(
    ("bytes_in_flight", "loads", "said"),
    [
        (1.92e15, 2, "nanoseconds"),
        (1.92e-6, 2, "terabytes"),
        (14545, 2, "one multiprocessor"),
        (1e6, 2, "is 1e+06"),
        (1.92e6, 1, "too few"),
        (1.92e6, 1.776, "too few"),
        (1.92e6, 8, "`loads` is 8"),
        ("many", 2, "many"),
        (1.92e6, -1, "-1"),
    ],
)
def test_wrong_loads_in_flight(bytes_in_flight: object, loads: object, said: str) -> None:
    mark = check("04b-little", bytes_in_flight=bytes_in_flight, loads=loads)
    assert not mark.right and said in f"{mark.text} {mark.hint}"


def test_unanswered() -> None:
    assert (
        check("04b-mend", place=...).status
        == check("04b-little", bytes_in_flight=..., loads=...).status
        == "not answered"
    )
