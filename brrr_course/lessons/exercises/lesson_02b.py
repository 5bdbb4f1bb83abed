"""Exercise 02b-pipeline: mend a pipeline that waits in the wrong place. It runs on a machine on paper.

The student's function is called as `pipeline(chunks, buffers, upload, compute, download)`. The marks follow from what
ran when: first whether each result is right, then how long it all took beside the best schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from brrr.core.units import ratio
from brrr_course.lessons.checking import Exercise, Mark, ask

# ---------------------------------------------------------------------------------------------------------------------
# A machine on paper: lanes that run side by side, events between them, and a host that can wait. No clock is needed.

LANES = ("upload", "compute", "download")
ISSUE = 0.01
"""What the host needs to issue one piece of work, where a piece takes about 1."""


@dataclass(frozen=True)
class Ran:
    """One piece of work: which chunk, in which buffer, on which lane, from when to when."""

    lane: str
    chunk: int
    buffer: int
    start: float
    end: float


@dataclass(frozen=True)
class Event:
    """The moment at which a lane has done what it was given before."""

    at: float


@dataclass
class Machine:
    """The host's clock, how long a piece takes on each lane, and what ran.

    >>> machine = Machine({"upload": 1.0, "compute": 1.0, "download": 1.0})
    >>> up, work, down = machine.lanes()
    >>> up.submit(0, 0); work.wait(up.record()); work.submit(0, 0); work.synchronize()
    >>> [(ran.lane, round(ran.end)) for ran in machine.ran], machine.host_waits
    ([('upload', 1), ('compute', 2)], 1)
    """

    durations: Mapping[str, float]
    now: float = 0.0
    ran: list[Ran] = field(default_factory=list)
    host_waits: int = 0

    def lanes(self) -> tuple[SimulatedLane, SimulatedLane, SimulatedLane]:
        """The three lanes, all of them idle."""
        up, work, down = (SimulatedLane(self, name) for name in LANES)
        return up, work, down

    @property
    def end(self) -> float:
        """When the last piece of work ends."""
        return max((ran.end for ran in self.ran), default=0.0)


class SimulatedLane:
    """One lane: what a student's schedule gets in the place of a stream."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine, self.name = machine, name
        self._free_at = 0.0

    def submit(self, chunk: int, buffer: int) -> None:
        """Issue this lane's work on a chunk in a buffer; it starts when the lane is free, and nobody waits for it."""
        self.machine.now += ISSUE
        start = max(self._free_at, self.machine.now)
        self._free_at = start + self.machine.durations[self.name]
        self.machine.ran.append(Ran(self.name, chunk, buffer, start, self._free_at))

    def record(self) -> Event:
        """An event that stands for all that was issued to this lane so far."""
        return Event(self._free_at)

    def wait(self, event: Event | None) -> None:
        """What is issued to this lane from here on starts after the event; `None` is no event, and holds nothing."""
        if event is not None:
            self._free_at = max(self._free_at, event.at)

    def synchronize(self) -> None:
        """The host waits until this lane has done all that was issued to it."""
        self.machine.host_waits += 1
        self.machine.now = max(self.machine.now, self._free_at)


SLACK = 1.05
"""A schedule within so much of the best one is right."""

CLOSE = 1e-9

Mistake = tuple[str, str]
Schedule = Callable[[int, int, SimulatedLane, SimulatedLane, SimulatedLane], Any]


@dataclass(frozen=True)
class Trial:
    """A number of chunks and of buffers, and how long a chunk takes on each lane."""

    chunks: int
    buffers: int
    durations: tuple[float, float, float]

    def run(self, schedule: Schedule) -> Machine:
        """What the machine on paper did."""
        machine = Machine(dict(zip(LANES, self.durations, strict=True)))
        ask(schedule, self.chunks, self.buffers, *machine.lanes())
        return machine


TRIALS = (
    Trial(12, 3, (1.0, 1.0, 1.0)),
    Trial(8, 3, (1.0, 1.0, 3.0)),
    Trial(8, 2, (1.0, 3.0, 1.0)),
    Trial(7, 4, (3.0, 1.0, 1.0)),
    Trial(1, 3, (1.0, 1.0, 1.0)),
)
"""Equal lanes first, which is what the marks speak of; with a slow lane, a forgotten event shows."""


