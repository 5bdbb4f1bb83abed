"""The very first call in a fresh process: `python -m brrr_course.sources.first_call EXPERIMENT VARIANT key=value ...`.

What must be there before (a context, say, where the first kernel is asked about) is the workload's `prepare`, among
its `others`, and stays outside the clock. The same call once more in the same process tells what was paid only once.
"""

import json
import subprocess
import sys
import time
from dataclasses import dataclass

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Point, Value
from brrr.core.private import python
from brrr.counting.cost import Cost
from brrr_course.nouns.experiment import Experiment, Variant, Workload

PROCESSES, FEW_PROCESSES = 5, 3
"""How many processes are asked: each takes seconds to start, so where the budget is small there are fewer."""

FULL_BUDGET_S = 0.1
TIMEOUT_S = 120


@dataclass(frozen=True)
class FreshCalls:
    """Seconds of the first call and of the second in each of the processes, the cost, and the worst error."""

    first: tuple[float, ...]
    again: tuple[float, ...]
    cost: Cost
    error: float


def fresh_calls(experiment: Experiment, variant: Variant, point: Point, budget_s: float = 0.2) -> FreshCalls:
    """Time a variant's first and second call in each of five fresh processes; the results are checked in each.

    A budget under a tenth of a second, as for the points of a grid that no claim names, gets three of them.

    UnavailableError with the process's last line if one fails or takes too long.
    """
    at = [f"{name}={value}" for name, value in point.items()]
    command = python("brrr_course.sources.first_call", experiment.name, variant.name, *at)
    count = PROCESSES if budget_s >= FULL_BUDGET_S else FEW_PROCESSES
    what = f"{experiment.name} {variant.name}"
    answers = [json.loads(last_line(command, what, TIMEOUT_S)) for _ in range(count)]
    return FreshCalls(
        tuple(float(answer["seconds"]) for answer in answers),
        tuple(float(answer["again"]) for answer in answers),
        Cost(answers[0]["flop"], answers[0]["bytes"]),
        max(float(answer["error"]) for answer in answers),
    )


def last_line(command: list[str], what: str, timeout_s: float) -> str:
    """What one fresh process printed last; UnavailableError with its last words where it failed or took too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{what}: the fresh process did not end within {timeout_s:g} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UnavailableError(f"{what}: the fresh process failed ({done.returncode}): {last}")
    return done.stdout.splitlines()[-1]


def main(argv: list[str]) -> int:
    """Build the workload, prepare it, time its first call and one more, check both, print one line of JSON."""
    from brrr_course.experiments import experiment

    found = experiment(argv[0])
    point: dict[str, Value] = {}
    for text in argv[2:]:
        name, _, value = text.partition("=")
        point[name] = value if found.axis(name).scale == "category" else float(value)
    workload = found.workload(argv[1], point)
    workload.others.get("prepare", _nothing)()
    seconds, error = _timed(workload)
    again, error_again = _timed(workload)
    times = {"seconds": seconds, "again": again, "error": max(error, error_again)}
    print(json.dumps({**times, "flop": workload.cost.flop, "bytes": workload.cost.bytes}))
    return 0


def _timed(workload: Workload) -> tuple[float, float]:
    """Seconds of one call with its end waited for, and the error of its result, which is then given back."""
    start = time.perf_counter()
    result = workload.run()
    if workload.synchronize is not None:
        workload.synchronize()
    seconds = time.perf_counter() - start
    return seconds, workload.verified(result)


def _nothing() -> None:
    """Most first calls need nothing to be there before."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
