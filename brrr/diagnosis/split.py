"""Where the time between two moments of a trace went: what the device did, and why it did nothing.

>>> from brrr.tracing.events import Event
>>> from brrr.tracing.trace_file import Trace, left_over
>>> launch = Event("cudaLaunchKernel", "runtime", 0, 4000, correlation=1)
>>> kernel = Event("gemm", "kernel", 4000, 10000, correlation=1)
>>> found = split(Trace((launch, kernel), {}), 0, 10000)
>>> found.busy_s, dict(found.idle_s)
(6e-06, {'launch': 4e-06})
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import ne
from statistics import median

from brrr.core.intervals import Interval, common, gaps, length, union, without
from brrr.diagnosis.lines import LEAST, LOADER, LOADING, OPTIMISER, WAITING, python_by_line
from brrr.tracing.events import LINKED, Event, waits
from brrr.tracing.kineto import outermost
from brrr.tracing.lines import LINE
from brrr.tracing.trace_file import Trace, left_over

CAUSES = (WAITING, "transfer", "synchronisation", "allocation", "launch", "dispatcher", "Python")
"""Why a device is idle, by what the host does meanwhile: the first of these that it does."""
ALLOCATING = ("Malloc", "Free", "HostAlloc", "HostRegister", "MemPool", "MemGetInfo")
ON_ITS_WAY_NS = 100_000
"""A launch reaches a device that has nothing to do sooner."""
STEP = "ProfilerStep#"
"""How torch names the steps that a program marks."""
UNLIKE = 0.1
"""In such a share of the steps at most other operators stand in front of the optimiser than in the same one's last."""
GAP = 0.1
"""What may lie between two steps, as a share of the first, for them to follow each other."""


@dataclass(frozen=True)
class Split:
    """The seconds of a stretch of a trace; `busy_s`, `transfer_s`, `waited_s` and `idle_s` add up to `wall_s`.

    busy_s: kernels were running, and copies within the device; transfer_s: copies from or to the host, or another
    device, while no kernel ran; idle_s: nothing ran, by what the host did meanwhile; host_s: the host's time by the
    same causes, until it has issued everything. waited_s: launched work waited, for what was issued before the stretch
    or nobody recorded: no host is to blame. lines: the host's nanoseconds outside of operators, as `python_by_line` has
    them.
    """

    wall_s: float
    busy_s: float
    transfer_s: float
    idle_s: Mapping[str, float]
    host_s: Mapping[str, float]
    waited_s: float = 0.0
    lines: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def device_s(self) -> float:
        """Seconds in which the device was taken, copies from and to the host included."""
        return self.busy_s + self.transfer_s + self.waited_s

    @property
    def issuing_s(self) -> float:
        """Seconds in which the host did something else than wait for the device."""
        return sum(seconds for cause, seconds in self.host_s.items() if cause != "synchronisation")


def window(trace: Trace, marked: str = STEP) -> tuple[int, int, int]:
    """Start and end in nanoseconds, and the number of steps: those that are marked, else an optimiser's, with what they
    issued.

    Of steps with gaps between them, in which a program does something else, the longest row without one.

    Without marks it is one step, from the first launch of work for the device to the end of the last: what a program
    does before and behind that, as loading, is no part of it. On a CPU it is all.
    """
    marks = [each for each in trace.events if each.sort == "annotation" and each.name.startswith(marked)]
    steps = max(_rows(marks or by_optimiser(trace)), key=len, default=[])
    work = {each.correlation: each.end_ns for each in trace.events if each.on_device and each.correlation}
    launches = [each for each in trace.events if each.sort == "runtime" and each.correlation in work]
    if steps:  # the host may be ahead: what it issued in the steps belongs to them
        start, end = min(each.start_ns for each in steps), max(each.end_ns for each in steps)
        issued = [work[each.correlation] for each in launches if start <= each.start_ns < end]
        return start, max([end, *issued]), len({each.name for each in steps})
    inside = [each for each in trace.events if each.sort != "other" and not each.name.startswith(LINE)]
    inside = inside or list(trace.events)
    first, last = min(each.start_ns for each in launches or inside), max(each.start_ns for each in launches or inside)
    if not launches:
        last = max(each.end_ns for each in inside)
    around = [each for each in trace.events if each.sort == "operator" and each.start_ns <= first < each.end_ns]
    return min([first, *(each.start_ns for each in around)]), max([last, *work.values()]), 1


def by_optimiser(trace: Trace) -> list[Event]:
    """A step from the end of an optimiser's to the end of the next; where several take turns, to the last one's.

    Before the first one, and wherever far more is done, as when a model is tested, a step begins where as many
    operators are left as the others have.
    """
    marks = outermost(each for each in trace.events if each.name.startswith(OPTIMISER))
    threads = {each.thread for each in marks}
    calls = outermost(each for each in trace.events if each.sort == "operator" and each.thread in threads)
    starts = [each.start_ns for each in calls]
    first = [0, *(bisect_left(starts, each.end_ns) for each in marks)]
    until = [bisect_left(starts, each.start_ns) for each in marks]
    counts = [two - one for one, two in zip(first, until, strict=False)][1:]
    tail = min(filter(None, counts), default=0)
    before = [
        [each.name for each in calls[at - tail : at]] * bool(size) for at, size in zip(until[1:], counts, strict=True)
    ]
    turns = next((n for n in range(1, len(before)) if sum(map(ne, before, before[n:])) <= UNLIKE * len(before)), 1)
    last = [-1, *range(turns - 1, len(marks), turns)]
    sizes = [until[two] - first[one + 1] for one, two in pairwise(last)]
    if len(sizes) < 2 or not calls:
        return []
    leads = [starts[first[at + 1]] - marks[at].end_ns for at in last[1:-1]]
    usual, lead_ns, steps = int(median(sizes[1:])), int(median(leads)), []
    for (one, two), size in zip(pairwise(last), sizes, strict=True):
        start = marks[one].end_ns if one >= 0 else 0
        if one < 0 or size > 2 * usual:
            start = max(start, starts[min(until[two] - min(size, usual), len(starts) - 1)] - lead_ns)
        steps.append(Event(f"step {two}", "annotation", start, marks[two].end_ns))
    return steps


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
    lines = python_by_line(trace.events, start_ns, end_ns)
    fetched, rest = lines[WAITING].total(), lines["Python"].total()
    if fetched > LEAST * (fetched + rest):
        for part in (idle, at_all):
            moved = part["Python"] * fetched / (fetched + rest)
            part |= {WAITING: part.get(WAITING, 0.0) + moved, "Python": part["Python"] - moved}
    lines[WAITING] += lines.pop(LOADER)
    return Split(
        (end_ns - start_ns) / 1e9, length(working) / 1e9, length(alone) / 1e9,
        {cause: idle[cause] for cause in CAUSES if idle.get(cause)},
        {cause: at_all[cause] for cause in CAUSES if at_all.get(cause)},
        length(without(waiting, union([*working, *copying]))) / 1e9, lines,
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
        WAITING: lambda each: each.sort == "annotation" and each.name.startswith(LOADING),
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
