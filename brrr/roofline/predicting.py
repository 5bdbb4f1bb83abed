"""`predict`: how long a callable or a cost should take on a device."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, repeat
from typing import Any, NamedTuple, overload

from brrr.core.callables import require_callable
from brrr.core.errors import ArgumentError, extras
from brrr.counting.cost import Cost, OperatorCost
from brrr.roofline.corrections import operator_time
from brrr.roofline.device_model import REFERENCE_CALL, DeviceModel, Where, model_of
from brrr.roofline.figures import UNCACHED, WHOLE, host_class, of_training, python_s
from brrr.roofline.lowering import LAYERS, as_on_gpu, fused, in_tf32, is_special, operations
from brrr.roofline.peaks import DTYPES, short
from brrr.roofline.prediction import How, Prediction, Predictions, bound_of
from brrr.roofline.recurrent import CALLS, is_call, is_launch, lowered, recurrent_time
from brrr.roofline.terms import MATRIX_DTYPES, OperatorTime

# ---------------------------------------------------------------------------------------------------------------------
# Two clocks: the host issues one operator after the other, and the device does each when both are ready for it.


class Issued(NamedTuple):
    """One operator: what it costs the host to issue, and the device to do (None: nothing runs there).

    waits: whether the host goes on only when the device has done it.
    """

    host_s: float
    device_s: float | None
    waits: bool = False


def schedule(operators: Iterable[Issued], gap_s: float = 0.0) -> Iterator[tuple[float, float, float]]:
    """When each of a chain was issued, and from when to when the device did it, both as issued if nothing ran there.

    It begins with an idle device; `gap_s` lies between two kernels that do not wait for the host.

    >>> list(schedule([Issued(2.0, 1.0), Issued(2.0, 5.0), Issued(2.0, 1.0)], gap_s=0.5))
    [(2.0, 2.0, 3.0), (4.0, 4.0, 9.0), (6.0, 9.5, 10.5)]
    """
    issued, free = 0.0, float("-inf")
    for host_s, device_s, waits in operators:
        issued += host_s
        if device_s is None:
            yield issued, issued, issued
            continue
        start = max(issued, free + gap_s)
        free = start + device_s
        yield issued, start, free
        issued = free if waits else issued


def period_s(operators: list[Issued], calls: int, gap_s: float = 0.0) -> float:
    """Seconds a call of `calls` calls without synchronising, until host and device are through.

    >>> operators = [Issued(2.0, 1.0), Issued(2.0, 5.0)]
    >>> period_s(operators, calls=1), period_s(operators, calls=100)
    (9.0, 6.03)
    """
    every = schedule(chain.from_iterable(repeat(operators, calls)), gap_s)
    return max((max(issued, end) for issued, _, end in every), default=0.0) / calls


def span_s(operators: Iterable[Issued], gap_s: float = 0.0) -> float:
    """Seconds from the first start to the last end on the device when everything is issued already.

    >>> span_s([Issued(2.0, 1.0), Issued(1.0, None), Issued(2.0, 5.0)], gap_s=0.5)
    6.5
    """
    times = [each.device_s for each in operators if each.device_s is not None]
    return sum(times) + gap_s * max(0, len(times) - 1)


# ---------------------------------------------------------------------------------------------------------------------
# The ways of running the same kernels: issued one by one, replayed as a CUDA Graph, or called in compiled form.


class Clocks(NamedTuple):
    """The times of a whole chain, in seconds; no span on a CPU."""

    host_s: float
    period_s: float
    latency_s: float
    span_s: float | None


def operator_times(
    kernels: Sequence[OperatorCost],
    model: DeviceModel,
    how: How,
    apart: float,
    gradients: int = 0,
    lines: int = 0,
) -> tuple[OperatorTime, ...]:
    """Every kernel's times. In a graph the host issues none of them; a compiled form's call is paid with its first.

    apart: how many bytes lie between two touches of what the work touches for the first time.
    """
    costs = _host_costs(kernels, model, how, gradients, lines)
    keys = [(each, each.backward, each.recent, host_s)
            for each, host_s in zip(_handed_on(kernels), costs, strict=True)]  # fmt: skip
    times = {
        key: recurrent_time(key[0], model, key[-1] or 0.0, events=how != "graph")
        or operator_time(key[0], model, apart, host_s=key[-1])
        for key in dict.fromkeys(keys)
    }
    return tuple(times[key] for key in keys)  # a model's layers are alike


def _handed_on(kernels: Sequence[OperatorCost]) -> Iterator[OperatorCost]:
    """The kernels; where it was not counted, each reads what the one before it wrote, which is recent."""
    written = 0.0
    for each in kernels:
        shared = min(written, each.read_bytes)
        yield replace(each, recent=((shared, 2 * shared),) * bool(shared)) if each.recent is None else each
        written = each.written_bytes if each.kind != "view" else written


def _host_costs(
    kernels: Sequence[OperatorCost], model: DeviceModel, how: How, gradients: int, lines: int
) -> Iterator[float | None]:
    """What replaces the host cost of each kernel's class; eagerly, with its share of the Python around them."""
    trained = of_training(model, gradients) if how == "eager" and model.is_gpu and gradients else None
    called = sum(not each.backward and not is_launch(each) for each in kernels)
    beside_s = python_s(model, lines, called) / called if how == "eager" and called else 0.0
    at_once_s = trained.at_once_s if trained else 0.0
    for place, each in enumerate(kernels):
        if is_launch(each):  # neither torch nor autograd has a part in it
            yield 0.0 if how == "graph" else model.value(REFERENCE_CALL)
            continue
        name = host_class(each, model) if how == "eager" else ""
        own_s = model.value(f"host.{name}") * (CALLS[each.backward] if is_call(each) else 1.0) if name else 0.0
        if trained and each.backward:
            yield own_s * (1.0 if "backward" in name else trained.backward) + at_once_s
            at_once_s = 0.0  # with the first
        elif trained:
            yield own_s * trained.forward + beside_s
        elif how == "eager":
            yield own_s + beside_s
        elif how == "graph":
            yield 0.0
        elif place == 0:
            yield model.value("host.compiled")
        else:
            known = not each.matmuls and model.has("host.compiled-kernel")
            yield model.value("host.compiled-kernel") if known else None


