"""Every timer under one interface: run a variant of an experiment at a point, by the timer that the variant names.

`measure` gives all six times; `measure-host` gives only those of the host's
clock, for a function that works on several streams of its own, which no event pair on the current one encloses.
`first-call` and `call-again` time the first call in a fresh process and the one after it; the others are naive timers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from brrr.core.errors import BrrrError, DeviceMemoryError, UnavailableError
from brrr.core.measurement import Estimate, Field, Measurement, Point
from brrr.gpu import is_queue, kind_of
from brrr.gpu.precision import float32_products, float32_recurrence
from brrr.timing import interleave
from brrr.timing import naive as naive_timers
from brrr.timing.cpu_queue import Place, name_of
from brrr.timing.plan import Plan
from brrr.timing.sampler import Sampler
from brrr.tracing.timeline import Timeline
from brrr.tracing.tracer import trace
from brrr_course.experiments.ranks import end_ranks
from brrr_course.nouns.experiment import Experiment, Variant, Workload
from brrr_course.sources.first_call import FreshCalls, fresh_calls
from brrr_course.sources.rows import Timed


def measure_variant(experiment: Experiment, variant: str, point: Point, *, budget_s: float = 0.2) -> Timed:
    """Check the variant's result at the point, then time it.

    Raises what went wrong: WrongResultError, DeviceMemoryError, UnavailableError, ArgumentError.
    """
    found = measure_point(experiment, [variant], point, budget_s=budget_s)[variant]
    if isinstance(found, BrrrError):
        raise found
    return found


@float32_products()  # whatever the user has set; a variant that wants TF32 asks for it
@float32_recurrence()
def measure_point(
    experiment: Experiment, variants: Sequence[str], point: Point, *, budget_s: float = 0.2, fewest: int = 1,
    precision: float | None = None,
) -> dict[str, Timed | BrrrError]:  # fmt: skip
    """All variants of a point, those with the timer `measure` interleaved; an error of one does not stop the others.

    fewest: rounds of samples that each of these gets, even where they take longer than `budget_s`.
    precision: half of an interval over its median, with which a GPU's times are precise enough (default: PRECISION).
    """
    found: dict[str, Timed | BrrrError] = {}
    ready: list[Ready] = []
    opened: dict[str, Workload] = {}
    fresh: dict[str, FreshCalls] = {}
    planned = partial(Plan, budget_s=budget_s, fewest=fewest, precision=precision or 0.0)
    if experiment.devices == 1:
        end_ranks()
    try:
        for name in variants:
            variant = experiment.variant(name)
            try:
                if variant.timer in FRESH:
                    found[name] = _fresh(experiment, variant, point, budget_s, fresh)
                    continue
                prepared = _prepare(experiment, variant, point, planned, opened)
            except Exception as error:
                found[name] = as_brrr_error(error, f"{experiment.name} {name} at {dict(point)}")
                continue
            if isinstance(prepared, Timed):
                found[name] = prepared
            else:
                ready.append(prepared)
        found.update(_interleaved(ready))
    finally:
        for workload in opened.values():
            workload.close()
        _empty_cache()
    return {name: found[name] for name in variants}


FRESH = ("first-call", "call-again")
"""Timers that start processes of their own."""


class Ready(NamedTuple):
    """A variant whose result was checked, and of whose times samples can be taken."""

    name: str
    workload: Workload
    error: float
    peak_bytes: int | None
    run: Sampler


def _prepare(
    experiment: Experiment, variant: Variant, point: Point, planned: Callable[..., Plan], opened: dict[str, Workload]
) -> Timed | Ready:
    from brrr_course.sources.wide import exact_on

    with exact_on(variant.processor):
        return _checked(experiment, variant, point, planned, opened)


def _checked(
    experiment: Experiment, variant: Variant, point: Point, planned: Callable[..., Plan], opened: dict[str, Workload]
) -> Timed | Ready:
    workload, named = _opened(experiment, variant, point, opened), experiment.names_kernels
    plan = planned(
        workload.run,
        _place(variant, workload),
        point.get("cache", variant.cache),
        settle_s=experiment.settle_s(point),
        on_device=variant.timer != "measure-host",
        launches=named if isinstance(named, bool) else variant.name in named,
    )
    if variant.timer == "no-warm-up":  # its first call must be the timed one, so the check comes second
        samples = naive_timers.no_warm_up(workload.run, _wait_of(variant, workload))
        return Timed(_reading(plan, "latency_s", samples), workload.cost, workload.check())
    if variant.timer.startswith("measure"):
        run, of_memory = Sampler(plan), workload.others.get("peak_bytes", lambda: None)
        return Ready(variant.name, workload, run.checked(workload.verified), of_memory(), run)
    error = workload.check()
    return Timed(TIMERS[variant.timer](variant, workload, plan), workload.cost, error)


def _fresh(
    experiment: Experiment, variant: Variant, point: Point, budget_s: float, calls: dict[str, FreshCalls]
) -> Timed:
    """The first call in fresh processes, or the one after it; variants with the same `work` share the processes."""
    key = variant.work or f"variant {variant.name}"
    if key not in calls:
        calls[key] = fresh_calls(experiment, variant, point, budget_s)
    times = calls[key].again if variant.timer == "call-again" else calls[key].first
    measurement = Measurement(latency_s=Estimate.of(times), device=variant.device, samples={"latency_s": times})
    return Timed(measurement, calls[key].cost, calls[key].error)


def _opened(experiment: Experiment, variant: Variant, point: Point, opened: dict[str, Workload]) -> Workload:
    """The variant's workload: made anew, or the one that an earlier variant with the same `work` made."""
    key = variant.work or f"variant {variant.name}"
    if key not in opened:
        opened[key] = experiment.workload(variant.name, point)
    return opened[key]


