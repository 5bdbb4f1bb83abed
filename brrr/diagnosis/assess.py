"""What limits each operator's work, and the whole: the roofline's times beside those that were taken."""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from brrr.core.errors import ArgumentError, BrrrError
from brrr.core.heavy import torch
from brrr.counting.cost import OperatorCost
from brrr.diagnosis.calls import LAYOUT, OperatorRun
from brrr.diagnosis.operator_cost import kind_of
from brrr.diagnosis.split import Split
from brrr.gpu import CUDA, is_gpu, tensors_on
from brrr.gpu.probe import cpu_count
from brrr.roofline.corrections import kernel_time
from brrr.roofline.device_model import DATASHEET, DeviceModel, Where, assumed_launches, known_here, model_of
from brrr.roofline.figures import UNCACHED, memory_s
from brrr.roofline.lowering import in_tf32
from brrr.roofline.peaks import MissingPeakError
from brrr.roofline.prediction import GRAPH_GAIN
from brrr.roofline.terms import OperatorTime, dtype_of

Limit = Literal["memory", "compute", "under-filled", "unknown"]
Regime = Literal["overhead", "memory", "compute", "under-filled", "unknown"]
LIMITS: tuple[Limit, ...] = ("memory", "compute", "under-filled", "unknown")

ROOFED = 0.4
"""Work that needs less than this share of its time by the roofline is held up by something else.

Chosen on recordings whose truth interventions tell. Of the H200's workloads that no graph makes faster, none reaches
between 0.31 and 0.43 of a roof: those below are limited by something else, or turn images around. Of single calls on
H200 and H100 it has 152 of 172 below it that neither bytes nor FLOP limit, and 6 of 9 above it that one of them does;
a third would have 146 and 8.
"""
CORES = 4
"""A thread of a CPU's has one core: with fewer than so many, which a generic CPU has, a part of that share is enough.

On two cores that others used too, products of 64 to 2048 rows reached 0.14 to 0.25 of that CPU's roof with one thread,
and those of 64 to 512 rows 0.05 at most with two, which waited for each other.
"""
SHORT = 8
"""A kernel that takes less than so many empty ones is held up by its own start and end."""
HALF = 0.5
"""Where it is not known of more than this share of the work what limits it, the regime is unknown."""
GRAPH_START_S = 0.8e-6
"""Between two replays of a CUDA Graph, as measured on an H200."""


def multiplies(cost: OperatorCost | None) -> bool:
    """Whether an operator multiplies matrices."""
    return cost is not None and bool(cost.matmuls)


@dataclass(frozen=True)
class Assessed:
    """One call with its limit; `time` is the roofline's, None where its cost or the device is not known."""

    call: OperatorRun
    time: OperatorTime | None
    limit: Limit

    @property
    def work_s(self) -> float:
        """Seconds that it took."""
        return self.call.work_ns / 1e9

    @property
    def flop(self) -> float:
        """Its FLOP, 0 where they are unknown."""
        return (self.call.cost.flop or 0.0) if self.call.cost is not None else 0.0

    @property
    def nbytes(self) -> float:
        """Bytes that it reads and writes."""
        return self.call.cost.bytes if self.call.cost is not None else 0.0

    @property
    def predicted_s(self) -> float | None:
        """What the roofline's model gives its work, start and end of the kernel included."""
        return None if self.time is None else self.time.device_s


def model_for(device: Where) -> DeviceModel | None:
    """The figures of a device, None where nobody knows them."""
    try:
        return model_of(device)
    except (ArgumentError, BrrrError):
        return None


def model_here(device: str) -> DeviceModel | None:
    """This machine's measured figures, else its datasheet's."""
    if not is_gpu(device):
        return model_for(cpu_here())
    with suppress(BrrrError):
        return model_of(known_here(device))
    return None


def cpu_here() -> Where:
    """What is known of this machine's CPU: its measured peaks, else the datasheet of a generic one."""
    with suppress(MissingPeakError):
        return known_here("cpu")
    return f"{DATASHEET}cpu"


def cores_here() -> dict[str, float]:
    """The cores that this process may use, and the threads that torch computes on: flags of what runs here."""
    return {"cores": cpu_count(), "threads": torch.get_num_threads()}


def name_here(device: str) -> str:
    """The name of this machine's GPU or CPU, by its kind."""
    from brrr.gpu.device import this_device

    return this_device(tensors_on(device)).name


TF32, FULL = re.compile("tf32|s1688"), re.compile("sgemm|simt|scudnn|f32f32_f32f32")
"""In the names of kernels for float32: on tensor cores, and on the others."""
DEFAULT = ("conv", "rnn")
"""What torch computes in TF32 if nobody says otherwise."""


