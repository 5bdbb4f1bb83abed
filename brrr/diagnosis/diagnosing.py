"""`diagnose`: a program that runs now, or a trace that was saved, made into a diagnosis.

>>> import torch
>>> found = diagnose(torch.nn.Linear(64, 64), torch.ones(8, 64), device="cpu", budget_s=0.02)
>>> abs(sum(found.parts.values()) / found.step_s - 1) < 0.03
True
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brrr.core import units
from brrr.core.callables import refuse_shared
from brrr.core.errors import ArgumentError, extras
from brrr.core.intervals import Interval, length
from brrr.diagnosis import assess as limits
from brrr.diagnosis.assess import Assessed
from brrr.diagnosis.calls import calls_of
from brrr.diagnosis.evidence import LEAST, Evidence, Remedy
from brrr.diagnosis.interruptions import Interruption, breaking
from brrr.diagnosis.lines import lines_of
from brrr.diagnosis.remedies import remedies
from brrr.diagnosis.report import Diagnosis
from brrr.diagnosis.split import STEP, Split, exchanged, split, window
from brrr.diagnosis.step_timeline import timeline_of
from brrr.gpu import CUDA, is_cuda, is_gpu
from brrr.gpu.datasheet import find_hardware, normal
from brrr.gpu.device import processor_for
from brrr.gpu.precision import layers_in_tf32
from brrr.gpu.probe import cpu_name
from brrr.roofline.device_model import OTHER_CPU, DeviceModel, Where
from brrr.roofline.peaks import short
from brrr.roofline.terms import MATRIX_DTYPES, dtype_of
from brrr.tracing.kineto import LOOP
from brrr.tracing.trace_file import Board, Trace, TraceFileError, launches, read_trace

if TYPE_CHECKING:
    from brrr.diagnosis.live import Run

NO_SHAPES = "the trace tells no sizes of inputs: record it with profile(record_shapes=True), and FLOP and bytes count"
UNMARKED = "it counts as one step: call step() of the profiler in the loop, and each step is marked"
COUNTED = "no step is marked: each ends where the optimiser's does"
NAMELESS = Board("")
MEMORY = (0.9, 1.03)
"""What a driver may report of a datasheet's memory: some of it is the driver's own, or holds checksums."""
QUEUED = 0.05
"""From this share of the steps on it is told that work of earlier ones is done in them."""
OF_CUDA = ("cuda graph", "persistent kernel", "strassen")
"""Remedies that only CUDA has."""
WAITED_FOR = "no profiler sees this device: each operator was waited for, and worked as long as beyond a tiny one"
PROFILED = "times of the host are those under the profiler, which slows it: the overhead is an upper limit"


@extras("diagnose")
def diagnose(
    fn: Any, *args: Any, backward: bool = False, try_remedies: bool | float = False, device: str | None = None,
    peaks: Where = None, budget_s: float = 0.3, **kwargs: Any,
) -> Diagnosis:  # fmt: skip
    """Find what limits a model or a training step, where its time goes, and what would help.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU())
    >>> found = diagnose(model, torch.ones(32, 256), backward=True, device="cpu", budget_s=0.02)
    >>> found.step_s > 0 and found.regime != ""
    True

    The step runs about a hundred times, some of them under torch's profiler.

    Parameters
    ----------
    fn : torch.nn.Module or callable
        A module, or a function that runs one step.
    *args, **kwargs
        Its arguments. If `fn` itself takes a keyword of `diagnose`, bind it with ``functools.partial``.
    backward : bool
        Also compute the gradients of the sum of its results.
    try_remedies : bool or float
        Apply the safe remedies and measure what they gain, for at most this many seconds (True: 60).
        A remedy that gains less than 1.05x is dropped. Ctrl-C ends it and keeps what was measured.
    device : str, optional
        A kind of device, as `measure` takes it. By default the device of its tensors.
    peaks : str, Peaks or Hardware, optional
        The peaks to compare with, as `predict` takes them. By default this machine's, else its datasheet.
    budget_s : float
        About how many seconds to time the step.

    Returns
    -------
    Diagnosis
        The regime with its evidence, the operators and modules against the roofline, and remedies with predicted gains.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, or if no torch operator runs.
    UnavailableError
        If another profiler is running. What the function itself raises passes through.

    Notes
    -----
    Parameters, buffers, gradients, modes, and the states of optimizers and of random numbers are put back, wherever
    they can be found: in `fn`, in its arguments, and in what it closes over. docs/diagnosis.md says how it decides, and
    how often it was right.
    """
    from brrr.diagnosis import live

    refuse_shared(
        diagnose, fn, backward=backward, try_remedies=try_remedies, device=device, peaks=peaks, budget_s=budget_s
    )
    step = live.step_of(fn, args, kwargs, backward)
    where = processor_for("diagnose", device) if device else live.device_of(step, (fn, args, kwargs))
    run = live.run(step, (fn, args, kwargs), where, budget_s)
    model = limits.model_for(peaks) if peaks is not None else limits.model_here(where)
    found = of_run(run, model, is_gpu(where))
    if is_gpu(where) and not is_cuda(where):
        found = replace(found, remedies=tuple(each for each in found.remedies if each.name not in OF_CUDA))
    if not any(each.sort == "operator" for each in run.trace.events):
        raise ArgumentError("diagnose", "fn", fn, "a function that calls torch: no operator ran in it")
    name, today = limits.name_here(where), date.today().isoformat()
    stretch = (*window(run.trace, LOOP)[:2], run.steps)
    seen = timeline_of(run.trace, stretch, run.step_s, name, today, where)
    found = replace(found, device=name, date=today, timeline=seen)
    if try_remedies:
        from brrr.diagnosis.trials import LONGEST_S, tried

        longest_s = LONGEST_S if try_remedies is True else float(try_remedies)
        made = tried(found, fn, args, kwargs, backward, where, budget_s, longest_s)
        refuted = {each.name: each.gain for each in made if each.gain is not None and each.gain < LEAST}
        kept = tuple(each for each in found.remedies if each.name not in refuted)
        drop = (Remedy(name, gain, f"tried, {units.ratio(gain)}") for name, gain in refuted.items())
        found = replace(found, tried=made, remedies=kept, dropped=(*found.dropped, *drop))
    return found


def of_run(run: Run, model: DeviceModel | None, gpu: bool) -> Diagnosis:
    """What a run's times and trace say."""
    stretch = window(run.trace, LOOP)[:2]
    wall_s = run.step_s * run.steps
    traced = split(run.trace, *stretch)
    whole = without_profiler(traced, wall_s, run.host_s * run.steps, gpu, run.busy_s * run.steps)
    flags = {**limits.cores_here(), **run.flags}
    found = _diagnosed(run.trace, stretch, run.steps, traced, whole, model, gpu, flags, layers_in_tf32(), run.met)
    slower = run.traced_s / wall_s
    notes = (*found.notes, f"under the profiler a step took {units.ratio(slower)} as long, which is taken out")
    notes += (WAITED_FOR,) * ("waited" in run.flags)
    return replace(found, source="live", distortion=slower, flags=run.told, notes=notes)


