"""A recording: `machine.json`, which tells a machine and its runs, and a CSV of each experiment measured on it.

Reading checks the columns, the units and the ranges, and names the file and the row of what is wrong. Writing replaces
a file whole, so that a kill at any moment leaves a recording that reads. The last line of a CSV seals the ones before:

    # 12 rows, checksum 0123456789abcdef
"""

from __future__ import annotations

import dataclasses
import functools
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from brrr.core import __version__, units
from brrr.core.errors import ArgumentError, NotRecordedError, RecordingError
from brrr.core.files import digest, json_text, read_json, write_atomically
from brrr.core.measurement import DeviceKind, Value
from brrr.core.recordings import FILE, SLUG
from brrr.gpu import is_gpu
from brrr_course.nouns.experiment import Experiment, has_gpu
from brrr_course.nouns.table import RESTORE, read, text_of, within, written
from brrr_course.sources.rows import HZ, LONGEST_S, Row, columns, row_of, to_cells

# The format's history, newest last. A change of any key makes a new version; a new column of the CSVs does not, for
# columns are found by their names (brrr_course/sources/rows.py).
#   4  driver, CUDA and torch stood once for all runs, and each run told the UUID of its one device.
#   5  each run tells its devices and its software.
FORMAT = 5
DRIFT_LIMIT = 0.03
"""An anchor that differs from its first measurement by more than this is flagged."""


@dataclass(frozen=True)
class Drift:
    """An anchor measured again in a later run: one of its times, at first and now.

    >>> Drift("matmul", "gpu", {"size": 1024}, "latency_s", first_s=1.00e-3, now_s=1.05e-3).flagged
    True
    """

    experiment: str
    variant: str
    point: Mapping[str, Value]
    field: str
    first_s: float
    now_s: float
    drift: float = dataclasses.field(init=False)
    flagged: bool = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """The relative change, 0.05 where it is 5 % slower than at first; flagged if it is more than DRIFT_LIMIT."""
        for name in ("first_s", "now_s"):
            within("Drift", name, getattr(self, name), 0, LONGEST_S, "seconds")
        change = self.now_s / self.first_s - 1 if self.first_s else 0.0
        object.__setattr__(self, "drift", round(change, 6))
        object.__setattr__(self, "flagged", abs(change) > DRIFT_LIMIT)

    @property
    def times(self) -> float:
        """How many times as long or as short it is now.

        >>> Drift("matmul", "gpu", {"size": 1024}, "latency_s", first_s=4e-3, now_s=1e-3).times
        4.0
        """
        shorter, longer = sorted((self.first_s, self.now_s))
        return longer / shorter if shorter else float("inf")

    def __str__(self) -> str:
        return f"{self.field} is {units.seconds(self.now_s, 3)}, at first {units.seconds(self.first_s, 3)}"


@dataclass(frozen=True)
class Failure:
    """A point that could not be measured, and why: too large for the memory, a library missing, a wrong result."""

    experiment: str
    variant: str
    point: Mapping[str, Value]
    error: str
    reason: str


@dataclass(frozen=True)
class RunDevice:
    """One of the devices that a run measured on."""

    name: str
    uuid: str = ""


@dataclass(frozen=True)
class RunInfo:
    """One run of `brrr record`: when, on what, with what, and how steady the machine was."""

    id: str
    date: str
    brrr: str
    devices: tuple[RunDevice, ...] = ()
    driver: str = ""
    cuda: str = ""
    torch: str = ""
    triton: str = ""
    python: str = ""
    runtime: str = ""
    cpu: str = ""
    cpu_cores: int | None = None
    sm_clock_before_hz: float | None = None
    sm_clock_after_hz: float | None = None
    anchors: tuple[Drift, ...] = ()
    failed: tuple[Failure, ...] = ()

    def __post_init__(self) -> None:
        within("RunInfo", "cpu_cores", self.cpu_cores, 1, 1e5)
        for name in ("sm_clock_before_hz", "sm_clock_after_hz"):
            within("RunInfo", name, getattr(self, name), *HZ)
        try:
            datetime.fromisoformat(self.date)
        except ValueError:
            raise ArgumentError("RunInfo", "date", self.date, "a date as ISO 8601 writes it") from None

    @property
    def software(self) -> tuple[str, str, str]:
        """Driver, CUDA and torch: times measured with others are no times of the same thing."""
        return (self.driver, self.cuda, self.torch)

    @property
    def begun(self) -> RunInfo:
        """What is known of it when it begins, by which it is told from another run."""
        return replace(self, sm_clock_after_hz=None, anchors=(), failed=())

    def grown(self, other: RunInfo) -> RunInfo:
        """The run with what another account of it knows besides: its end, anchors and failures."""
        anchors, failed = (
            tuple({repr(each): each for each in (*mine, *theirs)}.values())
            for mine, theirs in ((self.anchors, other.anchors), (self.failed, other.failed))
        )
        clock = self.sm_clock_after_hz or other.sm_clock_after_hz
        return replace(self, sm_clock_after_hz=clock, anchors=anchors, failed=failed)

    def describe(self) -> str:
        """The software in a phrase, for messages."""
        parts = zip(("driver", "CUDA", "torch"), self.software, strict=True)
        return ", ".join(f"{name} {value}" for name, value in parts if value)


