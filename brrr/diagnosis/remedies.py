"""What would help, and how much by prediction: each remedy looks at the evidence and says what the time would be.

A gain is the time as it is over the time predicted with the remedy. The host and the device work at the same time, so
that what is saved on the one does not count where the other takes as long.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from brrr.core import units
from brrr.core.errors import BrrrError
from brrr.counting.cost import ITEMSIZE, Cost, OperatorCost
from brrr.diagnosis.assess import GRAPH_GAP_S, Assessed, Shares
from brrr.diagnosis.split import Split, common
from brrr.diagnosis.trace_file import TRANSFERS, Event, Trace
from brrr.roofline.device_model import DeviceModel
from brrr.roofline.lowering import fused
from brrr.roofline.peaks import short
from brrr.roofline.shapes import whole
from brrr.roofline.terms import operator_time
from brrr.tracing.spans import length, union

WORTH = 1.1
"""A remedy that is predicted to gain less is not named."""
SHORT_TYPES = ("bfloat16", "float16")
"""The first that the device has tensor cores for."""
SECTOR = 32
"""Bytes that a GPU moves at least."""
PINNED_BYTES_PER_S = 2.5e10
"""Copies of pinned memory, where no datasheet tells the link: of the order of PCIe 4."""
TRACEBACK_S = 6e-5
"""What anomaly detection takes to write down where an operator was called: 0.04 to 0.17 ms were seen, by the depth."""
FEW = 2
"""Fewer pieces of work a step gain nothing as a CUDA Graph."""
BESIDE = 3.0
"""Python's time between operators goes with the graph, up to so many times what dispatching and launching take."""
MANY = 16
"""From so many equal small calls a step on, a loop over what could be one call is suspected."""


@dataclass(frozen=True)
class Remedy:
    """What to do, why, and the predicted gain: the time as it is over the time with it."""

    name: str
    gain: float
    why: str

    def __str__(self) -> str:
        return f"{self.name}: predicted gain {units.ratio(self.gain)}. {self.why}"


@dataclass(frozen=True)
class Evidence:
    """What a diagnosis knows: the trace's stretch, its split, the calls, the device's figures, and flags that were set.

    steps: how often the program's step is in the stretch. flags, of a live run: "launch blocking"; "asleep_s", seconds
    in which the host did nothing; "recompiled", the share of it that was spent on compiling.
    """

    trace: Trace
    start_ns: int
    end_ns: int
    steps: int
    split: Split
    shares: Shares
    calls: Sequence[Assessed]
    model: DeviceModel | None
    gpu: bool
    flags: Mapping[str, float] = field(default_factory=dict)
    _times: dict[OperatorCost, float] = field(default_factory=dict, repr=False)

    @property
    def wall_s(self) -> float:
        """Seconds of the stretch."""
        return self.split.wall_s

    @property
    def device_s(self) -> float:
        """Seconds in which the device worked, copies from and to the host included."""
        return self.split.busy_s + self.split.transfer_s

    @property
    def host_s(self) -> float:
        """Seconds in which the host did something else than wait for the device."""
        return sum(seconds for cause, seconds in self.split.host_s.items() if cause != "synchronisation")

    @cached_property
    def events(self) -> list[Event]:
        """Those of the stretch."""
        return [each for each in self.trace.events if self.start_ns <= each.start_ns < self.end_ns]

    def predicted_s(self, costs: Iterable[OperatorCost]) -> float:
        """What the roofline's model gives the work of these operators; equal ones are looked up once."""
        total = 0.0
        for each in costs:
            if each not in self._times:
                self._times[each] = self._predicted_s(each)
            total += self._times[each]
        return total

    def _predicted_s(self, cost: OperatorCost) -> float:
        assert self.model is not None
        try:
            made = operator_time(cost, self.model, cost.bytes, host_s=0.0 if self.model.is_gpu else None)
        except BrrrError:  # the device has no figure for its type: nothing is known to be saved
            return math.inf
        return made.device_s or 0.0

    def faster(self, saved_s: float) -> float:
        """The gain if the device had so much less to do: what the host takes meanwhile stays."""
        least = min(self.wall_s, self.host_s) if not self.waits else 0.0
        return self.wall_s / max(self.wall_s - saved_s, least, 1e-12)

    @property
    def waits(self) -> bool:
        """Whether the host waits for the device in the steps, so that neither works ahead of the other."""
        return self.split.host_s.get("synchronisation", 0.0) > 0.02 * self.wall_s or not self.gpu


