"""A timeline: host lanes, device lanes, which launch caused what, and the shares that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from brrr.experiment import DeviceKind
from brrr.source import Badge
from brrr.tracing.intervals import Interval, length, together, union

if TYPE_CHECKING:
    from brrr.plots import Picture

PYTHON, OPERATOR, LAUNCH, WORKER = "python", "operator", "launch", "worker"
HOST_LANES = (PYTHON, OPERATOR, LAUNCH)

Kind = Literal["call", "operator", "launch", "wait", "kernel", "copy in", "copy out", "copy", "memset"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TRANSFERS: tuple[Kind, ...] = ("copy in", "copy out")
"""Copies that cross the link between host and device; a copy inside the device is no transfer."""


@dataclass(frozen=True, slots=True)
class Span:
    """One thing that happened: its lane, what it was, and when, in whole nanoseconds from the timeline's start.

    `call` is the number of the loop's call that it belongs to, -1 for none (the synchronisation at the loop's end);
    `cause` is the place, among the timeline's spans, of the host's span that launched it, -1 where none is known.
    """

    lane: str
    kind: Kind
    name: str
    start_ns: int
    end_ns: int
    call: int = -1
    cause: int = -1

    @property
    def on_device(self) -> bool:
        """Whether the device did it, and not the host."""
        return self.lane not in HOST_LANES

    @property
    def interval(self) -> Interval:
        """Start and end."""
        return (self.start_ns, self.end_ns)


@dataclass(frozen=True)
class Timeline:
    """What host and device did in `calls` calls of a loop with one synchronisation at its end.

    >>> spans = (Span("launch", "launch", "launch", 0, 1000, 0), Span("stream 7", "kernel", "relu", 1000, 2000, 0, 0))
    >>> found = Timeline(spans, "cuda", "a GPU", "2024-01-01", "", 1, 4e-6, 5e-6, 1e-5)
    >>> found.busy_s, found.idle_share, found.profiled_idle_share, found.inflation
    (1e-06, 0.75, 0.9, 2.0)

    Three periods, each in seconds a call. `period_s` is that of a long loop without the profiler, taken right before
    and right after it: what `measure` calls by that name. `loop_period_s` is that of the loop in the picture, its one
    synchronisation included, without the profiler; `profiled_period_s` is the same loop's under the profiler.

    All spans start at 0 or later and stand in the order of their starts. `kind` is "cuda", "cpu" (no device lanes) or
    "cpu-queue", whose worker is the device.
    """

    spans: tuple[Span, ...]
    kind: DeviceKind
    device: str
    date: str
    torch: str
    calls: int
    period_s: float
    loop_period_s: float
    profiled_period_s: float
    badge_kind: Literal["LIVE", "RECORDED", "LIVE, CPU QUEUE"] = "LIVE"

    # -- what there is ---------------------------------------------------------------------------------------------

    @cached_property
    def lanes(self) -> tuple[str, ...]:
        """The lanes that hold something: Python, operators, launches, then the device's in order of first use."""
        found = dict.fromkeys(span.lane for span in self.spans)
        return (*(lane for lane in HOST_LANES if lane in found), *(lane for lane in found if lane not in HOST_LANES))

    @property
    def streams(self) -> tuple[str, ...]:
        """The device's lanes, one for each stream."""
        return tuple(lane for lane in self.lanes if lane not in HOST_LANES)

    @property
    def end_ns(self) -> int:
        """Where the last span ends."""
        return max((span.end_ns for span in self.spans), default=0)

    @property
    def arrows(self) -> tuple[tuple[Span, Span], ...]:
        """From each launch to what it started on the device."""
        return tuple((self.spans[s.cause], s) for s in self.device_spans() if s.cause >= 0)

    def device_spans(self) -> Iterator[Span]:
        """What the device did, in order of the starts."""
        return (span for span in self.spans if span.on_device)

    @property
    def badge(self) -> Badge:
        """LIVE or RECORDED, the device, the date, torch's version."""
        return Badge(self.badge_kind, self.device, self.date, f"torch {self.torch}" if self.torch else "")

    # -- the shares ------------------------------------------------------------------------------------------------

    def _of(self, *kinds: Kind) -> list[Interval]:
        return union(span.interval for span in self.device_spans() if not kinds or span.kind in kinds)

    @property
    def busy_s(self) -> float | None:
        """Seconds a call that the device was busy: the union of its intervals over the calls; None without a device."""
        return length(self._of()) / 1e9 / self.calls if self.kind != "cpu" else None

    @property
    def idle_share(self) -> float | None:
        """Share of time without work for the device, the profiler's own cost left out: `1 - busy_s / period_s`.

        0 where the busy time exceeds the period by their inaccuracy; None on a CPU, which is host and device in one.
        """
        return None if self.busy_s is None else max(0.0, 1 - self.busy_s / self.period_s)

    @property
    def profiled_idle_share(self) -> float | None:
        """Share of idle time as the picture shows it, under the profiler: `1 - busy_s / profiled_period_s`."""
        return None if self.busy_s is None else max(0.0, 1 - self.busy_s / self.profiled_period_s)

    @property
    def inflation(self) -> float:
        """How many times longer the loop took under the profiler: `profiled_period_s / loop_period_s`."""
        return self.profiled_period_s / self.loop_period_s

    @property
    def transfer_s(self) -> float:
        """Seconds a call in which a copy between host and device was under way (their union over the calls)."""
        return length(self._of(*TRANSFERS)) / 1e9 / self.calls

    @property
    def transfer_share(self) -> float:
        """Share of the device's busy time in which a copy between host and device was under way: `transfer_s / busy_s`.

        0 where the device was never busy, as on a CPU.
        """
        return self.transfer_s / self.busy_s if self.busy_s else 0.0

    @property
    def transfer_share_of_period(self) -> float:
        """Share of copies between host and device in the whole time of a call without the profiler: of `period_s`."""
        return min(1.0, self.transfer_s / self.period_s)

    @property
    def overlap_share(self) -> float:
        """Share of the device's busy time in which two of these ran at once: kernels, copies in, copies out.

        0 where the device was never busy. Two kernels on two streams are no overlap in this sense: they share the
        same multiprocessors.
        """
        groups = [self._of("kernel"), self._of("copy in"), self._of("copy out")]
        busy_ns = length(self._of())
        return together(groups) / busy_ns if busy_ns else 0.0

    # -- who is ahead ----------------------------------------------------------------------------------------------

    @cached_property
    def calls_ahead(self) -> int:
        """By how many calls the host was ahead at most: calls issued before the current one and not yet finished.

        Counted where the host returns from a call, in the picture: the profiler slows the host down, so that without
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
        """Whether every call waits for the device by itself (`item()`, a copy to the host, `synchronize()`)."""
        waited = {span.call for span in self.spans if span.kind == "wait" and span.call >= 0}
        return self.kind != "cpu" and len(waited) == self.calls

    # -- keeping and showing ---------------------------------------------------------------------------------------

    def shortened(self, calls: int) -> Timeline:
        """The same timeline with its first calls only; the periods, each a call's, stay."""
        keep = [i for i, span in enumerate(self.spans) if 0 <= span.call < calls]
        place = {old: new for new, old in enumerate(keep)}
        spans = [replace(self.spans[i], cause=place.get(self.spans[i].cause, -1)) for i in keep]
        return replace(self, spans=tuple(spans), calls=min(calls, self.calls))

    def write(self, path: Path | str) -> Path:
        """Write the compact file: at most 200 KB, the last calls left out if need be."""
        from brrr.tracing.compact import write

        return write(self, Path(path))

    @staticmethod
    def read(path: Path | str) -> Timeline:
        """Read a compact file; RecordingError names the file and the field of what is wrong."""
        from brrr.tracing.compact import read

        return read(Path(path))

    def perfetto(self, path: Path | str) -> Path:
        """Write the timeline for https://ui.perfetto.dev, where it can be zoomed and measured."""
        from brrr.tracing.perfetto import write

        return write(self, Path(path))

    @property
    def text(self) -> str:
        """What the picture shows, in a few sentences."""
        from brrr.tracing.words import sentences

        return sentences(self)

    def picture(self, calls: int | None = None) -> Picture:
        """The timeline drawn, of its first `calls` calls, or of as many as can be read."""
        from brrr.tracing.drawing import picture

        return picture(self, calls)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> Any:
        data, metadata = self.picture()._repr_mimebundle_()
        return {**data, "text/plain": self.text}, metadata