def as_computed(calls: Iterable[OperatorRun], model: DeviceModel | None, layers: Container[str]) -> list[OperatorRun]:
    """The calls, their products of float32 in TF32 where their kernels' names say so, else for these layers."""
    calls = list(calls)
    if model is not None and model.is_gpu and model.has("matmul.tf32"):
        for each in calls:
            names = " ".join(kernel.name for kernel in each.kernels)
            if each.cost is not None and (TF32.search(names) or not FULL.search(names)):
                each.cost = in_tf32(each.cost) if TF32.search(names) else in_tf32(each.cost, layers)
    return calls


def assess(calls: Iterable[OperatorRun], model: DeviceModel | None) -> list[Assessed]:
    """Each call with what limits it; equal costs are looked up once."""
    times: dict[OperatorCost | None, OperatorTime | None] = {None: None}
    calls = list(calls)
    products = any(multiplies(each.cost) for each in calls)
    found = []
    for call in calls:
        if call.cost not in times:
            times[call.cost] = time_of(call.cost, model)
        time = times[call.cost]
        found.append(Assessed(call, time, _limit(call, time, model, products)))
    return found


def time_of(cost: OperatorCost | None, model: DeviceModel | None, touched: float = 0.0) -> OperatorTime | None:
    """What the model gives an operator by itself; None where nothing is known of the device or of the type on it.

    touched: the bytes of the work around it, where they are more than its own.
    """
    if cost is None or model is None:
        return None
    try:
        return kernel_time(cost, model, touched=touched)
    except BrrrError:  # the device has no figure for its type
        return None


def roofed(gpu: bool) -> float:
    """The share of its time by the roofline below which work is held up by something else."""
    if gpu:
        return ROOFED
    return ROOFED * min(1.0, torch.get_num_threads() / CORES)


def _limit(call: OperatorRun, time: OperatorTime | None, model: DeviceModel | None, products: bool) -> Limit:
    """What would make the call faster: fewer bytes at as many FLOP, a larger batch at no cost, or fewer operations.

    products: whether the program multiplies matrices. Then "as many FLOP" are those of its products, and work beside
    them that reaches no roof grows with its numbers, hence with its bytes; without products it is the arithmetic.
    """
    if any("nccl" in each.name for each in call.kernels):
        return "unknown"  # a collective uses few multiprocessors by design
    if call.name.endswith(LAYOUT):
        return "memory"
    sms = (model.sm_count or 0) if model is not None else 0
    few = 0 < 2 * call.blocks <= sms and not call.name.endswith(OVER_THE_BATCH)
    moves = kind_of(call.operator.name) in MOVING
    if time is None or not time.known or not time.work_s:
        return "under-filled" if few else "memory" if moves else "unknown"
    assert call.cost is not None and model is not None
    took_s = call.work_ns / 1e9
    near_s = roofed(model.is_gpu) * took_s
    product = multiplies(call.cost)
    if not product and time.memory_s >= near_s:
        return "memory"
    if product and _from_memory_s(call.cost, model) >= max(near_s, time.compute_s):
        return "memory"
    if time.work_s < near_s:
        if few or not model.is_gpu or took_s < SHORT * model.value("kernel.floor"):
            return "under-filled"  # on a CPU also where others have the cores, or threads wait for each other
        return "memory" if moves or (products and not product) else "compute"
    return "memory" if moves or time.memory_s >= time.compute_s else "compute"


def _from_memory_s(cost: OperatorCost, model: DeviceModel) -> float:
    """What a product's bytes take from the memory: a step's other work may have driven its weights out of the cache."""
    return memory_s(model, cost.read_bytes, cost.written_bytes, UNCACHED)


MOVING = ("copy", "index")
"""Kinds that do no arithmetic, or one addition for each number that they fetch from anywhere: it is memory."""
OVER_THE_BATCH = ("batch_norm", "batch_norm_backward")
"""Their kernels have a block for each channel: a larger batch gives each block more to do, and is not free."""


@dataclass(frozen=True)
class Shares:
    """The seconds of a stretch by regime: overhead by cause, and the device's work by limit; together the whole.

    waited_s: of what is unknown, in which launched work waited. It tells nothing of the regime.
    """

    wall_s: float
    overhead_s: Mapping[str, float]
    work_s: Mapping[Limit, float]
    kernels: int
    waited_s: float = 0.0

    @property
    def total_s(self) -> float:
        """The sum of all parts."""
        return sum(self.overhead_s.values()) + sum(self.work_s.values())


