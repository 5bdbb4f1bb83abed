"""dask with a clock that never goes back: its messages wait until the time that they are to be sent at.

A worker loads this module before it begins (dask's `preload`), the gateway calls `never_back`.
"""

from __future__ import annotations

import sys
import time
from typing import Any

_AT_START_S = time.time() - time.monotonic()


def steady(*_: object) -> float:
    """Seconds since 1970, as the clock said when this process began."""
    return _AT_START_S + time.monotonic()


def never_back() -> None:
    """Have dask and its loop ask this clock in this process."""
    import distributed
    from tornado.ioloop import IOLoop

    wall: Any = distributed.metrics.time
    for name, module in list(sys.modules.items()):
        if name.startswith("distributed.") and getattr(module, "time", None) is wall:
            module.time = steady  # type: ignore[attr-defined]
    loop: Any = IOLoop
    loop.time = steady


def dask_setup(worker: object) -> None:
    """What dask calls in a worker that it starts."""
    never_back()