def run_clocks(
    times: Sequence[OperatorTime], model: DeviceModel, how: How, calls: int, before: Sequence[OperatorTime] = ()
) -> Clocks:
    """Host and device through the chain, in a loop of so many calls and once alone; `before` comes before a graph."""
    steps = [Issued(each.host_s, each.device_s, each.waits) for each in times]
    if not model.is_gpu:
        total = sum(each.device_s or 0.0 for each in times)
        return Clocks(sum(each.host_s for each in times), total, total, None)
    between = model.value("gap.stream") if calls > 1 or len(steps) > 1 else 0.0
    if how == "graph":
        inside = span_s(steps, model.value("gap.graph") if len(steps) > 1 else 0.0)
        steps = [Issued(each.host_s, each.device_s) for each in before]
        steps.append(Issued(replay_s(times, model), inside or None))
    span = span_s(steps, between)
    host = sum(step.host_s for step in steps)
    return Clocks(host, period_s(steps, calls, between), period_s(steps, 1, between), span)


def replay_s(times: Sequence[OperatorTime], model: DeviceModel) -> float:
    """What issuing the graph costs the host: by its number of kernels where that was measured."""
    kernels = max(1, sum(each.device_s is not None for each in times))
    if "graph-replay" not in model.curves:
        return model.value("host.graph-replay")
    curve = model.curves["graph-replay"]
    return model.use("graph-replay", curve.at(kernels), curve.points[0][1])


def without_host_s(times: Sequence[OperatorTime], model: DeviceModel, how: How, clocks: Clocks) -> float:
    """The period of the same kernels without the host's part: in a CUDA Graph, replayed again and again.

    Of a graph it is what the device takes, on a CPU what the calls take beside dispatching. What was not measured of
    graphs counts as it does in a stream, or nothing: the figure only tells whether the host is what limits.
    """
    if not model.is_gpu:
        return clocks.period_s - clocks.host_s
    if how == "graph":
        return clocks.span_s or 0.0
    gap = model.value("gap.graph") if model.has("gap.graph") else model.value("gap.stream")
    replayed = model.has("graph-replay") or model.has("host.graph-replay")
    inside = span_s([Issued(each.host_s, each.device_s) for each in times], gap)
    return max(inside + gap, replay_s(times, model) if replayed else 0.0)


