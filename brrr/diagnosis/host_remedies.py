"""What would help the host, and the link: launches, waiting, loading, allocating, debugging, loops, copies."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from brrr.core import units
from brrr.diagnosis.assess import Assessed, as_graph_s, multiplies
from brrr.diagnosis.calls import ENGINE
from brrr.diagnosis.evidence import Evidence, Remedy
from brrr.diagnosis.split import common
from brrr.tracing.events import Event
from brrr.tracing.spans import TRANSFERS, union

PINNED_BYTES_PER_S = 2.5e10
"""Copies of pinned memory, where no datasheet tells the link: of the order of PCIe 4."""
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
PICKS = ("aten::select", "aten::slice", "aten::unbind")
"""Slices, which a loop over what could be one call takes about as often."""
_ON_EACH = "add sub mul div addcmul addcdiv lerp sqrt rsqrt sign neg maximum pow clone copy"
BY_TENSOR = frozenset(map("aten::{}".format, _ON_EACH.split()))
"""What an optimiser calls on each parameter, also in place."""
LONGER = 10.0
"""So many times the usual time from one call to the next is not the calls' own."""
MANY = 16
"""From so many equal small calls a step on, a loop over what could be one call is suspected."""


def graph(found: Evidence) -> Remedy | None:
    """The host issues one launch in place of many; what Python does besides stays."""
    impossible = found.in_step or found.split.transfer_s or "recompiled" in found.flags
    if not found.gpu or found.shares.kernels < FEW * found.steps or impossible:
        return None
    started = (each.end_ns - each.start_ns for each in found.events if each.sort == "runtime")
    starting_s = sum(each for each in started if each > START_NS) / 1e9
    launching_s = max(0.0, found.split.idle_s.get("launch", 0.0) - starting_s)
    issuing_s = found.split.idle_s.get("dispatcher", 0.0) + launching_s
    idle_s = issuing_s + min(found.split.idle_s.get("Python", 0.0), BESIDE * issuing_s)
    left_s = as_graph_s(found.wall_s - idle_s, found.shares.kernels, found.steps, found.model)
    kernels = found.shares.kernels / found.steps
    why = f"The device is idle {units.percent(idle_s / found.wall_s)} of the time while the host issues {kernels:.3g}"
    return Remedy("cuda graph", found.wall_s / left_s, f"{why} pieces of work a step one by one.")


def batch(found: Evidence) -> Remedy | None:
    """Twice the work for the same overhead, where host or latency is the limit. Loading and copies grow with it."""
    latency_s = found.shares.work_s.get("latency", 0.0)
    loading_s = found.split.idle_s.get("data loading", 0.0) + found.flags.get("asleep_s", 0.0)
    fixed_s = found.wall_s - found.device_s + latency_s - loading_s
    if not found.split.busy_s or fixed_s < 0.3 * found.wall_s or all(each.call.cost is None for each in found.calls):
        return None  # a replayed CUDA Graph shows no operators, and its sizes are fixed
    doubled_s = 2 * found.wall_s - fixed_s
    why = f"{units.percent(fixed_s / found.wall_s)} of the time does not grow with the batch."
    return Remedy("larger batch", 2 * found.wall_s / doubled_s, why)


def waiting(found: Evidence) -> Remedy | None:
    """The host runs ahead again, and without what it waited in; nor can a CUDA Graph hold a step that waits."""
    waits = found.waits
    if len(waits) < 0.5 * found.steps:
        return None
    named = Counter(each.name.removeprefix("aten::") for each in waits if each.sort == "operator")
    how = f", in {named.most_common(1)[0][0]}" if named else ""
    saved_s = sum(found.unprofiled_s(*each.interval) for each in waits if each.sort == "operator")
    left_s = max(found.host_s - saved_s, found.device_s)
    why = (
        f"The host waits for the device {len(waits) / found.steps:.2g} times a step{how}, and issues nothing meanwhile."
    )
    return Remedy("no synchronisation", max(1.0, found.wall_s / left_s), f"{why} No CUDA Graph can hold that.")


def loading(found: Evidence) -> Remedy | None:
    """The next batch is made while this one is computed; what the device does meanwhile is no loss."""
    loaded_s, asleep_s = found.split.idle_s.get("data loading", 0.0), found.flags.get("asleep_s", 0.0)
    idle_s = min(max(loaded_s, asleep_s), found.wall_s - found.device_s)
    if idle_s <= 0:
        return None
    share = units.percent(idle_s / found.wall_s)
    what = "loads the next batch" if loaded_s else "sleeps (for data, a lock, the network)"
    gain = found.wall_s / max(found.wall_s - idle_s, 0.01 * found.wall_s)
    return Remedy("load in the background", gain, f"In {share} of the time the host {what}, and the device waits.")


