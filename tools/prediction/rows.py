"""Every row of the `prediction` experiment: measured, predicted, and what the two simpler estimates say.

A product or a stream that the machine's calibration has timed itself is left out, for it would be no test.

torch is loaded when rows are made: a case's operators are counted on descriptions of its inputs. Nothing runs.
"""

import functools
import io
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

import torch

from brrr.core.errors import BrrrError, NotRecordedError, UnavailableError
from brrr.core.measurement import Estimate, Field, Measurement
from brrr.core.recordings import first_that_reads
from brrr.counting.cost import Cost, OperatorCost
from brrr.gpu import probe
from brrr.gpu.datasheet import find_hardware
from brrr.roofline.device_model import REFERENCE_CALL, peaks_here
from brrr.roofline.lowering import fused
from brrr.roofline.peaks import MissingPeakError, Peaks, datasheet_peaks, find_peaks, read_peaks, short
from brrr.roofline.predicting import predict
from brrr.roofline.prediction import Prediction
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Source
from brrr_course.sources.recorded import Recorded
from tools.prediction.bounds import Amount, Truth, truth
from tools.prediction.calls import cost_of, dtype_of, function_of, shapes, surroundings
from tools.prediction.cases import Case, by_name, intervened, twin
from tools.prediction.host_speed import at_host_speed

How = Literal["eager", "graph", "compiled"]
HOWS: tuple[How, ...] = ("eager", "graph", "compiled")


class Named(Protocol):
    """A case of any experiment: its class, and its name."""

    @property
    def kind(self) -> str:
        """What is judged together."""

    @property
    def name(self) -> str:
        """As the axis and the table show it."""


@dataclass(frozen=True)
class PredictedRow:
    """One time of one case: `field` is the device's own time (`busy_s`, `span_s`), or that of a loop (`period_s`).

    `datasheet_s` is the roofline on the datasheet's figures, `torch_s` what torch's own estimator said on the
    machine; None where there is neither. `anchored_s` is the prediction for a host as fast as a reference beside the
    case found it; None where there is none. `truth` says what the interventions allow, where some were made. `unknown`
    names what nobody knows the cost of: the prediction is then a lower bound.
    """

    case: Named
    how: How
    field: Field
    measured: Estimate
    predicted_s: float
    bound: str
    datasheet_s: float | None = None
    torch_s: float | None = None
    truth: Truth | None = None
    anchored_s: float | None = None
    unknown: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """Predicted over measured, less one: 0.1 means predicted 10 % too long."""
        return self.predicted_s / self.measured.median - 1

    def error_of(self, other_s: float | None) -> float | None:
        """The same for another estimate of the same time."""
        return None if other_s is None else other_s / self.measured.median - 1

    @property
    def record(self) -> dict[str, str | float]:
        """The row under the names of a table's columns; what is not known is empty."""
        told = self.truth
        found: dict[str, str | float | None] = {
            "class": self.case.kind, "case": self.case.name, "how": self.how, "field": self.field,
            "measured_s": self.measured.median, "predicted_s": self.predicted_s, "error": self.error,
            "datasheet_s": self.datasheet_s, "datasheet_error": self.error_of(self.datasheet_s),
            "torch_s": self.torch_s, "torch_error": self.error_of(self.torch_s), "predicted_bound": self.bound,
            "true_bound": " or ".join(sorted(told.bounds)) if told else None, "why": told.why if told else None,
        }  # fmt: skip
        return {name: "" if value is None else value for name, value in found.items()}


Measured = Mapping[str, Mapping[str, Measurement]]
"""What a source has measured, by variant and case."""
RowsFrom = Callable[[Measured, Peaks, str], Iterator[PredictedRow]]
"""The rows from what was measured, the machine's peaks, and the device's name."""

_kept: WeakKeyDictionary[Any, dict[str, tuple[int, tuple[PredictedRow, ...]]]] = WeakKeyDictionary()


def prediction_rows(measured: Measured, peaks: Peaks, device: str) -> Iterator[PredictedRow]:
    """Those of the experiment `prediction`."""
    return _Rows(measured, peaks, device).all()


def rows_of(experiment: Experiment, source: Source, rows_from: RowsFrom = prediction_rows) -> tuple[PredictedRow, ...]:
    """Every row of what a source has measured; kept until it has more.

    Raises NotRecordedError where nothing is measured, or no peaks of that machine are known: predictions are made from
    measured peaks, and `brrr calibrate` measures them.
    """
    if source.badge(experiment).kind == "PREDICTED":
        raise NotRecordedError("times that nobody measured are no test of a prediction")
    known = {name: source.known(experiment, name) for name in source.variants(experiment)}
    measured = {name: {str(point[0]): found for point, found in there.items()} for name, there in known.items()}
    count = sum(map(len, measured.values()))
    if not count:
        raise NotRecordedError(f"no case of {experiment.name} was measured")
    kept = _kept.setdefault(source, {})
    if kept.get(experiment.name, (0, ()))[0] != count:
        found = rows_from(measured, peaks_of(source), source.badge(experiment).device)
        kept[experiment.name] = (count, tuple(found))
    return kept[experiment.name][1]


