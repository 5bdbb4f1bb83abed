"""The exercises of lesson 03: the checks take right answers and refuse wrong ones, with a hint that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Measurement
from brrr.course.experiments import experiment
from brrr.course.lessons.checking import check
from brrr.course.lessons.exercises import lesson_03
from brrr.course.lessons.exercises.lesson_01_crossover import Bracket
from brrr.course.lessons.exercises.lesson_03 import ROWS, WANTED, chatty, waiting_ends
from brrr.course.nouns.source import Evidence
from brrr.timing.cpu_queue import CpuQueue


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


class Shares:
    """A source of `run_ahead` with a given idle share at each size, on the GPU or on the queue."""

    def __init__(self, name: str, variant: str, shares: dict[int, float]) -> None:
        self.name, self.variant, self.shares = name, variant, shares

    def known(self, described: object, variant: str) -> dict[tuple[int], Measurement]:
        if variant != self.variant:
            return {}
        period = Estimate(1e-3, 1e-3, 1e-3, 40)
        field = "busy_s" if variant == "eager" else "kernel_s"
        made = {}
        for size, idle in self.shares.items():
            busy = Estimate((1 - idle) * 1e-3, (1 - idle) * 1e-3, (1 - idle) * 1e-3, 40)
            fields: dict[str, Any] = {"period_s": period, field: busy}
            made[(size,)] = Measurement(**fields)
        return made

    def badge(self, described: object) -> str:
        return f"badge of {self.name}"


AHEAD = experiment("run_ahead")
GPU = {1024: 0.9, 65536: 0.6, 2**20: 0.2, 2**22: 0.05, 2**24: 0.01}


@pytest.mark.parametrize("variant", ["eager", "queue"])
def test_where_the_waiting_ends(variant: str) -> None:
    source: Any = Shares("made up", variant, GPU)
    assert waiting_ends(Evidence(AHEAD, source)) == Bracket(2**20, 2**22)


@pytest.mark.parametrize("shares", [{1024: 0.9, 65536: 0.5}, {1024: 0.05, 65536: 0.01}, {}])
def test_one_side_alone_says_nothing(shares: dict[int, float]) -> None:
    source: Any = Shares("made up", "eager", shares)
    with pytest.raises(NotRecordedError):
        waiting_ends(Evidence(AHEAD, source))


@pytest.mark.parametrize(
    ("elements", "right", "hint"),
    [
        (2**22, True, ""), (2**21, True, ""), (2**20 + 1, True, ""), (2**20, False, "still idle"),
        (1024, False, "still idle"), (2**23, False, "already below"), ("many", False, "a number of elements"),
        (True, False, "a number of elements"), (float("nan"), False, "already below"),
    ],
)  # fmt: skip
def test_the_mark(monkeypatch: pytest.MonkeyPatch, elements: Any, right: bool, hint: str) -> None:
    monkeypatch.setattr(lesson_03, "source", lambda name=None: Shares(name or "cpu", "eager", GPU))
    mark = check("03-ahead", elements=elements)
    assert mark.right is right and hint in mark.hint
    assert "badge of cpu" in mark.text or elements in ("many", True)


def test_the_recording_answers_where_this_session_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    def source(name: str | None = None) -> Any:
        return Shares(name, "eager", GPU) if name else Shares("cpu", "eager", {1024: 0.9})

    monkeypatch.setattr(lesson_03, "source", source)
    mark = check("03-ahead", elements=2**22)
    assert mark.right and "badge of recorded:h200" in mark.text


def test_a_queue_of_named_jobs_can_be_traced() -> None:
    """The timeline of the queue shows the names of the jobs, so they must have some."""
    workload = AHEAD.workload("queue", {"elements": 1024})
    assert isinstance(workload.queue, CpuQueue)
    with workload.queue.noting() as tickets:
        workload.check()
    workload.close()
    assert [ticket.name for ticket in tickets] == ["first", *["multiply"] * 19]
