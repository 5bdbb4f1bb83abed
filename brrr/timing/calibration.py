"""What the event pair behind the gate shows beyond the work itself, and how far kernels lie apart.

A pair of events around one kernel shows more than the kernel's own time: the first event is stamped before the kernel
is fetched, the second after it has drained. The surplus is measured once a process, on a small elementwise kernel
whose own time CUPTI tells; where there is no CUPTI, the own time it had on an H200 is assumed. Behind an emptied cache
the surplus is larger, for the launches themselves then come from memory, so it is measured apart. What only the
fall-back without a profiler needs, the gaps, is measured beside each of its measurements: gaps drift by a tenth of a
microsecond, and a chain of fifty kernels would add that up.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from brrr.core.errors import BrrrError
from brrr.core.heavy import torch
from brrr.core.measurement import Cache, median
from brrr.gpu import CUDA
from brrr.gpu.nvrtc import PTR, U32, probe_kernel
from brrr.timing.activity import record_activity
from brrr.timing.gate import eviction_of, gate_of
from brrr.timing.graph_times import graph_share

ASSUMED_OWN_S = {"hot": 0.99e-6, "cold": 1.485e-6}
"""Own time of the yardstick kernel by CUPTI on an H200, used where the device's own cannot be had."""

YARDSTICK = "brrr_yardstick"
WORDS = 128 * 128
SETTLED_S = 0.02e-6
QUEUE_DEPTH = 900
"""Launches that fit into the queue behind a closed gate, with room to spare: an H200 holds 1020 and blocks by 1100."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Seconds, on a yardstick kernel: the event pair around one, and its own time, hot and behind an emptied cache."""

    pair_s: float
    own_s: float
    cold_pair_s: float
    cold_own_s: float
    own_from: str

    def surplus_s(self, cache: Cache) -> float:
        """What an event pair behind the gate shows beyond the span of the work between its events."""
        return self.pair_s - self.own_s if cache == "hot" else self.cold_pair_s - self.cold_own_s


def pairs_s(call: Callable[[], Any], repeats: int, timeout_s: float, before: Callable[[], Any] | None = None) -> Any:
    """Elapsed times of event pairs around `repeats` calls in a queue filled behind one gate, None if it gave up.

    `before` is issued ahead of each pair (the eviction of the cache) and stays outside it.
    """
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]

    def issue() -> None:
        for first, last in events:
            if before is not None:
                before()
            first.record()
            call()
            last.record()

    held = gate_of(torch.cuda.current_device()).run(issue, timeout_s)
    return [first.elapsed_time(last) * 1e-3 for first, last in events] if held else None


@lru_cache(maxsize=8)
def calibration(device_index: int, *, profiler: bool = True) -> Calibration:
    """The calibration of a device, measured once a process; `profiler=False` leaves CUPTI out of it."""
    yardstick, evict = _yardstick(), eviction_of(device_index)
    own = _own_times(yardstick, evict) if profiler else None
    own_s, cold_own_s = own or (ASSUMED_OWN_S["hot"], ASSUMED_OWN_S["cold"])
    pair_s, cold_pair_s = _chain_s(yardstick, 1), _chain_s(yardstick, 1, evict)
    return Calibration(pair_s, own_s, cold_pair_s, cold_own_s, "cupti" if own else "assumed")


def graph_gap_s(device_index: int, calibrated: Calibration) -> float:
    """The gap behind a kernel inside a graph, measured now."""
    yardstick = _settled_yardstick(device_index)
    steps = [step.seconds for step in (graph_share(yardstick, calibrated.own_s) for _ in range(2)) if step]
    return sum(steps) / len(steps) - calibrated.own_s if steps else 0.0


def stream_gaps_s(calibrated: Calibration, kernels: int) -> float:
    """All gaps inside a stream's chain of so many kernels, measured now on a chain of yardsticks."""
    chain_s = _chain_s(_yardstick(), min(kernels, QUEUE_DEPTH))
    return chain_s - calibrated.surplus_s("hot") - min(kernels, QUEUE_DEPTH) * calibrated.own_s


def cold_penalty_s(device_index: int, calibrated: Calibration, kernels: int) -> float:
    """What an emptied cache adds to a chain of so many kernels beyond what it adds to their work, measured now."""
    yardstick, length = _yardstick(), min(kernels, QUEUE_DEPTH)
    grown = _chain_s(yardstick, length, eviction_of(device_index)) - _chain_s(yardstick, length)
    return grown - (calibrated.cold_own_s - calibrated.own_s)


@lru_cache(maxsize=8)
def _settled_yardstick(device_index: int) -> Callable[[], None]:
    """The yardstick, once graphs have settled.

    A process's first graphs run with smaller gaps than all later ones (0.09 against 0.26 µs on an H200), so graphs are
    made until two in a row agree.
    """
    yardstick, before = _yardstick(), 0.0
    for attempt in range(10):
        step = graph_share(yardstick, ASSUMED_OWN_S["hot"])
        now = step.seconds if step else 0.0
        if attempt >= 3 and abs(now - before) <= SETTLED_S:
            break
        before = now
    return yardstick


def _yardstick() -> Callable[[], None]:
    """The yardstick: a kernel that moves 256 KiB, about as long as torch's smallest operators."""
    data, out = torch.zeros(WORDS * 4, device=CUDA), torch.zeros(WORDS * 4, device=CUDA)
    kernel = probe_kernel(YARDSTICK)
    return lambda: kernel((128, 1, 1), (128, 1, 1), (data.data_ptr(), PTR), (out.data_ptr(), PTR), (WORDS, U32))


def _chain_s(yardstick: Callable[[], None], length: int, before: Callable[[], Any] | None = None) -> float:
    """The median of event pairs around a chain of yardsticks."""

    def chain() -> None:
        for _ in range(length):
            yardstick()

    repeats = max(1, min(16, QUEUE_DEPTH // (length + 4)))
    samples: list[float] = []
    for _ in range(max(6, 96 // repeats)):
        samples += pairs_s(chain, repeats, 0.5, before) or []
    if not samples:
        raise BrrrError("calibration: the gate never held; another program may be using the GPU")
    return median(samples)


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


def _middle_mean(values: list[int]) -> float:
    """The mean of the middle half: finer than the median where values come in the clock's steps of 32 ns."""
    ordered = sorted(values)
    middle = ordered[len(ordered) // 4 : len(ordered) - len(ordered) // 4]
    return sum(middle) / len(middle)
