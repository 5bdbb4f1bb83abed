"""Where the time between two moments of a trace went: what the device did, and why it did nothing.

>>> from brrr.tracing.events import Event
>>> from brrr.tracing.trace_file import Trace, left_over
>>> launch = Event("cudaLaunchKernel", "runtime", 0, 4000, correlation=1)
>>> kernel = Event("gemm", "kernel", 4000, 10000, correlation=1)
>>> found = split(Trace((launch, kernel), {}), 0, 10000)
>>> found.busy_s, dict(found.idle_s)
(6e-06, {'launch': 4e-06})
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from brrr.core.intervals import Interval, common, gaps, length, union, without
from brrr.tracing.events import LINKED, Event, waits
from brrr.tracing.trace_file import Trace, left_over

CAUSES = ("data loading", "transfer", "synchronisation", "allocation", "launch", "dispatcher", "Python")
"""Why a device is idle, by what the host does meanwhile: the first of these that it does."""
LOADING = ("enumerate(DataLoader)", "DataLoader")
ALLOCATING = ("Malloc", "Free", "HostAlloc", "HostRegister", "MemPool", "MemGetInfo")
ON_ITS_WAY_NS = 100_000
"""A launch reaches a device that has nothing to do sooner."""
GAP = 0.1
"""What may lie between two steps, as a share of the first, for them to follow each other."""


@dataclass(frozen=True)
class Split:
    """The seconds of a stretch of a trace; `busy_s`, `transfer_s`, `waited_s` and `idle_s` add up to `wall_s`.

    busy_s: kernels were running, and copies within the device; transfer_s: copies from or to the host, or another
    device, while no kernel ran; idle_s: nothing ran, by what the host did meanwhile; host_s: the host's time by the
    same causes, until it has issued everything. waited_s: launched work waited, for what was issued before the stretch
    or nobody recorded: no host is to blame.
    """

    wall_s: float
    busy_s: float
    transfer_s: float
    idle_s: Mapping[str, float]
    host_s: Mapping[str, float]
    waited_s: float = 0.0

    @property
    def device_s(self) -> float:
        """Seconds in which the device was taken, copies from and to the host included."""
        return self.busy_s + self.transfer_s + self.waited_s

    @property
    def issuing_s(self) -> float:
        """Seconds in which the host did something else than wait for the device."""
        return sum(seconds for cause, seconds in self.host_s.items() if cause != "synchronisation")


def window(trace: Trace, marked: str = "ProfilerStep#") -> tuple[int, int, int]:
    """Start and end in nanoseconds, and the number of steps: those marked by the profiler, with what they issued.

    Of steps with gaps between them, in which a program does something else, the longest row without one.

    Without marks it is one step, from the first launch of work for the device to the end of the last: what a program
    does before and behind that, as loading, is no part of it. On a CPU it is all.
    """
    marks = [each for each in trace.events if each.sort == "annotation" and each.name.startswith(marked)]
    steps = max(_rows(marks), key=len, default=[])
    work = {each.correlation: each.end_ns for each in trace.events if each.on_device and each.correlation}
    launches = [each for each in trace.events if each.sort == "runtime" and each.correlation in work]
    if steps:  # the host may be ahead: what it issued in the steps belongs to them
        start, end = min(each.start_ns for each in steps), max(each.end_ns for each in steps)
        issued = [work[each.correlation] for each in launches if start <= each.start_ns < end]
        return start, max([end, *issued]), len({each.name for each in steps})
    inside = [each for each in trace.events if each.sort != "other"] or list(trace.events)
    first, last = min(each.start_ns for each in launches or inside), max(each.start_ns for each in launches or inside)
    if not launches:
        last = max(each.end_ns for each in inside)
    around = [each for each in trace.events if each.sort == "operator" and each.start_ns <= first < each.end_ns]
    return min([first, *(each.start_ns for each in around)]), max([last, *work.values()]), 1


def _rows(steps: Iterable[Event]) -> list[list[Event]]:
    """Steps one behind the other, cut where more than a tenth of a step lies between two."""
    rows: list[list[Event]] = []
    for each in steps:
        before = rows[-1][-1] if rows else None
        if before is not None and each.start_ns - before.end_ns <= GAP * (before.end_ns - before.start_ns):
            rows[-1].append(each)
        else:
            rows.append([each])
    return rows


def split(trace: Trace, start_ns: int, end_ns: int) -> Split:
    """The time from start to end; a trace without the device's work has its operators as busy time."""
    events = [each for each in trace.events if each.end_ns > start_ns and each.start_ns < end_ns]
    on_gpu = any(each.on_device for each in events)
    host = _by_cause(events, start_ns, end_ns)
    if on_gpu:
        old = left_over(trace.events, start_ns)
        before = set(map(id, old))
        work = [each for each in events if each.on_device and id(each) not in before]
        working = _cut((each.interval for each in work if each.sort not in LINKED), start_ns, end_ns)
        copying = _cut((each.interval for each in work if each.sort in LINKED), start_ns, end_ns)
        waiting = _cut((*queued(trace.events), *(each.interval for each in old)), start_ns, end_ns)
    else:
        working, copying, waiting = host.pop("dispatcher"), [], []
    alone = without(copying, working)
    free = gaps([*working, *copying, *waiting], start_ns, end_ns)
    idle = {}
    for cause, intervals in host.items():
        idle[cause] = length(common(free, intervals)) / 1e9
        free = without(free, intervals)
    idle["Python"] = length(free) / 1e9
    at_all = {cause: length(intervals) / 1e9 for cause, intervals in host.items()}
    until = min(end_ns, max((each.end_ns for each in events if not each.on_device), default=end_ns))
    at_all["Python"] = length(gaps((each for part in host.values() for each in part), start_ns, until)) / 1e9
    return Split(
        (end_ns - start_ns) / 1e9, length(working) / 1e9, length(alone) / 1e9,
        {cause: idle[cause] for cause in CAUSES if idle.get(cause)},
        {cause: at_all[cause] for cause in CAUSES if at_all.get(cause)},
        length(without(waiting, union([*working, *copying]))) / 1e9,
    )  # fmt: skip