def diagnose_trace(path: Path | str, device: Where = None) -> Diagnosis:
    """Diagnose a trace that torch's profiler saved, without running anything.

    >>> diagnose_trace("no-such-trace.json")
    Traceback (most recent call last):
    ...
    brrr.tracing.trace_file.TraceFileError: ...

    Parameters
    ----------
    path : str or pathlib.Path
        The trace, as ``export_chrome_trace`` writes it (.json or .json.gz). If steps were marked by
        ``profiler.step()``, only the time from the first to the last is diagnosed.
    device : str, Peaks or Hardware, optional
        The device to compare with, as `predict` takes it. By default the one that the trace names, or the
        busiest of several. If its memory or number of multiprocessors differs from the datasheet's, the notes say so.

    Returns
    -------
    Diagnosis
        As `diagnose` returns it, without remedies that were tried.

    Raises
    ------
    TraceFileError
        If the file is no trace.
    ArgumentError
        If the trace is of a GPU and the device is a CPU, or the other way round.
    """
    return of_file(path, device)


def of_file(path: Path | str, device: Where = None, live: bool = False, flags: tuple[str, ...] = ()) -> Diagnosis:
    """What a saved trace says; live: of a script that ran on this machine just now; flags: of its measurement."""
    trace = read_trace(path)
    gpu = any(each.on_device for each in trace.events)
    device = limits.cpu_here() if live and not gpu and device is None else device
    trace, board, several = _of_one_device(trace)
    if board.name and not gpu:
        lost = f"it names {board.name}, and holds none of its work: what is said is of the host alone"
        trace = replace(trace, problems=(*trace.problems, lost))
    unseen = not gpu and (trace.unread or any(map(launches, trace.events)))  # a device works, and its work is not here
    name = limits.name_here("cpu") if live and not gpu and not unseen else board.name
    model, other = _known(board) if device is None and gpu else (None, [])
    if device is not None and not unseen:
        model = limits.model_for(device)
    if model is not None and model.is_gpu != gpu:
        raise ArgumentError("diagnose_trace", "device", device, f"a {'GPU' if gpu else 'CPU'}, as the trace is of one")
    start, end, steps = window(trace)
    if end <= start:
        raise TraceFileError(f"{path}: all that it holds took no time")
    traced = split(trace, start, end)
    found = _diagnosed(trace, (start, end), steps, traced, traced, model, gpu, limits.cores_here() if live else {})
    marked = any(each.name.startswith(STEP) for each in trace.events)
    counted = [COUNTED if steps > 1 else UNMARKED] * (steps == 1 or not marked)
    said = [*other, PROFILED, *_queued(traced), *several, *counted]
    if model is None and not other:
        said.append(f"no figures of {name or 'its device'} are known here: try device={'h200' if gpu else 'cpu'!r}")
    if not any(each.inputs is not None for each in trace.events if each.sort == "operator"):
        said.append(NO_SHAPES)
    kinds = f" ({', '.join(trace.unread)})" if trace.unread else ""
    unnamed = f"a {'device' if kinds else 'GPU'} that the trace does not name{kinds}" if gpu else "a CPU"
    name = name or (f"a device whose work cannot be read{kinds}" if unseen else unnamed)
    source, day = ("live", date.today().isoformat()) if live else (str(path), "")
    seen = timeline_of(trace, (start, end, steps), found.step_s, name, day, CUDA)
    return replace(found, device=name, source=source, date=day, flags=flags, notes=(*found.notes, *said), timeline=seen)


