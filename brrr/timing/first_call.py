"""The very first call in a fresh process: `python -m brrr.timing.first_call EXPERIMENT VARIANT key=value ...`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from brrr.errors import UnavailableError
from brrr.experiment import Experiment, Point, Value, Variant
from brrr.measurement import Estimate, Measurement

if TYPE_CHECKING:
    from brrr.timing.timers import TimedRun

PROCESSES = 3
TIMEOUT_S = 120


def first_call(experiment: Experiment, variant: Variant, point: Point) -> TimedRun:
    """Time the first call of a variant in each of three fresh processes; the result is checked in each.

    UnavailableError with the process's last line if one fails.
    """
    from brrr.timing.timers import TimedRun

    at = [f"{name}={value}" for name, value in point.items()]
    command = [sys.executable, "-m", "brrr.timing.first_call", experiment.name, variant.name, *at]
    times, errors = [], []
    for _ in range(PROCESSES):
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise UnavailableError(f"{experiment.name} {variant.name}: the fresh process failed: {last}")
        answer = json.loads(done.stdout.splitlines()[-1])
        times.append(float(answer["seconds"]))
        errors.append(float(answer["error"]))
        cost = answer["flop"], answer["bytes"]
    from brrr.cost import Cost

    measurement = Measurement(latency_s=Estimate.of(times), device=variant.device, samples={"latency_s": tuple(times)})
    return TimedRun(measurement, Cost(*cost), max(errors))


def main(argv: list[str]) -> int:
    """Build the workload, time its first call, check the result, print one line of JSON."""
    from brrr.experiments import experiment

    found = experiment(argv[0])
    point: dict[str, Value] = {}
    for text in argv[2:]:
        name, _, value = text.partition("=")
        point[name] = value if found.axis(name).scale == "category" else float(value)
    workload = found.workload(argv[1], point)
    start = time.perf_counter()
    result = workload.run()
    if workload.synchronize is not None:
        workload.synchronize()
    seconds = time.perf_counter() - start
    error = workload.verified(result)
    print(json.dumps({"seconds": seconds, "error": error, "flop": workload.cost.flop, "bytes": workload.cost.bytes}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
