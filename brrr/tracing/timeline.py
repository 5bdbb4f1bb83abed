"""A timeline: host lanes, device lanes, which launch caused what, and the shares that follow from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal

from brrr.core import units
from brrr.core.cards import Exported
from brrr.core.files import require_writable, write_atomically
from brrr.core.intervals import Interval, length, together, union
from brrr.core.measurement import Badge, DeviceKind
from brrr.gpu import backend_of, is_cpu, is_queue
from brrr.tracing.spans import HOST_LANES, LAUNCH, OPERATOR, PYTHON, TRANSFERS, WORKER, Kind, Span, perfetto_content


@dataclass(frozen=True)
class Timeline(Exported):
    """What host and device did, and when, in a loop of calls with one synchronisation at its end.

    >>> spans = (Span("launch", "launch", "launch", 0, 1000, 0), Span("stream 7", "kernel", "relu", 1000, 2000, 0, 0))
    >>> found = Timeline(spans, "xpu", "a GPU", "2024-01-01", torch="", calls=1,
    ...                  period_s=4e-6, loop_period_s=5e-6, profiled_period_s=1e-5)
    >>> found.busy_s, found.idle_share, found.profiled_idle_share, found.inflation
    (1e-06, 0.75, 0.9, 2.0)

    `trace` returns it. It draws itself in a notebook; ``perfetto("step.json")`` exports it to Perfetto.

    Attributes
    ----------
    spans : tuple of Span
        The spans in the order of their starts, which are in nanoseconds, 0 or later.
    kind : str
        The kind of device. "cpu" has no device lane; "cpu-queue" has its worker.
    device, date, torch : str
        The device's name, the date, and torch's version.
    calls : int
        How many calls the loop has.
    period_s : float
        Seconds per call of a long loop without the profiler, measured right before and after: `measure`'s `period_s`.
    loop_period_s : float
        Seconds per call of the loop in the picture, its synchronisation included, without the profiler.
    profiled_period_s : float
        The same under the profiler. `inflation` is this over `loop_period_s`.
    badge_kind : str
        "LIVE", "RECORDED" or "LIVE, CPU QUEUE".

    Notes
    -----
    ``idle_share`` is ``1 - busy_s / period_s``, the profiler's cost left out; ``profiled_idle_share`` is the one that
    the picture shows. `busy_s` is the union of the device's intervals per call, in seconds.
    """

    spans: tuple[Span, ...] = field(repr=False)
    kind: DeviceKind
    device: str
    date: str
    torch: str
    calls: int
    period_s: float
    loop_period_s: float
    profiled_period_s: float
    badge_kind: Literal["LIVE", "RECORDED", "LIVE, CPU QUEUE"] = "LIVE"
    drawer: ClassVar[str] = "brrr.drawing.timeline_figure"
    """The module whose `picture` draws a timeline; it stands above this one, and is loaded when one is shown."""
    _more = "busy_s", "idle_share", "inflation", "transfer_s", "overlap_share"

    # -- what there is ---------------------------------------------------------------------------------------------

    @cached_property
    def lanes(self) -> tuple[str, ...]:
        """The lanes that are not empty: Python, operators, launches, then the device's in the order of first use."""
        found = dict.fromkeys(span.lane for span in self.spans)
        streams = sorted((lane for lane in found if lane not in HOST_LANES), key=device_of)
        return (*(lane for lane in HOST_LANES if lane in found), *streams)

    @property
    def streams(self) -> tuple[str, ...]:
        """The device's lanes, one per stream."""
        return tuple(lane for lane in self.lanes if lane not in HOST_LANES)

    @property
    def end_ns(self) -> int:
        """Where the last span ends, in nanoseconds."""
        return max((span.end_ns for span in self.spans), default=0)

    @property
    def arrows(self) -> tuple[tuple[Span, Span], ...]:
        """Pairs of a launch and the span that it started on the device."""
        return tuple((self.spans[s.cause], s) for s in self.device_spans() if s.cause >= 0)

    def device_spans(self) -> Iterator[Span]:
        """The device's spans, in the order of their starts."""
        return (span for span in self.spans if span.on_device)

    @property
    def badge(self) -> Badge:
        """LIVE or RECORDED, the device, the date, torch's version."""
        return Badge(self.badge_kind, self.device, self.date, f"torch {self.torch}" if self.torch else "")

    # -- the shares ------------------------------------------------------------------------------------------------

    def _each(self, *kinds: Kind) -> list[list[Interval]]:
        """Of each device, when it did something of these kinds, or anything."""
        found = {device_of(lane): list[Interval]() for lane in self.streams}
        for span in self.device_spans():
            if not kinds or span.kind in kinds:
                found[device_of(span.lane)].append(span.interval)
        return [union(each) for each in found.values()]

    def _mean_s(self, *kinds: Kind) -> float:
        """Seconds per call of that, the mean of the devices."""
        each = self._each(*kinds)
        return sum(map(length, each)) / max(1, len(each)) / 1e9 / self.calls

    @property
    def busy_s(self) -> float | None:
        """Seconds per call in which the device was busy, what overlaps counted once; None without a device in sight.

        Of several devices it is the mean.
        """
        return self._mean_s() if self.streams else None

    @property
    def idle_share(self) -> float | None:
        """The share of time in which the device is idle without the profiler: ``1 - busy_s / period_s``.

        0 if the busy time exceeds the period, by the inaccuracy of both. None on a CPU, which is host and device in
        one.
        """
        return None if self.busy_s is None else max(0.0, 1 - self.busy_s / self.period_s)

    @property
    def profiled_idle_share(self) -> float | None:
        """The share of time in which the device is idle in the picture: ``1 - busy_s / profiled_period_s``."""
        return None if self.busy_s is None else max(0.0, 1 - self.busy_s / self.profiled_period_s)

    @property
    def inflation(self) -> float:
        """How many times as long the loop took under the profiler: ``profiled_period_s / loop_period_s``."""
        return self.profiled_period_s / self.loop_period_s

    @property
    def transfer_s(self) -> float:
        """Seconds per call in which host and device copied to each other, what overlaps counted once."""
        return self._mean_s(*TRANSFERS)

    @property
    def transfer_share(self) -> float:
        """The share of the device's busy time in which host and device copied to each other: ``transfer_s / busy_s``.

        0 if the device was never busy, as on a CPU.
        """
        return self.transfer_s / self.busy_s if self.busy_s else 0.0

    @property
    def transfer_share_of_period(self) -> float:
        """The share of a call's time, without the profiler, in which host and device copied to each other."""
        return min(1.0, self.transfer_s / self.period_s)

    @property
    def overlap_share(self) -> float:
        """The share of the device's busy time in which two of these ran at once: kernels, copies in, copies out.

        0 if the device was never busy. Two kernels on two streams do not count as overlap: they share the
        multiprocessors.
        """
        groups = zip(self._each("kernel"), self._each("copy in"), self._each("copy out"), strict=True)
        busy_ns = sum(map(length, self._each()))
        return sum(map(together, groups)) / busy_ns if busy_ns else 0.0

    # -- who is ahead ----------------------------------------------------------------------------------------------

    @cached_property
    def calls_ahead(self) -> int:
        """The most calls that the host was ahead: launched before the current one and not yet finished.

        It is counted in the picture, where the host returns from a call. The profiler slows the host down, so without
        it the host may be further ahead.
        """
        ends: dict[int, int] = {}
        for span in self.device_spans():
            ends[span.call] = max(span.end_ns, ends.get(span.call, 0))
        returned = {span.call: span.end_ns for span in self.spans if span.kind == "call"}
        waiting = [sum(1 for other, end in ends.items() if 0 <= other < call and end > at)
                   for call, at in returned.items()]  # fmt: skip
        return max(waiting, default=0)

    @property
    def waits_in_calls(self) -> bool:
        """Whether every call itself waits for the device: ``item()``, a copy to the host, ``synchronize()``."""
        waited = {span.call for span in self.spans if span.kind == "wait" and span.call >= 0}
        return not is_cpu(self.kind) and len(waited) == self.calls

    # -- keeping and showing ---------------------------------------------------------------------------------------

    def shortened(self, calls: int) -> Timeline:
        """The same timeline with its first calls only. The periods, which are per call, stay."""
        keep = [i for i, span in enumerate(self.spans) if 0 <= span.call < calls]
        place = {old: new for new, old in enumerate(keep)}
        spans = [replace(self.spans[i], cause=place.get(self.spans[i].cause, -1)) for i in keep]
        return replace(self, spans=tuple(spans), calls=min(calls, self.calls))

    def perfetto(self, path: Path | str) -> Path:
        """Write the timeline to a file for https://ui.perfetto.dev, where you can zoom in.

        RecordingError where the folder cannot be written to.
        """
        about = {"device": self.device, "date": self.date, "torch": self.torch, "text": self.text}
        titles = {lane: lane_title(self.kind, lane) for lane in self.lanes}
        require_writable(Path(path).parent)
        content = perfetto_content(titles, self.spans, self.arrows, about)
        write_atomically(Path(path), json.dumps(content, ensure_ascii=False))
        return Path(path)

    @property
    def text(self) -> str:
        """What the picture shows, in a few sentences."""

        return sentences(self)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> Any:
        try:
            data, metadata = import_module(self.drawer).picture(self)._repr_mimebundle_()
        except ImportError:  # without matplotlib
            return {"text/plain": self.text}, {}
        return {**data, "text/plain": self.text}, metadata


