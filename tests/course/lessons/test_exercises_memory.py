"""Exercises 04b-mend and 04b-share: right answers are taken, each usual mistake gets its own hint."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from brrr.course.lessons.checking import check
from brrr.course.lessons.exercises import lesson_04b
from brrr.course.lessons.exercises import lesson_04b as shares

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


@pytest.mark.parametrize("piece", shares.PIECES)
@pytest.mark.parametrize("stride", shares.STRIDES)
def test_the_formula_is_what_counting_gives(stride: int, piece: int) -> None:
    assert shares.share(stride, piece) == pytest.approx(shares.counted(stride, piece), rel=shares.CLOSE)


def test_a_right_share() -> None:
    assert check("04b-share", share=shares.share).right
    assert check("04b-share", share=lambda stride, piece: 1 / min(stride, piece // 4)).right


@pytest.mark.parametrize("number", range(len(shares.KNOWN)))
def test_each_known_mistake_has_its_hint(number: int) -> None:
    formula, what, hint = shares.KNOWN[number]
    mark = check("04b-share", share=formula)
    assert not mark.right and mark.text == what and mark.hint == hint


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (lambda stride, piece: 0.5, "counted"),
        (lambda stride, piece: None, "gave None"),
        (lambda stride, piece: float("nan"), "gave nan"),
        (0.125, "not a function"),
        (lambda stride: 1.0, "TypeError"),
    ],
)
def test_other_wrong_shares(share: object, said: str) -> None:
    mark = check("04b-share", share=share)
    assert not mark.right and said in mark.text


def test_unanswered() -> None:
    assert check("04b-mend", place=...).status == check("04b-share", share=...).status == "not answered"
