"""One program under the timers and the profiler, as it was before when it is over.

What a diagnosis needs of a live run: its time without the profiler, a trace of a few steps, whether the host slept, and
what torch compiled meanwhile.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import record_function
from torch.utils import _pytree

from brrr.core import units
from brrr.core.callables import require_callable
from brrr.core.errors import ArgumentError
from brrr.diagnosis.batching import PICKS
from brrr.diagnosis.calls import MODULE
from brrr.diagnosis.interruptions import REGION, Interruption, compilations, compiling_again
from brrr.diagnosis.lineage import at_once
from brrr.diagnosis.snapshot import found_in, kept_as_it_was
from brrr.diagnosis.waited import waited
from brrr.gpu import gpu_here, is_gpu, synchronize
from brrr.gpu.device import processor_for
from brrr.timing import measure
from brrr.timing.activity import sees
from brrr.timing.elsewhere import refuse_elsewhere
from brrr.timing.sampler import elsewhere_s
from brrr.tracing.kineto import LOOP
from brrr.tracing.lines import LineSpans
from brrr.tracing.loaders import loaders_told
from brrr.tracing.recording import recorded, session
from brrr.tracing.trace_file import Trace
from brrr.tracing.tracer import TracedLoop

TRACE_S, MOST_STEPS, FEWEST_STEPS = 0.3, 20, 3
REPEATS = 7
"""How often a long step is run after the first time."""
LONG_S = 1.0
"""A step that takes longer is traced once, and it is said how long that takes."""
WARM = 5
"""Calls until a compiled function must have settled."""
CHECKED = "aten::_is_any_true"
"""What anomaly detection asks of every gradient."""
UNSEEN = "torch's profiler sees nothing of this device, and what is compiled cannot be waited for operator by operator"
ASLEEP = 0.2
"""From this share of a step on, a host that computes nothing is said to be asleep."""


@dataclass(frozen=True)
class Run:
    """A program's steps: measured without the profiler, traced with it, and what was noticed besides.

    step_s: seconds of a step in a loop; host_s: what issuing one takes the host; busy_s: in which the device worked, 0
    where nobody knows. flags: see `Evidence`. met: what interrupts torch.compile, but for what the trace tells.
    told: the flags of its measurement.
    """

    step_s: float
    host_s: float
    trace: Trace
    steps: int
    traced_s: float
    flags: Mapping[str, float]
    busy_s: float = 0.0
    met: Sequence[Interruption] = ()
    told: tuple[str, ...] = ()


def step_of(fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], backward: bool) -> Callable[[], Any]:
    """The step as a function of no arguments: the call, with `backward` also the gradients of its results' sum.

    ArgumentError for what cannot be called.
    """
    hint = "Write diagnose(model, x), not diagnose(model(x))."
    require_callable("diagnose", "fn", fn, "a callable or a module", hint)
    if not backward:
        return lambda: fn(*args, **kwargs)

    def step() -> Any:
        found = fn(*args, **kwargs)
        results = [each for each in _pytree.tree_leaves(found) if isinstance(each, torch.Tensor) and each.requires_grad]
        if not results:
            raise ArgumentError("diagnose", "backward", True, "a function whose results have gradients")
        torch.autograd.backward([(torch.view_as_real(each) if each.is_complex() else each).sum() for each in results])
        return found

    return step


def device_of(step: Callable[[], Any], around: tuple[Any, ...]) -> str:
    """Where a step works: on the GPU if there is one, unless all tensors lie on the CPU and none is made on the GPU."""
    found = found_in(around)
    held = [*found.tensors, *(each for root in found.roots for each in (*root.parameters(), *root.buffers()))]
    if gpu_here() is None:
        return "cpu"
    if held and not any(is_gpu(each.device) for each in held):
        before = _made_on_gpu()
        with kept_as_it_was(around):
            step()
        if _made_on_gpu() == before:
            return "cpu"
    return processor_for("diagnose", None, "device='cpu' diagnoses what works on the CPU")


def _made_on_gpu() -> int:
    """How often torch has given out memory of the GPU."""
    return int(torch.cuda.memory_stats().get("allocation.all.allocated", 0)) if torch.cuda.is_initialized() else 0


def run(step: Callable[[], Any], around: tuple[Any, ...], device: str, budget_s: float) -> Run:
    """Measure and trace a step; `around` is what may hold modules and optimisers whose state is put back."""
    began_s = time.time()
    with kept_as_it_was(around) as modules, loaders_told() as ahead:
        once_s = _warm(step, device)
        refuse_elsewhere("diagnose", device, step)
        warm_s = time.time()
        if once_s > LONG_S:
            said = f"a step takes {units.seconds(once_s)} and is run some {REPEATS} times more"
            print(f"diagnose: {said}: about {units.seconds(REPEATS * once_s, 2)}", file=sys.stderr)
        _emptied(step, ahead)
        measured = measure(step, device=device, budget_s=budget_s)
        estimate = measured.period_s or measured.latency_s or measured.host_s
        assert estimate is not None
        step_s = estimate.median
        host_s = measured.host_s.median if measured.host_s is not None else step_s
        steps = max(1 if step_s > LONG_S else FEWEST_STEPS, min(MOST_STEPS, int(TRACE_S / step_s)))
        flags = _flags(step, steps, device, ahead)
        if measured.span_s is not None:
            flags["span_s"] = measured.span_s.median
        busy_s = measured.busy_s.median if measured.busy_s is not None else 0.0
        with named({} if compilations(warm_s) else modules):  # what is compiled now shall not hold what names modules
            trace, traced_s = _traced(step, steps, device, ahead)
        _emptied(step, ahead)
        warm_s, loop_s = time.time(), TracedLoop(step, device).once(steps) / steps
        compiled = any(each.name.startswith(REGION) for each in trace.events)  # followed, it runs as written ever after
        if is_gpu(device) and not sees(device):
            if compiled:
                trace = replace(trace, problems=(*trace.problems, UNSEEN))
            else:
                trace, flags["waited"] = waited(step, steps, device), 1.0
                busy_s = sum(each.end_ns - each.start_ns for each in trace.events if each.on_device) / 1e9 / steps
        if spent_s := sum(each.duration_us for each in compilations(warm_s) if not each.fail_type) / 1e6:
            flags["recompiled"] = spent_s / (steps * loop_s)
            with torch.compiler.set_stance("eager_on_recompile"):
                flags["mended_s"] = _taken_s(step, steps, device)
        fewer = min(1.0, loop_s / step_s)  # others slow a host down, and for longer than a measurement
        step_s, host_s = step_s * fewer, host_s * fewer
        if not compiled and sum(each.name in PICKS for each in trace.events) > steps:  # one slice makes no loop
            with suppress(Exception):  # what runs by itself may refuse to be followed
                flags |= at_once(step)
        if any(each.name == CHECKED for each in trace.events):
            checked_s = _taken_s(step, steps, device)  # as long ago, on a machine that others use too
            with _no_anomaly_detection():
                flags["mended_s"] = step_s * _taken_s(step, steps, device) / checked_s
        found = compiling_again(step, began_s) if compilations() else ()
    return Run(step_s, host_s, trace, steps, traced_s, flags, busy_s, found, measured.flags)


@contextmanager
def _no_anomaly_detection() -> Iterator[None]:
    """The program cannot switch it on meanwhile."""
    was, switch = torch.is_anomaly_enabled(), torch.set_anomaly_enabled
    switch(False)
    torch.set_anomaly_enabled = lambda *_, **__: None
    try:
        yield
    finally:
        torch.set_anomaly_enabled = switch
        switch(was)


def _taken_s(step: Callable[[], Any], steps: int, device: str) -> float:
    """Seconds of a step, by the median of some."""
    taken = []
    for _ in range(steps + 1):
        _wait(device)
        began = time.perf_counter()
        step()
        _wait(device)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def _emptied(step: Callable[[], Any], ahead: Iterable[int]) -> None:
    """What a loader's workers made ahead while nobody asked is used up: a pause is no part of a loop."""
    for _ in range(min(MOST_STEPS, 2 * max(ahead))):  # it grows meanwhile
        step()