def best(chunks: int, buffers: int, upload: SimulatedLane, compute: SimulatedLane, download: SimulatedLane) -> None:
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


def grade_pipeline(pipeline: Any) -> Mark:
    """Run the schedule in every trial and say which mistake it makes, if any."""
    if not callable(pipeline):
        hint = 'Pass the function itself: check("02b-pipeline", pipeline=pipeline).'
        return Mark("wrong", f"{pipeline!r} is not a function.", hint)
    machines = [trial.run(pipeline) for trial in TRIALS]
    for trial, machine in zip(TRIALS, machines, strict=True):
        wrong = _wrong(trial, machine)
        if wrong:
            return Mark("wrong", wrong[0], wrong[1])
    for trial, machine in zip(TRIALS, machines, strict=True):
        slow = _slow(trial, machine)
        if slow:
            return Mark("wrong", slow[0], slow[1])
    return Mark(
        "right", f"{_time(TRIALS[0], machines[0])}. No lane waits for more than it needs, and no buffer is lost."
    )


PIPELINE_EXERCISE = Exercise("02b-pipeline", grade_pipeline)


# ---- is the result right? ----


def _wrong(trial: Trial, machine: Machine) -> Mistake | None:
    return (
        _missing(trial, machine)
        or _other_buffer(trial, machine)
        or _too_early(machine)
        or _overwritten(machine)
        or _not_waited(machine)
    )


def _by_lane(machine: Machine, lane: str) -> list[Ran]:
    return [ran for ran in machine.ran if ran.lane == lane]


def _missing(trial: Trial, machine: Machine) -> Mistake | None:
    for lane in LANES:
        if sorted(ran.chunk for ran in _by_lane(machine, lane)) != list(range(trial.chunks)):
            hint = "Submit every chunk from 0 to chunks - 1 to each lane."
            return f"of {trial.chunks} chunks, not every one passes `{lane}` exactly once.", hint
    return None


def _other_buffer(trial: Trial, machine: Machine) -> Mistake | None:
    buffers: dict[int, set[Any]] = {}
    for ran in machine.ran:
        buffers.setdefault(ran.chunk, set()).add(ran.buffer)
    for chunk, used in buffers.items():
        if len(used) > 1:
            return f"chunk {chunk} changes its buffer on the way.", "A chunk stays in the buffer it was sent to."
        if not used <= set(range(trial.buffers)):
            hint = "`i % buffers` goes round and round."
            return f"chunk {chunk} goes to buffer {used.pop()}, and there are {trial.buffers}.", hint
    return None


def _too_early(machine: Machine) -> Mistake | None:
    for (before, after), what in zip(pairwise(LANES), ("has arrived", "is computed"), strict=True):
        ends = {ran.chunk: ran.end for ran in _by_lane(machine, before)}
        early = [ran.chunk for ran in _by_lane(machine, after) if ran.start < ends[ran.chunk] - CLOSE]
        if early:
            hint = f"Let `{after}` wait for an event of `{before}`: `{after}.wait({before}.record())`."
            return f"`{after}` starts with chunk {early[0]} before it {what}.", hint
    return None


def _overwritten(machine: Machine) -> Mistake | None:
    """A buffer is filled again while the chunk before is still being worked on or fetched."""
    fetched = {ran.chunk: ran.end for ran in _by_lane(machine, "download")}
    last: dict[int, int] = {}
    for ran in _by_lane(machine, "upload"):
        if ran.buffer in last and ran.start < fetched[last[ran.buffer]] - CLOSE:
            hint = "Keep the event behind each buffer's last download, and let `upload` wait for it."
            return f"chunk {ran.chunk} overwrites chunk {last[ran.buffer]}, which is not fetched yet.", hint
        last[ran.buffer] = ran.chunk
    return None


def _not_waited(machine: Machine) -> Mistake | None:
    if machine.now < machine.end - CLOSE:
        return "your pipeline returns before the last chunk is fetched.", "Wait once, at the end, for `download`."
    return None


