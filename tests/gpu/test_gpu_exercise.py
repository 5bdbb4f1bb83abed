"""Exercise 01-timer on the GPU: the same marks as on the CPU queue, with spinning kernels in place of sleeps."""

from typing import Any

import pytest

from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises.lesson_01_timer import WORK_S
from brrr_course.lessons.pretend import busy_gpu


@pytest.fixture(autouse=True)
def _live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_SOURCE", "cuda")


def good(call: Any, synchronize: Any, event: Any) -> float:
    call()
    start = event()
    for _ in range(30):
        call()
    end = event()
    synchronize()
    return float(start.elapsed(end) / 30)


def test_a_right_timer_is_right_on_the_gpu() -> None:
    mark = check("01-timer", timer=good)
    assert mark.right, mark
    assert "CPU QUEUE" not in mark.text


def test_the_gpu_is_busy_for_as_long_as_was_asked() -> None:
    busy = busy_gpu()
    start = busy.event()
    busy.submit(10 * WORK_S)
    end = busy.event()
    assert not end.query()
    busy.synchronize()
    took = start.elapsed_time(end) * 1e-3
    print(f"asked for {10 * WORK_S} s, busy for {took} s")
    assert 0.9 < took / (10 * WORK_S) < 2
