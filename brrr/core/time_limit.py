"""A limit of time for code that is not ours, which may never end by itself."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Late(KeyboardInterrupt):
    """The time is over; no program catches it by accident."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """End the block by `Late` after so long.

    >>> try:
    ...     with within(0.01):
    ...         while True: pass
    ... except Late:
    ...     print("ended")
    ended

    Only a process's first thread can be ended, and only where there is such a timer (not on Windows).
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        if seconds <= 0:
            raise Late
        yield
        return

    def late(*_: Any) -> None:
        raise Late

    before, outer = signal.signal(signal.SIGALRM, late), signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *outer)
        signal.signal(signal.SIGALRM, before)
