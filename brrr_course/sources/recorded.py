"""`Recorded("h200")`: a source that shows what was measured on another machine, and nothing that was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brrr.core.errors import ArgumentError, NotRecordedError, RecordingError
from brrr.core.measurement import FIELDS, Badge, DeviceKind, Measurement, Point, Value
from brrr.core.recordings import FILE, device_folders, first_that_reads, recorded_devices, search_path, ships
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Key, Pair, Shown, broken
from brrr_course.sources.recording import Machine, Recording, RunInfo
from brrr_course.sources.rows import Row

if TYPE_CHECKING:
    from brrr.tracing.timeline import Timeline


OWN = "your recording"


def recorded(device: str) -> Recorded:
    """The one of that device: its files are read once in a session, and anew when one of them has changed.

    >>> recorded("h200") is recorded("h200")
    True
    """
    found = Recorded(device)
    files = [each for folder in found.folders for each in sorted(folder.iterdir()) if each.suffix in (".csv", ".json")]
    states = [(each, each.stat().st_ino, each.stat().st_mtime_ns, each.stat().st_size) for each in files]
    return _kept(device, *found.folders, *found._shipped, *states)


@lru_cache(maxsize=4)
def _kept(device: str, *state: object) -> Recorded:
    """The arguments behind the first tell one state of the files from another."""
    return Recorded(device)


class Recorded:
    """The measurements that were recorded on one device; nothing is interpolated between them.

    >>> Recorded("h200").name
    'recorded:h200'

    ``Recorded("h200").measure(experiment("matmul"), "gpu", {"size": 4096})`` gives the recorded measurement. Files are
    read when they are first needed, and kept.

    Parameters
    ----------
    device : str
        The folder of the recording, such as "h200".
    root : str or pathlib.Path, optional
        The one folder of recordings to look into. By default a search path: your own recordings, then the course's.

    Raises
    ------
    ArgumentError
        If nothing was recorded on that device; the message names those that were.
    RecordingError
        If a file is damaged, when it is read.
    """

    live = False

    def __init__(self, device: str = "h200", root: Path | str | None = None) -> None:
        self.device = device
        roots = search_path() if root is None else (Path(root),)
        self.folders = tuple(each for each in device_folders(device, roots) if (each / FILE).is_file())
        """The folders of this device's files, in the order in which they are looked into."""
        if not self.folders:
            there = recorded_devices(roots)
            hint = "" if there else f"There is none in {roots[0]}; `brrr record` makes one"
            raise ArgumentError(
                "Recorded", "device", device, f"one of {', '.join(there) or 'the recorded devices'}", hint
            )
        self._shipped = [each for each in self.folders if root is not None or ships(each.parent)]
        self._read: dict[int, AsRead] = {}  # by the experiment, which it holds: another may have its name
        self._timelines: dict[Path, Timeline] = {}

    @property
    def name(self) -> str:
        """`recorded:h200`, as `BRRR_SOURCE` takes it."""
        return f"recorded:{self.device}"

    @property
    def kind(self) -> DeviceKind:
        """That of the machine."""
        found = first_that_reads(self.folders, Machine.read)
        assert found is not None  # each of the folders has one
        return found.kind

    def experiments(self) -> tuple[str, ...]:
        """The names of the experiments that were recorded."""
        return tuple(sorted({path.stem for folder in self.folders for path in folder.glob("*.csv")}))

    def recording(self, experiment: Experiment) -> AsRead:
        """All rows of an experiment, from every run and cache state; NotRecordedError names what was recorded instead.

        Rows of a variant that the experiment no longer has are left out.
        """
        if id(experiment) not in self._read:
            there = [each for each in self.folders if (each / f"{experiment.name}.csv").exists()]
            found = first_that_reads(there, lambda folder: Recording.read(folder, experiment))
            if found is None:
                raise NotRecordedError(
                    f"{self.name}: experiment {experiment.name!r} was not recorded; "
                    f"recorded are {', '.join(self.experiments()) or 'none'}"
                )
            names = {variant.name for variant in experiment.variants}
            known = tuple(as_read(row) for row in found.rows if row.variant in names)
            self._read[id(experiment)] = AsRead(experiment, found.machine, known)
        return self._read[id(experiment)]

    def badge(self, experiment: Experiment, shown: Shown | None = None) -> Badge:
        """RECORDED, the device, the date of this experiment's newest run, and torch's version.

        Where several versions of the software are mixed, or rows of your own, each is named with its number of points.
        The GPUs are always the whole recording's.
        """
        recording = self.recording(experiment)
        runs, rows = recording.runs, [row for found in recording.newest.values() for row in found.values()]
        used = {each.uuid for run in {row.run for row in rows} for each in runs[run].devices[: experiment.devices]}
        if shown is not None:
            rows = [row for row in rows if row.point in shown.get(row.variant, ())] or rows
        date = max((run.date[:10] for run in runs.values()), default="")
        device = experiment.named(recording.machine.device, recording.machine.kind)
        return Badge("RECORDED", device, date, self._told(experiment, rows, runs), frozenset(used - {""}))

    def _told(self, experiment: Experiment, rows: Sequence[Row], runs: Mapping[str, RunInfo]) -> str:
        """The software of some rows: most of them first, then where the others stand."""
        used, every = [runs[run] for run in {row.run for row in rows}], {row.point for row in rows}
        several = {run.software for run in used}
        drivers = len(several) > len({torch for *_, torch in several})
        said = {
            run.id: [
                f"torch {run.torch}" * bool(run.torch),
                f"driver {run.driver}" * drivers,
                OWN * (len(self._shipped) < len(self.folders) and run.id not in self._course_s),
            ]
            for run in used
        }
        parts: dict[str, dict[Key, None]] = {}
        for row in rows:
            parts.setdefault(", ".join(filter(None, said[row.run])), {})[row.point] = None
        first, *others = sorted(parts, key=lambda part: len(parts[part]), reverse=True) or [""]
        return "; ".join([first, *(f"{each} {_where(experiment, parts[each], every)}" for each in others)])

    @cached_property
    def _course_s(self) -> set[str]:
        """The runs that came with a package; all others are the reader's."""
        found = set[str]()
        for folder in self._shipped:
            with suppress(RecordingError):  # one that is damaged tells of no run
                found |= {each.id for each in Machine.read(folder).runs}
        return found

    def refused(self, experiment: Experiment, variant: str, point: Point) -> str:
        """Why a point could not be measured, as a sentence; empty where nothing failed."""
        reason = self.recording(experiment).reasons.get((variant, frozenset(point.items())), "").partition(";")[0]
        return f"{reason[:1].upper()}{reason[1:]}." if reason else ""

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        """The variants that were recorded, in the experiment's order."""
        there = {row.variant for row in self.recording(experiment).rows}
        return tuple(variant.name for variant in experiment.variants if variant.name in there)

    def values(self, experiment: Experiment, axis: str) -> Key:
        """The recorded values of an axis: numbers ascending, categories in the axis's order."""
        found = experiment.axis(axis)
        at = experiment.axes.index(found)
        there = {row.point[at] for row in self.recording(experiment).rows}
        if found.scale == "category":
            return tuple(value for value in found.values if value in there)
        return tuple(sorted(there, key=float))

    def known(self, experiment: Experiment, variant: str) -> Mapping[Key, Measurement]:
        """A mapping from each recorded point, in the order of the axes, to its measurement.

        The cache state is the variant's, or the point's if the experiment has an axis `cache`. A point that several
        runs measured has the newest run's row.
        """
        experiment.variant(variant)
        return self.recording(experiment).known.get(variant, {})

    def rows(self, experiment: Experiment, variant: str) -> Mapping[Key, Row]:
        """As `known`, but with the whole rows: FLOP, bytes, the error against the reference, and the run."""
        experiment.variant(variant)
        return self.recording(experiment).newest.get(variant, {})

    def broken(self, experiment: Experiment) -> Counter[Pair]:
        """How many rows violate each inequality of the six times, such as host_s <= period_s.

        >>> from brrr_course.experiments import experiment
        >>> Recorded("h200").broken(experiment("run_ahead"))
        Counter({('host_s', 'period_s'): 2})
        """
        return Counter(pair for row in self.recording(experiment).rows for pair in broken(row.measurement))

    def measure(self, experiment: Experiment, variant: str, point: Point) -> Measurement:
        """The measurement recorded at exactly this point; NotRecordedError names the three nearest ones."""
        full = experiment.point(**point)
        known = self.known(experiment, variant)
        found = known.get(tuple(full.values()))
        if found is None:
            raise NotRecordedError(self._missing(experiment, variant, full, list(known)))
        return found

    def measure_together(self, experiment: Experiment, variants: Sequence[str], point: Point) -> None:
        """Do nothing: the points were measured together when they were recorded."""

    def drifts(self, experiment: Experiment) -> Mapping[tuple[str, str], float]:
        """For each variant and field, the largest drift flagged at an anchor in the runs that are used."""
        return self.recording(experiment).drifts

    def traced(self, experiment: Experiment, variant: str) -> tuple[dict[str, Value], ...]:
        """The points of `Experiment.traces` whose timeline was recorded."""
        experiment.variant(variant)
        listed = [experiment.point(**point) for name, point in experiment.traces if name == variant]
        return tuple(point for point in listed if self._trace_file(experiment, variant, point).is_file())

    def timeline(self, experiment: Experiment, variant: str, point: Point) -> Timeline:
        """The timeline recorded at exactly this point; NotRecordedError names the three nearest ones."""
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

        places = [each / FOLDER / experiment.name / file_name(variant, point) for each in self.folders]
        return next((place for place in places if place.is_file()), places[0])

    def _missing(self, experiment: Experiment, variant: str, point: Point, known: list[Key]) -> str:
        where = f"{self.name}: {experiment.name} has no {variant!r} at {_words(experiment, tuple(point.values()))}"
        if not known:
            return f"{where}; the variants recorded are {', '.join(self.variants(experiment)) or 'none'}"
        return where + _nearest(experiment, point, known)