SEEDS = (OperatorCost("aten.fill_", 0.0, 0.0, 8.0, "int64", (), "copy"),) * 2
"""Where a CUDA Graph draws random numbers, torch sets their seed and their offset before each replay."""


def _seeds(kernels: Sequence[OperatorCost], model: DeviceModel) -> tuple[OperatorTime, ...]:
    random = any(each.kind == "random" for each in kernels)
    return tuple(operator_time(each, model, each.bytes) for each in SEEDS) if random else ()


HOWS = ("eager", "graph", "compiled")


@overload
def predict(
    fn_or_cost: Callable[..., Any] | Cost, *args: Any, device: Where = None, how: How = "eager", calls: int = 100,
    backward: bool = False, cold: bool = False, tf32: bool | None = None, dtype: str = "float32", **kwargs: Any,
) -> Prediction: ...  # fmt: skip
@overload
def predict(fn_or_cost: list[Any], *, device: Where = None, **how: Any) -> list[Prediction]: ...
@overload
def predict(fn_or_cost: Any, *args: Any, device: list[Any], **kwargs: Any) -> Predictions: ...
@extras("predict")
def predict(
    fn_or_cost: Any, *args: Any, device: Any = None, how: How = "eager", calls: int = 100, backward: bool = False,
    cold: bool = False, tf32: bool | None = None, dtype: str = "float32", **kwargs: Any,
) -> Prediction | list[Prediction]:  # fmt: skip
    """Predict how long a piece of work should take on a device, and what limits it.

    >>> predict(Cost(flop=2**26, bytes=2**29), device="datasheet:h200")
    PREDICTED: about 130 µs, memory-bound (NVIDIA H200 SXM, eager, peaks: datasheet and assumed)
    >>> from brrr.counting.description import array
    >>> predict(lambda x: x * 2, array(2**26), device="datasheet:h200").bound
    'memory'

    Nothing runs, and no GPU is needed.

    Parameters
    ----------
    fn_or_cost : callable or Cost, or a list of them
        A torch callable, or a `Cost` that you counted yourself. Of a list each is predicted by itself: costs, callables
        without arguments, and tuples of a callable and its arguments.
    *args, **kwargs
        The callable's arguments: tensors, descriptions (`brrr.array`), and anything else. If it itself takes a keyword
        of `predict`, bind it with ``functools.partial``.
    device : str, Peaks or Hardware, or a list of them, optional
        "h200" (the peaks recorded for it, else its datasheet), "datasheet:a100" (any device of
        `brrr.gpu.datasheet.hardware_names()`), or what `calibrate` returned. "cuda", "mps", … mean this
        machine's GPU; "cpu" its CPU if it was calibrated, else the one that was recorded. By default this machine if it
        was calibrated, else the H200. The prediction says whose figures it uses. Of several you get a table.
    how : {"eager", "graph", "compiled"}
        Operator by operator, replayed as a CUDA graph, or fused by torch.compile.
    calls : int
        The length of the loop that `period_s` averages over; 1 gives the latency.
    backward : bool
        Include the gradients, as `cost` counts them.
    cold : bool
        Nothing of its inputs lies in a GPU's L2 cache when the call begins, as in `measure` with ``cache="cold"``. By
        default it is called again and again, so that what it touches first lies in the cache if the whole call fits.
    tf32 : bool, optional
        Whether float32 is multiplied in TF32, on a GPU that has it. By default as torch is set here, separately for
        matmuls, convolutions and recurrent layers.
    dtype : str
        The data type for a `Cost` without operators, which is predicted as one kernel.

    Returns
    -------
    Prediction, or a list of them for a list, which of several devices prints as a table
        Times in seconds, named as in a `Measurement`, what limits them, and the figures that they rest on.

    Raises
    ------
    ArgumentError
        If `device`, `dtype` or `how` is unknown, or `cold` is asked for on a CPU.
    MissingPeakError
        If a figure that it needs was not measured.
    TraceError
        If the callable cannot be counted without running it.

    Notes
    -----
    A kernel takes the longer of two times, that of its bytes and that of its arithmetic: the roofline of S. Williams,
    A. Waterman and D. Patterson (2009). Models of launches, streams, and the tiles and waves of matmuls are added,
    corrected by measured sweeps if the device was calibrated. A call counts as overhead-bound if a CUDA graph would
    make it 1.3 times as fast, else as under-filled if its bytes and FLOP take less than half of its time.
    docs/predictor.md says how far the times are off.
    """
    if isinstance(device, list):
        if isinstance(fn_or_cost, list) or not device:
            raise ArgumentError("predict", "device", device, "one device for a list of work, or some for one piece")
        told = {"how": how, "calls": calls, "backward": backward, "cold": cold, "tf32": tf32, "dtype": dtype, **kwargs}
        return Predictions(predict(fn_or_cost, *args, device=each, **told) for each in device)
    _check(how, calls, dtype)
    model = model_of(device)
    if how == "graph" and not model.is_gpu:
        raise ArgumentError("predict", "how", how, f"eager or compiled on {model.device}", "A CUDA Graph needs a GPU.")
    if cold and not model.is_gpu:
        raise ArgumentError("predict", "cold", cold, f"False on {model.device}", "Only a GPU's cache can be emptied.")

    def one(fn: Any, *args: Any, **kwargs: Any) -> Prediction:
        own = replace(model, used={}, notes=[*model.notes])  # what it rests on, and no other
        work = counted(fn, args, kwargs, backward, own)
        kernels = lowered(_in_precision(_kernels(work, own, how, dtype), own, tf32), own)
        apart = UNCACHED if cold else work.working_set_bytes
        times = operator_times(kernels, own, how, apart, work.gradients, work.lines)
        return _prediction(work, kernels, times, own, how, calls)

    if not isinstance(fn_or_cost, list):
        return one(fn_or_cost, *args, **kwargs)
    if args or kwargs:
        given, hint = next(iter((*args, *kwargs.values()))), "Write predict([(fn, x), (fn, y)])."
        raise ArgumentError("predict", "args", given, "nothing besides a list", hint)
    return [one(*(each if isinstance(each, tuple) else (each,))) for each in fn_or_cost]


