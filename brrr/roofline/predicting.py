"""`predict`: how long a callable or a cost should take on a device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from brrr.core.errors import ArgumentError
from brrr.counting.cost import Cost, OperatorCost
from brrr.roofline.basis import Basis
from brrr.roofline.device_figures import Where, basis_for
from brrr.roofline.host import WHOLE
from brrr.roofline.lowering import as_on_gpu, fused, is_special, operations
from brrr.roofline.peaks.peaks import DTYPES, short
from brrr.roofline.prediction import How, Prediction, bound_of
from brrr.roofline.terms import MATRIX_DTYPES, OperatorTime
from brrr.roofline.ways import as_graph_s, operator_times, run_clocks

HOWS = ("eager", "graph", "compiled")


def predict(
    fn_or_cost: Callable[..., Any] | Cost,
    *args: Any,
    device: Where = "h200",
    how: How = "eager",
    calls: int = 100,
    backward: bool = False,
    tf32: bool = False,
    dtype: str = "float32",
) -> Prediction:
    """How long it should take, and what limits it: nothing runs, and no GPU is needed.

    >>> predict(Cost(flop=2**26, bytes=2**29), device="datasheet:h200")
    PREDICTED: about 110 µs, memory-bound (NVIDIA H200 SXM, eager, peaks: datasheet and assumed)

    fn_or_cost: a torch callable with its arguments (`args`: tensors or `brrr.array` descriptions), or a `Cost`.
    device: "h200" (the peaks recorded for it, else its datasheet), "datasheet:a100" for a what-if on any device of
        `brrr.gpu.device.hardware_names()`, what `brrr.calibrate()` returned, or None for this machine as calibrated.
    how: operator by operator ("eager"), replayed as a CUDA Graph ("graph"), or fused by torch.compile ("compiled").
    calls: the loop that `period_s` is for; with 1 it is the latency.
    backward: with the gradients, as `brrr.cost` counts them. tf32: products of float32 run in TF32.
    dtype: of a `Cost` without operators, which counts as one kernel.

    Times rest on models of streams and of tiles, corrected by measured sweeps where the peaks have them: `notes` say
    which it was, docs/predictor.md what each gives.

    Raises ArgumentError for an unknown device, data type or way, MissingPeakError where a figure it needs was not
    measured, TraceError for a callable that cannot be counted without running it.
    """
    _check(how, calls, dtype)
    basis = basis_for(device)
    if how == "graph" and not basis.is_gpu:
        raise ArgumentError("predict", "how", how, f"eager or compiled on {basis.device}", "A CUDA Graph needs a GPU.")
    work = _cost(fn_or_cost, args, backward, basis)
    times = operator_times(_kernels(work, basis, how, dtype), basis, how, work.working_set_bytes, tf32)
    return _prediction(work, times, basis, how, calls)


def _check(how: str, calls: int, dtype: str) -> None:
    if how not in HOWS:
        raise ArgumentError("predict", "how", how, f"one of {', '.join(HOWS)}")
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 1:
        raise ArgumentError("predict", "calls", calls, "a whole number of calls, at least 1")
    if short(dtype) not in MATRIX_DTYPES:
        known = ", ".join([*DTYPES, *MATRIX_DTYPES])
        raise ArgumentError("predict", "dtype", dtype, f"one of {known}")


def _cost(fn_or_cost: Any, args: tuple[Any, ...], backward: bool, basis: Basis) -> Cost:
    if isinstance(fn_or_cost, Cost):
        if args or backward:
            given = args[0] if args else backward
            hint = "A Cost says it all; pass the callable to count it with its arguments."
            raise ArgumentError("predict", "args" if args else "backward", given, "nothing besides a Cost", hint)
        return _possible(fn_or_cost)
    if not callable(fn_or_cost):
        hint = "Write predict(lambda x: x * 2, x), not predict(x * 2)."
        raise ArgumentError("predict", "fn_or_cost", type(fn_or_cost), "a callable or a Cost", hint)
    from brrr.counting.tracing import cost

    _say_where(fn_or_cost, args, basis)
    return cost(fn_or_cost, *args, backward=backward)


def _possible(work: Cost) -> Cost:
    for name in ("flop", "bytes"):
        value = getattr(work, name)
        if not (math.isfinite(value) and value >= 0):
            raise ArgumentError("predict", name, value, "a finite number, at least 0")
    return work


def _say_where(fn: Any, args: tuple[Any, ...], basis: Basis) -> None:
    """Tensors on another kind of device than the predicted one are descriptions only; say so."""
    from brrr.counting.description import device_around

    there = device_around(fn, args).type
    if there != basis.kind:
        basis.note(
            f"counted with the operators that torch uses on {there}, as if its tensors lay on {basis.device}: "
            "shapes and types count, not where they are"
        )


def _kernels(work: Cost, basis: Basis, how: How, dtype: str) -> Sequence[OperatorCost]:
    """What is run: the operators, or what a compiler makes of them; a cost without any is one that copies."""
    if basis.is_gpu and work.operators:
        work = replace(work, operators=tuple(operations(each) for each in as_on_gpu(work.operators)))
        if any(map(is_special, work.operators)):
            basis.note(
                "special functions count as plain operations, by an assumed number for each (roofline/special.py)"
            )
    if work.operators and how == "compiled":
        basis.note("what a compiler fuses is taken to be every run of neighbours that are no matrix products")
        basis.note("each kernel of the compiled form but the first counts on the host as an operator of its class")
        return fused(work)
    if work.operators:  # autograd's own detach of what it keeps is no call of the program's
        return [each for each in work.operators if each.name != "aten.detach"]
    basis.note("a cost without operators counts as one kernel that reads as much as it writes")
    if work.flop:
        basis.note(f"its arithmetic counts at the best rate of {short(dtype)}")
    return (OperatorCost("work", work.flop, work.bytes / 2, work.bytes / 2, dtype, (), WHOLE),)


def _prediction(work: Cost, times: tuple[OperatorTime, ...], basis: Basis, how: How, calls: int) -> Prediction:
    clocks = run_clocks(times, basis, how, calls)
    bound, margin = bound_of(times, clocks.period_s, None if how == "graph" else as_graph_s(times, basis))
    return Prediction(
        device=basis.device, how=how, calls=calls,
        period_s=clocks.period_s, latency_s=clocks.latency_s, host_s=clocks.host_s, span_s=clocks.span_s,
        busy_s=sum(each.device_s or 0.0 for each in times) if basis.is_gpu else None,
        bound=bound, margin=margin, operators=times, cost=work, origin=basis.origin,
        basis=tuple(basis.used.values()), notes=tuple(basis.notes), unknown=work.unknown,
    )  # fmt: skip