def _interleaved(ready: list[Ready]) -> dict[str, Timed | BrrrError]:
    try:
        measurements = interleave([each.run for each in ready])
        return {
            each.name: Timed(replace(found, peak_bytes=each.peak_bytes), each.workload.cost, each.error)
            for each, found in zip(ready, measurements, strict=True)
        }
    except Exception as failure:
        if len(ready) == 1:
            return {ready[0].name: as_brrr_error(failure, ready[0].name)}
        # One of them failed; measured apart, the others are not lost.
        apart: dict[str, Timed | BrrrError] = {}
        for item in ready:
            item.run.start_again()
            apart.update(_interleaved([item]))
        return apart


def as_brrr_error(error: Exception, where: str) -> BrrrError:
    """What a measurement raised, as one of brrr's errors, so that a grid can go on without the point."""
    if isinstance(error, BrrrError):
        return error
    if type(error).__name__ in ("OutOfMemoryError", "MemoryError", "DefaultCPUAllocatorError") or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    ):
        return DeviceMemoryError(f"{where}: out of memory: {str(error).splitlines()[0]}")
    if isinstance(error, ImportError):
        return UnavailableError(f"{where}: {error}; install it, or look at the recordings")
    wrapped = BrrrError(f"{where}: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def _place(variant: Variant, workload: Workload) -> Place:
    if is_queue(variant.device):
        assert workload.queue is not None, f"{variant.name} runs on the CPU queue, but its workload has none"
        return workload.queue  # type: ignore[no-any-return]
    return kind_of(variant.processor)


def _wait_of(variant: Variant, workload: Workload) -> Callable[[], None]:
    return workload.synchronize or (lambda: None)


def _reading(plan: Plan, field: Field, samples: Sequence[float]) -> Measurement:
    """A timer that tells one number, as a measurement with that one field."""
    fields: Mapping[str, Any] = {field: Estimate.of(samples)}
    return Measurement(**fields, cache=plan.cache, device=name_of(plan.place), samples={field: tuple(samples)})


Timer = Callable[[Variant, Workload, Plan], Measurement]


def _naive(timer: Callable[[Any, Any], list[float]], field: Field) -> Timer:
    def timed(variant: Variant, workload: Workload, plan: Plan) -> Measurement:
        return _reading(plan, field, timer(workload.run, _wait_of(variant, workload)))

    return timed


def _transfers(variant: Variant, workload: Workload, plan: Plan) -> Measurement:
    """A function that sends its inputs there and its result back: mostly the road, not the work."""
    if "with_transfers" not in workload.others:
        raise UnavailableError(f"{variant.name}: this function has no inputs to send")
    samples = naive_timers.sync_each_call(workload.others["with_transfers"], _wait_of(variant, workload))
    return _reading(plan, "latency_s", samples)


def _own(variant: Variant, workload: Workload, plan: Plan) -> Measurement:
    """What the workload measures itself, because many of them are quicker measured together."""
    found = workload.others["measured"]()
    assert isinstance(found, Measurement)
    return found


def _triton(name: str, rep: int, **asked: int) -> Timer:
    """One of triton's own timers."""

    def timed(variant: Variant, workload: Workload, plan: Plan) -> Measurement:
        from triton import testing

        milliseconds = getattr(testing, name)(workload.run, rep=rep, return_mode="all", **asked)
        return _reading(plan, "span_s", [ms * 1e-3 for ms in milliseconds])

    return timed


def _torch_benchmark(variant: Variant, workload: Workload, plan: Plan) -> Measurement:
    from torch.utils.benchmark import Timer as TorchTimer

    found = TorchTimer("run()", globals={"run": workload.run}).blocked_autorange(min_run_time=0.1)
    return _reading(plan, "period_s", found.times)


TIMERS: Mapping[str, Timer] = {
    "no-sync": _naive(naive_timers.no_sync, "host_s"),
    "sync-each-call": _naive(naive_timers.sync_each_call, "latency_s"),
    "event-pair": _naive(naive_timers.event_pair_each_call, "span_s"),
    "transfers-included": _transfers,
    "do-bench": _triton("do_bench", 100, warmup=25),
    "do-bench-cudagraph": _triton("do_bench_cudagraph", 50),
    "torch-benchmark": _torch_benchmark,
    "own": _own,
}


def _empty_cache() -> None:
    """Give the device's memory back between points, so that the next size finds it free."""
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


# ---------------------------------------------------------------------------------------------------------------------
# The timeline of an experiment's variant at a point, and the name of the file that it is kept in.

FOLDER = "traces"
"""Of a device's folder: `traces/<experiment>/<variant>@<axis>=<value>,<axis>=<value>.json`."""


def trace_variant(experiment: Experiment, variant: str, point: Point) -> Timeline:
    """Build the variant's workload, check its result, and trace it.

    Raises what goes wrong as one of brrr's errors: WrongResultError, DeviceMemoryError, UnavailableError.
    """

    if experiment.variant(variant).timer == "first-call":
        raise UnavailableError(f"trace: {experiment.name} {variant} is a first call in a process of its own: no loop")
    try:
        return _traced(experiment, variant, point)
    except BrrrError:
        raise
    except Exception as error:
        raise as_brrr_error(error, f"trace: {experiment.name} {variant} at {dict(point)}") from error
    finally:
        _empty_cache()  # the workload is gone by now: its memory is the next point's


@float32_products()
@float32_recurrence()
def _traced(experiment: Experiment, variant: str, point: Point) -> Timeline:
    if experiment.devices == 1:
        end_ranks()
    workload = experiment.workload(variant, point)
    try:
        workload.check()
        if "traced" in workload.others:
            return cast(Timeline, workload.others["traced"]())
        return trace(workload.run, device=_place(experiment.variant(variant), workload))
    finally:
        workload.close()


def file_name(variant: str, point: Point) -> str:
    """The name of a recorded timeline's file.

    >>> file_name("eager", {"size": 1024, "how": "a/b"})
    'eager@size=1024,how=a%2Fb.json'
    """
    where = ",".join(f"{name}={quote(str(value), safe=' +-_.')}" for name, value in point.items())
    return f"{quote(variant, safe=' +-_.')}@{where}.json"
