"""What the event pair behind the gate shows beyond the work itself, and how far kernels lie apart in a graph.

A pair of events around one kernel shows more than the kernel's own time: the first event is stamped before the kernel
is fetched, the second after it has drained. The surplus is measured once a process, on a small elementwise kernel
whose own time CUPTI tells; where there is no CUPTI, the own time it had on an H200 is assumed. Behind an emptied cache
the surplus is larger, for the launches themselves then come from memory, so it is measured apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from brrr.errors import BrrrError
from brrr.kernels.nvrtc import PTR, U32, probe_kernel
from brrr.measurement import Cache
from brrr.statistics import median
from brrr.timing.activity import record_activity
from brrr.timing.gate import eviction_of, gate_of
from brrr.timing.graph_times import graph_step

ASSUMED_OWN_S = {"hot": 1.013e-6, "cold": 1.485e-6}
"""Own time of the yardstick kernel by CUPTI on an H200, used where the device's own cannot be had."""

YARDSTICK = "brrr_yardstick"
WORDS = 128 * 128
SETTLED_S = 0.02e-6
CHAINS = (1, 2, 5, 10, 20, 50)
"""Lengths at which the launch penalty of an emptied cache is measured; between them it is interpolated."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Seconds, on a yardstick kernel: the pair around one, its own time, hot and cold; and the gap inside a graph.

    `penalties_s` are what an emptied cache adds to the pair around chains of so many yardsticks, beyond what it adds
    to their own times.
    """

    pair_s: float
    own_s: float
    cold_pair_s: float
    cold_own_s: float
    graph_gap_s: float
    first_gap_s: float
    gap_s: float
    penalties_s: tuple[tuple[int, float], ...]
    own_from: str

    def surplus_s(self, cache: Cache) -> float:
        """What an event pair behind the gate shows beyond the span of the work between its events."""
        return self.pair_s - self.own_s if cache == "hot" else self.cold_pair_s - self.cold_own_s

    def gaps_s(self, kernels: int) -> float:
        """The gaps inside a stream's chain of so many kernels, hot."""
        return self.first_gap_s + (kernels - 2) * self.gap_s if kernels >= 2 else 0.0

    def cold_penalty_s(self, kernels: int) -> float:
        """What launching so many kernels out of an emptied cache costs, interpolated between the measured lengths."""
        lengths = [length for length, _ in self.penalties_s]
        at = min(max(kernels, lengths[0]), lengths[-1])
        above = next(i for i, length in enumerate(lengths) if length >= at)
        if above == 0:
            return self.penalties_s[0][1]
        (low, low_s), (high, high_s) = self.penalties_s[above - 1 : above + 1]
        return low_s + (high_s - low_s) * (at - low) / (high - low)


def pairs_s(call: Callable[[], Any], repeats: int, timeout_s: float, before: Callable[[], Any] | None = None) -> Any:
    """Elapsed times of event pairs around `repeats` calls in a queue filled behind one gate, None if it gave up.

    `before` is issued ahead of each pair (the eviction of the cache) and stays outside it.
    """
    import torch

    events = [_event_pair() for _ in range(repeats)]

    def issue() -> None:
        for first, last in events:
            if before is not None:
                before()
            first.record()
            call()
            last.record()

    held = gate_of(torch.cuda.current_device()).run(issue, timeout_s)
    return [first.elapsed_time(last) * 1e-3 for first, last in events] if held else None


def _event_pair() -> tuple[Any, Any]:
    import torch

    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


@lru_cache(maxsize=8)
def calibration(device_index: int, *, profiler: bool = True) -> Calibration:
    """The calibration of a device, measured once a process; `profiler=False` leaves CUPTI out of it."""
    yardstick = _yardstick()
    evict = eviction_of(device_index)
    hot = {length: _pair_median(yardstick, length) for length in CHAINS}
    cold = {length: _pair_median(yardstick, length, evict) for length in CHAINS}
    own = _own_times(yardstick, evict) if profiler else None
    own_s, cold_own_s = own or (ASSUMED_OWN_S["hot"], ASSUMED_OWN_S["cold"])
    step_s = _settled_step_s(yardstick, own_s)
    return Calibration(
        pair_s=hot[1],
        own_s=own_s,
        cold_pair_s=cold[1],
        cold_own_s=cold_own_s,
        graph_gap_s=step_s - own_s,
        first_gap_s=hot[2] - hot[1] - own_s,
        gap_s=(hot[50] - hot[2]) / 48 - own_s,
        penalties_s=tuple((n, cold[n] - hot[n] - (cold_own_s - own_s)) for n in CHAINS),
        own_from="cupti" if own else "assumed",
    )


def _settled_step_s(yardstick: Callable[[], None], own_s: float) -> float:
    """What the yardstick adds to a graph, once graphs have settled.

    A process's first graphs run with smaller gaps than all later ones (0.09 against 0.26 µs on an H200), so graphs are
    made until two in a row agree.
    """
    before = 0.0
    for attempt in range(10):
        step = graph_step(yardstick, own_s)
        now = step.seconds if step else own_s
        if attempt >= 3 and abs(now - before) <= SETTLED_S:
            break
        before = now
    return now


def _yardstick() -> Callable[[], None]:
    """The yardstick: a kernel that moves 256 KiB, about as long as torch's smallest operators."""
    import torch

    data, out = torch.zeros(WORDS * 4, device="cuda"), torch.zeros(WORDS * 4, device="cuda")
    kernel = probe_kernel(YARDSTICK)
    return lambda: kernel((128, 1, 1), (128, 1, 1), (data.data_ptr(), PTR), (out.data_ptr(), PTR), (WORDS, U32))


def _pair_median(call: Callable[[], None], length: int, before: Callable[[], Any] | None = None) -> float:
    def chain() -> None:
        for _ in range(length):
            call()

    samples: list[float] = []
    for _ in range(8):
        samples += pairs_s(chain, 16 if length < 10 else 8, 0.5, before) or []
    if not samples:
        raise BrrrError("calibration: the gate never held; another program may be using the GPU")
    return median(samples)


def _middle_mean(values: list[int]) -> float:
    """The mean of the middle half: finer than the median where values come in the clock's steps of 32 ns."""
    ordered = sorted(values)
    middle = ordered[len(ordered) // 4 : len(ordered) - len(ordered) // 4]
    return sum(middle) / len(middle)


def _own_times(yardstick: Callable[[], None], evict: Callable[[], None]) -> tuple[float, float] | None:
    """The yardstick's own time by CUPTI, hot and behind an emptied cache; None without a profiler."""
    times = []
    for before in (lambda: None, evict):

        def many(before: Callable[[], None] = before) -> None:
            for _ in range(200):
                before()
                yardstick()

        try:
            activities, _ = record_activity(many)
        except RuntimeError:
            return None
        own = [a.end_ns - a.start_ns for a in activities if a.name.startswith(YARDSTICK)]
        if not own:
            return None
        times.append(_middle_mean(own) * 1e-9)
    return times[0], times[1]
