"""Times of a GPU's calibration, of one call or of a sweep: by CUPTI, many in one recording, or gated event pairs."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from brrr.core.errors import BrrrError
from brrr.core.measurement import Estimate, Value
from brrr.counting.cost import OperatorCost
from brrr.gpu import CUDA, probe
from brrr.roofline.calibrate.part import Findings, said
from brrr.roofline.corrections import carried_s, measured_calls
from brrr.roofline.device_model import DeviceModel
from brrr.roofline.peak import Row, SweptCalls, whole_nanoseconds
from brrr.roofline.peaks import MissingPeakError, Peaks
from brrr.roofline.reference import REFERENCE
from brrr.timing.activity import Activity, busy_intervals, record_activity, split_by_marker
from brrr.timing.calibration import calibration, pairs_s
from brrr.timing.device_times import EVENT_TICK_S
from brrr.timing.gate import gate_of, marker_kernel, sm_clock_hz

Call = Callable[[], Any]

WARM, TIMED = 3, 12
"""Calls of each that come first and are not counted, and those that are."""

GATE_S = 0.2
LONG_ENOUGH_S = 20e-6
"""Of what lasts so long, the assumed surplus of an event pair is at most a few percent."""


def clock_conditions() -> dict[str, Value]:
    """The SM clock as a kernel sees it just now, and what holds it back, if anything does."""
    found: dict[str, Value] = {"sm_clock_hz": round(sm_clock_hz(), -6)}
    held = probe.throttle_reasons() - {"idle", "application-clocks"}
    return {**found, "held_back_by": ", ".join(sorted(held))} if held else found


def own_times(calls: Sequence[Call], warm: int = WARM, timed: int = TIMED, gap_s: float = 0.0) -> list[Estimate] | None:
    """The kernels' own time of each call by CUPTI, all calls in one recording, hot; None without a profiler.

    Kernels of one call that run side by side count once, and `gap_s` counts between those that follow each other.
    Each call is issued `warm` times uncounted and `timed` times counted, behind a gate, so that its kernels follow each
    other as in a full queue. A second try follows a first, for CUPTI may still detach from an earlier recording.
    """
    return _recorded(calls, warm, timed, gap_s) or _recorded(calls, warm, timed, gap_s)


def profiled(calls: Sequence[Call]) -> list[Estimate]:
    """The same where nothing else will do."""
    found = own_times(calls)
    if found is None:
        raise BrrrError("there is no profiler to tell the kernels' own times")
    return found


def _recorded(calls: Sequence[Call], warm: int, timed: int, gap_s: float) -> list[Estimate] | None:
    each = warm + timed
    try:
        activities, _ = record_activity(lambda: _issue_all(calls, each))
    except RuntimeError:  # another profiler is running, or CUPTI is forbidden here
        return None
    buckets = split_by_marker(activities)
    if len(buckets) != each * len(calls) or not all(buckets):
        return None
    own = [_own_s(bucket, gap_s) for bucket in buckets]
    return [Estimate.of(own[first + warm : first + each], EVENT_TICK_S) for first in range(0, len(own), each)]


def _own_s(activities: Sequence[Activity], gap_s: float) -> float:
    """The time in which any of them runs, and the gaps between: kernels of grouped convolutions run side by side."""
    busy = busy_intervals(activities)
    return sum(end - start for start, end in busy) * 1e-9 + gap_s * (len(busy) - 1)


def _issue_all(calls: Sequence[Call], times: int) -> None:
    def issue(call: Call) -> None:
        for _ in range(times):
            marker_kernel()
            call()

    for call in calls:
        gate_of(torch.cuda.current_device()).run(partial(issue, call), GATE_S)


def gated(call: Call, *, repeats: int = 8, rounds: int = 2) -> Estimate:
    """Event pairs behind the gate, less what a pair shows beyond the work: for calls that last 0.1 ms and more."""
    surplus_s = calibration(torch.cuda.current_device()).surplus_s("hot")
    pairs_s(call, 2, GATE_S)
    samples: list[float] = []
    for _ in range(rounds):
        samples += pairs_s(call, repeats, GATE_S) or []
    if not samples:
        raise BrrrError("calibrate: the gate never held; another program may be using the GPU")
    return Estimate.of(samples, EVENT_TICK_S).shifted(-surplus_s)


def times_of(calls: Sequence[Call]) -> tuple[list[Estimate | None], str]:
    """The time of each call, and by which method: CUPTI, else event pairs, which tell only the long ones."""
    own = own_times(calls)
    if own is not None:
        return list(own), "cupti"
    long = [found if (found := gated(call)).median >= LONG_ENOUGH_S else None for call in calls]
    return list(long), "event pairs behind the gate"


# ---------------------------------------------------------------------------------------------------------------------
# Sweeps on a GPU: each call checked, then timed by CUPTI, many in one recording, until the part's time is over.

TOGETHER = 96
"""Calls in one recording."""
SWEEP_WARM, SWEEP_TIMED = 2, 5
MISSED = 2
"""So many recordings may fail before a sweep ends."""

TRIES = 4
"""Of one kind are tried before it is given up."""
TOLD = 8
"""So many notes tell what was left out; one more tells that there was more."""

Prepare = Callable[[], tuple[Row, Callable[[], Any]] | None]
"""Allocates and checks one call, and gives it with its row; None for a call that no row can tell of."""
Made = tuple[str, Row, Callable[[], Any]]
"""The kind of a call, its row, and itself."""
Timed = Callable[[Sequence[Call], int, int, float], list[Estimate] | None]


def measure_sweep(
    name: str, columns: tuple[str, ...], calls: Mapping[str, Sequence[Prepare]], share_s: float, found: Findings,
    by: str, model: DeviceModel | None = None, timed: Timed | None = None, together: int = TOGETHER,
) -> None:  # fmt: skip
    """Time calls of each kind, and add them to the sweep `name`; what is left when `share_s` is over becomes a note.

    One call of each kind comes first, then more of those that are furthest from what `model` carries over from the
    reference. That stands beside each as `carried`, in nanoseconds (0: nothing tells). `timed` stands in for CUPTI.
    """
    until_s = time.perf_counter() + min(share_s, found.left_s)
    gap = found.measured.get("gap.graph")
    gap_s = gap.value if gap else 0.0
    waiting, off = {kind: list(those) for kind, those in calls.items()}, defaultdict[str, list[float]](list)
    rows: list[Row] = []
    seconds: list[float] = []
    missed = 0
    while any(waiting.values()):
        if time.perf_counter() >= until_s:
            all_of_them = sum(map(len, calls.values()))
            found.note(f"sweep of {name}: {len(rows)} of {all_of_them} measured, for lack of time")
            break
        made = list(_prepared(name, waiting, off, found, together))
        times = (timed or own_times)([call for *_, call in made], SWEEP_WARM, SWEEP_TIMED, gap_s) if made else []
        if times is not None:
            medians = [each.median for each in times]
            carried = _carried(SweptCalls.of(columns, [row for _, row, _ in made], medians), name, model)
            rows += [(*row, round(each * 1e9)) for (_, row, _), each in zip(made, carried, strict=True)]
            seconds += medians
            for (kind, *_), took, each in zip(made, medians, carried, strict=True):
                off[kind].append(abs(math.log(took / each)) if each else 0.0)
        elif (missed := missed + 1) > MISSED:
            found.note(f"sweep of {name}: {len(rows)} measured, since only CUPTI can time them")
            break
    if rows:
        times_from = "a loop" if timed else "cupti"
        conditions: dict[str, Value] = {"by": by, "times_from": times_from, "cache": "hot", "timed": SWEEP_TIMED}
        so_far = list(found.sweeps.get(name, ()))
        rows = [*(tuple(row.values()) for row, _ in so_far), *rows]
        times_s = whole_nanoseconds([*(time_s for _, time_s in so_far), *seconds])
        found.sweeps[name] = SweptCalls.of((*columns, "carried"), rows, times_s, conditions=conditions)


def _carried(swept: SweptCalls, name: str, model: DeviceModel | None) -> list[float]:
    """What the reference's sweep says of each call; 0 where it tells nothing, or a figure is missing for it."""

    def seconds(each: OperatorCost) -> float:
        with suppress(MissingPeakError):
            return (carried_s(each, model) if model else None) or 0.0
        return 0.0

    return [seconds(each) for each, _ in measured_calls({name: swept})]


