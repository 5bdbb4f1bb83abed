"""One program under the timers and the profiler, as it was before when it is over.

What a diagnosis needs of a live run: its time without the profiler, a trace of a few steps, whether the host slept, and
what torch compiled meanwhile.
"""

from __future__ import annotations

import copy
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.measurement import Measurement
from brrr.diagnosis.calls import MODULE
from brrr.diagnosis.trace_file import Trace, read_trace
from brrr.gpu import GPU
from brrr.timing import measure
from brrr.timing.activity import SETTLE_S, detaching_cupti
from brrr.tracing.recording import without_chatter

LOOP = "brrr_loop"
TRACE_S, MOST_STEPS, FEWEST_STEPS = 0.3, 20, 3
ASLEEP = 0.2
"""From this share of a step on, a host that computes nothing is said to be asleep."""


@dataclass(frozen=True)
class Run:
    """A program's steps: measured without the profiler, traced with it, and what was noticed besides."""

    measured: Measurement
    step_s: float
    trace: Trace
    steps: int
    traced_s: float
    flags: Mapping[str, float]


def step_of(fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], backward: bool) -> Callable[[], Any]:
    """The step as a function of no arguments: the call, with `backward` also the gradients of its results' sum.

    ArgumentError for what cannot be called.
    """
    if not callable(fn):
        hint = "Write diagnose(model, x), not diagnose(model(x))."
        raise ArgumentError("diagnose", "fn", type(fn), "a callable or a module", hint)
    if not backward:
        return lambda: fn(*args, **kwargs)

    def step() -> Any:
        found = fn(*args, **kwargs)
        results = [each for each in _pytree.tree_leaves(found) if isinstance(each, torch.Tensor) and each.requires_grad]
        if not results:
            raise ArgumentError("diagnose", "backward", True, "a function whose results have gradients")
        torch.autograd.backward([each.float().sum() for each in results])
        return found

    return step


def run(step: Callable[[], Any], around: tuple[Any, ...], device: str, budget_s: float) -> Run:
    """Measure and trace a step; `around` is what may hold modules and optimisers whose state is put back."""
    with kept_as_it_was(around) as modules:
        compiled = _compiled_s()
        measured = measure(step, device="cuda" if device == GPU else "cpu", budget_s=budget_s)
        estimate = measured.period_s or measured.latency_s or measured.host_s
        assert estimate is not None
        step_s = estimate.median
        steps = max(FEWEST_STEPS, min(MOST_STEPS, int(TRACE_S / step_s)))
        flags = _flags(step, steps, device)
        with named(modules):
            trace, traced_s = _traced(step, steps, device)
        if _compiled_s() > compiled and (again := _recompiling(step, FEWEST_STEPS, device)):
            flags["recompiled"] = again
    return Run(measured, step_s, trace, steps, traced_s, flags)


def _flags(step: Callable[[], Any], steps: int, device: str) -> dict[str, float]:
    """Seconds of so many steps in which the host neither computed nor waited for the device; a variable that is set."""
    found: dict[str, float] = {}
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        found["launch blocking"] = 1.0
    _wait(device)
    began, computed = time.perf_counter(), time.process_time() + _held_up_s()
    for _ in range(steps):
        step()
    asleep_s = time.perf_counter() - began - (time.process_time() + _held_up_s() - computed)
    _wait(device)
    if asleep_s > ASLEEP * (time.perf_counter() - began):
        found["asleep_s"] = asleep_s
    return found


def _held_up_s() -> float:
    """Seconds that this process's threads were ready to run and others had the processor; 0 where nobody tells."""
    waited_ns = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError, ValueError, IndexError):  # a thread may have ended
            waited_ns += int(path.read_text(encoding="ascii").split()[1])
    return waited_ns / 1e9


def _compiled_s() -> float:
    """Seconds that torch.compile has spent in this process so far; none where it was never loaded."""
    utils = sys.modules.get("torch._dynamo.utils")
    return float(sum(utils.compilation_time_metrics.get("_compile.compile_inner", []))) if utils is not None else 0.0


def _recompiling(step: Callable[[], Any], steps: int, device: str) -> float:
    """The share of further steps that is spent on compiling, when all that is compiled once has been."""
    before, began = _compiled_s(), time.perf_counter()
    for _ in range(steps):
        step()
    _wait(device)
    return (_compiled_s() - before) / (time.perf_counter() - began)


def _wait(device: str) -> None:
    if device == GPU:
        torch.cuda.synchronize()