def remedies(found: Evidence) -> list[Remedy]:
    """Those that are predicted to gain something, first those that mend a fault, in each kind by their gain.

    A fault's gain counts double (on a logarithmic scale), since nothing is lost with it; that of a larger batch half.
    """
    weights = (((_debugging,), 10.0), (FAULTS, 2.0), (GENERAL, 1.0), ((_batch,), 0.5))
    made = [(look(found), weight) for looks, weight in weights for look in looks]
    kept = [(weight * math.log(each.gain), each) for each, weight in made if each is not None and each.gain >= WORTH]
    return [each for _, each in sorted(kept, key=lambda one: -one[0])]


# ---- overhead --------------------------------------------------------------------------------------------------------


def _graph(found: Evidence) -> Remedy | None:
    """The host issues one launch in place of many; what Python does besides stays."""
    if not found.gpu or found.shares.kernels < FEW * found.steps or found.waits or found.split.transfer_s:
        return None
    issuing_s = found.split.idle_s.get("dispatcher", 0.0) + found.split.idle_s.get("launch", 0.0)
    idle_s = issuing_s + min(found.split.idle_s.get("Python", 0.0), BESIDE * issuing_s)
    gap_s = found.model.value("gap.graph") if found.model is not None and found.model.has("gap.graph") else GRAPH_GAP_S
    left_s = found.wall_s - idle_s + gap_s * found.shares.kernels
    kernels = found.shares.kernels / found.steps
    why = f"The device is idle {units.percent(idle_s / found.wall_s)} of the time while the host issues {kernels:.3g}"
    return Remedy("cuda graph", found.wall_s / left_s, f"{why} pieces of work a step one by one.")


def _batch(found: Evidence) -> Remedy | None:
    """Twice the work for the same overhead, where host or latency is the limit."""
    latency_s = found.shares.work_s.get("latency", 0.0)
    fixed_s = found.wall_s - found.split.busy_s + latency_s
    if fixed_s < 0.3 * found.wall_s:
        return None
    doubled_s = found.wall_s + found.split.busy_s - latency_s
    why = f"{units.percent(fixed_s / found.wall_s)} of the time does not grow with the batch."
    return Remedy("larger batch", 2 * found.wall_s / doubled_s, why)


def _waiting(found: Evidence) -> Remedy | None:
    """The host runs ahead again."""
    waited_s = found.split.host_s.get("synchronisation", 0.0)
    if not found.gpu or not waited_s:
        return None
    named = Counter(each.name for each in found.events if each.name in _READS)
    how = f", in {named.most_common(1)[0][0].removeprefix('aten::')}" if named else ""
    each = _count(found, lambda event: event.sort == "runtime" and "Synchronize" in event.name) / found.steps
    if each < 0.5:
        return None
    why = f"The host waits for the device {each:.2g} times a step{how}, and issues nothing meanwhile."
    return Remedy("no synchronisation", found.wall_s / max(found.host_s, found.device_s), why)


_READS = ("aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal")


def _loading(found: Evidence) -> Remedy | None:
    """The next batch is made while this one is computed."""
    idle_s = found.split.host_s.get("data loading", 0.0) + found.flags.get("asleep_s", 0.0)
    if not idle_s:
        return None
    why = (
        f"The host spends {units.percent(idle_s / found.wall_s)} of the time on the next batch, and nothing else runs."
    )
    return Remedy("load in the background", found.wall_s / max(found.wall_s - idle_s, 1e-12), why)


