"""What an explorer says beside its measurements: how long each line should take at the point, and what limits it.

Nothing is run for it: `Experiment.predicts` describes the work, `brrr.predict` knows what a device can do. Predictions
are kept, so that a slider does not wait for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from brrr.core.errors import BrrrError
from brrr.core.measurement import Estimate, Field, Point, Processor, Value
from brrr.gpu import is_cpu, is_gpu, is_queue
from brrr_course.nouns.experiment import Experiment, Line, Variant
from brrr_course.nouns.source import Source
from brrr_course.view.arguments import View
from brrr_course.view.quantities import hardware_of, quantity

if TYPE_CHECKING:
    from brrr.gpu.datasheet import Hardware
    from brrr.roofline.peaks import Peaks
    from brrr.roofline.prediction import Prediction


# ---------------------------------------------------------------------------------------------------------------------
# Which figures of a machine an explorer predicts with: its measured peaks, else its datasheet, else none.


@dataclass(frozen=True)
class Figures:
    """What is known of a device: `known` is what `brrr.predict` takes for it, `origin` where its figures come from."""

    kind: Processor
    known: Peaks | Hardware | None = None
    device: str = ""
    origin: str = ""
    measured: bool = False


def figures_of(source: Source, experiment: Experiment, kind: Processor) -> Figures:
    """The figures of a source's GPU or CPU; a CPU has no datasheet."""
    peaks = measured_peaks(source, kind)
    if peaks is not None:
        also = " and assumed" if peaks.assumed else ""
        return Figures(kind, peaks, peaks.device, f"measured {peaks.date[:10]}{also}", measured=True)
    hardware = hardware_of(source, experiment) if is_gpu(kind) else None
    if hardware is None:
        return Figures(kind)
    return Figures(kind, hardware, hardware.name, "datasheet and assumed")


def what_to_run(source: Source, figures: Figures) -> str:
    """What to do where no peaks were measured; nothing where they were."""
    if figures.measured:
        return ""
    what = "GPU" if is_gpu(figures.kind) else "CPU"
    if source.live:
        device = " --device cpu" if is_cpu(figures.kind) else ""
        return f"No peaks of this {what} are kept here: run `brrr calibrate{device}`."
    return f"No peaks of that machine's {what} are recorded; `brrr calibrate` measures them there."


def measured_peaks(source: Source, kind: Processor) -> Peaks | None:
    """The peaks kept for a source's machine, None where there are none: of another device, or in a damaged file."""
    from brrr.core.recordings import first_that_reads
    from brrr.roofline.device_model import peaks_here
    from brrr.roofline.peaks import find_peaks

    folders, name = getattr(source, "folders", None), getattr(source, "device_name", "")
    try:
        here = peaks_here(kind) if source.live and folders is None else None
        peaks = first_that_reads(folders, find_peaks) if folders is not None else here
    except BrrrError:
        return None
    return peaks if peaks is not None and peaks.kind == kind and name in ("", peaks.device) else None


MOST_OPERATORS = 5000
"""A loop of so many operators is long enough to predict its period."""
QUEUE = "The CPU queue's queue costs more than is predicted."


@dataclass(frozen=True)
class LinePrediction:
    """One line at one point: the predicted time in seconds, what limits it, and what was measured; None if unknown.

    >>> LinePrediction("relu", "relu", 2e-6, "memory", Estimate(2.1e-6, 2e-6, 2.2e-6, 9)).residual
    1.05
    """

    line: str
    label: str
    predicted_s: float | None
    bound: str
    measured: Estimate | None

    @property
    def residual(self) -> float | None:
        """Measured over predicted."""
        if self.predicted_s is None or self.measured is None or not self.predicted_s:
            return None
        return self.measured.median / self.predicted_s


