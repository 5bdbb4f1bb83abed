"""What runs inside a worker of dask: it hands a request to its child process, and kills the child where it must.

dask cannot stop a task that runs, and its workers must stay: so the measuring is done in a process beside it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from brrr.core.errors import UnavailableError
from brrr.core.private import python

TOPIC = "brrr"
"""Where a worker says that it began to measure."""
START_S = 180.0
"""A child may take so long to load torch and to find its device."""
OF_DASK = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_")
"""What dask sets for its workers and would change what is measured: one thread, and memory given back at once."""
HARMLESS = ("ArgumentError", "UnavailableError")
"""Errors before anything ran; after any other, the next request gets a fresh child."""


class ChildDiedError(Exception):
    """The measuring process ended by itself; dask tries once more."""


class Child:
    """The measuring process of a worker: made when first needed, kept warm, fresh after a fault."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._asking = threading.Lock()  # the device measures one thing at a time
        self._changing = threading.Lock()
        self._key = self._stopped = ""
        self.hello_before: dict[str, Any] = {}

    def hello(self, kind: str) -> dict[str, Any]:
        """The device that it measures on; while it measures, what it said before."""
        if self._asking.acquire(blocking=False):
            try:
                self.hello_before = self._ask({}, kind, START_S)
            finally:
                self._asking.release()
        return self.hello_before

    def measure(self, key: str, request: Mapping[str, Any], kind: str, limit_s: float) -> dict[str, Any]:
        """What the child answers; for a time-out and a cancelled request an error in each variant's place.

        ChildDiedError where the child ended by itself: a crash, or a lack of memory.
        """
        with self._asking:
            self.hello_before = self._ask({}, kind, START_S)
            with self._changing:
                self._key = key
            try:
                answer = self._ask(request, kind, limit_s)
            except TimeoutError:
                why = f"took longer than {limit_s:.0f} s and was stopped; the device goes on with the next point"
                return _failed(request, "TimedOutError", why, limit_s)
            except ChildDiedError:
                if self._stopped == key:
                    return _failed(request, "CancelledError", "was cancelled", 0.0)
                raise
            finally:
                with self._changing:
                    self._key = ""
        if any(each.get("error", HARMLESS[0]) not in HARMLESS for each in answer["answers"].values()):
            self.kill()
        return answer

    def stop(self, key: str) -> bool:
        """Kill the child if it measures for this key."""
        with self._changing:
            if self._key != key:
                return False
            self._stopped = key
            self.kill()
        return True

    def kill(self) -> None:
        """End the child and all that it started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _ask(self, request: Mapping[str, Any], kind: str, limit_s: float) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            command = python("brrr_course.classroom.child", kind)
            kept = {name: value for name, value in os.environ.items() if name not in OF_DASK}
            kept["PYTHONSAFEPATH"] = "1"  # for what it starts, too
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._process = subprocess.Popen(command, **pipes, env=kept, start_new_session=True)
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        return self._answer(self._process.stdout.fileno(), time.monotonic() + limit_s)

    def _answer(self, pipe: int, deadline_s: float) -> dict[str, Any]:
        text = b""
        while not text.endswith(b"\n"):
            if not select.select([pipe], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
                self.kill()
                raise TimeoutError
            piece = os.read(pipe, 2**16)
            if not piece:
                raise self._died()
            text += piece
        told = dict(json.loads(text))
        if "unavailable" in told:
            raise UnavailableError(told["unavailable"])
        return told

    def _died(self) -> ChildDiedError:
        assert self._process is not None
        return ChildDiedError(f"the measuring process ended with status {self._process.wait()}")


def _failed(request: Mapping[str, Any], error: str, why: str, seconds: float) -> dict[str, Any]:
    said = {"error": error, "reason": f"{request['experiment']} at {request['point']} {why}"}
    return {"answers": dict.fromkeys(request["variants"], said), "seconds": seconds}


# ---------------------------------------------------------------------------------------------------------------------
# What the gateway has dask call, by name: nothing else is ever sent to a worker.

_child = Child()


def hello(kind: str) -> dict[str, Any]:
    """The device of this worker; UnavailableError where it has none of that kind."""
    try:
        return _child.hello(kind)
    except (ChildDiedError, TimeoutError) as error:
        raise UnavailableError(f"a worker's {kind} device does not answer: {error}") from None


def measure(key: str, request: Mapping[str, Any], kind: str, limit_s: float) -> dict[str, Any]:
    """A task of dask's: measure, and tell the gateway when it begins."""
    from distributed import get_worker

    worker: Any = get_worker()
    worker.log_event(TOPIC, {"key": key, "worker": worker.address})
    return {**_child.hello_before, **_child.measure(key, request, kind, limit_s), "worker": worker.address}


def stop(key: str) -> bool:
    """Stop what runs for this key."""
    return _child.stop(key)
