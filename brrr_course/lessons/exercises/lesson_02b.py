"""Exercise 02b-pipeline: fix a pipeline that waits in the wrong place. It runs on a machine on paper.

The student's function is called as `pipeline(chunks, buffers, upload, compute, download)`. The marks follow from what
ran when: first whether each result is right, then how long it all took beside the best schedule.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from brrr.core.units import ratio
from brrr_course.lessons.marks import Wrong, ask, exercise
from brrr_course.lessons.pretend import LANES, Event, Host, Queue, Ran

ISSUE = 0.01
"""What the host needs to launch one piece of work, where a piece takes about 1."""


SLACK = 1.05
"""A schedule within so much of the best one is right."""

CLOSE = 1e-9

Schedule = Callable[[int, int, Queue, Queue, Queue], Any]


@dataclass(frozen=True)
class Trial:
    """A number of chunks and of buffers, and how long a chunk takes on each lane."""

    chunks: int
    buffers: int
    durations: tuple[float, float, float]

    def run(self, schedule: Schedule) -> Host:
        """What the machine on paper did."""
        machine = Host(ISSUE)
        ask(schedule, self.chunks, self.buffers, *map(partial(Queue, machine), LANES, self.durations))
        return machine


TRIALS = (
    Trial(12, 3, (1.0, 1.0, 1.0)),
    Trial(8, 3, (1.0, 1.0, 3.0)),
    Trial(8, 2, (1.0, 3.0, 1.0)),
    Trial(7, 4, (3.0, 1.0, 1.0)),
    Trial(1, 3, (1.0, 1.0, 1.0)),
)
"""Equal lanes first, which is what the marks speak of; with a slow lane, a forgotten event shows."""


def best(chunks: int, buffers: int, upload: Queue, compute: Queue, download: Queue) -> None:
    """The schedule that waits only for what it needs, as brrr.running.pipeline has it."""
    free: list[Event | None] = [None] * buffers
    for chunk in range(chunks):
        buffer = chunk % buffers
        upload.wait(free[buffer])
        upload.submit(chunk, buffer)
        compute.wait(upload.record())
        compute.submit(chunk, buffer)
        download.wait(compute.record())
        download.submit(chunk, buffer)
        free[buffer] = download.record()
    download.synchronize()


@exercise("02b-pipeline")
def pipeline(pipeline: Any) -> str:
    """Run the schedule in every trial and say which mistake it makes, if any."""
    machines = [trial.run(pipeline) for trial in TRIALS]
    for look_at in (_results, _pace):
        for trial, machine in zip(TRIALS, machines, strict=True):
            look_at(trial, machine)
    return f"{_time(TRIALS[0], machines[0])}. No lane waits for more than it needs, and no buffer is lost."


# ---- is the result right? ----


def _results(trial: Trial, machine: Host) -> None:
    for lane in LANES:
        if sorted(ran.chunk for ran in machine.ran if ran.lane == lane) != list(range(trial.chunks)):
            hint = "Submit every chunk from 0 to chunks - 1 to each lane."
            raise Wrong(f"of {trial.chunks} chunks, not every one passes `{lane}` exactly once.", hint)
    by_lane = {lane: {ran.chunk: ran for ran in machine.ran if ran.lane == lane} for lane in LANES}
    for chunk in dict.fromkeys(ran.chunk for ran in machine.ran):
        used = {by_lane[lane][chunk].buffer for lane in LANES}
        if len(used) > 1:
            raise Wrong(f"chunk {chunk} changes its buffer on the way.", "A chunk stays in the buffer it was sent to.")
        if not used <= set(range(trial.buffers)):
            hint = "`i % buffers` goes round and round."
            raise Wrong(f"chunk {chunk} goes to buffer {used.pop()}, and there are {trial.buffers}.", hint)
    _order(by_lane)
    if machine.now < machine.end - CLOSE:
        raise Wrong("your pipeline returns before the last chunk is fetched.", "Wait once, at the end, for `download`.")


def _order(by_lane: Mapping[str, Mapping[int, Ran]]) -> None:
    """Whether each chunk waits for the lane before, and for the chunk that had its buffer before."""
    for (before, after), what in zip(pairwise(LANES), ("has arrived", "is computed"), strict=True):
        early = [each for each, ran in by_lane[after].items() if ran.start < by_lane[before][each].end - CLOSE]
        if early:
            hint = f"Let `{after}` wait for an event of `{before}`: `{after}.wait({before}.record())`."
            raise Wrong(f"`{after}` starts with chunk {early[0]} before it {what}.", hint)
    last: dict[int, int] = {}
    for chunk, ran in by_lane["upload"].items():
        if ran.buffer in last and ran.start < by_lane["download"][last[ran.buffer]].end - CLOSE:
            hint = "Keep the event behind each buffer's last download, and let `upload` wait for it."
            raise Wrong(f"chunk {chunk} overwrites chunk {last[ran.buffer]}, which is not fetched yet.", hint)
        last[ran.buffer] = chunk


# ---- is it fast? ----


def _pace(trial: Trial, machine: Host) -> None:
    if machine.now <= SLACK * trial.run(best).now:
        return
    used = len({ran.buffer for ran in machine.ran})
    if machine.waits > 1:
        hint = "An event holds back a lane; `synchronize()` holds back the host, which then launches nothing else."
        raise Wrong(f"the results are right, but the host waits {machine.waits} times. {_time(trial, machine)}.", hint)
    if used < min(trial.buffers, trial.chunks):
        raise Wrong(
            f"you use {used} of {trial.buffers} buffers. {_time(trial, machine)}.", "`i % buffers` uses all of them."
        )
    hint = "Each lane should wait for one event only: that of the lane before, or that of its buffer."
    raise Wrong(f"the results are right, but a lane waits for more than it needs. {_time(trial, machine)}.", hint)


def _time(trial: Trial, machine: Host) -> str:
    one_by_one = trial.chunks * sum(trial.durations)
    gains = [ratio(one_by_one / m.now) for m in (machine, trial.run(best))]
    lanes = ", ".join(f"{name} {each:g}" for name, each in zip(LANES, trial.durations, strict=True))
    return (
        f"{trial.chunks} chunks (time units each: {lanes}) run {gains[0]} as fast as one by one; {gains[1]} can be had"
    )
