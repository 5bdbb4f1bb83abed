"""What is played for the tests of the timers: a clock, and a GPU on it."""

from collections.abc import Iterator

import pytest
from played_clock import Clock, PlayedQueue, play


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Stands still but for what is told to take time."""
    return play(Clock(), monkeypatch)


@pytest.fixture
def queue(clock: Clock) -> PlayedQueue:
    """A CPU queue on that clock: issuing costs 10 µs."""
    return PlayedQueue(clock, 1e-5)


@pytest.fixture
def gpu(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """A GPU on that clock."""
    from played_gpu import Gpu, forget, play_gpu

    yield play_gpu(Gpu(clock), monkeypatch)
    forget()