# ---- is it fast? ----


def _slow(trial: Trial, machine: Machine) -> Mistake | None:
    if machine.now <= SLACK * trial.run(best).now:
        return None
    used = len({ran.buffer for ran in machine.ran})
    if machine.host_waits > 1:
        hint = "An event holds back a lane; `synchronize()` holds back the host, which then issues nothing else."
        return f"the results are right, but the host waits {machine.host_waits} times. {_time(trial, machine)}.", hint
    if used < min(trial.buffers, trial.chunks):
        return f"you use {used} of {trial.buffers} buffers. {_time(trial, machine)}.", "`i % buffers` uses all of them."
    hint = "Each lane should wait for one event only: that of the lane before, or that of its buffer."
    return f"the results are right, but a lane waits for more than it needs. {_time(trial, machine)}.", hint


def _time(trial: Trial, machine: Machine) -> str:
    one_by_one = trial.chunks * sum(trial.durations)
    gains: Sequence[str] = [ratio(one_by_one / m.now) for m in (machine, trial.run(best))]
    lanes = ", ".join(f"{name} {each:g}" for name, each in zip(LANES, trial.durations, strict=True))
    return (
        f"{trial.chunks} chunks (time units each: {lanes}) run {gains[0]} as fast as one by one; {gains[1]} can be had"
    )


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 02b-chunks: how many chunks? Enough to fill the pipeline, not so many that their launches cost more.

LAUNCH = 0.02
"""What a chunk costs besides, on each lane, as a share of what the whole array takes there."""

NEAR = 0.10


def time_of(chunks: int, launch: float = 0.0) -> float:
    """The time of n chunks through three lanes, that of the whole array on one lane being 1: (n + 2)(1/n + launch).

    >>> time_of(1), time_of(20)
    (3.0, 1.1)
    """
    return (chunks + 2) * (1 / chunks + launch)


def enough() -> int:
    """The fewest chunks whose time is at most a tenth above that of endlessly many, which is 1.

    >>> enough()
    20
    """
    return next(n for n in range(1, 1000) if time_of(n) <= 1 + NEAR + 1e-12)


def best_chunks() -> int:
    """The number of chunks with the shortest time where each chunk costs something: the square root of 2 / launch.

    >>> best_chunks()
    10
    """
    return min(range(1, 1000), key=lambda n: time_of(n, LAUNCH))


def grade_chunks(enough: Any, best: Any) -> Mark:
    """Both numbers must be right.

    >>> grade_chunks(20, 10).status, grade_chunks(18, 10).status
    ('right', 'wrong')
    """
    for name, said, right, hint in (
        ("enough", enough, ENOUGH, _hint_enough(enough)),
        ("best", best, BEST, _hint_best(best)),
    ):
        if isinstance(said, bool) or not isinstance(said, int | float):
            return Mark("wrong", f"`{name}` is {said!r}.", "Write a number of chunks, as in 8.")
        if said != right:
            return Mark("wrong", f"`{name}={said}` is not it.", hint)
    text = f"{ENOUGH} chunks take {time_of(ENOUGH):.2f}; with the cost of a launch, {BEST} take "
    text += f"{time_of(BEST, LAUNCH):.2f}: fewer fill the pipeline too slowly, and more only launch more."
    return Mark("right", text)


CHUNKS_EXERCISE = Exercise("02b-chunks", grade_chunks)


def _hint_enough(said: Any) -> str:
    if said == 18:
        return "That reaches 90 % of the best rate. Asked is a time at most 10 % above the best: (n + 2) / n <= 1.1."
    return "The first chunk reaches the download after two others have passed the upload: n chunks take (n + 2) / n."


def _hint_best(said: Any) -> str:
    if said == 1:
        return "One chunk launches least, but nothing overlaps. Compute (n + 2) (1 / n + 0.02) for some n."
    return "Each of the n + 2 steps takes 1 / n + 0.02. Which n makes their product smallest?"


ENOUGH, BEST = enough(), best_chunks()
