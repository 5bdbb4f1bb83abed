"""Processes that have the played accelerator (`tests/played.py`), which stays with its process.

`python tests/on_played.py ARGUMENTS` runs `python ARGUMENTS` so: a script, or a kernel (`-m ipykernel_launcher`). What
is started in `environment()` has the device too, wherever it loads torch, which finds it as it finds any vendor's.
"""

import functools
import importlib
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
AT_MOST_S = 120.0
"""A test that takes longer hangs."""


def environment(*faults: str) -> dict[str, str]:
    """That of a process which has the device, with these of its faults, as have all that it starts."""
    paths = [str(ROOT / "tests" / "played_backend"), str(ROOT), *filter(None, [os.getenv("PYTHONPATH")])]
    played = ",".join(faults) or os.getenv("PLAYED_FAULTS", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PLAYED_FAULTS": played}


def there(test: Callable[..., None]) -> Callable[..., None]:
    """A test that runs in a process which has the device: one for all such tests of this process.

    The device is as new for each test; its arguments are sent there.
    """

    @functools.wraps(test)
    def sent(*args: Any, **kwargs: Any) -> None:
        there = process()
        there.send((test.__module__, test.__name__, args, kwargs))
        try:
            said = there.recv() if there.poll(AT_MOST_S) else f"{test.__name__} hangs"
        except EOFError:
            said = f"{test.__name__} ended its process"
        if said:
            process.cache_clear()  # the next test has a new one
            raise AssertionError(said)

    return sent


@functools.cache
def process() -> Any:
    context = multiprocessing.get_context("spawn")
    here, in_it = context.Pipe()
    context.Process(target=serve, args=(in_it,), daemon=True).start()
    in_it.close()
    return here


def received(asked: Any) -> Any:
    try:
        return asked.recv()
    except EOFError:  # who asked has ended
        return None


def serve(asked: Any) -> None:
    """What `there` sends is run; what went wrong goes back."""
    os.environ.update(environment())
    played = importlib.import_module("tests.played")
    played.start()
    while request := received(asked):
        module, name, args, kwargs = request
        try:
            with played.as_new():
                getattr(importlib.import_module(module), name).__wrapped__(*args, **kwargs)
            asked.send("")
        except BaseException:
            asked.send(traceback.format_exc())


if __name__ == "__main__":
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment())