def _queued(found: Split) -> list[str]:
    """A note where the device does in the steps what was issued before them."""
    share = found.waited_s / found.wall_s
    if share < QUEUED:
        return []
    return [f"in {units.percent(share)} of it the device does what was issued before the first step: mark more steps"]


def _of_one_device(trace: Trace) -> tuple[Trace, Board, list[str]]:
    """The trace with the work of its busiest device alone, that device, and a note where several work."""
    works: dict[int, list[Interval]] = {}
    for each in trace.events:
        if each.on_device:
            works.setdefault(each.device, []).append(each.interval)
    if not works:
        return trace, next(iter(trace.devices.values()), NAMELESS), []
    chosen = max(works, key=lambda device: length(works[device]))
    alike = {each.name for each in trace.devices.values()}  # where the numbers are not those of the description
    board = trace.devices.get(chosen) or (next(iter(trace.devices.values())) if len(alike) == 1 else NAMELESS)
    if len(works) < 2:
        return trace, board, []
    kept = tuple(each for each in trace.events if not each.on_device or each.device == chosen)
    said = f"of {len(works)} devices, device {chosen} counts: it has the most work"
    return replace(trace, events=kept), board, [f"{said} ({board.name})" if len(alike) > 1 else said]


def _known(board: Board) -> tuple[DeviceModel | None, list[str]]:
    """The figures of a board, and a note where that which they are of has other memory or multiprocessors.

    Such a board has other figures, unless it bears the very name that the known one's driver reports.
    """
    model, known = limits.model_for(board.name) if board.name else None, find_hardware(board.name)
    if model is None or known is None:
        return model, []
    memory, sms, differs = known.memory_bytes or 0, known.sm_count or 0, []
    if board.memory_bytes and memory and not MEMORY[0] <= board.memory_bytes / memory <= MEMORY[1]:
        differs.append(f"{board.memory_bytes / 2**30:.3g} GiB of memory (not {memory / 2**30:.3g})")
    if board.sm_count and sms and board.sm_count != sms:
        differs.append(f"{board.sm_count} multiprocessors (not {sms})")
    if not differs:
        return model, []
    said = f"this {board.name} has {' and '.join(differs)}, unlike the {known.name}"
    if normal(board.name) in map(normal, known.reported_as):
        return model, [f"{said}, whose figures are taken"]
    return None, [f"{said}: its figures are not known here. Name a device with device=, such as {known.key!r}"]


