"""Exercise 01-timer on the GPU: the same marks as on the CPU queue, with spinning kernels in place of sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import pytest

from brrr.course.lessons.checking import check
from brrr.course.lessons.exercises.lesson_01_timer import WORK_S, CudaBusy

Call, Sync, Clock = Callable[[], None], Callable[[], None], Callable[[], float]


@pytest.fixture(autouse=True)
def _live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_SOURCE", "cuda")


def good(call: Call, synchronize: Sync, clock: Clock) -> float:
    call()
    times = []
    for _ in range(9):
        synchronize()
        start = clock()
        call()
        synchronize()
        times.append(clock() - start)
    return median(times)


def naive(call: Call, synchronize: Sync, clock: Clock) -> float:
    start = clock()
    call()
    return clock() - start


def test_a_right_timer_is_right_on_the_gpu() -> None:
    mark = check("01-timer", timer=good)
    assert mark.right, mark
    assert "CPU QUEUE" not in mark.text


def test_the_naive_timer_is_wrong_on_the_gpu() -> None:
    assert "while the work is still running" in check("01-timer", timer=naive).text.lower()


def test_the_gpu_is_busy_for_as_long_as_was_asked() -> None:
    busy = CudaBusy()
    busy.submit(WORK_S)
    busy.synchronize()
    start = time.perf_counter()
    busy.submit(10 * WORK_S)
    assert not busy.idle()
    busy.synchronize()
    assert busy.idle()
    took = time.perf_counter() - start
    print(f"asked for {10 * WORK_S} s, busy for {took} s")
    assert 0.5 < took / (10 * WORK_S) < 5
