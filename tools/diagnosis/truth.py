"""The regime of each workload and the gain of each remedy, by intervention: torch alone, no model, nothing of `brrr`.

The first of these that holds is the regime:

- overhead: replayed as a CUDA Graph, the loop takes at most 1/1.3 of the time;
- memory: as a graph, half the bytes at as many FLOP take at most 1/1.3 of the time (or twice the bytes 1.3 times it);
- latency: as a graph, twice the batch takes at most 1.15 times as long;
- compute: else.
"""

import statistics
import time
from collections.abc import Mapping

import torch

from tools.diagnosis.faults import Fault
from tools.diagnosis.workloads import Call, Workload, graph_of

GAIN, FREE = 1.3, 1.15
ROUNDS, ROUND_S, WARM = 9, 0.02, 3


def regime(eager_s: float, graph_s: float, fewer: float, wider: float) -> str:
    """By the ratios: `fewer` is how many times as long the work takes as that with about half its bytes, `wider` how
    many times as long twice the batch takes, both as graphs.

    >>> regime(10e-6, 5e-6, 1.0, 1.0), regime(1.0, 1.0, 1.9, 2.0), regime(1.0, 1.0, 1.0, 1.1)
    ('overhead', 'memory', 'latency')
    """
    if eager_s >= GAIN * graph_s:
        return "overhead"
    if fewer >= GAIN:
        return "memory"
    return "latency" if wider <= FREE else "compute"


def together(calls: Mapping[str, Call]) -> dict[str, float]:
    """Seconds a call of each in a loop, interleaved round by round: medians."""
    counts = {name: _enough(call) for name, call in calls.items()}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            taken[name].append(_loop_s(call, counts[name]))
    return {name: statistics.median(times) for name, times in taken.items()}


def _enough(call: Call) -> int:
    """Calls that fill a round, once the first ones have compiled and chosen what they do."""
    calls = 1
    for _ in range(WARM):
        call()
    while calls < 2**14 and _loop_s(call, calls) * calls < ROUND_S:
        calls *= 2
    return calls


def _loop_s(call: Call, calls: int) -> float:
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    wait()
    return (time.perf_counter() - start) / calls


def wait() -> None:
    """For the device, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def of_workload(each: Workload) -> dict[str, object]:
    """One workload's times and regime; "failed" and why, where it cannot be run."""
    try:
        return _measured(each)
    except RuntimeError as error:
        cells = (each.name, *[""] * (len(COLUMNS) - 2), f"failed: {str(error).splitlines()[0]}")
        return dict(zip(COLUMNS, cells, strict=True))


COLUMNS = ("workload", "eager_s", "graph_s", "other", "other_s", "wider_s", "regime")


def _measured(each: Workload) -> dict[str, object]:
    other = "fewer" if each.fewer is not None else "more"
    calls = {which: each.call(which) for which in ("sizes", other, "wider")}
    made = {"eager": calls["sizes"]}
    made |= {which: graph_of(call) for which, call in calls.items()}
    times = together(made)
    fewer = times["sizes"] / times["fewer"] if other == "fewer" else times["more"] / times["sizes"]
    wider = times["wider"] / times["sizes"]
    found = regime(times["eager"], times["sizes"], fewer, wider)
    cells = (each.name, times["eager"], times["sizes"], other, times[other], times["wider"], found)
    return dict(zip(COLUMNS, cells, strict=True))


def of_fault(each: Fault) -> dict[str, object]:
    """One fault's times, and the gain of mending it."""
    times = together({which: each.call(which) for which in ("faulty", "mended")})
    faulty_s, mended_s = times["faulty"], times["mended"]
    cells = {"step": each.name, "remedies": "|".join(each.remedies), "faulty_s": faulty_s, "mended_s": mended_s}
    return {**cells, "gain": faulty_s / mended_s}
