"""`machine.json`: which machine a recording was made on, and in which runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from brrr.core.errors import RecordingError
from brrr.core.files import JsonReader, digest, read_object, write_atomically
from brrr.core.paths import FILE
from brrr.core.values import Value

# The file format's history, newest last. A reader reads its own version and all before it; a change of any key or
# column makes a new version.
#   1  first format: machine.json with the machine, its runs and a seal for each CSV; one CSV for each experiment.
#   2  `peaks` may be the object that brrr/roofline/peaks/file.py describes; before, it was empty or held bare numbers.
#   3  a CSV may have the column `peak_bytes`.
FORMAT = 3
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

    @property
    def drift(self) -> float:
        """The relative change: 0.05 means 5 % slower than at first."""
        return self.now_s / self.first_s - 1 if self.first_s else 0.0

    @property
    def flagged(self) -> bool:
        """Whether the change is more than DRIFT_LIMIT, up or down."""
        return abs(self.drift) > DRIFT_LIMIT


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
    """A device with its software, and the runs made on it. Runs share one recording only if both are the same.

    `seals` holds, for each experiment, the digests that its CSV may have: the newest, and the one before it, because
    two files cannot be replaced at one instant. `peaks` is what `brrr calibrate` found, as it stands in the file.
    """

    slug: str
    device: str
    kind: str
    driver: str
    cuda: str
    torch: str
    peaks: Mapping[str, Any] = field(default_factory=dict)
    runs: tuple[RunInfo, ...] = ()
    seals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def run(self, run_id: str) -> RunInfo | None:
        """The run of that id, None if there is none."""
        return next((run for run in self.runs if run.id == run_id), None)

    def with_run(self, run: RunInfo) -> Machine:
        """The machine with this run added, or put in the place of the one with the same id."""
        if self.run(run.id) is None:
            return replace(self, runs=(*self.runs, run))
        return replace(self, runs=tuple(run if old.id == run.id else old for old in self.runs))

    def sealed(self, experiment: str, new: str, on_disk: str | None) -> Machine:
        """The machine that accepts a CSV with the digest `new`, and the one on the disk if it was accepted before."""
        before = [seal for seal in self.seals.get(experiment, ()) if seal == on_disk]
        return replace(self, seals={**self.seals, experiment: tuple(dict.fromkeys((new, *before)))})

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
        write_atomically(folder / FILE, to_text(self))

    @classmethod
    def read(cls, folder: Path) -> Machine:
        """Read and check `machine.json`; RecordingError names the file, the key and what is wrong."""
        return from_object(read_object(folder / FILE))


def to_text(machine: Machine) -> str:
    """The text of `machine.json`; the last key is a checksum of all the others."""
    content: dict[str, Any] = {"format": FORMAT, **asdict(machine)}
    for run, info in zip(content["runs"], machine.runs, strict=True):
        for anchor, drift in zip(run["anchors"], info.anchors, strict=True):
            anchor.update(drift=round(drift.drift, 6), flagged=drift.flagged)
    content["checksum"] = _checksum(content)
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _checksum(content: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return digest(json.dumps(rest, sort_keys=True))


def from_object(data: JsonReader) -> Machine:
    """The machine from the JSON object, every key and type checked, then the checksum."""
    version = data.integer("format")
    if version > FORMAT:
        data.fail(f"format is {version}, newer than {FORMAT}, which this brrr reads: update brrr (pip install -U brrr)")
    if version < 1:
        data.fail(f"format is {version}; expected 1 to {FORMAT}")
    texts = {key: data.text(key) for key in ("slug", "device", "kind", "driver", "cuda", "torch")}
    machine = Machine(
        **texts,
        peaks=_peaks(data.object("peaks")),
        runs=tuple(_run(run) for run in data.objects("runs")),
        seals=data.object("seals").mapping(JsonReader.texts),
    )
    checksum = data.text("checksum")
    data.finish()
    if checksum != _checksum(data.content):
        data.fail("the checksum does not fit the content: the file was damaged or edited. Restore it, or record anew")
    return machine


def _peaks(data: JsonReader) -> Mapping[str, Any]:
    """The measured peaks, checked and left as they are (`read_peaks` makes Peaks of them); bare numbers if old."""
    if "format" not in data.content:
        return data.mapping(JsonReader.number)
    from brrr.roofline.peaks.file import from_object as peaks_from_object

    peaks_from_object(data)
    return data.content


def _run(data: JsonReader) -> RunInfo:
    run = RunInfo(
        **{key: data.text(key) for key in ("id", "date", "brrr", "uuid", "triton", "python", "runtime", "cpu")},
        cpu_cores=data.integer_or_none("cpu_cores"),
        sm_clock_before_hz=data.number_or_none("sm_clock_before_hz"),
        sm_clock_after_hz=data.number_or_none("sm_clock_after_hz"),
        anchors=tuple(_drift(anchor) for anchor in data.objects("anchors")),
        failed=tuple(_failure(failure) for failure in data.objects("failed")),
    )
    data.finish()
    return run


def _drift(data: JsonReader) -> Drift:
    texts = {key: data.text(key) for key in ("experiment", "variant", "field")}
    drift = Drift(**texts, point=data.point("point"), first_s=data.number("first_s"), now_s=data.number("now_s"))
    data.ignore("drift", "flagged")  # written for a reader of the file; computed from the two times here
    data.finish()
    return drift


def _failure(data: JsonReader) -> Failure:
    texts = {key: data.text(key) for key in ("experiment", "variant", "error", "reason")}
    failure = Failure(**texts, point=data.point("point"))
    data.finish()
    return failure
