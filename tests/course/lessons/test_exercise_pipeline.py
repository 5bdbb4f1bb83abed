"""Exercises 02b-pipeline and 02b-chunks: the right answers are right, and each mistake is told by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises.lesson_02b import TRIALS, Machine, Trial, best, time_of

Schedule = Callable[..., Any]


def as_given(chunks: int, buffers: int, upload: Any, compute: Any, download: Any) -> None:
    for chunk in range(chunks):
        for lane in (upload, compute, download):
            lane.submit(chunk, chunk % buffers)
            lane.synchronize()


def no_buffer_events(chunks: int, buffers: int, upload: Any, compute: Any, download: Any) -> None:
    for chunk in range(chunks):
        upload.submit(chunk, chunk % buffers)
        compute.wait(upload.record())
        compute.submit(chunk, chunk % buffers)
        download.wait(compute.record())
        download.submit(chunk, chunk % buffers)
    download.synchronize()


def no_end(chunks: int, buffers: int, upload: Any, compute: Any, download: Any) -> None:
    best(chunks, buffers, upload, compute, Endless(download))


class Endless:
    """A lane that cannot be waited for."""

    def __init__(self, lane: Any) -> None:
        self.submit, self.record, self.wait = lane.submit, lane.record, lane.wait

    def synchronize(self) -> None:
        pass


def no_upload_events(chunks: int, buffers: int, upload: Any, compute: Any, download: Any) -> None:
    for chunk in range(chunks):
        upload.submit(chunk, chunk % buffers)
        compute.submit(chunk, chunk % buffers)
        download.wait(compute.record())
        download.submit(chunk, chunk % buffers)
    download.synchronize()


def no_compute_events(chunks: int, buffers: int, upload: Any, compute: Any, download: Any) -> None:
    for chunk in range(chunks):
        upload.submit(chunk, chunk % buffers)
        compute.wait(upload.record())
        compute.submit(chunk, chunk % buffers)
        download.submit(chunk, chunk % buffers)
    download.synchronize()


def one_buffer(chunks: int, buffers: int, upload: Any, compute: Any, download: Any) -> None:
    best(chunks, 1, upload, compute, download)


def many_buffers(chunks: int, buffers: int, upload: Any, compute: Any, download: Any) -> None:
    best(chunks, chunks, upload, compute, download)


def waits_in_the_loop(chunks: int, buffers: int, upload: Any, compute: Any, download: Any) -> None:
    for chunk in range(chunks):
        upload.submit(chunk, chunk % buffers)
        compute.wait(upload.record())
        compute.submit(chunk, chunk % buffers)
        download.wait(compute.record())
        download.submit(chunk, chunk % buffers)
        download.synchronize()


def waits_for_too_much(chunks: int, buffers: int, upload: Any, compute: Any, download: Any) -> None:
    for chunk in range(chunks):
        upload.submit(chunk, chunk % buffers)
        compute.wait(upload.record())
        compute.submit(chunk, chunk % buffers)
        download.wait(compute.record())
        download.submit(chunk, chunk % buffers)
        upload.wait(download.record())
    download.synchronize()


def forgets_the_last(chunks: int, buffers: int, upload: Any, compute: Any, download: Any) -> None:
    best(max(1, chunks - 1), buffers, upload, compute, download)


def changes_buffers(chunks: int, buffers: int, upload: Any, compute: Any, download: Any) -> None:
    for chunk in range(chunks):
        for place, lane in enumerate((upload, compute, download)):
            lane.submit(chunk, (chunk + place) % buffers)
            lane.synchronize()


def upload_first(chunks: int, buffers: int, upload: Any, compute: Any, download: Any) -> None:
    """Right as well: the host waits for a buffer that will be free anyway, and only where it must."""
    best(chunks, buffers, upload, compute, download)
    for lane in (upload, compute, download):
        lane.synchronize()


@pytest.mark.parametrize("schedule", [best, upload_first])
def test_a_right_schedule_is_right(schedule: Schedule) -> None:
    mark = check("02b-pipeline", pipeline=schedule)
    assert mark.right, mark
    assert "2.57x as fast as one by one" in mark.text


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (as_given, "the results are right, but the host waits 36 times. 12 chunks"),
        (no_buffer_events, "overwrites chunk"),
        (no_end, "returns before the last chunk is fetched"),
        (no_upload_events, "`compute` starts with chunk 0 before it has arrived"),
        (no_compute_events, "`download` starts with chunk 0 before it is computed"),
        (one_buffer, "you use 1 of 3 buffers"),
        (many_buffers, "goes to buffer 3, and there are 3"),
        (waits_in_the_loop, "the host waits 12 times"),
        (waits_for_too_much, "a lane waits for more than it needs"),
        (forgets_the_last, "of 12 chunks, not every one passes `upload` exactly once"),
        (changes_buffers, "chunk 0 changes its buffer on the way"),
        (lambda *_: None, "not every one passes `upload` exactly once"),
        (lambda *_: 1 / 0, "your function raised ZeroDivisionError"),
        (lambda chunks: None, "your function raised TypeError"),
        (3, "3 is not a function"),
    ],
)
def test_each_mistake_is_named(schedule: Any, text: str) -> None:
    mark = check("02b-pipeline", pipeline=schedule)
    assert mark.status == "wrong"
    assert text in mark.text, mark
    assert mark.hint or "raised" in mark.text


def test_an_open_answer_is_open() -> None:
    assert check("02b-pipeline", pipeline=...).status == "not answered"
    assert check("02b-chunks", enough=..., best=10).status == "not answered"


@pytest.mark.parametrize("chunks", [1, 2, 5, 12, 40])
def test_the_best_schedule_of_equal_lanes_takes_two_steps_more_than_chunks(chunks: int) -> None:
    """The formula of the lesson, on the machine that the exercise runs on."""
    machine = Trial(chunks, 3, (1.0, 1.0, 1.0)).run(best)
    assert machine.now == pytest.approx(chunks + 2, abs=0.1)
    assert machine.now / chunks == pytest.approx(time_of(chunks), rel=0.04)
    assert machine.host_waits == 1


def test_the_slowest_lane_sets_the_pace() -> None:
    for trial in TRIALS:
        machine = trial.run(best)
        assert machine.now >= trial.chunks * max(trial.durations)
        assert machine.now <= trial.chunks * sum(trial.durations) + 0.1


def test_an_event_stands_for_what_was_issued_before_it() -> None:
    machine = Machine({"upload": 1.0, "compute": 1.0, "download": 1.0})
    upload, compute, _ = machine.lanes()
    upload.submit(0, 0)
    early = upload.record()
    upload.submit(1, 1)
    compute.wait(early)
    compute.wait(None)
    compute.submit(0, 0)
    assert machine.ran[-1].start == pytest.approx(early.at)


@pytest.mark.parametrize(
    ("enough", "best_number", "status", "hint"),
    [
        (20, 10, "right", ""),
        (20.0, 10.0, "right", ""),
        (18, 10, "wrong", "90 % of the best rate"),
        (19, 10, "wrong", "(n + 2) / n"),
        (20, 1, "wrong", "nothing overlaps"),
        (20, 100, "wrong", "product smallest"),
        ("20", 10, "wrong", "as in 8"),
        (True, 10, "wrong", "as in 8"),
        (float("nan"), 10, "wrong", "(n + 2) / n"),
    ],
)
def test_the_number_of_chunks(enough: Any, best_number: Any, status: str, hint: str) -> None:
    mark = check("02b-chunks", enough=enough, best=best_number)
    assert mark.status == status
    assert hint in mark.hint