def optimiser(found: Evidence) -> Remedy | None:
    """One kernel for all parameters; what one call in it takes longer than others, as an allocation, stays."""
    steps = _own_steps(found)
    single = [each for each in _inside(found, steps) if each.call.operator.name.rstrip("_") in BY_TENSOR]
    if not steps or len(single) < MANY * len(steps):
        return None
    starts = sorted(each.call.operator.start_ns for each in single)
    apart = sorted(found.unprofiled_s(*pair) for pair in pairwise(starts))
    usual_s = apart[len(apart) // 2]
    took_s = sum(each if each < LONGER * usual_s else usual_s for each in apart)
    host_s, device_s = found.host_s - 0.9 * took_s, found.device_s - 0.5 * sum(each.work_s for each in single)
    why = f"The optimiser makes {len(single) / len(steps):.3g} calls a step, tensor by tensor."
    return Remedy("fused optimiser", found.wall_s / max(host_s, device_s, 1e-12), why)


def _own_steps(found: Evidence) -> list[Event]:
    """The spans of the optimiser, each from where a closure in it, which computes the gradients, has ended."""
    engine = [each for each in found.events if each.name.startswith(ENGINE)]
    ends = [0, *accumulate((each.end_ns for each in engine), max)]
    steps = []
    for each in found.events:
        if each.sort == "annotation" and each.name.startswith("Optimizer.step"):
            closed = ends[bisect_left(engine, each.end_ns, key=lambda one: one.start_ns)]
            steps.append(replace(each, start_ns=min(max(each.start_ns, closed), each.end_ns)))
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


def looping(found: Evidence) -> Remedy | None:
    """Many equal small calls could be one."""
    products = [each for each in found.calls if multiplies(each.call.cost)]
    alike = Counter((each.call.name, each.call.operator.inputs) for each in products)
    if not alike:
        return None
    (name, _), count = alike.most_common(1)[0]
    picked = sum(each.name in PICKS for each in found.events)
    if count < MANY * found.steps or picked < 0.5 * count:
        return None
    per = count / found.steps
    alike_s = sum(each.work_s for each in products if each.call.name == name and each.limit in ("latency", "unknown"))
    idle_s = sum(found.split.idle_s.get(cause, 0.0) for cause in ("dispatcher", "launch", "Python"))
    saved_s = (1 - 1 / per) * (idle_s + min(alike_s, found.split.busy_s))
    why = f"{name} is called {per:.3g} times a step with equal sizes, on one slice after another."
    return Remedy("batched", found.wall_s / max(found.wall_s - saved_s, found.wall_s / per), why)


# ---- copies between host and device ----------------------------------------------------------------------------------


def pinning(found: Evidence) -> Remedy | None:
    """Copies from pageable memory go through a buffer of the driver's, and the host waits for them."""
    copies = [each for each in found.events if each.sort in TRANSFERS and PAGEABLE in each.name]
    took_s = sum(each.end_ns - each.start_ns for each in copies) / 1e9
    nbytes = sum(each.nbytes for each in copies)
    if not nbytes:
        return None
    alone = min(1.0, found.split.transfer_s / took_s)  # a copy beside a kernel costs nothing
    saved_s = alone * max(0.0, took_s - nbytes / _link(found))
    why = f"{units.nbytes(nbytes / found.steps)} a step are copied from or to pageable memory."
    return Remedy("pinned memory", found.wall_s / (found.wall_s - saved_s), why)


def _link(found: Evidence) -> float:
    from brrr.gpu.datasheet import find_hardware

    known = find_hardware(found.model.device) if found.model is not None else None
    link = known.host_link if known is not None else None
    return PINNED_BYTES_PER_S if link is None else 0.9 * link.bytes_per_s


def keeping(found: Evidence) -> Remedy | None:
    """Without the copies, and without what the host does for them; in the time before them it makes what it copies."""
    loads = found.split.host_s.get("data loading") or "asleep_s" in found.flags
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


def _inside(found: Evidence, spans: Sequence[Event]) -> list[Assessed]:
    """The calls whose operators lie in one of the spans."""
    return [
        each for each in found.calls
        if any(span.start_ns <= each.call.operator.start_ns < span.end_ns for span in spans)
    ]  # fmt: skip