def _optimiser(found: Evidence) -> Remedy | None:
    """One kernel for all parameters."""
    steps = [each for each in found.events if each.sort == "annotation" and each.name.startswith("Optimizer.step")]
    if not steps:
        return None
    inside = _inside(found, steps)
    single = [each for each in inside if not each.call.name.startswith(("_foreach", "_fused"))]
    if len(single) < MANY * len(steps):
        return None
    took_s = sum(each.end_ns - each.start_ns for each in steps) / 1e9
    host_s, device_s = found.host_s - 0.9 * took_s, found.device_s - 0.5 * sum(each.work_s for each in single)
    why = f"The optimiser makes {len(single) / len(steps):.3g} calls a step, tensor by tensor."
    return Remedy("fused optimiser", found.wall_s / max(host_s, device_s, 1e-12), why)


def _compiling(found: Evidence) -> Remedy | None:
    spent_s = min(0.99, found.flags.get("recompiled", 0.0)) * found.wall_s
    if not spent_s:
        return None
    why = "torch.compile compiled again while it ran: sizes, or Python's values that it relies on, change."
    return Remedy("no recompilation", found.wall_s / max(found.wall_s - spent_s, 1e-12), why)


def _debugging(found: Evidence) -> Remedy | None:
    """Checks of every gradient for NaN, each of which the host waits for; or a host that waits for every kernel."""
    checks = _cut_by_name(found, ("aten::isnan", "aten::_is_any_true", "aten::any", "aten::item"), "autograd::engine")
    blocking = "launch blocking" in found.flags
    if not blocking and not any(each.name == "aten::_is_any_true" for each in checks):
        return None
    nodes = sum(each.name.startswith("autograd::engine::evaluate_function") for each in found.events)
    spent_s = length(each.interval for each in checks) / 1e9 + TRACEBACK_S * nodes
    left_s = max(found.device_s, found.host_s if blocking else found.wall_s - spent_s)
    what = "CUDA_LAUNCH_BLOCKING is set" if blocking else "Anomaly detection is on: it looks at every gradient"
    return Remedy("debugging off", max(found.wall_s / left_s, WORTH), f"{what}.")


def _cut_by_name(found: Evidence, names: Sequence[str], around: str) -> list[Event]:
    """Operators of these names inside of others whose names begin so."""
    spans = union(each.interval for each in found.events if each.name.startswith(around))
    inside = (each for each in found.events if each.name in names)
    return [each for each in inside if common([each.interval], spans)]


def _allocating(found: Evidence) -> Remedy | None:
    spent_s = found.split.idle_s.get("allocation", 0.0)
    if not spent_s:
        return None
    why = f"The driver allocates and frees memory in {units.percent(spent_s / found.wall_s)} of the time."
    return Remedy("keep memory", found.wall_s / (found.wall_s - spent_s), why)


def _looping(found: Evidence) -> Remedy | None:
    """Many equal small calls could be one."""
    products = [each for each in found.calls if _is_product(each)]
    alike = Counter((each.call.name, each.call.operator.inputs) for each in products)
    if not alike:
        return None
    (name, _), count = alike.most_common(1)[0]
    if count < MANY * found.steps or not _picks(found, count):
        return None
    per = count / found.steps
    why = f"{name} is called {per:.3g} times a step with equal sizes, on one slice after another."
    return Remedy("batched", per, why)


def _picks(found: Evidence, count: int) -> bool:
    """Whether slices are taken about as often."""
    return _count(found, lambda each: each.name in ("aten::select", "aten::slice", "aten::unbind")) >= 0.5 * count


# ---- transfers -------------------------------------------------------------------------------------------------------


def _pinning(found: Evidence) -> Remedy | None:
    """Copies from pageable memory go through a buffer of the driver's, and the host waits for them."""
    copies = [each for each in found.events if each.sort in TRANSFERS and "Pageable" in each.name]
    took_s = sum(each.end_ns - each.start_ns for each in copies) / 1e9
    nbytes = sum(each.nbytes for each in copies)
    if not nbytes:
        return None
    saved_s = took_s - nbytes / _link(found)
    why = f"{units.nbytes(nbytes / found.steps)} a step are copied from or to pageable memory."
    return Remedy("pinned memory", found.wall_s / max(found.wall_s - saved_s, found.device_s - saved_s, 1e-12), why)


