"""What `prediction` runs: many small cases, each timed in a few milliseconds, and a sample of its result checked.

Attaching the profiler takes longer than measuring a case, so the kernels of BATCH cases are recorded in one session
when the first of them is asked for. The host's times are then taken case by case, without a profiler around.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

import torch

from brrr.core.errors import BrrrError, UnavailableError
from brrr.core.measurement import Estimate, Measurement, Point, median
from brrr.counting.cost import Cost
from brrr.roofline.calibrate.host_cost import reference_call
from brrr.running.graphs import capture
from brrr.timing import activity, no_collection
from brrr.timing.device_times import EVENT_TICK_S
from brrr.timing.gate import gate_of, marker_kernel, sm_clock_hz
from brrr.timing.host_times import HostTimes
from brrr_course.experiments.checked import compile_now, compiled, refuse_too_large
from brrr_course.nouns.experiment import Variant, Workload
from tools.prediction.calls import STREAMS, Function, Tensor, cost_of, dtype_of, function_of, shapes, surroundings
from tools.prediction.cases import Case, case, cases, intervened, twin
from tools.prediction.experiment import role, run_case

BATCH = 40
ROUNDS = 8
SLICE_S = 2e-3
"""Each round takes the three times of the host's clock in about this time, or one call of each."""

REFERENCE_SLICE_S = 0.5e-3
"""And a reference beside it in this, which tells how fast the host is."""

CALLS, FEWEST_CALLS = 12, 4
LAUNCHES = 800
"""So many launches at most wait behind a gate."""
GATE_S = 0.1

Activities = list[list[activity.Activity]]


def measured(run: Callable[[], Any], made: Case, *, kernels: bool) -> Measurement:
    """The host's times of a call, and with `kernels` its kernels' own times, which are recorded in batches."""
    times = HostTimes(run, torch.cuda.synchronize)
    beside = HostTimes(reference_call("cuda"), torch.cuda.synchronize)
    calls = kernel_times(made) if kernels else []
    with surroundings(made), no_collection():
        for _ in range(3):
            run()
            beside.one()
        for _ in range(ROUNDS):
            times.round(SLICE_S)
            beside.round(REFERENCE_SLICE_S)
        clock = sm_clock_hz()
    if kernels:
        _beside[made.name] = beside
    return Measurement(
        **_host_times(times),
        kernel_s=_estimate(calls, activity.kernel_sum_s),
        busy_s=_estimate(calls, activity.busy_union_s),
        kernels=round(median([len(call) for call in calls])) if calls else None,
        sm_clock_hz=clock,
        kernel_times_from="cupti" if calls else "",
    )


_beside: dict[str, HostTimes] = {}


def reference(made: Case) -> Measurement:
    """How fast the host was beside the case's own times: a relu of 8 x 8 numbers, measured by turns with it.

    UnavailableError where the case was not measured in this process: at another time the host has another speed.
    """
    if made.name not in _beside:
        raise UnavailableError(
            f"prediction: {made.name} was measured earlier, and the host's speed of then is not known"
        )
    return Measurement(**_host_times(_beside.pop(made.name)))


def _host_times(times: HostTimes) -> dict[str, Any]:
    """What the host's clock found, and on which device."""
    found = {f"{name}_s": times.estimate(getattr(times, name)) for name in ("host", "period", "latency")}
    return {**found, "device": torch.cuda.get_device_name()}


def _estimate(calls: Activities, of: Callable[[list[activity.Activity]], float]) -> Estimate | None:
    return Estimate.of([of(call) for call in calls], EVENT_TICK_S) if calls else None


_known: dict[str, Activities] = {}


def kernel_times(wanted: Case) -> Activities:
    """What the device did in each of some calls of a case; empty where that could not be recorded."""
    if wanted.name not in _known:
        together = _batch_of(wanted)
        _known.update({each.name: [] for each in together})
        ready = [made for each in together if (made := _ready(each)) is not None]
        with suppress(RuntimeError):  # another profiler is running, or CUPTI is forbidden here
            _known.update(_recorded(ready))
    return _known[wanted.name]


@lru_cache(maxsize=1)
def _jobs() -> tuple[Case, ...]:
    """All cases whose kernels are recorded: the cases in their order, then the twins."""
    twins = [twin(case(name), changed) for name in sorted(intervened()) for changed in ("bytes", "flop")]
    return tuple(dict.fromkeys((*cases(), *(each for each in twins if each is not None))))


def _batch_of(wanted: Case) -> tuple[Case, ...]:
    jobs = _jobs()
    if wanted not in jobs:
        return (wanted,)
    start = jobs.index(wanted) // BATCH * BATCH
    return jobs[start : start + BATCH]


