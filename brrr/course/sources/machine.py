"""`machine.json`: which machine a recording was made on, and in which runs."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from brrr.core import __version__
from brrr.core.errors import RecordingError
from brrr.core.files import json_text, read_json, write_atomically
from brrr.core.paths import FILE
from brrr.core.values import DeviceKind, Value

# The format's history, newest last. A reader reads its own version and all before it. A change of any key makes a new
# version; a new column of the CSVs does not, for columns are found by their names (brrr/course/sources/recording.py).
#   1  first format: machine.json with the machine, its runs and a seal for each CSV; one CSV for each experiment.
#   2  `peaks` may be the object that brrr/roofline/peaks/file.py describes; before, it was empty or held bare numbers.
#   3  a CSV may have the column `peak_bytes`.
#   4  the peaks stand in peaks.json, and each CSV ends in its own checksum: `peaks` and `seals` are gone. Each time of
#      a CSV has its own column `_n`; before, one column `n` held the smallest of a row, so in files made of older ones
#      that number stands for each time of the row: no more is known of them.
FORMAT = 4
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
        change = self.now_s / self.first_s - 1 if self.first_s else 0.0
        object.__setattr__(self, "drift", round(change, 6))
        object.__setattr__(self, "flagged", abs(change) > DRIFT_LIMIT)


@dataclass(frozen=True)
class Failure:
    """A point that could not be measured, and why: too large for the memory, a library missing, a wrong result."""

    experiment: str
    variant: str
    point: Mapping[str, Value]
    error: str
    reason: str


@dataclass(frozen=True)
class RunInfo:
    """One run of `brrr record`: when, with what, and how steady the machine was."""

    id: str
    date: str
    brrr: str
    uuid: str = ""
    triton: str = ""
    python: str = ""
    runtime: str = ""
    cpu: str = ""
    cpu_cores: int | None = None
    sm_clock_before_hz: float | None = None
    sm_clock_after_hz: float | None = None
    anchors: tuple[Drift, ...] = ()
    failed: tuple[Failure, ...] = ()


@dataclass(frozen=True)
class Machine:
    """A device with its software, and the runs made on it. Runs share one recording only if both are the same."""

    slug: str
    device: str
    kind: str
    driver: str
    cuda: str
    torch: str
    runs: tuple[RunInfo, ...] = ()

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
        """RecordingError naming both machines, unless device model, driver, CUDA and torch are the same."""
        if self._identity() != other._identity():
            raise RecordingError(
                f"a recording of {self.describe()} cannot be joined with measurements on {other.describe()}: "
                "device, driver, CUDA and torch must be the same. Record into another folder (--out) or anew (--fresh)"
            )

    def _identity(self) -> tuple[str, ...]:
        return (self.device, self.kind, self.driver, self.cuda, self.torch)

    def describe(self) -> str:
        """Device and software in a phrase, for messages."""
        parts = [("driver", self.driver), ("CUDA", self.cuda), ("torch", self.torch)]
        return f"{self.device} ({', '.join(f'{name} {value}' for name, value in parts if value)})"

    def write(self, folder: Path) -> None:
        """Write `machine.json` into the folder, whole or not at all."""
        write_atomically(folder / FILE, json_text(FORMAT, asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Machine:
        """Read and check `machine.json`; RecordingError names the file, the key and what is wrong."""
        missing = ". It says which machine the CSV files beside it come from"
        return read_json(folder / FILE, cls, FORMAT, _older, missing)


def _older(version: int, content: dict[str, Any]) -> dict[str, Any]:
    return {key: content[key] for key in content if key not in ("peaks", "seals")}


def collect_environment(kind: DeviceKind) -> tuple[Machine, RunInfo]:
    """This machine, and a new run on it; UnavailableError where CUDA is asked for and absent."""
    from brrr.gpu.device import this_device

    device = this_device(kind)
    driver, cuda, torch = (each or "" for each in (device.driver_version, device.cuda_version, device.torch_version))
    now = datetime.now(UTC)
    run = RunInfo(
        id=now.strftime("%Y%m%d-%H%M%S-%f")[:-3],
        date=now.isoformat(timespec="seconds"),
        brrr=__version__,
        uuid=device.uuid or "",
        triton=_version("triton") if kind == "cuda" else "",
        python=platform.python_version(),
        runtime=device.runtime,
        cpu=device.cpu,
        cpu_cores=device.cpu_count,
    )
    return Machine(device.slug, device.name, kind, driver, cuda, torch), run


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