def _link(found: Evidence) -> float:
    from brrr.gpu.datasheet import find_hardware

    known = find_hardware(found.model.device) if found.model is not None else None
    return (
        0.9 * known.host_link.bytes_per_s if known is not None and known.host_link is not None else PINNED_BYTES_PER_S
    )


def _keeping(found: Evidence) -> Remedy | None:
    copies = [each for each in found.events if each.sort in TRANSFERS]
    took_s = sum(each.end_ns - each.start_ns for each in copies) / 1e9
    if len(copies) < found.steps or not took_s:
        return None
    share = units.percent(took_s / found.wall_s)
    why = f"Copies between host and device take {share} of the time: what does not change can stay there."
    return Remedy("keep on device", found.wall_s / max(found.wall_s - took_s, 1e-12), why)


# ---- the device's work -----------------------------------------------------------------------------------------------


def _fusing(found: Evidence) -> Remedy | None:
    """Neighbours of a step become one kernel, which moves less; what is held up by something else is left out."""
    if found.model is None:
        return None
    now_s = then_s = 0.0
    a_step = max(1, -(-len(found.calls) // found.steps))
    for first in range(0, len(found.calls), a_step):
        moving = [each for each in found.calls[first : first + a_step] if each.limit in ("memory", "compute")]
        costs = [each.call.cost for each in moving if each.call.cost is not None]
        now_s += found.predicted_s(costs)
        then_s += found.predicted_s(fused_with_attention(costs))
    if not then_s < now_s < math.inf:
        return None
    saved_s = found.split.busy_s * (1 - then_s / now_s)
    why = (
        f"Fused, the operators move less: their work is predicted to take {units.percent(then_s / now_s)} of the time."
    )
    return Remedy("fusion", found.faster(saved_s), why)


def fused_with_attention(costs: Sequence[OperatorCost]) -> list[OperatorCost]:
    """What a compiler fuses; and a softmax between two products, whose scores then stay on the chip."""
    found: list[OperatorCost] = []
    for each in fused(Cost(0.0, 0.0, operators=tuple(costs))):
        before = found[-1] if found else None
        if before is not None and "softmax" in each.name and before.matmuls:
            found[-1] = replace(before, written_bytes=0.0, kind=SCORES)
        elif before is not None and before.kind == SCORES and each.matmuls:
            found[-1] = replace(before, kind="matmul")
            first = each.matmuls[0]
            scores = float(first.batch * first.m * first.k * ITEMSIZE.get(each.dtype, 4))
            found.append(replace(each, read_bytes=max(0.0, each.read_bytes - scores)))
        else:
            found.append(each)
    return found


SCORES = "scores"
"""The kind that a product has here for as long as what follows it is a softmax."""


def _precision(found: Evidence) -> Remedy | None:
    """Products of float32 on the tensor cores, in TF32 or in a short type."""
    wide = [each for each in found.calls if _type(each) in ("float32", "float64") and _is_product(each)]
    return _changed(
        found, wide, _shortened(found), "tensor cores", "of the time is spent on products in float32 or float64"
    )


def _bytes(found: Evidence) -> Remedy | None:
    """Half the bytes in a short type."""
    wide = [each for each in found.calls if _type(each) in ("float32", "float64") and not _is_product(each)]
    limited = [each for each in wide if each.limit == "memory"]
    return _changed(
        found, limited, _shortened(found), "lower precision", "of the time moves float32 or float64 to and from memory"
    )


def _padding(found: Evidence) -> Remedy | None:
    odd = [each for each in found.calls if _is_product(each) and _padded(each.call.cost) != each.call.cost]
    return _changed(found, odd, _padded, "padding", "of the time is spent on products whose rows begin at odd bytes")


def _changed(
    found: Evidence, calls: Sequence[Assessed], change: Callable[[OperatorCost], OperatorCost], name: str, what: str
) -> Remedy | None:
    """A remedy that makes other operators of some: each call's time goes as the prediction does."""
    if found.model is None or not calls or not found.gpu:
        return None
    saved_s = 0.0
    for each in calls:
        assert each.call.cost is not None
        now_s, then_s = (found.predicted_s([cost]) for cost in (each.call.cost, change(each.call.cost)))
        saved_s += each.work_s * (1 - min(1.0, then_s / now_s)) if 0 < now_s < math.inf else 0.0
    share = units.percent(sum(each.work_s for each in calls) / found.wall_s)
    return Remedy(name, found.faster(saved_s), f"{share} {what}.")


def _shortened(found: Evidence) -> Callable[[OperatorCost], OperatorCost]:
    """How an operator is put into the short type that the device has."""
    has = found.model.has if found.model is not None else lambda name: False
    dtype = next((each for each in SHORT_TYPES if has(f"matmul.{short(each)}")), SHORT_TYPES[0])

    def change(cost: OperatorCost) -> OperatorCost:
        by = ITEMSIZE[dtype] / ITEMSIZE.get(cost.dtype, 4)
        products = tuple(replace(each, dtype=dtype) for each in cost.matmuls)
        read, written = cost.read_bytes * by, cost.written_bytes * by
        return replace(cost, dtype=dtype, read_bytes=read, written_bytes=written, matmuls=products)

    return change


def _padded(cost: OperatorCost | None) -> OperatorCost:
    assert cost is not None
    return replace(cost, matmuls=tuple(whole(each) if each.batch == 1 else each for each in cost.matmuls))


def _strided(found: Evidence) -> Remedy | None:
    """A GPU moves whole sectors: of one with gaps between the numbers, what lies in the gaps too."""
    saved_s, share_s = 0.0, 0.0
    for each in found.calls:
        waste = _waste(each.call.operator)
        if (waste > 1 and each.limit == "memory") or (waste > 1 and each.limit == "unknown"):
            saved_s, share_s = saved_s + each.work_s * (1 - 1 / waste), share_s + each.work_s
    if not saved_s:
        return None
    share = units.percent(share_s / found.wall_s)
    return Remedy("contiguous", found.faster(saved_s), f"{share} of the time reads tensors with gaps between numbers.")


def _waste(event: Event) -> float:
    """How many times as much is moved as is asked for, by the smallest stride of the largest input."""
    if event.inputs is None:
        return 1.0
    tensors = [
        (size, stride) for size, stride in zip(event.inputs.sizes, event.inputs.strides, strict=True)
        if size and len(size) == len(stride) and all(isinstance(each, int) for each in size)
    ]  # fmt: skip
    if not tensors:
        return 1.0
    size, stride = max(tensors, key=lambda each: _count_of(each[0]))
    apart = min((step for step, length in zip(stride, size, strict=True) if length > 1 and step > 0), default=1)
    return float(min(apart, SECTOR // 4))


def _count_of(size: Sequence[int]) -> int:
    found = 1
    for each in size:
        found *= each
    return found


def _channels(found: Evidence) -> Remedy | None:
    """Copies that a library makes to put the channels last, and back."""
    turned = [each for each in found.events if each.sort == "kernel" and _turns(each.name)]
    took_s = sum(each.end_ns - each.start_ns for each in turned) / 1e9
    if not took_s:
        return None
    why = f"The library turns images around in {units.percent(took_s / found.wall_s)} of the time."
    return Remedy("channels last", found.faster(took_s), why)


def _turns(name: str) -> bool:
    return "nchwToNhwc" in name or "nhwcToNchw" in name


def _type(each: Assessed) -> str:
    return each.call.cost.dtype if each.call.cost is not None else ""


def _is_product(each: Assessed) -> bool:
    return each.call.cost is not None and bool(each.call.cost.matmuls)


def _inside(found: Evidence, spans: Sequence[Event]) -> list[Assessed]:
    """The calls whose operators lie in one of the spans."""
    return [
        each for each in found.calls
        if any(span.start_ns <= each.call.operator.start_ns < span.end_ns for span in spans)
    ]  # fmt: skip


def _count(found: Evidence, test: Callable[[Event], bool]) -> int:
    return sum(map(test, found.events))


FAULTS = (
    _compiling, _loading, _waiting, _allocating, _pinning, _keeping, _optimiser, _looping, _padding,
    _strided, _channels,
)  # fmt: skip
GENERAL = (_precision, _fusing, _bytes, _graph)