# ---------------------------------------------------------------------------------------------------------------------
# What a timeline shows, in words: computed from it, so that no sentence can contradict the picture.

RUNS_AHEAD = 2
"""Calls ahead from which the host is said to run ahead: one call is always under way while the next is issued."""
OVERLAPPING = 1.05
"""Busy time over period from which the calls of a loop must overlap each other on the device."""
ADDS_LITTLE = 1.05
"""Up to so much longer the profiler is said to add little."""
SELDOM, MOSTLY = 0.1, 0.5
"""Idle shares up to which the device seldom waits, and from which it mostly waits; copies above that are its work."""


def sentences(found: Timeline) -> str:
    """The text line: period, idle share, inflation, who waits for whom, transfers."""
    more = [capital(inflated(found))] if found.busy_s is None else [pictured(found), waiting(found), *copies(found)]
    return " ".join([f"{calls(found)}, {period(found)}: {busy(found)}", *more])


def verdict(found: Timeline) -> str:
    """The heading of the picture: a call's time, and whether the device works or waits."""
    does = f"is idle {share(found.idle_share)}" if found.idle_share else f"{verb(found)} nearly all"
    return period(found) if found.busy_s is None else f"{period(found)}: {device(found)} {does} of the time"


def verb(found: Timeline) -> str:
    """What the device does while it is busy."""
    return "copies" if found.transfer_share > MOSTLY else "works"


