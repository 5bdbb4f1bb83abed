"""What cheats and clocks measure, on a CPU: who gets past the naive benchmark, and that the careful one sees it."""

from collections.abc import Iterator

import pytest
import torch

from brrr.core.errors import WrongResultError
from brrr.timing.cpu_queue import CpuQueue
from brrr_course.experiments import cheats, clocks
from brrr_course.experiments.cheats import SIDES, BothBenchmarks, Side
from brrr_course.lessons.exercises.lesson_01b import HINTS, NEAR, naive, said_of


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[BothBenchmarks]:
    with CpuQueue() as queue:
        yield BothBenchmarks("cpu", request.param, queue)


@pytest.mark.parametrize("bench", cheats.KERNELS, indirect=True)
def test_a_kernel_that_cheats_gets_past_the_naive_benchmark_and_the_careful_one_makes_it_work(
    bench: BothBenchmarks, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, worked = bench.work, list[int]()
    monkeypatch.setattr(bench, "work", lambda x, w=None: worked.append(len(x)) or honest(x, w))
    _, cheat = SIDES[request.node.callspec.params["bench"]](bench)
    bench.naive(cheat)
    worked.clear()
    bench.careful(cheat)
    assert worked.count(len(bench.x)) >= cheats.ROUNDS, "the whole work in each round"


@pytest.mark.parametrize("bench", [cheats.SKIPPED], indirect=True)
def test_the_naive_benchmark_refuses_what_is_wrong_where_it_looks(bench: BothBenchmarks) -> None:
    with pytest.raises(WrongResultError):
        bench.naive(Side(torch.zeros_like))


@pytest.mark.parametrize("bench", [cheats.FIRST], indirect=True)
def test_a_first_call_alone_tries_ways(bench: BothBenchmarks, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[int]()
    monkeypatch.setattr(bench, "until_all_is_done", lambda call: (tried.append(1), 1.0))
    rival, _ = SIDES[cheats.FIRST](bench)
    for _ in range(2):
        assert torch.equal(rival.call(bench.x), bench.x @ bench.w) and len(tried) == 8


def test_a_point_of_the_clocks_tells_of_the_last_part_of_its_seconds() -> None:
    early = clocks.Moment(0.1, 1e-3, 2e9, 300.0, frozenset())
    late = [early._replace(at_s=at, clock_hz=1e9, reasons=frozenset({"power-cap"})) for at in (0.9, 1.0)]
    first, last = (clocks.seen([early, *late], at, "cuda") for at in (0.1, 1.0))
    assert (first.sm_clock_hz, first.flags, first.get("period_s").n) == (2e9, (), 1)  # type: ignore[union-attr]
    assert (last.sm_clock_hz, last.flags, last.get("period_s").n) == (1e9, ("power-capped",), 2)  # type: ignore[union-attr]


def test_a_series_with_pauses_waits_three_times_as_long_as_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = list[float]()
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr(clocks, "sm_clock_hz", lambda: 1e9)
    found = clocks.series.__wrapped__("cpu", 3.0, 0.05)
    assert slept == pytest.approx([0, *(3 * clocks.BATCH * each.call_s for each in found)])
    assert {each.clock_hz for each in found} == {None}, "a GPU beside the CPU has no say"


@pytest.mark.parametrize("name", HINTS)
def test_each_cheat_wins_by_the_naive_harness_of_the_exercise(name: str) -> None:
    said = said_of(naive, name)
    assert said is not None and said > 1 + 2 * NEAR