def _prepared(
    name: str, waiting: Mapping[str, list[Prepare]], off: Mapping[str, list[float]], found: Findings, together: int
) -> Iterator[Made]:
    """The next calls to time, one of a kind: of kinds without any first, then of those that are furthest off.

    Of what is wrong, or cannot be had, no time is kept, and a note says so; a kind of which several cannot is given up.
    """
    kinds = [kind for kind in waiting if waiting[kind]]
    told = {kind: off.get(kind, ()) for kind in kinds}
    kinds.sort(key=lambda kind: (-sum(told[kind]) / len(told[kind]) ** 2 if told[kind] else -math.inf, len(told[kind])))
    for kind in kinds[:together]:
        tried = [waiting[kind].pop(0) for _ in range(min(TRIES, len(waiting[kind])))]
        while tried:
            made = _one(name, tried.pop(0), found)
            if made is not None:
                waiting[kind][:0] = tried
                yield kind, *made
                break
        else:
            waiting[kind].clear()


def _one(name: str, prepare: Prepare, found: Findings) -> tuple[Row, Callable[[], Any]] | None:
    try:
        return prepare()
    except Exception as error:  # a wrong result, too little memory, an operator that this torch lacks
        told = sum("left out" in note for note in found.notes)
        found.note(f"sweep of {name}: {f'left out: {said(error)}' if told < TOLD else 'more left out'}")
        return None


def model_so_far(found: Findings) -> DeviceModel:
    """The model of this GPU by what was measured of it so far."""
    peaks = Peaks(found.device, CUDA, "", measured=found.measured, curves=found.curves, reference=REFERENCE)
    return DeviceModel.measured(peaks)


def pool(nbytes: int, dtype: torch.dtype, device: str = CUDA) -> torch.Tensor:
    """Random values of a data type, so many bytes of them, for calls to take their operands from.

    They are of both signs, and their mean is not zero, so that no sum of them is small by accident.
    """
    itemsize = torch.empty((), dtype=dtype).element_size()
    return torch.randn(nbytes // itemsize, device=device, dtype=dtype).add_(0.25)


def taken(from_pool: torch.Tensor, shape: Sequence[int], place: float = 0.0) -> torch.Tensor:
    """A tensor from a place in the pool, 0 its beginning and 1 its end, on a line of the cache."""
    count = math.prod(shape)
    first = int(place * (len(from_pool) - count)) // 256 * 256
    return from_pool[first : first + count].view(*shape)
