"""Work that only the first call does, and results that are there later: both are told beside the times."""

import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brrr.cli.time import main
from brrr.diagnosis.timed import called, timed
from brrr.timing import measure, measure_together
from brrr.timing.cpu_queue import CpuQueue
from brrr.timing.plan import Plan
from brrr.timing.readings import FIRST_S, FIRST_TIMES, first_note
from brrr.timing.sampler import Sampler

FIRST = "the first call took"


def once() -> Callable[[], Any]:
    """A function that works in its first call alone."""
    return functools.lru_cache(lambda: time.sleep(0.03))


def told(found: Any) -> bool:
    """Whether its details tell of the first call, and that no flag, which a recording holds, does."""
    assert not any("first" in each for each in found.flags)
    return FIRST in found.details()


def test_work_of_the_first_call_alone_is_told() -> None:
    numbers = [hash(str(each)) for each in range(100_000)]
    assert told(measure(numbers.sort, device="cpu", budget_s=1.0)), "sorted in place"
    steady, first = measure_together([lambda: sum(range(2000)), once()], device="cpu", budget_s=0.05)
    assert (told(steady), told(first)) == (False, True)
    with CpuQueue() as queue:
        made = once()
        assert told(measure(lambda: queue.submit(made), device=queue, budget_s=0.05))


def test_a_single_call_may_be_a_first_one() -> None:
    found = measure(once(), device="cpu", budget_s=0.005)
    assert "single-call" in found.flags and "a first one may take longer" in found.details()
    assert "a first one" not in measure(once(), device="cpu", budget_s=0.05).details()


def test_what_an_experiment_checked_is_told_too() -> None:
    run = Sampler(Plan(once(), "cpu", "hot", 0.02))
    run.checked(lambda result: 0.0)
    while not run.done:
        run.warm_up()
        run.round()
    assert told(run.finish())


def test_one_line_tells_of_the_first_call_too(capsys: pytest.CaptureFixture[str]) -> None:
    statement = ["made()", "--setup", "import functools, time\nmade = functools.cache(lambda: time.sleep(0.03))"]
    for options in ([], ["-v"]):
        assert main([*statement, "--device", "cpu", "--budget", "0.05", *options]) == 0
        assert capsys.readouterr().out.count(FIRST) == 1
    step = once()
    assert FIRST in timed(step, device="cpu", budget_s=0.05, first_s=called(step)).details()
    assert FIRST not in timed(lambda: sum(range(99)), device="cpu", budget_s=0.05, first_s=1e-5).details()


@given(st.floats(0, 10), st.floats(0, 10))
def test_a_first_call_is_told_of_by_its_share_and_its_time(first_s: float, others_s: float) -> None:
    assert bool(first_note(first_s, others_s)) == (first_s >= FIRST_TIMES * others_s and first_s >= others_s + FIRST_S)


def test_microseconds_are_no_news() -> None:
    assert not first_note(90e-6, 1e-6) and not first_note(0.0, 0.0) and not first_note(0.9e-3, 0.0)
    assert first_note(2e-3, 0.0) and first_note(0.05, 0.09e-6) and not first_note(0.05, 0.006)


def test_a_result_that_is_there_later_is_told() -> None:
    with ThreadPoolExecutor(1) as pool:
        found = measure(lambda: pool.submit(int), device="cpu", budget_s=0.05)
        assert "(a Future) may be computed only later" in found.details()
        assert "later" not in measure(lambda: pool.submit(int).result(), device="cpu", budget_s=0.05).details()