def shares(split: Split, calls: Sequence[Assessed]) -> Shares:
    """A split with its busy time dealt out to the calls' limits, in proportion: streams may overlap."""
    taken = {limit: sum(each.work_s for each in calls if each.limit == limit) for limit in LIMITS}
    whole = sum(taken.values())
    work = {limit: split.busy_s * part / whole for limit, part in taken.items() if part} if whole else {}
    unknown_s = split.waited_s + (0.0 if whole else split.busy_s)
    if unknown_s:
        work["unknown"] = work.get("unknown", 0.0) + unknown_s
    overhead = {**({"transfer": split.transfer_s} if split.transfer_s else {}), **split.idle_s}
    return Shares(split.wall_s, overhead, work, sum(len(each.call.kernels) for each in calls), split.waited_s)


def as_graph_s(busy_s: float, kernels: int, steps: int, model: DeviceModel | None) -> float:
    """What so many steps take as CUDA Graphs whose kernels take `busy_s`."""
    known = model is not None and model.has("gap.graph")
    gap_s = model.value("gap.graph") if model is not None and known else assumed_launches(CUDA)["gap.graph"].value
    return busy_s + gap_s * kernels + GRAPH_START_S * steps


def regime_of(found: Shares, steps: int, model: DeviceModel | None) -> Regime:
    """Overhead where the device alone would be 1.3 times as fast, else what limits most of its work.

    "unknown" where it is not known of more than half of the work what limits it.
    """
    busy_s = sum(found.work_s.values())
    if not busy_s or found.wall_s >= GRAPH_GAIN * as_graph_s(busy_s, found.kernels, steps, model):
        return "overhead"
    if found.work_s.get("unknown", 0.0) - found.waited_s > HALF * (busy_s - found.waited_s):
        return "unknown"
    return max((limit for limit in LIMITS if limit != "unknown"), key=lambda limit: found.work_s.get(limit, 0.0))


# ---------------------------------------------------------------------------------------------------------------------
# Tables: calls alike on one line.


@dataclass(frozen=True)
class Line:
    """Calls alike: how many, their time, FLOP, bytes, the roofline's time, and what limits most of it.

    products: the type of its products of matrices, empty where it has none. kind: the class of its operators, as
    `OperatorCost` has it.
    """

    name: str
    calls: int
    time_s: float
    flop: float
    nbytes: float
    predicted_s: float | None
    limit: Limit
    products: str = ""
    kind: str = "unknown"

    @property
    def flop_per_s(self) -> float:
        """FLOP a second."""
        return self.flop / self.time_s if self.time_s else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Bytes a second."""
        return self.nbytes / self.time_s if self.time_s else 0.0


def by_operator(calls: Iterable[Assessed], scale: float = 1.0) -> list[Line]:
    """A line for each operator and type, the longest time first; times are those of the trace times `scale`."""
    return _lines(calls, lambda each: _named(each.call), scale)


def by_module(calls: Iterable[Assessed], scale: float = 1.0) -> list[Line]:
    """A line for each module, the longest time first; empty where the trace knows of none."""
    return _lines((each for each in calls if each.call.module), lambda each: each.call.module, scale)


def by_line(calls: Iterable[Assessed], scale: float = 1.0) -> list[Line]:
    """A line for each of the user's code, the longest time first; empty where the trace knows of none."""
    return _lines((each for each in calls if each.call.line), lambda each: each.call.line, scale)


def _named(call: OperatorRun) -> str:
    return f"{call.name} {call.cost.dtype}" if call.cost is not None else call.name


def _lines(calls: Iterable[Assessed], key: Callable[[Assessed], str], scale: float) -> list[Line]:
    groups: dict[str, list[Assessed]] = {}
    for each in calls:
        groups.setdefault(key(each), []).append(each)
    return sorted((_line(name, group, scale) for name, group in groups.items()), key=lambda line: -line.time_s)


def _line(name: str, group: Sequence[Assessed], scale: float) -> Line:
    by_limit = {limit: sum(each.work_s for each in group if each.limit == limit) for limit in LIMITS}
    predicted = [each.predicted_s for each in group]
    known = None if None in predicted else sum(each or 0.0 for each in predicted)
    return Line(
        name, len(group), scale * sum(each.work_s for each in group), sum(each.flop for each in group),
        sum(each.nbytes for each in group), known, max(LIMITS, key=lambda limit: by_limit[limit]),
        next((dtype_of(each.call.cost) for each in group if each.call.cost is not None and each.call.cost.matmuls), ""),
        next((each.call.cost.kind for each in group if each.call.cost is not None), "unknown"),
    )  # fmt: skip