class Predictions:
    """The predictions for an experiment on the machine behind a source.

    `on` says whether they are shown, `possible` whether the experiment says what there is to predict. `problem` is
    what stopped a prediction last, for the reader.
    """

    def __init__(self, experiment: Experiment, source: Source, on: bool) -> None:
        self.experiment, self.source, self.on = experiment, source, on
        self.possible = bool(experiment.predicts) or on
        self.problem = ""
        self._figures: dict[str, Figures] = {}
        self._known: dict[tuple[str, tuple[Value, ...]], Prediction | None] = {}

    def figures(self, variant: Variant) -> Figures:
        """What is known of the device that a variant runs on: the GPU, or the machine's CPU."""
        kind = self.source.kind if variant.on_gpu else "cpu"
        if kind not in self._figures:
            self._figures[kind] = figures_of(self.source, self.experiment, kind)
        return self._figures[kind]

    def known(self, lines: Iterable[Line]) -> bool:
        """Whether there are figures of the device of at least one of the lines."""
        return any(self.figures(self.experiment.variant(line.variant)).known is not None for line in lines)

    def at(self, variant: str, point: Point) -> Prediction | None:
        """The prediction for a variant at a point; None where there is none."""
        key = variant, tuple(point[axis.name] for axis in self.experiment.axes)
        if key not in self._known:
            self._known[key] = self._predicted(self.experiment.variant(variant), point)
        return self._known[key]

    def _predicted(self, variant: Variant, point: Point) -> Prediction | None:
        known = self.figures(variant).known
        if known is None or not self.experiment.has(variant.name, point):
            return None
        run = self.experiment.predicted_run(variant.name, point)
        if run is None:
            return None
        from brrr.roofline.peaks import MissingPeakError
        from brrr.roofline.predicting import predict

        calls = max(10, min(100, MOST_OPERATORS // max(1, len(run.cost.operators))))
        try:
            tf32 = run.dtype == "tf32"  # what a line measures it sets itself, whatever torch is set to here
            return predict(run.cost, device=known, how=run.how, dtype=run.dtype, calls=calls, tf32=tf32)
        except MissingPeakError as error:  # what else was measured helps nobody here
            self.problem = f"{str(error).partition(';')[0].removeprefix('Peaks: ')}; `brrr calibrate` measures it."
            return None
        except BrrrError as error:
            self.problem = str(error)
            return None

    def time_s(self, line: Line, point: Point) -> float | None:
        """The predicted time of a line at a point, under the field that the line shows; None where there is none."""
        variant = self.experiment.variant(line.variant)
        found = self.at(variant.name, point)
        return None if found is None else time_of(found, variant, line.field)

    def row(self, line: Line, point: Point) -> LinePrediction:
        """A line at a point: predicted, its bound, measured."""
        time = self.time_s(line, point)
        found = self.at(line.variant, point) if time is not None else None
        key = tuple(point[axis.name] for axis in self.experiment.axes)
        measured = self.source.known(self.experiment, line.variant).get(key)
        estimate = measured.get(line.field) if measured is not None else None
        return LinePrediction(line.name, line.label, time, found.bound if found is not None else "", estimate)

    def along_x(self, line: Line, view: View, points: Iterable[Point]) -> list[tuple[Value, float]]:
        """What a line's predictions are in the quantity of a view (a time, a rate, a ratio), as (x, height)."""
        made = quantity(self.experiment, cast(Source, _PredictedSource(self, points)), view)
        place = [axis.name for axis in self.experiment.axes].index(view.x)
        return [(key[place], each.median) for key, each in made.points(line).items()]

    def origin(self, lines: Iterable[Line]) -> str:
        """The badge: PREDICTED, for which device, and where its figures come from; then what is missing, and why."""
        variants = {variant.device: variant for line in lines if (variant := self.experiment.variant(line.variant))}
        used = {figures.device: figures for each in variants.values() if (figures := self.figures(each)).known}
        said = [f"PREDICTED · {device} · peaks: {figures.origin}." for device, figures in used.items()]
        said += dict.fromkeys(what_to_run(self.source, self.figures(each)) for each in variants.values())
        said += [QUEUE] if any(map(is_queue, variants)) and used else []
        said += [f"No prediction: {self.problem}"] if self.problem else []
        return " ".join(part for part in said if part)


def time_of(prediction: Prediction, variant: Variant, field: Field) -> float | None:
    """The predicted time that a measured one is held against.

    On a CPU a call returns when it is done, so that all its times are one. Of the CPU queue only the work is
    predicted: the worker's time, and that of a loop.
    """
    if variant.on_gpu:
        by_field: Mapping[str, float | None] = {
            "period_s": prediction.period_s, "latency_s": prediction.latency_s, "host_s": prediction.host_s,
            "span_s": prediction.span_s, "busy_s": prediction.busy_s, "kernel_s": prediction.busy_s,
        }  # fmt: skip
        return by_field[field]
    if is_queue(variant.device) and field in ("host_s", "latency_s"):
        return None
    return prediction.period_s


class _PredictedTimes:
    """What a prediction looks like to whoever asks a measurement for its fields."""

    def __init__(self, prediction: Prediction, variant: Variant) -> None:
        self._prediction, self._variant = prediction, variant

    def get(self, field: Field) -> Estimate | None:
        time = time_of(self._prediction, self._variant, field)
        return None if time is None else Estimate(time, time, time, 1)


class _PredictedSource:
    """A source of predicted times at given points: what turns measured times into rates and ratios takes these too."""

    def __init__(self, predictions: Predictions, points: Iterable[Point]) -> None:
        self._predictions, self._points = predictions, list(points)

    def __getattr__(self, name: str) -> object:
        return getattr(self._predictions.source, name)

    def known(self, experiment: Experiment, variant: str) -> Mapping[tuple[Value, ...], _PredictedTimes]:
        ran = experiment.variant(variant)
        found = {tuple(point.values()): self._predictions.at(variant, point) for point in self._points}
        return {key: _PredictedTimes(each, ran) for key, each in found.items() if each is not None}