def peaks_of(source: Source) -> Peaks:
    """The measured peaks of the machine that a source measured on."""
    try:
        if isinstance(source, Recorded):
            return first_that_reads(source.folders, find_peaks) or read_peaks(source.folders[0])
        return peaks_here("cuda" if source.name == "cuda" else "cpu")
    except BrrrError as error:
        raise NotRecordedError(f"no peaks of this machine are known: {error}") from error


@dataclass(frozen=True)
class _Rows:
    """All rows from the measurements of one source, by variant and case."""

    measured: Measured
    peaks: Peaks
    device: str

    def all(self) -> Iterator[PredictedRow]:
        """Rows in the order of the cases, streams first."""
        swept = swept_calls(self.peaks)
        for made in by_name().values():
            if calls_of(made).isdisjoint(swept):
                for how in HOWS:
                    yield from self._rows(made, how)

    def _found(self, variant: str, name: str) -> Measurement | None:
        return self.measured.get(variant, {}).get(name)

    def _rows(self, made: Case, how: How) -> Iterator[PredictedRow]:
        found = self._found(how if self.peaks.kind == "cuda" else f"cpu-{how}", made.name)
        if found is None or (how == "graph" and made.kind != "chain"):
            return  # graphs of streams and products were made to find their bound out
        work = cost_of(made)
        try:
            predicted = predict(work, device=self.peaks, how=how, tf32=made.dtype == "tf32")
        except MissingPeakError:  # of a data type, say: a row less, and a claim needs a number of them
            return
        anchored = self._anchored(made, work, how)
        fields: tuple[Field, ...] = ("busy_s", "period_s") if made.kind != "chain" else ("period_s",)
        for field in fields:
            measured, seconds = found.get(field), getattr(predicted, field)
            if measured is None or seconds is None or measured.median <= 0:
                continue
            yield PredictedRow(
                made, how, field, measured, seconds, predicted.bound,
                datasheet_s(work, self.device, how, made.dtype), self._torch_s(made, how),
                self._truth(made) if how == "eager" and field == "period_s" else None,
                None if anchored is None else getattr(anchored, field),
            )  # fmt: skip

    def _anchored(self, made: Case, work: Cost, how: How) -> Prediction | None:
        """The prediction for a host as fast as it was beside the case."""
        beside = self._found("reference", made.name)
        if beside is None or beside.host_s is None or REFERENCE_CALL not in self.peaks.measured:
            return None
        here = at_host_speed(self.peaks, beside.host_s.median)
        return predict(work, device=here, how=how, tf32=made.dtype == "tf32")

    def _torch_s(self, made: Case, how: How) -> float | None:
        """Its estimate knows no fusion, so it says nothing about the compiled form."""
        found = self._found("torch", made.name)
        return None if found is None or how == "compiled" else found.estimated_s

    def _truth(self, made: Case) -> Truth | None:
        eager, graph = self._found("eager", made.name), self._found("graph", made.name)
        if eager is None or graph is None or made.name not in intervened():
            return None
        here = _amount(made, eager)
        if here is None or eager.period_s is None or graph.period_s is None:
            return None
        twins: dict[str, Amount] = {}
        for changed, variant in (("bytes", "other-bytes"), ("flop", "other-flop")):
            other, measured = twin(made, "bytes" if changed == "bytes" else "flop"), self._found(variant, made.name)
            amount = _amount(other, measured) if other is not None and measured is not None else None
            if amount is not None:
                twins[changed] = amount
        return truth(made.kind, eager.period_s.median, graph.period_s.median, here, twins)


# ---- what calibration has measured is no test ----


def swept_calls(peaks: Peaks) -> frozenset[tuple[object, ...]]:
    """The products and operators that a calibration has timed themselves, as `calls_of` names them."""
    sweeps = getattr(peaks, "sweeps", {})
    products = (
        (_kernels_of(str(row["dtype"])), *(int(row[size]) for size in ("batch", "m", "n", "k")))
        for row, _ in sweeps.get("products", ())
    )
    operators = (
        (str(row["operator"]), str(row["dtype"]), float(row["read"]), float(row["written"]))
        for row, _ in sweeps.get("operators", ())
    )
    return frozenset((*products, *operators))


