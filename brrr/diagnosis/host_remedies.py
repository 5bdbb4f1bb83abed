"""What would help the host, and the link: launches, waiting, allocating, debugging, loops, copies."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from brrr.core import units
from brrr.core.intervals import common, union
from brrr.diagnosis.assess import Assessed, as_graph_s, multiplies
from brrr.diagnosis.calls import ENGINE
from brrr.diagnosis.evidence import WORTH, Evidence, Remedy
from brrr.diagnosis.lines import OPTIMISER, WAITING
from brrr.roofline.terms import pinned_rate
from brrr.tracing.events import Event
from brrr.tracing.kineto import outermost
from brrr.tracing.spans import TRANSFERS

TRACEBACK_S = 6e-5
"""What anomaly detection takes to write down where an operator was called: 0.04 to 0.17 ms were seen, by the depth."""
FEW = 2
"""Fewer pieces of work a step gain nothing as a CUDA Graph."""
BESIDE = 3.0
"""Python's time between operators goes with the graph, up to so many times what dispatching and launching take."""
START_NS = 1_000_000
"""A launch that takes longer loads a module, or makes the context: no later one does."""
PAGEABLE = "Pageable"
BATCH_BYTES = 1e6
"""From so many bytes a step on, pageable copies are taken for batches."""
_ON_EACH = "add sub mul div addcmul addcdiv lerp sqrt rsqrt sign neg maximum pow clone copy"
BY_TENSOR = frozenset(map("aten::{}".format, _ON_EACH.split()))
"""What an optimiser calls on each parameter, also in place."""
LONGER = 10.0
"""So many times the usual time from one call to the next is not the calls' own."""
CAPTURABLE = ("Adadelta", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")
"""Optimisers of torch's that a CUDA Graph holds only where they were made with `capturable=True`."""
GAP_S = 0.5e-6
"""By so much two kernels can lie closer in a graph than in a stream."""
MANY = 16
"""From so many calls a step on, tensor by tensor, an optimiser is taken for one that goes so."""


def graph(found: Evidence) -> Remedy | None:
    """The host issues one launch in place of many; what Python does besides stays."""
    if not found.gpu or found.shares.kernels < FEW * found.steps:
        return None
    if found.in_step or found.split.transfer_s or "recompiled" in found.flags:
        why = "No graph can hold a step that waits for the device, copies from pageable memory, or compiles."
        return Remedy("cuda graph", 1.0, why)
    started = (each.end_ns - each.start_ns for each in found.events if each.sort == "runtime")
    starting_s = sum(each for each in started if each > START_NS) / 1e9
    launching_s = max(0.0, found.split.idle_s.get("launch", 0.0) - starting_s)
    issuing_s = found.split.idle_s.get("dispatcher", 0.0) + launching_s
    idle_s = issuing_s + min(found.split.idle_s.get("Python", 0.0), BESIDE * issuing_s)
    left_s = as_graph_s(found.wall_s - idle_s, found.shares.kernels, found.steps, found.model)
    kernels = found.shares.kernels / found.steps
    alone_s = found.flags.get("span_s", 0.0) - GAP_S * kernels  # measured without the host, and without a profiler
    left_s = max(left_s, alone_s * found.steps)
    why = f"The device is idle {units.percent(idle_s / found.wall_s)} of the time while the host issues {kernels:.3g}"
    steps = [each.name.partition("#")[2].partition(".")[0] for each in found.events if each.name.startswith(OPTIMISER)]
    first = next((name for name in steps if name in CAPTURABLE), "")
    ready = f" Its optimiser has to be made for it: {first}(..., capturable=True)." if first else ""
    return Remedy("cuda graph", found.wall_s / left_s, f"{why} pieces of work a step one by one.{ready}")


def batch(found: Evidence, mended: float = 1.0, batched: float = 1.0) -> Remedy | None:
    """Twice the work for the same overhead, where the host or an under-filled GPU is the limit.

    Loading and copies grow with it, and so does what the host takes to make tensors of numbers.

    mended: what a remedy of the host's gains, which leaves that much less of the overhead. batched: what is gained by
    one call in place of a loop, whose turns grow in number.
    """
    unfilled_s = found.shares.work_s.get("under-filled", 0.0) if found.gpu else 0.0
    loading_s = found.split.idle_s.get(WAITING, 0.0) + found.flags.get("asleep_s", 0.0)
    fixed_s = found.wall_s / batched - found.device_s + unfilled_s - loading_s - sum(_making_s(found))
    if not found.split.busy_s or fixed_s < 0.3 * found.wall_s or all(each.call.cost is None for each in found.calls):
        return None  # a replayed CUDA Graph shows no operators, and its sizes are fixed
    why = f"{units.percent(fixed_s / found.wall_s)} of the time does not grow with the batch."
    left_s, saved_s = found.wall_s / mended, found.wall_s * (1 - 1 / mended)
    if fixed_s - saved_s < 0.3 * left_s:
        return Remedy("larger batch", 1.0, f"{why} What stands above takes most of that away.")
    return Remedy("larger batch", 2 * left_s / (2 * left_s - fixed_s + saved_s), why)


def waiting(found: Evidence) -> Remedy | None:
    """The host runs ahead again, and without what it waited in; nor can a CUDA Graph hold a step that waits."""
    waits = found.waits
    if len(waits) < 0.5 * found.steps:
        return None
    named = Counter(each.name.removeprefix("aten::") for each in waits if each.sort == "operator")
    often = f"{len(waits) / found.steps:.2g} times a step" + (f", in {named.most_common(1)[0][0]}" if named else "")
    saved_s = sum(found.unprofiled_s(*each.interval) for each in waits if each.sort == "operator")
    left_s = max(found.host_s - saved_s, found.device_s)
    why = f"The host waits for the device {often}, and issues nothing meanwhile."
    return Remedy("no synchronisation", max(1.0, found.wall_s / left_s), f"{why} No CUDA Graph can hold that.")


def optimiser(found: Evidence) -> Remedy | None:
    """One kernel for all parameters; what one call in it takes longer than others, as an allocation, stays."""
    steps = own_steps(found)
    single = [each for each in inside(found, steps) if each.call.operator.name.rstrip("_") in BY_TENSOR]
    if not steps or len(single) < MANY * len(steps):
        return None
    starts = sorted(each.call.operator.start_ns for each in single)
    apart = sorted(found.unprofiled_s(*pair) for pair in pairwise(starts))
    usual_s = apart[len(apart) // 2]
    took_s = sum(each if each < LONGER * usual_s else usual_s for each in apart)
    host_s, device_s = found.host_s - 0.9 * took_s, found.device_s - 0.5 * sum(each.work_s for each in single)
    why = f"The optimiser makes {len(single) / len(steps):.3g} calls a step, tensor by tensor."
    least_s = found.wall_s - 0.9 * took_s - 0.5 * sum(each.work_s for each in single)  # where neither works ahead
    return Remedy("fused optimiser", found.wall_s / max(host_s, device_s, least_s, 1e-12), why)


def own_steps(found: Evidence) -> list[Event]:
    """The spans of the optimiser, each from where a closure in it, which computes the gradients, has ended.

    One that is written by hand changes many tensors in place behind the gradients, and multiplies no matrices.
    """
    engine = [each for each in found.events if each.name.startswith(ENGINE)]
    ends = [0, *accumulate((each.end_ns for each in engine), max)]
    steps = []
    for each in found.events:
        if each.sort == "annotation" and each.name.startswith(OPTIMISER):
            closed = ends[bisect_left(engine, each.end_ns, key=lambda one: one.start_ns)]
            steps.append(replace(each, start_ns=min(max(each.start_ns, closed), each.end_ns)))
    for calls in [] if steps else found.by_step:
        last = max((at for at, each in enumerate(calls) if each.call.phase == "backward"), default=len(calls))
        own = [each.call.operator for each in calls[last + 1 :]]
        alone = not any(multiplies(each.call.cost) for each in calls[last + 1 :])
        if alone and sum(each.name.endswith("_") and each.name[:-1] in BY_TENSOR for each in own) >= MANY:
            steps.append(replace(own[0], end_ns=own[-1].end_ns))
    return steps


def compiling(found: Evidence) -> Remedy | None:
    spent_s = min(0.99, found.flags.get("recompiled", 0.0)) * found.wall_s
    if not spent_s:
        return None
    why = "torch.compile compiled again while it ran: sizes, or Python's values that it relies on, change."
    return Remedy("no recompilation", found.wall_s / (_mended_s(found) or found.wall_s - spent_s), why)


def _mended_s(found: Evidence) -> float:
    """Seconds of the stretch without the fault that was taken out for once, 0 where none was."""
    return found.flags.get("mended_s", 0.0) * found.steps


def debugging(found: Evidence) -> Remedy | None:
    """Checks of every gradient for NaN, each of which the host waits for; or a host that waits for every kernel."""
    checks = _cut_by_name(found, ("aten::isnan", "aten::_is_any_true", "aten::item"), "autograd::engine")
    blocking = "launch blocking" in found.flags
    if not blocking and not any(each.name == "aten::_is_any_true" for each in checks):
        return None
    nodes = sum(each.name.startswith("autograd::engine::evaluate_function") for each in found.events)
    spent_s = sum(found.unprofiled_s(*each.interval) for each in checks) + TRACEBACK_S * nodes
    left_s = max(found.device_s, found.host_s if blocking else _mended_s(found) or found.wall_s - spent_s)
    what = "CUDA_LAUNCH_BLOCKING is set" if blocking else "Anomaly detection is on: it looks at every gradient"
    return Remedy("debugging off", max(1.0, found.wall_s / left_s), f"{what}.")


def _cut_by_name(found: Evidence, names: Sequence[str], around: str) -> list[Event]:
    """Operators of these names inside of others whose names begin so."""
    spans = union(each.interval for each in found.events if each.name.startswith(around))
    inside = (each for each in found.events if each.name in names)
    return [each for each in inside if common([each.interval], spans)]


def allocating(found: Evidence) -> Remedy | None:
    """The driver's time, in which it may wait for the device too; what the host does besides stays."""
    if not found.split.idle_s.get("allocation", 0.0):
        return None
    spent_s = found.split.host_s["allocation"]
    why = f"The driver allocates and frees memory in {units.percent(spent_s / found.wall_s)} of the time."
    return Remedy("keep memory", found.wall_s / max(found.device_s, found.wall_s - spent_s), why)


# ---- copies between host and device ----------------------------------------------------------------------------------


def pinning(found: Evidence) -> Remedy | None:
    """Copies from pageable memory go through a buffer of the driver's, and the host waits for them."""
    copies = [each for each in found.events if each.sort in TRANSFERS and PAGEABLE in each.name]
    took_s = sum(each.end_ns - each.start_ns for each in copies) / 1e9
    nbytes = sum(each.nbytes for each in copies)
    if not nbytes:
        return None
    alone = min(1.0, found.split.transfer_s / took_s)  # a copy beside a kernel costs nothing
    saved_s = alone * max(0.0, took_s - nbytes / pinned_rate(found.model.hardware if found.model else None))
    lacks = ": its DataLoader lacks pin_memory=True" * any("pin_memory=0" in each.name for each in found.events)
    why = f"{units.nbytes(nbytes / found.steps)} a step are copied from or to pageable memory{lacks}."
    return Remedy("pinned memory", found.wall_s / (found.wall_s - saved_s), why)


def _making_s(found: Evidence) -> tuple[float, float]:
    """Seconds in which the device is idle and the host puts Python's numbers into tensors, one by one; and other ones
    before it makes a tensor of what is there, as an array of NumPy's.

    torch goes over the numbers twice: once for their type, in front of the memory's allocation, and to copy them.
    """
    before = Event("", "other", found.start_ns, found.start_ns)
    calls = [*3 * [before], *outermost(each for each in found.events if each.sort == "operator")]
    gaps = [after.start_ns - one.end_ns for one, after in pairwise(calls)]
    listed_ns = before_ns = 0
    for at, each in enumerate(calls[3:], 3):
        if each.name == "aten::lift_fresh":
            listed = (calls[at - 2].name, calls[at - 1].name) == ("aten::empty", "aten::to")
            filling_ns, before_ns = gaps[at - 2] * listed, before_ns + gaps[at - 3 if listed else at - 1]
            typing_ns = min(filling_ns, gaps[at - 3])
            listed_ns, before_ns = listed_ns + filling_ns + typing_ns, before_ns - typing_ns
    python_s = (found.traced.host_s if found.gpu else found.traced.idle_s).get("Python", 0.0)
    part = found.split.idle_s.get("Python", 0.0) / python_s / 1e9 if python_s else 0.0
    return listed_ns * part, before_ns * part


def keeping(found: Evidence) -> Remedy | None:
    """Without the copies, and without what the host does for them; in the time before them it makes what it copies."""
    loads = found.split.host_s.get(WAITING) or "asleep_s" in found.flags
    if not loads and (listed_s := _making_s(found)[0]) > (1 - 1 / WORTH) * found.wall_s:
        share = units.percent(listed_s / found.wall_s)
        why = f"In {share} of the time the host makes tensors of Python's numbers, one by one: keep one that does not"
        gain = found.wall_s / max(found.wall_s - listed_s, 0.01 * found.wall_s)
        return Remedy("keep on device", gain, f"{why} change; make others of an array, by torch.from_numpy.")
    copies = [each for each in found.events if each.sort == "copy in"]
    pageable = sum(each.nbytes for each in copies if PAGEABLE in each.name)
    if not found.split.busy_s or len(found.feeding) < found.steps or loads or pageable > BATCH_BYTES * found.steps:
        return None  # pageable batches from the host are new ones, as it seems; and nothing else is done with them
    host = [each for each in found.events if each.sort in ("operator", "runtime") and each.name != "aten::empty"]
    ends = list(accumulate((each.end_ns for each in host), max))
    saved_s = 0.0
    for each in found.feeding:
        before = bisect_left(host, each.start_ns, key=lambda one: one.start_ns) - 1
        made_ns = ends[before] if before >= 0 else each.start_ns
        saved_s += found.unprofiled_s(min(made_ns, each.start_ns), each.end_ns)
    left_s = max(found.host_s - saved_s, found.split.busy_s)
    nbytes = sum(each.nbytes for each in copies) / found.steps
    why = f"The host copies {units.nbytes(nbytes)} to the device in each step: what does not change can stay there."
    return Remedy("keep on device", found.wall_s / min(left_s, found.wall_s - found.split.transfer_s), why)


def inside(found: Evidence, spans: Sequence[Event]) -> list[Assessed]:
    """The calls whose operators lie in one of the spans."""
    return [
        each for each in found.calls
        if any(span.start_ns <= each.call.operator.start_ns < span.end_ns for span in spans)
    ]  # fmt: skip