def without_profiler(found: Split, wall_s: float, host_s: float, gpu: bool = True, busy_s: float = 0.0) -> Split:
    """The split of so many seconds without the profiler, of which issuing takes the host `host_s`.

    busy_s: in which the device worked in the steps that were measured, where that is known: in a loop that leaves it
    no rest its clock is lower than in the few steps of the trace, and its kernels take longer.

    >>> made = without_profiler(Split(3.0, 1.0, 0.0, {"Python": 2.0}, {"Python": 3.0}), 2.0, 2.0)
    >>> made.busy_s, made.idle_s
    (1.0, {'Python': 1.0})

    The host's parts shrink alike, and the device's work takes as long. Where a step takes longer without the profiler,
    as at another clock, and on a CPU, which is host and device in one, all parts change alike.
    """
    idle_s = sum(found.idle_s.values())
    slower = max(1.0, min(busy_s, wall_s) / found.device_s) if gpu and found.device_s else 1.0
    fits = gpu and slower * found.device_s <= wall_s < found.wall_s and idle_s > 0
    work = slower if fits else wall_s / (found.wall_s or 1.0)
    rest = (wall_s - work * found.device_s) / idle_s if fits else work
    host = min(1.0, host_s / found.issuing_s) if found.issuing_s else 1.0
    return Split(
        wall_s, found.busy_s * work, found.transfer_s * work,
        {cause: seconds * rest for cause, seconds in found.idle_s.items()},
        {cause: seconds * host for cause, seconds in found.host_s.items()}, found.waited_s * work, found.lines,
    )  # fmt: skip


def without_dispatching(found: Split, work_s: float, traced_s: float) -> Split:
    """On a CPU: of the operators' time, what is spent around the work itself is the dispatcher's; both as traced."""
    share = min(1.0, work_s / traced_s) if traced_s else 0.0
    rest_s = found.busy_s * (1 - share)
    idle = {**found.idle_s, **({"dispatcher": found.idle_s.get("dispatcher", 0.0) + rest_s} if rest_s else {})}
    return replace(found, busy_s=found.busy_s * share, idle_s=idle)