def _check(how: str, calls: int, dtype: str) -> None:
    if how not in HOWS:
        raise ArgumentError("predict", "how", how, f"one of {', '.join(HOWS)}")
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 1:
        raise ArgumentError("predict", "calls", calls, "a whole number of calls, at least 1")
    if short(dtype) not in MATRIX_DTYPES:
        known = ", ".join([*DTYPES, *MATRIX_DTYPES])
        raise ArgumentError("predict", "dtype", dtype, f"one of {known}")


def counted(fn_or_cost: Any, args: tuple[Any, ...], kwargs: dict[str, Any], backward: bool, model: DeviceModel) -> Cost:
    """What a callable costs with the operators that the device runs."""
    if isinstance(fn_or_cost, Cost):
        if args or kwargs or backward:
            given = next(iter((*args, *kwargs.values())), backward)
            hint = "A Cost says it all; pass the callable to count it with its arguments."
            name = "args" if args else next(iter(kwargs), "backward")
            raise ArgumentError("predict", name, given, "nothing besides a Cost", hint)
        return _possible(fn_or_cost)
    hint = "Write predict(lambda x: x * 2, x), not predict(x * 2)."
    require_callable("predict", "fn_or_cost", fn_or_cost, "a callable or a Cost", hint)
    from brrr.counting.parts import by_cudnn
    from brrr.counting.tracing import cost

    _say_where(fn_or_cost, (args, kwargs), model)
    if sys.gettrace() is not None:
        model.note("lines of Python were not counted, since a debugger or a coverage tool follows them")
    with by_cudnn() if model.is_gpu else nullcontext():
        return cost(fn_or_cost, *args, backward=backward, **kwargs)


