"""Exercises 05-transformer and 05-passes: right answers are taken, each usual mistake gets its own hint."""

from __future__ import annotations

from typing import Any

import pytest

from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises import lesson_05_layer as layer


def test_the_right_share_of_the_time() -> None:
    assert check("05-transformer", flop=24 * 8192 * 1024**2, nbytes=302e6, share=0.187).right


@pytest.mark.parametrize(
    ("flop", "nbytes", "share", "hint"),
    [
        (0.5, 1, 1, "six of them"),
        (0.5 * layer.PRODUCTS, 1, 1, "two FLOP"),
        (layer.PRODUCTS / 3, 1, 1, "four times the width"),
        (layer.PRODUCTS, 2 * layer.BYTES, 1, "two bytes"),
        (layer.PRODUCTS, layer.BYTES * 12 / 18, 1, "GELU"),
        (layer.PRODUCTS, layer.BYTES * 16 / 18, 1, "reads two arrays"),
        (layer.PRODUCTS, 5, 1, "reads its inputs"),
        (layer.PRODUCTS, layer.BYTES, 18.7, "from 0 to 1"),
        (layer.PRODUCTS, layer.BYTES, 0.23, "FLOP over FLOP/s"),
        (-1, 1, 1, "above 0"),
        (1, "many", 1, "above 0"),
    ],
)
def test_each_slip_in_the_layer_has_its_hint(flop: Any, nbytes: Any, share: Any, hint: str) -> None:
    mark = check("05-transformer", flop=flop, nbytes=nbytes, share=share)
    assert mark.status == "wrong" and hint in mark.hint


def passes(memory: Any, n: int) -> None:
    for i in range(n):
        memory.write("sum", i, memory.read("x", i) + memory.read("b", i))
    for i in range(n):
        memory.write("y", i, max(memory.read("sum", i), 0.0) * memory.read("g", i))


def one_pass(memory: Any, n: int) -> None:
    for i in reversed(range(n)):
        memory.write("y", i, max(memory.read("x", i) + memory.read("b", i), 0.0) * memory.read("g", i))


def no_relu(memory: Any, n: int) -> None:
    for i in range(n):
        memory.write("y", i, (memory.read("x", i) + memory.read("b", i)) * memory.read("g", i))


def test_one_pass_is_right() -> None:
    assert check("05-passes", gated=one_pass).right


@pytest.mark.parametrize(
    ("gated", "said"),
    [
        (passes, "6 reads and writes"),
        (no_relu, "not relu"),
        (lambda memory, n: None, "not relu"),
        (lambda memory, n: memory.read("t", 0), "KeyError"),
        (7, "not a function"),
    ],
)
def test_wrong_passes(gated: Any, said: str) -> None:
    mark = check("05-passes", gated=gated)
    assert mark.status == "wrong" and said in mark.text