def _flags(step: Callable[[], Any], steps: int, device: str, ahead: Iterable[int]) -> dict[str, float]:
    """Seconds of so many steps that its processes computed, or would have with a core to themselves; those in which the
    host did neither, nor waited for the device, where they are many; a variable that is set.
    """
    found: dict[str, float] = {}
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        found["launch blocking"] = 1.0
    _emptied(step, ahead)
    _wait(device)
    began, computed, before, elsewhere = time.perf_counter(), time.process_time(), _held_up_s(), elsewhere_s()
    for _ in range(steps):
        step()
    held_up_s = max(seconds - before.get(thread, 0.0) for thread, seconds in [("", 0.0), *_held_up_s().items()])
    ready_s = time.process_time() - computed + held_up_s
    found["computed_s"] = ready_s + elsewhere_s() - elsewhere
    asleep_s = time.perf_counter() - began - ready_s
    _wait(device)
    if asleep_s > ASLEEP * (time.perf_counter() - began):
        found["asleep_s"] = asleep_s
    return found


def _warm(step: Callable[[], Any], device: str) -> float:
    """Run the step until nothing more is compiled, a few times at most; the seconds of the last."""
    for _ in range(WARM):
        began_s = time.time()  # as torch's log has it
        step()
        _wait(device)
        if not compilations(began_s):
            break
    return time.time() - began_s


def _held_up_s() -> dict[str, float]:
    """Seconds that each thread was ready to run and others had the processor; none where nobody tells.

    Threads wait side by side: the sum of their times is no part of the whole, the longest is.
    """
    found = {}
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError, ValueError, IndexError):  # a thread may have ended
            found[path.parent.name] = int(path.read_text(encoding="ascii").split()[1]) / 1e9
    return found


def _wait(device: str) -> None:
    if is_gpu(device):
        synchronize()


def _traced(step: Callable[[], Any], steps: int, device: str, ahead: Iterable[int] = (0,)) -> tuple[Trace, float]:
    """A few steps under the profiler with their inputs' sizes, and the seconds that they took there."""
    with session("diagnose", device, record_shapes=True) as made:
        if steps > 1:  # the profiler's own first step is slow, and so is one that tells its lines
            with LineSpans():
                step()
            _emptied(step, ahead)
            _wait(device)
        began = time.perf_counter()
        with record_function(LOOP), LineSpans() if steps == 1 else nullcontext():  # of a long one that is little
            for _ in range(steps):
                step()
            _wait(device)
        taken_s = time.perf_counter() - began
    return recorded(made), taken_s


# ---- modules by name --------------------------------------------------------------------------------


@contextmanager
def named(modules: Mapping[str, nn.Module]) -> Iterator[None]:
    """A span around the forward of each module, by its name, and nothing left of it afterwards."""
    spans: list[Any] = []

    def enter(name: str) -> Callable[..., None]:
        def before(*_: Any) -> None:
            span = record_function(MODULE + name)
            span.__enter__()
            spans.append(span)

        return before

    def leave(*_: Any) -> None:
        if spans:
            spans.pop().__exit__(None, None, None)

    with ExitStack() as stack:
        for name, module in modules.items():
            if not isinstance(module, torch.jit.ScriptModule):
                stack.callback(module.register_forward_pre_hook(enter(name)).remove)
                stack.callback(module.register_forward_hook(leave, always_call=True).remove)
        yield
