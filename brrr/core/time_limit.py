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


def in_time(call: Callable[[], object], seconds: float, problem: str) -> None:
    """Call what nothing can end, on a thread that is left behind if it takes longer: UnavailableError, the problem.

    >>> in_time(lambda: None, 1.0, "it hangs")
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # it is the caller's
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise UnavailableError(problem)
    if raised:
        raise raised[0]
