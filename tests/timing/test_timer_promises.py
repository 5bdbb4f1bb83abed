"""What docs/timer_details.md and `measure` promise of the timers in numbers: as the tests beside hold the code."""

from itertools import groupby

import pytest
from played_clock import Clock
from promises import promised

from brrr.timing import measure
from brrr.timing.host_times import HostTimes

TIMER, MEASURE, MEASUREMENT = "docs/timer_details.md", "brrr/timing/__init__.py", "brrr/core/measurement.py"


def test_so_many_calls_are_issued_between_two_synchronisations(clock: Clock) -> None:
    events: list[str] = []
    times = HostTimes(lambda: (events.append("call"), clock.go_on(1e-5))[1], lambda: events.append("wait"))
    times.latency = [1e-5]
    times._sample_host(0.01)
    bursts = [len([*group]) for kind, group in groupby(events) if kind == "call"]
    timed = promised(TIMER, r"single calls, (\w+) between two synchronisations")
    assert set(bursts[:-1]) == {timed + promised(TIMER, r"behind up to (\w+) that are not timed")}


HOST_BOUND = r"Notes ----- A call is \*host-bound\* if ``period_s >= "
PROMISES: dict[tuple[str, str], float] = {
    (TIMER, r"the two ends weigh at most ([\d.]+) %"): 0.5,  # test_host_times.py: a loop's ends
    (TIMER, r"repeated, at most (\w+) times"): 4,  # test_sampler.py: a run-up, slices, four budgets
    (TIMER, r"spent in (\w+) long slices"): 2, (TIMER, r"long slices instead of (\w+) short ones"): 8,
    (TIMER, r"takes longer than (\w+) budgets"): 4,
    (TIMER, r"until the clock is within (\w+) %"): 2,  # test_device_times.py: a steady clock, an emptied cache
    (TIMER, r"(\w+) the size of the L2 was written"): 2, (TIMER, r"then (\w+) its size of clean memory read"): 2,
    (MEASURE, r"all intervals are within ([\d.]+) %"): 0.5,  # test_sampler.py: a GPU's precision, a CPU's
    (MEASURE, r"\(on a CPU ([\d.]+) %\)"): 5,
    (MEASUREMENT, HOST_BOUND + r"([\d.]+) \* span_s"): 1.1,  # core/test_measurement.py: the very thresholds
    (MEASUREMENT, HOST_BOUND + r"[\d.]+ \* span_s`` and ``host_s >= ([\d.]+) \* period_s"): 0.9,
}  # fmt: skip


@pytest.mark.parametrize(("document", "pattern"), PROMISES)
def test_what_is_promised_is_what_is_done(document: str, pattern: str) -> None:
    assert promised(document, pattern) == PROMISES[document, pattern]


@pytest.mark.parametrize("flag", [
    "host-bound", "syncs", "thermal", "power-capped", "shared-gpu", "no-profiler", "queue-full", "nan", "single-call",
    "busy-cpu", "unstable",
])  # fmt: skip
def test_each_flag_is_told(flag: str) -> None:
    """What raises it, and nothing else, is in test_device_times.py and test_sampler.py."""
    assert f'"{flag}"' in (measure.__doc__ or "").partition("Raises")[0]