def _recorded(ready: Sequence[Ready]) -> dict[str, Activities]:
    """One profiler session around some calls of each case; in halves where the session lost some of them."""
    if not ready:
        return {}
    gate = gate_of(torch.cuda.current_device())

    def run() -> None:
        for each in ready:
            with surroundings(each.case):
                gate.run(each.issue, GATE_S)

    found = activity.split_by_marker(activity.record_activity(run)[0])
    if len(found) == sum(each.calls for each in ready):
        return _dealt_out(ready, found)
    half = len(ready) // 2
    return {**_recorded(ready[:half]), **_recorded(ready[half:])} if half else {}


@dataclass(frozen=True)
class Ready:
    """A case that has run, with its inputs, to be called so many times."""

    case: Case
    call: Callable[[], Any]
    calls: int

    def issue(self) -> None:
        """The calls, a marker before each."""
        for _ in range(self.calls):
            marker_kernel()
            self.call()


def _ready(each: Case) -> Ready | None:
    """The case, called three times: what happens once is loaded and chosen then; None if it cannot run here."""

    try:
        with surroundings(each):
            call = call_of(each, inputs_of(each, "cuda"))
            for _ in range(3):
                call()
            torch.cuda.synchronize()
    except (RuntimeError, BrrrError):  # out of memory, or an operator that this torch lacks
        return None
    return Ready(each, call, max(FEWEST_CALLS, min(CALLS, LAUNCHES // (4 * each.length))))


def _dealt_out(ready: Sequence[Ready], found: Activities) -> dict[str, Activities]:
    """The recorded calls, each to its case."""
    dealt, start = {}, 0
    for each in ready:
        dealt[each.case.name] = [call for call in found[start : start + each.calls] if call]
        start += each.calls
    return dealt


# ---- what the `prediction` experiment runs: each case as a call, a graph, in compiled form, or its twin ----

ALIGNED = 256
"""Inputs begin at multiples of so many elements, as a fresh allocation would."""


class Pool:
    """Normal random numbers of one data type on one device; grows to what the largest case needs."""

    _pools: ClassVar[dict[tuple[str, torch.dtype], Pool]] = {}

    def __init__(self, device: str, dtype: torch.dtype) -> None:
        self._device, self._dtype = device, dtype
        self._numbers = torch.empty(0, device=device, dtype=dtype)

    @classmethod
    def of(cls, device: str, dtype: torch.dtype) -> Pool:
        """The pool of a device and a data type, made once."""
        return cls._pools.setdefault((device, dtype), cls(device, dtype))

    def cut(self, *wanted: tuple[int, ...]) -> list[Tensor]:
        """Tensors of these shapes, none overlapping another; drawn anew where there are too few numbers."""
        sizes = [math.prod(shape) for shape in wanted]
        steps = [ALIGNED * math.ceil(size / ALIGNED) for size in sizes]
        if sum(steps) > self._numbers.numel():
            self._numbers = torch.empty(0, device=self._device, dtype=self._dtype)  # the old ones go first
            self._numbers = torch.randn(sum(steps), device=self._device, dtype=self._dtype)
        starts = [sum(steps[:place]) for place in range(len(steps))]
        return [
            self._numbers[start : start + size].view(shape)
            for start, size, shape in zip(starts, sizes, wanted, strict=True)
        ]


def inputs_of(case: Case, device: str) -> dict[str, Tensor]:
    """A case's inputs: normal numbers, a chain's matrix scaled so that its products keep their size."""
    described = shapes(case)
    refuse_too_large(int(2.5 * case.nbytes / case.length), device, case.name)
    cut = Pool.of(device, dtype_of(case)).cut(*described.values())
    found = dict(zip(described, cut, strict=True))
    if "w" in found:
        found["w"] = found["w"] / math.sqrt(found["w"].shape[0])
    return found


def call_of(case: Case, inputs: dict[str, Tensor]) -> Callable[[], Tensor]:
    """The call of a case on its inputs."""
    return partial(function_of(case), *inputs.values())


def workload(variant: Variant, point: Point) -> Workload:
    """The variant's case, checked against float64; UnavailableError where the variant does not exist."""
    case, device = run_case(variant, point), "cuda" if variant.device == "cuda" else "cpu"
    if case is None:
        raise UnavailableError(f"prediction: there is no {variant.label} of {point['case']}")
    if role(variant) == "torch":
        return _one_estimate(case)
    if role(variant) == "reference":
        return _reference(case)
    inputs = inputs_of(case, device)
    with surroundings(case) if device == "cuda" else nullcontext():  # on a CPU the timer calls it as it is
        run = _run(case, inputs, role(variant))
    counted = cost_of(case)
    amounts = Cost(counted.flop, counted.bytes, counted.eager_bytes)
    check = partial(error_of, case, inputs)
    if device == "cpu":
        return Workload(run, amounts, check, tolerance(case))

    recorded = role(variant) in ("eager", "twin")
    return Workload(
        partial(_in_its_surroundings, case, run), amounts, check, tolerance(case), synchronize=torch.cuda.synchronize,
        others={"measured": lambda: measured(run, case, kernels=recorded)},
    )  # fmt: skip


def _in_its_surroundings(case: Case, run: Callable[[], Any]) -> Any:
    with surroundings(case):
        return run()


def _run(case: Case, inputs: dict[str, Tensor], how: str) -> Callable[[], Any]:
    if how == "graph":
        return capture(function_of(case), *inputs.values()).replay
    if how != "compiled":
        return call_of(case, inputs)
    run = partial(compiled(function_of(case)), *inputs.values())
    compile_now(run)
    return run


def _reference(case: Case) -> Workload:
    """How fast the host was while the case was measured: taken then, and only handed over here."""

    return Workload(lambda: None, Cost(0.0, 0.0), lambda _: 0.0, 0.0, others={"measured": lambda: reference(case)})


def _one_estimate(case: Case) -> Workload:
    """What torch's own estimator says of the case: nothing runs."""
    from tools.prediction.rows import estimated

    amounts = cost_of(case)
    return Workload(
        lambda: None, Cost(amounts.flop, amounts.bytes), lambda _: 0.0, 0.0,
        others={"measured": lambda: estimated(case, "cuda")},
    )  # fmt: skip


# ---- whether a case's result is right: a sample of its rows and columns against float64 ----

SAMPLED = 32
BATCHES = 3

PRODUCT = {"float64": 1e-12, "float32": 3e-5, "tf32": 3e-3, "float16": 5e-3, "bfloat16": 2e-2}
"""float32 stays far below; products in TF32 that were to be in float32 (3e-4) would be found out."""
STREAM = {"float32": 1e-4, "bfloat16": 2e-2}
CHAIN = {"float32": 1e-4, "bfloat16": 5e-2}
"""A chain of 200 operators in bfloat16 rounds 200 times."""


def tolerance(case: Case) -> float:
    """The relative error that is still right."""
    return {"stream": STREAM, "product": PRODUCT, "chain": CHAIN}[case.kind][case.dtype]


def sampled(size: int, device: Any, most: int = SAMPLED) -> Tensor:
    """Some places of a dimension in order, its first and last among them.

    >>> sampled(3, "cpu").tolist()
    [0, 1, 2]
    """
    inner = torch.randint(size, (max(0, most - 2),)).tolist() if size > most else range(size)
    return torch.tensor(sorted({0, size - 1, *inner}), device=device)


def error_of(case: Case, inputs: Mapping[str, Tensor], found: Any) -> float:
    """||found - reference|| / ||reference|| at sampled places; NaN for what is no tensor, or has the wrong shape."""
    if not isinstance(found, torch.Tensor):
        return math.nan
    return (_product_error if case.kind == "product" else _sliced_error)(case, inputs, found)


def _relative(found: Tensor, expected: Tensor, least: float = 0.0) -> float:
    """The relative error; relative to `least` where the reference is smaller."""
    if found.shape != expected.shape:
        return math.nan
    wrong, right = float((found.double() - expected).norm()), max(least, float(expected.norm()))
    return wrong / right if right else (math.nan if wrong != 0 else 0.0)


def _product_error(case: Case, inputs: Mapping[str, Tensor], found: Tensor) -> float:
    _, m, n, _ = case.sizes
    x, y = inputs["x"], inputs["y"] if case.what == "nn" else inputs["y"].mT
    if found.shape != (*x.shape[:-1], n):
        return math.nan
    rows, columns = sampled(m, x.device), sampled(n, x.device)
    if x.dim() == 3:
        batches = sampled(x.shape[0], x.device, BATCHES)
        x, y, found = x[batches], y[batches], found[batches]
    part = found.index_select(-2, rows).index_select(-1, columns)
    return _relative(part, x.index_select(-2, rows).double() @ y.index_select(-1, columns).double())


def _sliced_error(case: Case, inputs: Mapping[str, Tensor], found: Tensor) -> float:
    """The same function in float64 on a slice along a dimension in which the parts are independent."""
    along, result_along = 0, 0
    if case.kind == "stream":
        stream = STREAMS[case.what]
        if stream.along is None:
            wide = [each.double() for each in inputs.values()]
            size = float(wide[0].norm())  # what a sum of random numbers comes to; by chance it may be near zero
            return _relative(found, function_of(case)(*wide), size)
        along, result_along = stream.along, stream.result_along
    if found.shape != _expected_shape(function_of(case), case):
        return math.nan
    places = sampled(inputs["x"].shape[along], found.device)
    part = partial(_part, places=places, along=along, rows=inputs["x"].shape[0])
    expected = function_of(case)(*(part(name, each).double() for name, each in inputs.items()))
    return _relative(found.index_select(result_along, places), expected.double())


def _part(name: str, each: Tensor, *, places: Tensor, along: int, rows: int) -> Tensor:
    """The slice of what has the full size; a row or a matrix of weights is needed whole."""
    return each.index_select(along, places) if name in "xy" else each


def _expected_shape(function: Function, case: Case) -> torch.Size:
    """The shape of the result, found without memory."""
    with torch.device("meta"):
        return function(*(torch.empty(shape) for shape in shapes(case).values())).shape
