"""`Recorded("h200")`: a source that shows what was measured on another machine, and nothing that was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from brrr.core.errors import ArgumentError, NotRecordedError
from brrr.core.files import recorded_devices, recordings_root
from brrr.core.measurement import Badge, Measurement, Point, Value
from brrr_course.nouns.experiment import Experiment
from brrr_course.sources.recording import Machine, Recording, RunInfo
from brrr_course.sources.rows import Row

if TYPE_CHECKING:
    from brrr.tracing.timeline import Timeline


class Recorded:
    """The recordings of one device; files are read when first needed, and kept.

    `Recorded("h200").measure(experiment("matmul"), "gpu", {"size": 4096})` gives the recorded measurement.

    `root` is the folder of all recordings (default: the course's own, or `BRRR_RECORDINGS`). Raises ArgumentError for
    a device that was not recorded, naming those that were; RecordingError for damaged files, when they are read.
    """

    live = False

    def __init__(self, device: str = "h200", root: Path | str | None = None) -> None:
        self.device = device
        self.root = Path(root) if root is not None else recordings_root()
        there = recorded_devices(self.root)
        if device not in there:
            hint = "" if there else f"There is none in {self.root}; `brrr record` makes one"
            raise ArgumentError(
                "Recorded", "device", device, f"one of {', '.join(there) or 'the recorded devices'}", hint
            )
        self._machine: Machine | None = None
        self._recordings: dict[str, Recording] = {}
        self._known: dict[tuple[str, str], Mapping[tuple[Value, ...], Measurement]] = {}
        self._newest: dict[tuple[str, str], dict[tuple[Value, ...], Row]] = {}
        self._timelines: dict[Path, Timeline] = {}
        self._drifts: dict[str, dict[tuple[str, str], float]] = {}

    @property
    def name(self) -> str:
        """`recorded:h200`, as `BRRR_SOURCE` takes it."""
        return f"recorded:{self.device}"

    @property
    def folder(self) -> Path:
        """The folder of this device's files."""
        return self.root / self.device

    @property
    def machine(self) -> Machine:
        """The machine that the recordings were made on."""
        if self._machine is None:
            self._machine = Machine.read(self.folder)
        return self._machine

    def experiments(self) -> tuple[str, ...]:
        """The names of the experiments that there is a file of."""
        return tuple(sorted(path.stem for path in self.folder.glob("*.csv")))

    def recording(self, experiment: Experiment) -> Recording:
        """All rows of an experiment, of every run and cache state; NotRecordedError names what is there instead."""
        if experiment.name not in self._recordings:
            if experiment.name not in self.experiments():
                raise NotRecordedError(
                    f"{self.name}: experiment {experiment.name!r} was not recorded; "
                    f"recorded are {', '.join(self.experiments()) or 'none'}"
                )
            self._recordings[experiment.name] = Recording.read(self.folder, experiment)
        return self._recordings[experiment.name]

    def badge(self, experiment: Experiment) -> Badge:
        """RECORDED, the device, the date of the newest run of this experiment, torch's version."""
        dates = [run.date[:10] for run in self._runs(experiment)]
        torch = f"torch {self.machine.torch}" if self.machine.torch else ""
        return Badge("RECORDED", self.machine.device, max(dates, default=""), torch)

    def _runs(self, experiment: Experiment) -> list[RunInfo]:
        """The runs that rows of this experiment come from."""
        used = {row.run for row in self.recording(experiment).rows}
        return [run for run in self.machine.runs if run.id in used]

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        """The variants that have rows, in the experiment's order."""
        there = {row.variant for row in self.recording(experiment).rows}
        return tuple(variant.name for variant in experiment.variants if variant.name in there)

    def values(self, experiment: Experiment, axis: str) -> tuple[Value, ...]:
        """The recorded values of an axis: numbers ascending, categories in the axis's order."""
        found = experiment.axis(axis)
        at = experiment.axes.index(found)
        there = {row.point[at] for row in self.recording(experiment).rows}
        if found.scale == "category":
            return tuple(value for value in found.values if value in there)
        return tuple(sorted(there, key=float))

    def known(self, experiment: Experiment, variant: str) -> Mapping[tuple[Value, ...], Measurement]:
        """From each recorded point, in the order of the axes, to its measurement.

        The cache state is the variant's, or the point's where the experiment has an axis `cache`. A point that
        several runs measured shows the newest run's row.
        """
        key = (experiment.name, variant)
        if key not in self._known:
            self._known[key] = {point: row.measurement for point, row in self.rows(experiment, variant).items()}
        return self._known[key]

    def rows(self, experiment: Experiment, variant: str) -> Mapping[tuple[Value, ...], Row]:
        """As `known`, but the whole rows: with FLOP, bytes, the error against the reference and the run."""
        key = (experiment.name, variant)
        if key not in self._newest:
            self._newest[key] = self._choose(experiment, variant)
        return self._newest[key]

    def _choose(self, experiment: Experiment, variant: str) -> dict[tuple[Value, ...], Row]:
        default = experiment.variant(variant).cache
        axes = [axis.name for axis in experiment.axes]
        recording = self.recording(experiment)
        age = {run: age for age, run in enumerate(recording.machine.newest_first())}
        mine = [row for row in recording.rows if row.variant == variant]
        chosen: dict[tuple[Value, ...], Row] = {}
        for row in sorted(mine, key=lambda row: age[row.run], reverse=True):  # the newest comes last and stays
            if row.measurement.cache == dict(zip(axes, row.point, strict=True)).get("cache", default):
                chosen[row.point] = row
        order = sorted(chosen, key=lambda point: _place(experiment, point))
        return {point: chosen[point] for point in order}

    def measure(self, experiment: Experiment, variant: str, point: Point) -> Measurement:
        """The measurement recorded at exactly this point; NotRecordedError names the three nearest that there are."""
        full = experiment.point(**point)
        known = self.known(experiment, variant)
        found = known.get(tuple(full.values()))
        if found is None:
            raise NotRecordedError(self._missing(experiment, variant, full, list(known)))
        return found

    def measure_together(self, experiment: Experiment, variants: Sequence[str], point: Point) -> None:
        """Nothing: what was recorded was measured together then."""

    def drifts(self, experiment: Experiment) -> Mapping[tuple[str, str], float]:
        """From variant and field to the largest flagged drift of an anchor, in the runs that rows come from."""
        name = experiment.name
        if name not in self._drifts:
            anchors = (drift for run in self._runs(experiment) for drift in run.anchors)
            found = [((d.variant, d.field), abs(d.drift)) for d in anchors if d.experiment == name and d.flagged]
            self._drifts[name] = dict(sorted(found, key=lambda drift: drift[1]))  # the largest comes last and stays
        return self._drifts[name]

    def traced(self, experiment: Experiment, variant: str) -> tuple[dict[str, Value], ...]:
        """The points of `Experiment.traces` whose timeline was recorded."""
        experiment.variant(variant)
        listed = [experiment.point(**point) for name, point in experiment.traces if name == variant]
        return tuple(point for point in listed if self._trace_file(experiment, variant, point).is_file())

    def timeline(self, experiment: Experiment, variant: str, point: Point) -> Timeline:
        """The timeline recorded at exactly this point; NotRecordedError names the three nearest that there are."""
        from brrr_course.sources.timeline_file import read

        full = experiment.point(**point)
        path = self._trace_file(experiment, variant, full)
        if path not in self._timelines:
            if not path.is_file():
                there = [tuple(traced.values()) for traced in self.traced(experiment, variant)]
                what = f"{self.name}: {experiment.name} has no timeline of {variant!r} at"
                raise NotRecordedError(f"{what} {_words(experiment, tuple(full.values()))}"
                                       f"{_nearest(experiment, full, there) or '; none is recorded'}")  # fmt: skip
            self._timelines[path] = read(path)
        return self._timelines[path]

    def _trace_file(self, experiment: Experiment, variant: str, point: Point) -> Path:
        from brrr_course.sources.timers import FOLDER, file_name

        return self.folder / FOLDER / experiment.name / file_name(variant, point)

    def _missing(self, experiment: Experiment, variant: str, point: Point, known: list[tuple[Value, ...]]) -> str:
        where = f"{self.name}: {experiment.name} has no {variant!r} at {_words(experiment, tuple(point.values()))}"
        if not known:
            return f"{where}; the variants recorded are {', '.join(self.variants(experiment)) or 'none'}"
        return where + _nearest(experiment, point, known)


def _nearest(experiment: Experiment, point: Point, known: Sequence[tuple[Value, ...]]) -> str:
    """The three points nearest to the one asked for, as the end of a message; nothing where there is none."""
    nearest = sorted(known, key=lambda there: experiment.apart(point, dict(zip(point, there, strict=True))))[:3]
    return f"; nearest recorded: {'; '.join(_words(experiment, there) for there in nearest)}" if nearest else ""


def _words(experiment: Experiment, point: tuple[Value, ...]) -> str:
    return ", ".join(f"{axis.name}={value}" for axis, value in zip(experiment.axes, point, strict=True))


def _place(experiment: Experiment, point: tuple[Value, ...]) -> tuple[float, ...]:
    """Where a point stands among all: by number, or by the category's place in its axis."""
    pairs = zip(experiment.axes, point, strict=True)
    return tuple(float(axis.values.index(v)) if axis.scale == "category" else float(v) for axis, v in pairs)