def queued(events: Sequence[Event]) -> list[Interval]:
    """When launched work waited for the device, longer than a launch is on its way.

    >>> launch = Event("cudaLaunchKernel", "runtime", 0, 5_000, correlation=1)
    >>> queued([launch, Event("gemm", "kernel", 4_000_000, 5_000_000, correlation=1)])
    [(5000, 4000000)]
    """
    launched = {each.correlation: each.end_ns for each in events if each.sort == "runtime" and each.correlation}
    work = [each for each in events if each.on_device and each.correlation in launched]
    waits = ((launched[each.correlation], each.start_ns) for each in work)
    return union(wait for wait in waits if wait[1] - wait[0] > ON_ITS_WAY_NS)


def exchanged(events: Iterable[Event], start_ns: int, end_ns: int) -> tuple[float, float]:
    """Seconds of a stretch in which NCCL's kernels ran on a device, and in which no other kernel ran beside them.

    >>> events = [Event("ncclDevKernel_AllReduce", "kernel", 2000, 8000), Event("gemm", "kernel", 0, 6000)]
    >>> exchanged(events, 0, 10000)
    (6e-06, 2e-06)

    The second is *exposed*: 1 - communication-computation overlap of Holistic Trace Analysis (Meta, 2022). A kernel's
    time holds its waiting for the other devices.
    """
    kernels = [each for each in events if each.sort == "kernel"]
    talks, computes = (
        _cut((each.interval for each in kernels if ("nccl" in each.name) == is_one), start_ns, end_ns)
        for is_one in (True, False)
    )
    return length(talks) / 1e9, length(without(talks, computes)) / 1e9


def _by_cause(events: Sequence[Event], start_ns: int, end_ns: int) -> dict[str, list[Interval]]:
    """What the host did, each nanosecond under one cause: the first that holds."""
    tests: dict[str, Callable[[Event], bool]] = {
        "data loading": lambda each: each.sort == "annotation" and each.name.startswith(LOADING),
        "synchronisation": lambda each: each.sort == "runtime" and waits(each.name),
        "allocation": lambda each: each.sort == "runtime" and any(part in each.name for part in ALLOCATING),
        "launch": lambda each: each.sort == "runtime",
        "dispatcher": lambda each: each.sort == "operator",
    }
    found: dict[str, list[Interval]] = {}
    taken: list[Interval] = []
    for cause, test in tests.items():
        mine = without(_cut((each.interval for each in events if test(each)), start_ns, end_ns), taken)
        found[cause] = mine
        taken = union([*taken, *mine])
    return found


def _cut(intervals: Iterable[Interval], start_ns: int, end_ns: int) -> list[Interval]:
    """Their union within the stretch."""
    inside = ((max(start, start_ns), min(end, end_ns)) for start, end in intervals)
    return union((start, end) for start, end in inside if end > start)
