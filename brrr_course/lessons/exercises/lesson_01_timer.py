"""Exercise 01-timer: build the amortised event timer. It is run on an asynchronous device, with work of known duration.

The student's timer is called as `timer(call, synchronize, event)`. Events note the device's own time when the queue
reaches them, and how many calls were made before; so the mark does not depend on how busy the machine is. What a right
timer says does, so it is run again until it is near the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from brrr.core.units import percent, seconds
from brrr_course.lessons.marks import Wrong, ask, exercise, is_number
from brrr_course.lessons.pretend import Busy, busy

FEWEST = 20
"""Calls between two events, so that what surrounds them hardly counts."""

WORK_S, FIRST_S, EARLIER_S = 0.5e-3, 30e-3, 30e-3
"""One call, the first call (which sets up), and what is in the queue before the timer starts."""

MOST_CALLS = 1000

RUNS, NEAR = 5, 0.1
"""How often a right timer is run at most, and how far from the truth its number may be to be told."""


@exercise("01-timer")
def timer(timer: Any) -> str:
    """Run the timer on the queue (on the GPU where there is one) and say which mistake it makes, if any."""
    for _ in range(RUNS):
        said, name = _run(timer)
        if (off := abs(said / WORK_S - 1)) < NEAR:
            return f"{_told(said, name)}, {percent(off, 2)} off."
    return (
        "your timer is built right. What it says now means little: this machine is busy with other work "
        f"({name}). Run the cell again when it is quiet."
    )


def _run(timer: Any) -> tuple[float, str]:
    """What the timer says, and of which device; Wrong where it makes a mistake."""
    with busy() as device:
        work = WatchedTimer(device)
        device.submit(EARLIER_S)  # somebody else's work, which must not leak into the time
        said = ask(timer, work.call, device.synchronize, work.event)
        device.synchronize()
    if not is_number(said) or not math.isfinite(said):
        raise Wrong(f"your timer returned {said!r}.", "It should return one number of seconds.")
    if mistake := _mistake(work, said := float(said)):
        raise Wrong(f"{mistake[0]} {_told(said, device.name)}.", mistake[1])
    return said, device.name


def _told(said: float, name: str) -> str:
    return f"Your timer says {seconds(said)}; a call takes {seconds(WORK_S)} by construction ({name})"


def _mistake(work: WatchedTimer, said: float) -> tuple[str, str] | None:
    """The first mistake in the order in which they spoil a time, as (what, hint)."""
    if not work.calls:
        return "your timer never calls `call()`.", "It should run the work that it times."
    spans = [span for span in work.spans if span.calls]
    if not spans:
        return "your timer reads no two events with a call between them.", "start = event(); ...; start.elapsed(end)"
    span = next((each for each in spans if math.isclose(said, each.seconds / each.calls)), spans[-1])
    if span.first:
        return "the first call, which sets everything up, lies between the events.", "Make one call before the first."
    if span.calls < FEWEST:
        many = "one call lies" if span.calls == 1 else f"{span.calls} calls lie"
        return f"{many} between the events.", f"An event costs time itself: {FEWEST} calls or more share it."
    if math.isclose(said, span.seconds / span.calls):
        return None
    if math.isclose(said, span.seconds):
        return f"your timer returns the time of {span.calls} calls.", "Divide by their number."
    return "your timer returns another number.", "The seconds between both events, over the calls between them."


class Span(NamedTuple):
    """What lies between two events: the device's seconds, how many calls, and whether the first is one of them."""

    seconds: float
    calls: int
    first: bool


@dataclass(frozen=True)
class Stamp:
    """What the student's timer gets from `event()`: a place in the queue."""

    work: WatchedTimer
    event: Any
    calls: int

    def elapsed(self, end: Stamp) -> float:
        """Seconds on the device from this event to `end`; RuntimeError where the queue has not reached both."""
        if not (self.event.query() and end.event.query()):
            raise RuntimeError("the queue has not reached these events yet: synchronize() first")
        span = Span(1e-3 * self.event.elapsed_time(end.event), end.calls - self.calls, self.calls == 0)
        self.work.spans.append(span)
        return span.seconds


class WatchedTimer:
    """What the student's timer gets: `call` and `event`, and the notes taken meanwhile."""

    def __init__(self, device: Busy) -> None:
        self.device, self.calls = device, 0
        self.spans: list[Span] = []

    def call(self) -> None:
        """Put one piece of work into the queue; the first takes longer."""
        if self.calls >= MOST_CALLS:
            raise RuntimeError(f"call() was called {MOST_CALLS} times; {FEWEST} to 100 are enough")
        self.device.submit(WORK_S if self.calls else FIRST_S)
        self.calls += 1

    def event(self) -> Stamp:
        """Put an event into the queue."""
        return Stamp(self, self.device.event(), self.calls)