def calls(found: Timeline) -> str:
    """How many calls were traced."""
    return f"{found.calls} call{'s' if found.calls != 1 else ''}"


def device(found: Timeline) -> str:
    """What computes: the GPU, each of several, or the CPU queue's worker."""
    return "the worker" if is_queue(found.kind) else "each GPU" if any(map(device_of, found.streams)) else "the GPU"


def tracer(found: Timeline) -> str:
    """What slows the traced loop down."""
    return "tracing" if is_queue(found.kind) else "the profiler"


def period(found: Timeline) -> str:
    """A call's time without the profiler."""
    return f"{units.seconds(found.period_s)} a call without {tracer(found)}"


def busy(found: Timeline) -> str:
    """Busy time and idle share, the profiler's cost left out; its busy time may be a little above the period."""
    if found.busy_s is None or found.idle_share is None:
        if not is_cpu(found.kind):
            return f"{tracer(found)} sees nothing of what {device(found)} does."
        return "the CPU does each call itself, so nothing waits."
    if found.busy_s > OVERLAPPING * found.period_s:
        works = f"a call keeps {device(found)} busy for {units.seconds(found.busy_s)}"
        return f"{works}, but in a loop one ends every {units.seconds(found.period_s)}, for the calls overlap."
    if found.busy_s >= found.period_s:
        return f"{device(found)} {verb(found)} nearly all of the time."
    works = units.seconds(found.busy_s)
    return f"{device(found)} works {works} of it and is idle {share(found.idle_share)} of the time."


