"""Functions that are measured together are compared round by round."""

import pytest

from brrr.core.measurement import Estimate, Field
from brrr.timing import interleave, measure_together
from brrr.timing.host_times import HostTimes
from brrr.timing.plan import Plan
from brrr.timing.readings import Readings
from brrr.timing.sampler import Sampler

FIELDS: tuple[Field, ...] = ("host_s", "period_s", "latency_s")


def test_the_ratio_of_times_that_took_turns_is_that_of_their_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Readings, "drifted", False)  # else a busy machine has one measured again, apart
    one, other = measure_together([lambda: sum(range(99)), lambda: sum(range(999))], device="cpu", budget_s=0.02)
    for name in FIELDS:
        mine, theirs = one.get(name), other.get(name)
        assert mine and theirs and mine.rounds and theirs.rounds
        ratio = mine / theirs
        assert ratio.n == min(len(mine.rounds.values), len(theirs.rounds.values)) >= 2
        assert str(mine / mine) == f"1x (1x to 1x, n={len(mine.rounds.values)})"


def test_what_was_measured_again_has_other_rounds_than_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    drifted, steady, too = (Sampler(Plan(lambda: sum(range(99)), "cpu", "hot", 0.01)) for _ in range(3))
    monkeypatch.setattr(Readings, "drifted", property(lambda self: self is drifted.readings))
    again, first, second = (each.period_s for each in interleave([drifted, steady, too]))
    assert again and first and second and again.rounds and first.rounds and second.rounds
    assert first.rounds.together is second.rounds.together
    assert again.rounds.together is not first.rounds.together


def test_two_calls_of_measure_share_no_rounds() -> None:
    one, other = (measure_together([lambda: sum(range(99))], device="cpu", budget_s=0.01)[0] for _ in range(2))
    assert one.period_s and other.period_s and one.period_s.rounds and other.period_s.rounds
    assert one.period_s.rounds.together is not other.period_s.rounds.together


def test_a_call_of_a_cpu_costs_the_host_what_it_takes_in_a_loop() -> None:
    times = HostTimes(lambda: sum(range(99)))
    times.round(0.001)
    times.round(0.001)
    assert times.host == times.period
    found = times.estimates(object())
    assert isinstance(found["host_s"], Estimate) and found["host_s"] == found["period_s"]


def test_where_calls_take_turns_there_are_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    times = HostTimes(lambda: sum(range(99)))
    times.round(0.001)
    monkeypatch.setattr(HostTimes, "uneven", True)
    found = times.estimates(object())
    assert all(each and each.rounds is None for each in found.values()) and found["host_s"] == found["period_s"]


@pytest.mark.parametrize(("latency_s", "first"), [(10e-6, 16), (50e-6, 10), (0.4e-3, 1), (1.0, 0)])
def test_the_first_calls_after_a_wait_are_not_timed_where_they_are_short(latency_s: float, first: int) -> None:
    made: list[str] = []
    times = HostTimes(lambda: made.append("call"), lambda: made.append("wait"))
    times.latency = [latency_s]
    times._sample_host(1e-9)
    assert made == ["wait", *["call"] * first, "call", "wait"] and len(times.host) == 1
