"""Each recorded call beside what is predicted of it now, from descriptions of its inputs and the device's own peaks."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from brrr.core.errors import BrrrError
from brrr.core.measurement import Field, Measurement
from brrr.counting.cost import Cost
from brrr.gpu.datasheet import find_hardware
from brrr.roofline.device_model import REFERENCE_CALL
from brrr.roofline.peaks import MissingPeakError, Peaks, read_peaks
from brrr.roofline.predicting import predict
from brrr.roofline.prediction import Prediction
from brrr_course.sources.recorded import Recorded
from tools.judge.bounds import UNDECIDED, Amount, truth
from tools.judge.calls import cost_of
from tools.judge.cases import Case, Changed, data, read, twin
from tools.judge.experiments import described
from tools.judge.host_speed import at_host_speed

How = Literal["eager", "graph", "compiled"]
DEVICE, LOOP = "on the device", "in a loop"
HOST, SHEET = "in a loop, at the host's speed", "on the device, by its datasheet"
BOUND, KNOWN, BELOW = "the bound", "known", "what is unknown has a lower bound"
TWINS: Mapping[Changed, str] = {"bytes": "other-bytes", "flop": "other-flop"}
NEITHER = {"under-filled": "overhead"}
"""To the interventions all that neither bytes nor FLOP limit is overhead."""


class Row(NamedTuple):
    """Of one thing that was measured: how far off a prediction is (0.1: a tenth too long), or whether it is right."""

    group: str
    what: str
    case: str
    off: float | bool


@dataclass(frozen=True)
class Calls:
    """The recorded calls of one experiment in a device's folder."""

    name: str
    folder: Path

    @cached_property
    def peaks(self) -> Peaks:
        """What `brrr calibrate` measured of the device."""
        return read_peaks(self.folder)

    @cached_property
    def measured(self) -> dict[str, dict[str, Measurement]]:
        """By case and variant; of a CPU without its mark."""
        source, about = Recorded(self.folder.name, self.folder.parent), described(self.folder / f"{self.name}.csv")
        found: dict[str, dict[str, Measurement]] = {str(case): {} for case in about.axes[0].values}
        for variant in about.variants:
            for (case,), row in source.known(about, variant.name).items():
                found[str(case)][variant.name.removeprefix("cpu-")] = row
        return found

    def rows(self) -> Iterator[Row]:
        """Those of each case, in the order in which they were recorded."""
        prediction = self.name == "prediction"
        swept = swept_calls(self.peaks) if prediction else frozenset()
        for name, there in self.measured.items():
            case = read(self.name, name)
            if calls_of(case).isdisjoint(swept):
                yield from self.of_prediction(case, name, there) if prediction else self.of_operators(case, name, there)

    def of_prediction(self, case: Case, name: str, there: Mapping[str, Measurement]) -> Iterator[Row]:
        """A stream's or a product's time on the device, and in a loop; a chain's loop in each way of running it."""
        group, chain = f"{case.family}s", case.family == "chain"
        hows: tuple[How, ...] = ("eager", "graph", "compiled") if chain else ("eager",)
        with suppress(MissingPeakError):  # of a data type, say: a row less
            for how in hows:
                if not chain:
                    yield from self.errors(group, DEVICE, case, name, how, "busy_s", there)
                yield from self.errors(group, LOOP, case, f"{name}, {how}", how, "period_s", there)
            yield from self.bound("streams, products and chains", case, name, there)

    def of_operators(self, case: Case, name: str, there: Mapping[str, Measurement]) -> Iterator[Row]:
        """The device's time is the span of a CUDA Graph's replay, of what cannot be captured that of the call."""
        group = self.group(name)
        how: How = "graph" if "graph" in there else "eager"
        found: tuple[tuple[str, How, Field], ...] = ((DEVICE, how, "span_s"), (LOOP, "eager", "period_s"))
        for what, way, field in found:
            time = there[way].get(field) if way in there else None
            if time is None or time.median <= 0:
                continue
            said = self.known(case, way)
            if what == DEVICE:
                yield Row(group, KNOWN, name, said is not None and not said.unknown)
            if said is None or said.unknown:
                yield Row(group, BELOW, f"{name}, {what}", (getattr(said, field, None) or 0.0) <= time.high)
                continue
            yield from self.errors(group, what, case, name, way, field, there)
            if what == LOOP:
                yield from self.bound(group, case, name, there)

    def known(self, case: Case, how: How) -> Prediction | None:
        """What is predicted; None where it cannot be counted, or a figure was not measured."""
        try:
            return self.predicted(case, how)
        except BrrrError:
            return None

    def group(self, name: str) -> str:
        """Models may learn from one half of `operators` on the device that was swept; elsewhere all count."""
        if self.name != "operators" or self.peaks.reference:
            return self.name
        return "operators, reported half" if name in data()["report"] else "operators, half to learn from"

    @cached_property
    def _predicted(self) -> dict[tuple[Case, How], Prediction]:
        return {}

    def predicted(self, case: Case, how: How) -> Prediction:
        """What is predicted of a case from the device's own peaks; kept, since several rows ask for it."""
        if (case, how) not in self._predicted:
            self._predicted[case, how] = predicted(case, how, self.peaks)
        return self._predicted[case, how]

    def errors(
        self, group: str, what: str, case: Case, name: str, how: How, field: Field, there: Mapping[str, Measurement]
    ) -> Iterator[Row]:
        """The error of one time; also at the host's speed beside it, and by the datasheet of a device never swept."""
        time = there[how].get(field) if how in there else None
        if time is None or time.median <= 0:
            return
        said = getattr(self.predicted(case, how), field)
        if said is None:
            return
        yield Row(group, what, name, said / time.median - 1)
        beside = there.get("reference")
        if what == LOOP and beside and beside.host_s and REFERENCE_CALL in self.peaks.measured:
            here = at_host_speed(self.peaks, beside.host_s.median)
            yield Row(group, HOST, name, getattr(predicted(case, how, here), field) / time.median - 1)
        if what == DEVICE and self.peaks.reference and find_hardware(self.peaks.device):
            by_sheet = getattr(predicted(case, how, f"datasheet:{self.peaks.device}"), field)
            yield Row(group, SHEET, name, by_sheet / time.median - 1)

    def bound(self, group: str, case: Case, name: str, there: Mapping[str, Measurement]) -> Iterator[Row]:
        """Whether what is predicted to limit a case is what the interventions allow, where they decide."""
        found = self.truth(case, there)
        if found:
            said = self.predicted(case, "eager").bound
            yield Row(group, BOUND, name, NEITHER.get(said, said) in found)

    def truth(self, case: Case, there: Mapping[str, Measurement]) -> frozenset[str]:
        """What may limit it, by a graph and the twins; nothing where these were not measured."""
        eager, graph = there.get("eager"), there.get("graph")
        if eager is None or graph is None or not (eager.busy_s and eager.period_s and graph.period_s):
            return UNDECIDED
        twins: dict[str, Amount] = {}
        for changed, variant in TWINS.items():
            other, time = twin(case, changed), there.get(variant)
            if other is not None and time is not None and time.busy_s is not None:
                twins[changed] = _amount(other, time.busy_s.median)
        kind = "product" if case.family == "product" and case.way in ("nn", "nt") else "stream"
        here = _amount(case, eager.busy_s.median)
        return truth(kind, eager.period_s.median, graph.period_s.median, here, twins)