def pictured(found: Timeline) -> str:
    """The profiler's own cost, for the picture has it; one idle share is enough."""
    longer = "." if found.inflation < ADDS_LITTLE else ", so the pauses look longer than they are."
    return f"In the picture {inflated(found).removesuffix('.')}{longer}"


def inflated(found: Timeline) -> str:
    """How much longer the loop takes under the profiler."""
    if found.inflation * ADDS_LITTLE < 1:
        return f"a call of the traced loop, run apart, takes only {units.ratio(found.inflation, 2)} as long."
    if found.inflation < ADDS_LITTLE:
        return f"{tracer(found)} adds little."
    return f"{tracer(found)} makes the loop {units.ratio(found.inflation, 2)} as long."


def capital(text: str) -> str:
    """The text with a capital at its start, the rest as it is.

    >>> capital("the GPU waits.")
    'The GPU waits.'
    """
    return text[:1].upper() + text[1:]


def waiting(found: Timeline) -> str:
    """Who waits for whom."""
    name, idle = device(found), found.idle_share or 0.0
    if found.waits_in_calls:
        return f"Each call waits for {name}, so the CPU cannot run ahead."
    ahead = f"The CPU runs ahead by up to {found.calls_ahead} calls" if found.calls_ahead >= RUNS_AHEAD else ""
    if idle <= SELDOM:
        return f"{ahead}, and {name} seldom waits." if ahead else capital(f"{name} seldom waits.")
    if ahead:
        return f"{ahead}, yet {name} pauses between its pieces of work."
    how = "most of the time" if idle >= MOSTLY else "part of the time"
    return capital(f"{name} waits for the CPU {how}.")


def copies(found: Timeline) -> list[str]:
    """The share of transfers, and of what runs at the same time, where there is any."""
    said = []
    if found.transfer_share:
        whole = (found.busy_s or 0) < found.period_s
        of_all = f", {share(found.transfer_share_of_period)} of the whole time" if whole else ""
        said.append(f"Copies to and from it are under way in {share(found.transfer_share)} of its busy time{of_all}.")
    if found.overlap_share >= 0.005:
        said.append(f"Copies run beside other work in {share(found.overlap_share)} of its busy time.")
    return said


def share(of_one: float) -> str:
    """A share as a whole percentage.

    >>> share(0.8123), share(0.004)
    ('81 %', '0.4 %')
    """
    return units.percent(of_one, 2 if of_one >= 0.01 else 1)


def device_of(lane: str) -> str:
    """Which of several devices a lane belongs to; nothing where there is one.

    >>> device_of("GPU 1 stream 2"), device_of("stream 2")
    ('GPU 1', '')
    """
    return " ".join(lane.split()[:2]) if lane.startswith("GPU ") else ""


def lane_title(kind: DeviceKind, lane: str) -> str:
    """A lane's name for a reader.

    >>> lane_title("xpu", "launch"), lane_title("cpu-queue", "launch"), lane_title("xpu", "stream 7")
    ('launches (XPU API)', 'submit (queue)', 'GPU stream 7')
    """
    titles = {PYTHON: "Python: calls", OPERATOR: "operators (torch)", WORKER: "worker"}
    titles[LAUNCH] = "submit (queue)" if is_queue(kind) else f"launches ({backend_of(kind)} API)"
    return titles.get(lane) or (f"GPU {lane}" if lane.startswith("stream") else lane)