def _diagnosed(
    trace: Trace, stretch: tuple[int, int], steps: int, traced: Split, whole: Split, model: DeviceModel | None,
    gpu: bool, flags: Mapping[str, float], layers: Container[str] = limits.DEFAULT,
    interruptions: Sequence[Interruption] | None = None,
) -> Diagnosis:  # fmt: skip
    """The analysis that a live run and a saved trace share; `whole` is the split `traced` without the profiler.

    interruptions: of torch.compile, those of a live run that its trace does not show; None for a saved trace.
    """
    made, lines = calls_of(trace, *stretch, gpu), lines_of(trace.events)
    for call in made:
        call.line = lines.get(id(call.operator), "")
    calls = limits.assess(limits.as_computed(made, model, layers), model)
    taken_s = sum(each.work_s for each in calls)
    whole = whole if gpu else without_dispatching(whole, taken_s, traced.busy_s)
    parts = limits.shares(whole, calls)
    longer = not gpu or "waited" in flags  # a CPU's operators under the profiler, those that are waited for
    scale = whole.busy_s / taken_s if longer and taken_s else 1.0
    regime: limits.Regime = "unknown" if trace.problems else limits.regime_of(parts, steps, model)
    evidence = Evidence(trace, *stretch, steps, traced, whole, parts, calls, model, gpu, flags)
    talks_s, exposed_s = exchanged(trace.events, *stretch)
    exposed = units.percent(exposed_s / talks_s) if talks_s else ""
    said = f"{units.seconds(talks_s / steps)} a step are communication between devices, {exposed} of it exposed: beside"
    helps, dropped = ([], []) if trace.problems else remedies(evidence)
    broken = () if interruptions is None else (*breaking(evidence), *interruptions)
    return Diagnosis(
        device="", source="", steps=steps, step_s=whole.wall_s / steps, regime=regime,
        shares=parts, operators=tuple(limits.by_operator(calls, scale)), modules=tuple(limits.by_module(calls, scale)),
        lines=tuple(limits.by_line(calls, scale)), python=whole.lines,
        remedies=tuple(helps), dropped=tuple(dropped), interruptions=broken,
        peaks=(model.peaks or find_hardware(model.device)) if model is not None else None,
        peak_share=_peak_share(calls, whole.wall_s, model), peak=_peak(calls, model),
        model_share=_peak_share([each for each in calls if each.call.phase != "again"], whole.wall_s, model),
        problems=trace.problems,
        notes=(
            *((f"the roofline's figures are those of {model.device}, {model.origin}",) if model is not None else ()),
            *([OTHER_CPU] * (model is not None and not model.is_gpu and model.device != cpu_name())),
            *([f"{said} it nothing is computed"] * bool(exposed)),
        ),
    )  # fmt: skip


def _peak_share(calls: Sequence[Assessed], wall_s: float, model: DeviceModel | None) -> float | None:
    """The seconds that the products take at the best rate of each one's type, over all."""
    rates = _rates(calls, model)
    if not rates or model is None or None in rates.values():
        return None
    products = [each for each in calls if each.call.cost is not None and each.call.cost.matmuls]
    return sum(each.flop / (rates[_computed(each)] or 1.0) for each in products) / wall_s


def _peak(calls: Sequence[Assessed], model: DeviceModel | None) -> str:
    """The best rates that a share of the peak is of, in words."""
    return ", ".join(
        f"{units.quantity(rate, 'FLOP/s')} in {dtype}" for dtype, rate in _rates(calls, model).items() if rate
    )


def _rates(calls: Sequence[Assessed], model: DeviceModel | None) -> dict[str, float | None]:
    """The best rate of each type that products are computed in; None where nobody knows it."""
    found: dict[str, float | None] = {}
    for each in calls:
        if model is not None and each.call.cost is not None and each.call.cost.matmuls:
            dtype = _computed(each)
            known = dtype in MATRIX_DTYPES and (model.has(f"matmul.{dtype}") or model.has(f"arithmetic.{dtype}.fma"))
            found[dtype] = model.best_rate(dtype) if known else None
    return found


def _computed(each: Assessed) -> str:
    assert each.call.cost is not None
    return short(dtype_of(each.call.cost))
