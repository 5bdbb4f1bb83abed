"""The process that measures for a worker: `brrr_course.classroom.child KIND`, JSON lines in and out.

It stays warm between requests, and may be killed at any moment: it holds nothing that anybody misses. It ends by
itself, and with it all that it started, when its input ends, as it does when the worker dies.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from brrr.core.errors import BrrrError
from brrr.core.private import keep_compiled_code_private

CORES = "BRRR_CLASS_CORES"
"""The environment variable with this worker's share of the CPU, as `2,3`: workers side by side share no core."""


def main(kind: str) -> None:
    """Answer each request with a line: the device, and what was measured; an empty request asks for the device."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not meet the answers
    _settle()
    keep_compiled_code_private()
    asked: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    day, hello = "", dict[str, Any]()
    for line in iter(asked.get, None):
        if day != (today := time.strftime("%Y-%m-%d")):  # each day is a run, so that the badge's date is right
            try:
                day, hello = today, _hello(kind)
            except BrrrError as error:  # there is no such device: the worker says so, and nothing is measured
                hello = {"unavailable": str(error)}
        request = json.loads(line)
        answer = _measured(request, hello["run"]["id"], hello["machine"]["device"]) if day and request else {}
        answers.write(json.dumps({**hello, **answer}) + "\n")
        answers.flush()


def _settle() -> None:
    """Take the share of the cores before torch counts them; where memory runs out, this process goes first."""
    if cores := os.environ.get(CORES):
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    from brrr.gpu.probe import cpu_count
    from brrr_course.sources.record import THREADS

    os.environ |= {**THREADS, "OMP_NUM_THREADS": str(cpu_count()), **os.environ}
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _listen(asked: queue.Queue[str]) -> None:
    for line in sys.stdin:
        asked.put(line)
    os.killpg(0, signal.SIGKILL)  # with the processes that a variant may have started


def _hello(kind: str) -> dict[str, Any]:
    from brrr_course.sources.recording import collect_environment

    machine, run = collect_environment(kind)
    return {"machine": {**asdict(machine), "runs": ()}, "run": asdict(run)}


def _measured(request: Mapping[str, Any], run: str, device: str) -> dict[str, Any]:
    """Each variant's row as a recording's cells, or its error; what the recorder would refuse is refused here."""
    from brrr_course.classroom.query import Query
    from brrr_course.sources.isolated import measure_step, still_answers
    from brrr_course.sources.rows import Row, check_row

    asked = Query(request["experiment"], request["point"], tuple(request["variants"]))
    step, started_s = asked.step(), time.monotonic()
    answers: dict[str, Any] = {}
    for variant, timed in measure_step(step).items():
        try:
            if isinstance(timed, BrrrError):
                raise timed
            row = Row.of(step.point, variant, timed, run, device)
            answers[variant] = {"cells": check_row(row, step.experiment)}
        except (BrrrError, ValueError) as error:
            name = type(error).__name__ if isinstance(error, BrrrError) else "RecordingError"
            answers[variant] = {"error": name, "reason": str(error)}
    still_answers()  # otherwise this process ends
    return {"answers": answers, "seconds": time.monotonic() - started_s}


if __name__ == "__main__":
    main(sys.argv[1])