def _possible(work: Cost) -> Cost:
    for name in ("flop", "bytes"):
        value = getattr(work, name)
        if not (math.isfinite(value) and value >= 0):
            raise ArgumentError("predict", name, value, "a finite number, at least 0")
    return work


def _say_where(fn: Any, args: Any, model: DeviceModel) -> None:
    """Tensors on another kind of device than the predicted one are descriptions only; say so."""
    from brrr.counting.description import device_around
    from brrr.counting.state import reached

    there = device_around(reached([args, fn])).type
    if there != model.kind:
        as_if = f"as if its tensors lay on {model.device}: shapes and types count, not where they are"
        model.note(f"counted with the operators that torch uses on {there}, {as_if}")


def _kernels(work: Cost, model: DeviceModel, how: How, dtype: str) -> Sequence[OperatorCost]:
    """What is run: the operators, or what a compiler makes of them; a cost without any is one that copies."""
    if model.is_gpu and work.operators:
        work = replace(work, operators=tuple(operations(each) for each in as_on_gpu(work.operators)))
        if any(map(is_special, work.operators)):
            by = "by an assumed number for each (roofline/lowering.py)"
            model.note(f"special functions count as plain operations, {by}")
    if work.operators and how == "compiled":
        model.note("what a compiler fuses is taken to be every run of neighbours that are no matrix products")
        model.note("each kernel of the compiled form but the first counts on the host as an operator of its class")
        return fused(work)
    if work.operators:  # autograd's own detach of what it keeps is no call of the program's
        return [each for each in work.operators if each.name != "aten.detach"]
    model.note("a cost without operators counts as one kernel that reads as much as it writes")
    if work.flop:
        model.note(f"its arithmetic counts at the best rate of {short(dtype)}")
    return (OperatorCost("work", work.flop, work.bytes / 2, work.bytes / 2, dtype, (), WHOLE),)


def _in_precision(kernels: Sequence[OperatorCost], model: DeviceModel, tf32: bool | None) -> list[OperatorCost]:
    """The kernels, with what runs in TF32 put so: by what was asked for, else by what torch is set to."""
    layers = {"matmul", *LAYERS.values()} if tf32 else set[str]()
    told = "torch" in sys.modules or any(each.matmuls for each in kernels)
    if tf32 is None and told and model.is_gpu and model.has("matmul.tf32"):
        from brrr.gpu.precision import layers_in_tf32

        layers = {*layers_in_tf32()}
    made = [in_tf32(each, layers) for each in kernels]
    if tf32 is None and made != list(kernels):
        which = " and ".join(sorted(layers))
        model.note(f"float32 counts in TF32 for {which}, as torch is set: tf32=False if it is not")
    return made


def _prediction(
    work: Cost, kernels: Sequence[OperatorCost], times: tuple[OperatorTime, ...], model: DeviceModel, how: How,
    calls: int,
) -> Prediction:  # fmt: skip
    before, lower = _seeds(kernels, model) if how == "graph" else (), [*work.unknown]
    lower += [time.name for each, time in zip(kernels, times, strict=True) if each.kind == "recurrent"]
    clocks, times = run_clocks(times, model, how, calls, before), before + times
    bound, margin = bound_of(times, clocks.period_s, without_host_s(times, model, how, clocks))
    known = {each.name for each in times if each.known}  # by a sweep, whatever its FLOP
    unknown = tuple(dict.fromkeys(name for name in lower if name not in known))
    if unknown:  # a verdict from a lower bound is none
        bound, margin = "unknown", 1.0
    return Prediction(
        device=model.device, how=how, calls=calls,
        period_s=clocks.period_s, latency_s=clocks.latency_s, host_s=clocks.host_s, span_s=clocks.span_s,
        busy_s=sum(each.device_s or 0.0 for each in times) if model.is_gpu else None,
        bound=bound, margin=margin, operators=times, cost=work, origin=model.origin,
        basis=tuple(model.used.values()), notes=tuple(model.notes), unknown=unknown,
        model=model, kernels=tuple(kernels),
    )  # fmt: skip