def calls_of(made: Case) -> frozenset[tuple[object, ...]]:
    """What a product or a stream calls: sizes of the product; operator and bytes. A chain is more than its operators.

    >>> calls_of(Case("product", "nt", (1, 8, 16, 32), "float16"))
    frozenset({('bfloat16', 1, 8, 16, 32)})
    """
    if made.kind == "product":
        return frozenset({(_kernels_of(made.dtype), *made.sizes)})
    if made.kind == "chain":
        return frozenset()
    called = (each for each in cost_of(made).operators if each.kind != "view")
    return frozenset((each.name, each.dtype, each.read_bytes, each.written_bytes) for each in called)


def _kernels_of(dtype: str) -> str:
    """float16 runs on the kernels of bfloat16."""
    return "bfloat16" if dtype == "float16" else dtype


def _amount(made: Case, measured: Measurement) -> Amount | None:
    if measured.busy_s is None:
        return None
    work = cost_of(made)
    return Amount(measured.busy_s.median, work.eager_bytes, work.flop)


# ---- the datasheet's roofline, with a floor for each kernel ----

LAUNCH_S = 1e-6
"""What a kernel takes at least on any GPU of today, about: without it a roofline is off by all of a short kernel."""


def datasheet_s(work: Cost, device: str, how: How, dtype: str) -> float | None:
    """Each kernel's bytes over the datasheet's bandwidth, or its FLOP over the peak, the larger, and LAUNCH_S; or None.

    >>> from brrr.counting.cost import OperatorCost, Cost
    >>> copy = OperatorCost("aten.clone", 0.0, 2.4e9, 2.4e9, "float32", ())
    >>> datasheet_s(Cost(0.0, 4.8e9, operators=(copy,)), "NVIDIA H200", "eager", "float32")
    0.001001
    """
    if find_hardware(device) is None:
        return None
    peaks = {name: peak.value for name, peak in datasheet_peaks(device).items()}
    kernels = fused(work) if how == "compiled" else work.operators
    return sum(LAUNCH_S + _kernel_s(each, peaks, dtype == "tf32") for each in kernels if each.kind != "view")


def _kernel_s(each: OperatorCost, peaks: Mapping[str, float], tf32: bool) -> float:
    moving = each.bytes / peaks["copy"]
    if each.matmuls:
        dtype = "tf32" if tf32 else short(each.matmuls[0].dtype)
        return max(moving, (each.flop or 0.0) / peaks.get(f"matmul.{dtype}", float("inf")))
    plain = peaks.get(f"arithmetic.{short(each.dtype)}.fma") or peaks.get("arithmetic.fp32.fma", float("inf"))
    return max(moving, (each.flop or 0.0) / plain)


# ---- what torch's own estimator says of a case: `RuntimeEstimator` in its roofline mode, which runs nothing ----

LEAST_S = 1e-9
"""Shorter estimates are kept as a nanosecond, the shortest time that a recording holds."""


def estimated(case: Case, device: str) -> Measurement:
    """The estimate of the kernels' own time as `estimated_s`; UnavailableError where it fails."""
    try:
        seconds = max(LEAST_S, estimate_s(case, device))
    except Exception as error:  # it asserts what it knows, and divides by what the driver tells
        raise UnavailableError(f"torch's estimator fails for {case.name}: {type(error).__name__}: {error}") from error
    return Measurement(estimated_s=seconds, device=device)


def estimate_s(case: Case, device: str) -> float:
    """Seconds by torch's estimator, on fake tensors of that device."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.runtime_estimator import RuntimeEstimator

    with surroundings(case), _asking_once(), FakeTensorMode():
        dtype = dtype_of(case)
        tensors = [torch.empty(shape, dtype=dtype, device=device) for shape in shapes(case).values()]
        estimator = RuntimeEstimator()
        with redirect_stdout(io.StringIO()), estimator(estimate_mode_type="operator-level-cost-model"):
            function_of(case)(*tensors)
    return float(estimator.total_runtime) * 1e-3


@functools.cache
def _clock_mhz() -> Any:
    """The highest clock as torch asks for it, by nvidia-smi; by the same driver's library where that is missing."""
    import torch._utils_internal as internal

    try:
        return internal.max_clock_rate()
    except (OSError, subprocess.SubprocessError, ValueError):
        highest = probe.max_sm_clock_hz()
        if highest is None:
            raise
        return highest / 1e6


@contextmanager
def _asking_once() -> Iterator[None]:
    """Let torch ask for the clock once, which starts nvidia-smi, and forget rates: float32 and TF32 share one there."""
    import torch._inductor.utils as utils
    import torch._utils_internal as internal

    forget = getattr(utils.get_device_tflops, "cache_clear", None)
    if forget is not None:
        forget()
    if not torch.cuda.is_available():  # the clock is asked for on a GPU only
        yield
        return
    module: Any = internal
    asks, clock = module.max_clock_rate, _clock_mhz()
    module.max_clock_rate = lambda: clock
    try:
        yield
    finally:
        module.max_clock_rate = asks