def _traced(step: Callable[[], Any], steps: int, device: str) -> tuple[Trace, float]:
    """A few steps under the profiler with their inputs' sizes, and the seconds that they took there."""
    from torch.profiler import ProfilerActivity, profile, record_function

    if torch._C._autograd._profiler_enabled():
        raise UnavailableError(
            "diagnose: another session of torch's profiler is running in this process, and only one can. "
            "Leave its `with` block (or call its stop()), then diagnose again."
        )
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == GPU else [])]
    session = profile(activities=activities, record_shapes=True)
    with detaching_cupti(), tempfile.TemporaryDirectory() as folder:
        with without_chatter():
            session.start()
        try:
            step()  # the profiler's own first step is slow
            _wait(device)
            began = time.perf_counter()
            with record_function(LOOP):
                for _ in range(steps):
                    step()
                _wait(device)
            taken_s = time.perf_counter() - began
        finally:
            with without_chatter():
                session.stop()
            if device == GPU:
                torch.cuda.synchronize()  # CUPTI leaves at the next call into CUDA, on a thread of its own
                time.sleep(SETTLE_S)
        path = Path(folder) / "trace.json"
        session.export_chrome_trace(str(path))
        return read_trace(path), taken_s


# ---- modules by name, and their state --------------------------------------------------------------------------------


@contextmanager
def named(modules: Mapping[str, nn.Module]) -> Iterator[None]:
    """A span around the forward of each module, by its name, and nothing left of it afterwards."""
    from torch.profiler import record_function

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


@contextmanager
def kept_as_it_was(around: tuple[Any, ...]) -> Iterator[dict[str, nn.Module]]:
    """The modules found in or behind some objects, by name; when it is over, all is as before.

    Parameters, buffers, gradients, modes, the state of optimisers, and the state of the random numbers.
    """
    roots, optimisers, tensors = _found(around)
    modules = {
        f"{type(root).__name__}{'.' * bool(name)}{name}": each for root in roots for name, each in root.named_modules()
    }
    held = {id(each): each for each in tensors}
    for root in roots:
        held |= {id(each): each for each in (*root.parameters(), *root.buffers())}
    for optimiser in optimisers:
        held |= {id(each): each for group in optimiser.param_groups for each in group["params"]}
    place = _place(held.values())
    values = [
        (each, each.detach().to(place, copy=True), each.grad, _copied(each.grad, place))
        for each in held.values()
        if each.is_leaf
    ]
    states = [(optimiser, copy.deepcopy(optimiser.state_dict())) for optimiser in optimisers]
    modes = [(each, each.training) for each in modules.values()]
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() and torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices=devices):
            yield modules
    finally:
        with torch.no_grad():
            for each, value, gradient, was in values:
                each.copy_(value)
                each.grad = gradient
                if gradient is not None and was is not None:
                    gradient.copy_(was)
        for optimiser, state in states:
            optimiser.load_state_dict(state)
        for module, training in modes:
            module.training = training


def _copied(gradient: torch.Tensor | None, place: str | None) -> torch.Tensor | None:
    return None if gradient is None else gradient.detach().to(place, copy=True)


def _place(tensors: Iterable[torch.Tensor]) -> str | None:
    """Where copies go: beside the tensors, or into the host's memory where a quarter of the GPU's is not enough."""
    on_gpu = [each for each in tensors if each.is_cuda]
    nbytes = sum(each.nbytes + (0 if each.grad is None else each.grad.nbytes) for each in on_gpu)
    return "cpu" if on_gpu and nbytes > torch.cuda.mem_get_info()[0] / 4 else None


def _found(around: tuple[Any, ...]) -> tuple[list[nn.Module], list[torch.optim.Optimizer], list[torch.Tensor]]:
    """Modules, optimisers and tensors among objects, what functions close over, and the names that they use."""
    roots, optimisers, tensors = [], [], []
    seen: set[int] = set()
    waiting = list(_pytree.tree_leaves(around))
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, nn.Module):
            roots.append(each)
        elif isinstance(each, torch.optim.Optimizer):
            optimisers.append(each)
        elif isinstance(each, torch.Tensor):
            tensors.append(each)
        else:
            waiting += _pytree.tree_leaves(_behind(each))
    return roots, optimisers, tensors


def _behind(each: Any) -> list[Any]:
    """What a function reaches: its object, its closure, its defaults, the global names in its code; or an object."""
    wanted = (nn.Module, torch.optim.Optimizer, torch.Tensor)
    function = getattr(each, "__func__", each)
    code = getattr(function, "__code__", None)
    if code is None:  # functools.partial, or an object that holds them, as a trainer does
        held = [*each.args, each.func] if hasattr(each, "func") else list(getattr(each, "__dict__", {}).values())
        return [value for value in held if isinstance(value, wanted) or hasattr(value, "__code__")]
    cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    names = [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    return [getattr(each, "__self__", None), *cells, *(function.__defaults__ or ()),
            *(value for value in names if isinstance(value, wanted))]  # fmt: skip


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