@dataclass(frozen=True)
class AsRead(Recording):
    """A recording as it is shown, and what its rows and runs tell, each found when it is first asked for."""

    @cached_property
    def runs(self) -> Mapping[str, RunInfo]:
        """The runs that rows come from, by their ids."""
        used = {row.run for row in self.rows}
        return {run.id: run for run in self.machine.runs if run.id in used}

    @cached_property
    def reasons(self) -> Mapping[tuple[str, frozenset[tuple[str, Value]]], str]:
        """Why points failed, by variant and point; of several runs, what the first says."""
        every = [each for run in self.machine.runs for each in run.failed if each.experiment == self.experiment.name]
        return {(each.variant, frozenset(each.point.items())): each.reason for each in reversed(every)}

    @cached_property
    def drifts(self) -> Mapping[tuple[str, str], float]:
        """For each variant and field, the largest drift flagged at an anchor in the runs that are used."""
        anchors = (drift for run in self.runs.values() for drift in run.anchors)
        every = [(abs(d.drift), d) for d in anchors if d.experiment == self.experiment.name and d.flagged]
        largest_last = sorted(every, key=lambda drift: drift[0])
        return {(d.variant, d.field): drift for drift, d in largest_last}

    @cached_property
    def known(self) -> Mapping[str, Mapping[Key, Measurement]]:
        """The measurements of `newest`."""
        return {name: {at: row.measurement for at, row in rows.items()} for name, rows in self.newest.items()}

    @cached_property
    def newest(self) -> Mapping[str, Mapping[Key, Row]]:
        """Of each variant the newest row at each point, of one software: that of the point's newest row."""
        axes, count = [axis.name for axis in self.experiment.axes], self.experiment.devices
        caches = {variant.name: variant.cache for variant in self.experiment.variants}
        age = {run: age for age, run in enumerate(self.machine.newest_first())}
        first: dict[Key, RunInfo] = {}
        chosen: dict[str, dict[Key, Row]] = {}
        devices: dict[Key, set[str]] = {}
        for row in sorted(self.rows, key=lambda row: age[row.run]):
            if row.measurement.cache != dict(zip(axes, row.point, strict=True)).get("cache", caches[row.variant]):
                continue
            run = self.runs[row.run]
            alike = first.setdefault(row.point, run).software == run.software
            if alike and chosen.setdefault(row.variant, {}).setdefault(row.point, row) is row:
                devices.setdefault(row.point, set()).update(each.uuid for each in run.devices[:count])
        # where rows were not all measured on the same GPU, or GPUs, their ratios cross machines
        mixed = {point for point, used in devices.items() if len(used) > count}
        return {
            name: {
                point: flagged(rows[point], ["several-gpus"] * (point in mixed))
                for point in sorted(rows, key=lambda point: _place(self.experiment, point))
            }
            for name, rows in chosen.items()
        }


