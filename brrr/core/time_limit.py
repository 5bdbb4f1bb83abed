"""A limit of time for code that is not ours, which may never end by itself."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from brrr.core.errors import UnavailableError


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


HANGS_S = 120.0
"""Accelerators are known that never end a wait; one that takes so long is taken for such."""


def in_time(wait: Callable[[], object]) -> None:
    """Wait for a device on a thread that is left behind where the wait does not end: UnavailableError then.

    >>> in_time(lambda: None)
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            wait()
        except BaseException as error:  # it is the caller's
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANGS_S)
    if thread.is_alive():
        raise UnavailableError(f"the device has not ended what it was given after {HANGS_S:g} s: its driver may hang")
    if raised:
        raise raised[0]
