"""The devices on paper that exercises run on: what they count, and how long they say that it takes."""

from itertools import pairwise

import pytest

from brrr_course.lessons.exercises import lesson_04b
from brrr_course.lessons.exercises.lesson_02b import TRIALS, Trial, best
from brrr_course.lessons.pretend import Host, Queue, busy


@pytest.mark.parametrize("chunks", [1, 2, 5, 12, 40])
def test_the_best_schedule_of_equal_lanes_takes_two_steps_more_than_chunks(chunks: int) -> None:
    """The formula of the lesson, on the machine that the exercise runs on."""
    machine = Trial(chunks, 3, (1.0, 1.0, 1.0)).run(best)
    assert machine.now == pytest.approx(chunks + 2, abs=0.1)
    assert machine.now / chunks == pytest.approx((chunks + 2) / chunks, rel=0.04)
    assert machine.waits == 1


def test_the_slowest_lane_sets_the_pace() -> None:
    for trial in TRIALS:
        machine = trial.run(best)
        assert machine.now >= trial.chunks * max(trial.durations)
        assert machine.now <= trial.chunks * sum(trial.durations) + 0.1


def test_an_event_stands_for_what_was_issued_before_it() -> None:
    machine = Host(0.01)
    upload, compute = (Queue(machine, name, 1.0) for name in ("upload", "compute"))
    upload.submit(0, 0)
    early = upload.record()
    upload.submit(1, 1)
    compute.wait(early)
    compute.wait(None)
    compute.submit(0, 0)
    assert machine.ran[-1].start == pytest.approx(early.at)


def test_sectors_by_hand() -> None:
    assert lesson_04b.sectors(lambda thread, step: step * 32 + thread) == lesson_04b.FEWEST == 512 * 4 // 32
    assert lesson_04b.sectors(lambda thread, step: thread * 16 + step) == 32 * 16, "each its own sector, in each step"
    assert lesson_04b.sectors(lambda thread, step: 4 + step * 32 + thread) == 16 * 5, "crooked"


def test_what_lies_in_the_queue_makes_up_for_a_sleep_that_ended_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU queue calls in a row end when they would on paper, and not later by each sleep's delay."""
    monkeypatch.setenv("BRRR_SOURCE", "cpu")
    ends: list[float] = []
    monkeypatch.setattr("brrr_course.lessons.pretend.sleep_until", ends.append)
    with busy() as device:
        for _ in range(4):
            device.submit(1.0)
        device.synchronize()
    assert [after - before for before, after in pairwise(ends)] == pytest.approx([1.0] * 3)