UNSTABLE = 1.5
"""A period or span that may be so many times as long as at least is as unsteady as one that drifted."""


def as_read(row: Row) -> Row:
    """A row as it is shown and judged: unstable where its interval says so, n = 1 where it has none.

    Where a time is longer than another that it is part of, the row is flagged as contradictory. Rows of old recordings
    tell the one reading that they hold n times. The driver's readings are whole percents, which may all agree.
    """
    m = row.measurement
    times = {name: e for name in FIELDS if (e := m.get(name)) is not None}
    once: dict[str, Any] = {name: replace(e, n=1) for name, e in times.items() if e.low == e.high != round(e.high, 2)}
    wide = any(e.high > UNSTABLE * e.low for name, e in times.items() if name in ("period_s", "span_s"))
    found = [flag for flag, holds in (("unstable", wide), ("contradictory", broken(m))) if holds]
    return flagged(replace(row, measurement=replace(m, **once)) if once else row, found)


def flagged(row: Row, flags: Sequence[str]) -> Row:
    """The row with flags that the file does not have."""
    if not flags:
        return row
    m = row.measurement
    return replace(row, measurement=replace(m, flags=tuple(dict.fromkeys((*m.flags, *flags)))))


NAMED = 3
"""So many values of an axis are named one by one."""


