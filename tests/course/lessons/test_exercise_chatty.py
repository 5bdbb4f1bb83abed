"""The exercises of lesson 03: the checks take right answers and refuse wrong ones, with a hint that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises.lesson_03 import ROWS, WANTED, chatty


@pytest.fixture(autouse=True)
def _on_this_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_SOURCE", "cpu")


def quiet(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)


# ---------------------------------------------------------------- 03-chatty


@pytest.mark.parametrize(
    "answer",
    [
        quiet,
        lambda x: ((x.T - x.mean(1)) / x.std(1)).T,
        lambda x: (lambda var, mean: (x - mean) * var.rsqrt())(*torch.var_mean(x, 1, keepdim=True)),
    ],
)
def test_few_orders_for_all_rows_are_right(answer: Callable[[torch.Tensor], torch.Tensor]) -> None:
    mark = check("03-chatty", quiet=answer)
    print(mark)
    assert mark.right and "LIVE · " in mark.text


def half_as_chatty(x: torch.Tensor) -> torch.Tensor:
    mean = x.mean(1)
    return torch.stack([(row - mean[at]) / row.std() for at, row in enumerate(x)])


@pytest.mark.parametrize("answer", [chatty, half_as_chatty])
def test_the_loop_itself_is_right_but_too_slow(answer: Callable[[torch.Tensor], torch.Tensor]) -> None:
    mark = check("03-chatty", quiet=answer)
    print(mark)
    assert mark.status == "wrong" and "the result is right, but" in mark.text.lower()
    assert f"{WANTED:g}x is wanted" in mark.text and "dim=1" in mark.hint


def in_place(x: torch.Tensor) -> torch.Tensor:
    return x.sub_(x.mean(1, keepdim=True)).div_(x.std(1, keepdim=True))


def for_one_shape(x: torch.Tensor) -> torch.Tensor:
    return quiet(x) if len(x) == ROWS else torch.zeros_like(x)


def remembering() -> Callable[[torch.Tensor], torch.Tensor]:
    known: dict[tuple[int, int], torch.Tensor] = {}

    def answer(x: torch.Tensor) -> torch.Tensor:
        return known.setdefault((x.data_ptr(), x.numel()), quiet(x))

    return answer


def growing() -> Callable[[torch.Tensor], torch.Tensor]:
    calls: list[int] = []

    def answer(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 4:
            raise ValueError("the fifth call")
        return quiet(x)

    return answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (3, "not a function"),
        (lambda x: None, "returned nonetype"),
        (lambda x: quiet(x).tolist(), "returned list"),
        (lambda x: quiet(x).half(), "torch.float16"),
        (lambda x: quiet(x)[:1], "(1, 64)"),
        (lambda x: quiet(x).T.contiguous(), "(64, 128)"),
        (lambda x: x * float("nan"), "nan"),
        (lambda x: x, "differs"),
        (lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True, correction=0), "divides by n;"),
        (lambda x: (x - x.mean()) / x.std(), "mean is that of all numbers"),
        (lambda x: (x - x.mean(0)) / x.std(0), "differs"),
        (lambda x: (x - x.mean(1)) / x.std(1), "raised runtimeerror"),
        (lambda: None, "raised typeerror"),
        (in_place, "changes its input"),
        (for_one_shape, "differs"),
        (remembering(), "with new numbers"),
        (growing(), "raised valueerror: the fifth call"),
    ],
)
def test_wrong_answers_are_refused(answer: Any, said: str) -> None:
    mark = check("03-chatty", quiet=answer)
    assert mark.status == "wrong" and said in repr(mark).lower(), mark


def test_not_answered() -> None:
    assert check("03-chatty", quiet=...).status == "not answered"
    assert check("03-ahead", elements=...).status == "not answered"


# ---------------------------------------------------------------- 03-ahead


@pytest.mark.parametrize(
    ("elements", "hint"),
    [
        (2.1e6, ""),
        (2**21, ""),
        (2.625e6, "kernel's start"),
        (4.2e6, "read, and written"),
        (16.8e6, "Those are the bytes"),
        (1024, "Start and bytes"),
        (0, "above 0"),
        ("many", "above 0"),
    ],
)
def test_when_the_gpu_stops_waiting(elements: Any, hint: str) -> None:
    mark = check("03-ahead", elements=elements)
    assert mark.right == (not hint) and hint in mark.hint