@dataclass(frozen=True)
class Machine:
    """A model of device, and the runs made on devices of it, each with its own software."""

    slug: str
    device: str
    kind: DeviceKind
    runs: tuple[RunInfo, ...] = ()

    def __post_init__(self) -> None:
        if not SLUG.fullmatch(self.slug):
            raise ArgumentError("Machine", "slug", self.slug, "lower-case letters, digits and hyphens")
        if not self.kind.isidentifier():
            raise ArgumentError("Machine", "kind", self.kind, "cpu, or what torch calls an accelerator, as cuda or mps")
        if has_gpu(self.kind) and self.device in {run.cpu for run in self.runs}:
            raise ArgumentError("Machine", "kind", self.kind, f"cpu, as {self.device} is one")
        seen: set[str] = set()
        for number, run in enumerate(self.runs):
            if run.id in seen:
                raise ArgumentError("Machine", f"runs[{number}].id", run.id, "an id that no other run has")
            seen.add(run.id)

    def run(self, run_id: str) -> RunInfo | None:
        """The run of that id, None if there is none."""
        return next((run for run in self.runs if run.id == run_id), None)

    def with_run(self, run: RunInfo) -> Machine:
        """The machine with this run added, or put in the place of the one with the same id."""
        if self.run(run.id) is None:
            return replace(self, runs=(*self.runs, run))
        return replace(self, runs=tuple(run if old.id == run.id else old for old in self.runs))

    def newest_first(self) -> list[str]:
        """The ids of the runs, the newest first."""
        order = sorted(range(len(self.runs)), key=lambda index: (self.runs[index].date, index), reverse=True)
        return [self.runs[index].id for index in order]

    def require_joinable(self, other: Machine) -> None:
        """RecordingError naming both devices, unless they are of one model."""
        if (self.device, self.kind) != (other.device, other.kind):
            raise RecordingError(
                f"a recording of {self.device} cannot be joined with measurements on {other.device}: the device's "
                "model must be the same. Record into another folder (--out) or anew (--fresh)"
            )

    def write(self, folder: Path) -> None:
        """Write `machine.json` into the folder, whole or not at all."""
        write_atomically(folder / FILE, json_text(FORMAT, asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Machine:
        """Read and check `machine.json`; RecordingError names the file, the key and what is wrong."""
        path = folder / FILE
        at = path.stat() if path.exists() else None
        return _machine(path, at and (at.st_mtime_ns, at.st_size, at.st_ino))


@functools.lru_cache(maxsize=32)
def _machine(path: Path, written: object) -> Machine:
    """What the file holds; each experiment of a recording asks for it, so it is read once for as long as it stands."""
    return read_json(path, Machine, FORMAT, ". It says which machine the CSV files beside it come from")


def collect_environment(kind: DeviceKind) -> tuple[Machine, RunInfo]:
    """This machine, and a new run on it; UnavailableError where CUDA is asked for and absent."""
    from brrr.gpu.device import this_device

    device = this_device(kind)
    driver, cuda, torch = (each or "" for each in (device.driver_version, device.cuda_version, device.torch_version))
    now = datetime.now(UTC)
    run = RunInfo(
        id=now.strftime("%Y%m%d-%H%M%S-%f"),  # recordings side by side may begin in the same millisecond
        date=now.isoformat(timespec="seconds"),
        brrr=__version__,
        devices=(RunDevice(device.name, device.uuid or ""),),
        driver=driver,
        cuda=cuda,
        torch=torch,
        triton=_version("triton") if is_gpu(kind) else "",
        python=platform.python_version(),
        runtime=device.runtime,
        cpu=device.cpu,
        cpu_cores=device.cpu_count,
    )
    return Machine(device.slug, device.name, device.kind), run


def on_several(run: RunInfo, kind: DeviceKind, count: int) -> RunInfo:
    """The run with the names of `count` devices that it may take, as far as they are here."""
    from brrr.gpu.device import others

    return replace(run, devices=(*run.devices, *(RunDevice(*each) for each in others(kind, count - 1))))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


# ---------------------------------------------------------------------------------------------------------------------
# The CSV of an experiment.

SEAL = "\n# "
"""How the last line begins."""


@dataclass(frozen=True)
class Recording:
    """The rows of one experiment, with the machine they were measured on."""

    experiment: Experiment
    machine: Machine
    rows: tuple[Row, ...] = ()

    @classmethod
    def read(cls, folder: Path, experiment: Experiment) -> Recording:
        """Read and check `<folder>/<experiment>.csv` and `<folder>/machine.json`.

        Raises NotRecordedError if the experiment has no CSV there, RecordingError (naming file and row) for a file
        that is damaged, edited, in another unit or from a newer brrr.
        """
        path = folder / f"{experiment.name}.csv"
        if not path.exists():
            raise NotRecordedError(f"{path}: is not there; `brrr record {experiment.name}` makes it")
        text = text_of(path)
        machine = Machine.read(folder)  # afterwards: whoever writes adds a run there before its rows
        recording = cls._of(path, text, experiment, machine)
        table, _, seal = text.rpartition(SEAL)
        if f"# {seal.rstrip()}\n" != seal_of(f"{table}\n"):
            raise RecordingError(
                f"{path}: its {len(recording.rows)} rows read well, but they are not those that `brrr record` wrote "
                f"last ({seal.strip() if table else 'the line with their checksum is not there'}): rows are missing, "
                f"or were edited. {RESTORE}"
            )
        return recording

    @classmethod
    def _of(cls, path: Path, text: str, experiment: Experiment, machine: Machine) -> Recording:
        """What a CSV's text holds: no point twice, nothing of a run that the machine does not know or cannot run."""
        elsewhere = {each.name for each in experiment.variants} - {*experiment.variants_on(machine.kind)}
        runs = dict.fromkeys(run.id for run in machine.runs)
        seen: dict[tuple[object, ...], int] = {}

        def made(values: Mapping[str, Any]) -> Row:
            row = row_of(values, experiment, machine.device)
            if row.run not in runs:
                raise ValueError(f"run is {row.run!r}; {FILE} knows {', '.join(runs) or 'none'}")
            if row.variant in elsewhere:
                raise ValueError(f"variant is {row.variant!r}, which no {machine.kind} machine runs")
            if row.key in seen:
                raise ValueError(f"the same point, variant, cache and run as row {seen[row.key]}")
            seen[row.key] = len(seen) + 1
            return row

        return cls(experiment, machine, tuple(read(path, columns(experiment), made, text=text)))

    def added(self, rows: Iterable[Row]) -> Recording:
        """The recording with more rows."""
        return replace(self, rows=(*self.rows, *rows))

    def write(self, folder: Path) -> None:
        """Replace the CSV by what reads as these rows; RecordingError names the file and the row of what does not."""
        path = folder / f"{self.experiment.name}.csv"
        try:
            text = to_text(self)
        except ValueError as error:
            raise RecordingError(f"{path}: {error}") from error
        self._of(path, text, self.experiment, self.machine)
        write_atomically(path, text)


def to_text(recording: Recording) -> str:
    """The CSV's text."""
    rows = [to_cells(row, recording.experiment) for row in recording.rows]
    table = written(columns(recording.experiment), rows)
    return table + seal_of(table)


def seal_of(table: str) -> str:
    """The last line of a file with these lines before it."""
    return f"# {max(0, table.count(chr(10)) - 1)} rows, checksum {digest(table)}\n"