def _where(experiment: Experiment, points: Collection[Key], every: Collection[Key]) -> str:
    """Where some of all points lie, as a badge says it: by the few values that only they have, else how many."""
    for at, axis in enumerate(experiment.axes):
        there = dict.fromkeys(point[at] for point in points)
        if len(there) <= NAMED and not any(point[at] in there for point in every if point not in points):
            return f"at {axis.name} {', '.join(map(str, there))}"
    return f"at {len(points)} of {len(every)} points"


def _nearest(experiment: Experiment, point: Point, known: Sequence[Key]) -> str:
    """The three points nearest to the one asked for, as the end of a message; nothing where there is none."""
    nearest = sorted(known, key=lambda there: experiment.distance(point, dict(zip(point, there, strict=True))))[:3]
    return f"; nearest recorded: {'; '.join(_words(experiment, there) for there in nearest)}" if nearest else ""


def _words(experiment: Experiment, point: Key) -> str:
    return ", ".join(f"{axis.name}={value}" for axis, value in zip(experiment.axes, point, strict=True))


def _place(experiment: Experiment, point: Key) -> tuple[float, ...]:
    """Where a point stands among all: by number, or by the category's place in its axis."""
    pairs = zip(experiment.axes, point, strict=True)
    return tuple(float(axis.values.index(v)) if axis.scale == "category" else float(v) for axis, v in pairs)
