"""Verdicts of `compare_calls`, on a clock that is played: what is planted is found, and nothing else."""

from collections.abc import Callable
from random import Random

import pytest
from played_clock import Clock, PlayedQueue

from brrr.core.errors import ArgumentError
from brrr.core.measurement import Estimate, Measurement
from brrr.timing.comparing import compare_calls, judged, ratio


def busy(clock: Clock, seconds: float, draw: Random) -> Callable[[], None]:
    """A call on a machine that gets slower all the time, and whose other programs hold up one call of fifty."""

    def call() -> None:
        slower = 1 + clock.now_ns * 1e-9
        clock.go_on(seconds * slower * draw.uniform(0.95, 1.05) + (5e-3 if draw.random() < 0.02 else 0.0))

    return call


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("planted", "word"), [(1.0, ""), (1.02, ""), (1.1, "slower"), (1.5, "slower"), (0.5, "faster")]
)
def test_what_is_planted_is_found_and_what_is_equal_is_not(clock: Clock, planted: float, word: str, seed: int) -> None:
    draw = Random(seed)
    found = compare_calls({"f": busy(clock, 1e-4, draw), "g": busy(clock, planted * 1e-4, draw)}, device="cpu")
    assert abs(found.ratios["g"].median / planted - 1) < 0.02
    assert f" {word} (" in found.verdicts["g"] if word else found.verdicts["g"].startswith("cannot tell: ")


def test_of_several_each_interval_is_wider_and_the_note_says_how_many_there_are(clock: Clock) -> None:
    draw = Random(1)
    names = "abcde"
    found = compare_calls({name: busy(clock, 1e-4, draw) for name in names}, device="cpu", against="c")
    assert [*found.ratios] == [*"abde"] and "4 comparisons: each interval is one of 98.8 %" in str(found)
    two = found.calls["a"].period_s, found.calls["c"].period_s
    assert two[0] and two[1] and found.ratios["a"] == ratio(*two, 0.05 / 4)
    alone = ratio(*two, 0.05)
    assert found.ratios["a"].low < alone.low and alone.high < found.ratios["a"].high
    assert "10 comparisons" in str(judged(found.calls, "period_s", "fastest"))


def test_one_object_twice_is_said_to_be_one(clock: Clock) -> None:
    def relu() -> None:
        clock.go_on(1e-4)

    found = compare_calls(relu, relu, device="cpu")
    assert found.verdicts == {"relu 2": "relu 2 is measured against itself: 1.00x"} and found.against == "relu 1"


def test_a_single_call_has_no_interval_and_no_verdict(clock: Clock) -> None:
    found = compare_calls({"f": lambda: clock.go_on(1.0), "g": lambda: clock.go_on(3.0)}, device="cpu")
    assert found.verdicts["g"] == "cannot tell: too few samples for an interval (n=1)"


def test_times_without_rounds_are_not_compared_in_pairs(queue: PlayedQueue) -> None:
    calls = {"f": lambda: queue.submit(1e-3), "g": lambda: queue.submit(2e-3)}
    found = compare_calls(calls, field="kernel_s", device=queue)
    assert found.verdicts["g"].startswith("g is 2.00x slower") and "not measured in pairs" in str(found)


def test_an_interval_by_itself_is_widened_for_its_level_and_wants_samples() -> None:
    one, by = Estimate(1.1, 1.0, 1.2, 20), Estimate(1.0, 1.0, 1.0, 20)
    assert ratio(one, by, 0.05) == Estimate(1.1, pytest.approx(1.0), pytest.approx(1.2), 20, 0)
    assert ratio(one, by, 0.01).low == pytest.approx(1.1 - 0.1 * 2.576 / 1.96, rel=1e-3)
    assert not ratio(Estimate(1.1, 1.0, 1.2, 5), by, 0.05).has_interval


@pytest.mark.parametrize(("wrong", "said"), [
    ({"against": "h"}, "against is 'h'"), ({"field": "speed"}, "field is 'speed'"),
    ({"field": "kernel_s", "device": "cpu"}, "was measured of each"), ({"budget_s": -1}, "compare_calls: budget_s"),
])  # fmt: skip
def test_what_cannot_be_compared_is_refused(clock: Clock, wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        compare_calls({"f": lambda: clock.go_on(1e-3), "g": lambda: clock.go_on(1e-3)}, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="two callables"):
        compare_calls({"f": print})
    with pytest.raises(ArgumentError, match="field"):
        judged({"f": Measurement(), "g": Measurement()}, "period_s")