def predicted(case: Case, how: How, peaks: Peaks | str) -> Prediction:
    """What is predicted of a case from these peaks."""
    return predict(cost_of(case), device=peaks, how=how, tf32=case.dtype == "tf32")


def _amount(case: Case, busy_s: float) -> Amount:
    work: Cost = cost_of(case)
    return Amount(busy_s, work.eager_bytes, work.flop)


# ---- what calibration has measured is no test ----


def swept_calls(peaks: Peaks) -> frozenset[tuple[object, ...]]:
    """The products and operators that a calibration has timed themselves, as `calls_of` names them."""
    products = (
        (_kernels_of(str(row["dtype"])), *(int(row[size]) for size in ("batch", "m", "n", "k")))
        for row, _ in peaks.sweeps.get("products", ())
    )
    operators = (
        (str(row["operator"]), str(row["dtype"]), float(row["read"]), float(row["written"]))
        for row, _ in peaks.sweeps.get("operators", ())
    )
    return frozenset((*products, *operators))


def calls_of(case: Case) -> frozenset[tuple[object, ...]]:
    """What a product or a stream calls: sizes of the product; operator and bytes. All else is more than its operators.

    >>> calls_of(Case("product", "matmul", (1, 8, 16, 32), "float16", "nt"))
    frozenset({('bfloat16', 1, 8, 16, 32)})
    """
    if case.family == "product":
        return frozenset({(_kernels_of(case.dtype), *case.sizes)})
    if case.family != "stream":
        return frozenset()
    called = (each for each in cost_of(case).operators if each.kind != "view")
    return frozenset((each.name, each.dtype, each.read_bytes, each.written_bytes) for each in called)


def _kernels_of(dtype: str) -> str:
    """float16 runs on the kernels of bfloat16."""
    return "bfloat16" if dtype == "float16" else dtype
