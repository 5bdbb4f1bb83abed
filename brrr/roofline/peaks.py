"""What a device can do at best, as measured: bandwidths, arithmetic, launches, host costs; each figure with its origin.

>>> def rate(value): return Peak(value, value, value, "B/s")
>>> curve = Curve("working_set_bytes", ((1e6, rate(1e9)), (4e6, rate(4e9))))
>>> Peaks("Some GPU", "xpu", "2026-01-01", curves={"copy": curve}).bandwidth(2e6)
2000000000.0
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from brrr.core import units
from brrr.core.cards import Exported
from brrr.core.errors import ArgumentError, BrrrError, RecordingError
from brrr.core.files import is_own, json_text, kept, read_json, read_object, require_writable, write_atomically
from brrr.core.measurement import Processor
from brrr.core.recordings import FILE, device_folders, first_that_reads, search_path
from brrr.gpu import is_cpu
from brrr.gpu.datasheet import Hardware, find_hardware
from brrr.roofline.peak import Curve, Peak, SweptCalls
from brrr.roofline.sweep_file import Packed, packed

DTYPES = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8", "int8": "int8",
}  # fmt: skip
"""torch's names of the data types, and those of the datasheets, by which the peaks go."""

UNITS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("read", "copy", "triad", "write", "torch-copy", "torch-pointwise"), ("B/s",)),
    **dict.fromkeys(("matmul", "arithmetic"), ("FLOP/s", "IOP/s")),
    **dict.fromkeys(("kernel", "gap", "host", "graph-replay"), ("s",)),
}
"""By the first word of a figure's name."""
RESOLUTION = "Run brrr.calibrate(), or `brrr calibrate`, on that machine"


class MissingPeakError(BrrrError, LookupError):
    """The figure that was asked for was not measured on this device.

    The message lists those that were, and what to run to measure it. It is a LookupError, too.
    """


@dataclass(frozen=True, repr=False)
class Peaks(Exported):
    """What `calibrate` measured on one device.

    >>> from brrr.roofline.peak import Peak
    >>> peaks = Peaks("a CPU", "cpu", "2026-01-01", measured={"kernel.floor": Peak(1e-6, 1e-6, 1e-6, "s")})
    >>> print(peaks.get("kernel.floor"))
    1 µs

    Measured figures, assumed ones and the datasheet's never mix: `measured` and `curves` hold only what was measured on
    this device, `assumed` what had to be assumed, and `datasheet` looks the datasheet up.

    Attributes
    ----------
    device : str
        The device's name, as torch reports it.
    kind : str
        Which kind of device it is: "cpu", or an accelerator's, as `measure` takes it.
    date : str
        When it was measured.
    brrr, driver, cuda, torch : str
        The versions of the software.
    measured : mapping of str to Peak
        Single figures by name: `kernel.floor`, `gap.stream`, `gap.graph`, `arithmetic.fp32.fma`, `host.pointwise`, ...
    curves : mapping of str to Curve
        Figures by size: `matmul.bf16` by the matrices' size; `copy`, `read`, `write` and `triad` by the working set.
    assumed : mapping of str to Peak
        Figures that could not be measured.
    sweeps : mapping of str to SweptCalls
        Times of many matmuls (`products`) and operators (`operators`), by which `predict` corrects its models.
    notes : tuple of str
        What is missing, and why.
    reference : str
        The device whose long sweep is carried over to this one; "" if this one was swept itself.
    """

    device: str
    kind: Processor
    date: str
    brrr: str = ""
    driver: str = ""
    cuda: str = ""
    torch: str = ""
    measured: Mapping[str, Peak] = field(default_factory=dict, hash=False)
    curves: Mapping[str, Curve] = field(default_factory=dict, hash=False)
    assumed: Mapping[str, Peak] = field(default_factory=dict, hash=False)
    sweeps: Mapping[str, SweptCalls] = field(default_factory=dict, hash=False, repr=False)
    notes: tuple[str, ...] = ()
    reference: str = ""

    file: ClassVar[str] = ""
    """Where they were read, in an instance that was; for messages."""

    def __post_init__(self) -> None:
        if not self.kind.isidentifier():
            raise ArgumentError("Peaks", "kind", self.kind, "'cpu', or the name of a kind of accelerator")
        found = [*self.measured.items(), *((name, curve.points[0][1]) for name, curve in self.curves.items())]
        for name, peak in found:
            if peak.kind != "measured":
                raise ArgumentError("Peaks", name, peak.kind, "a measured figure")
        for name, peak in self.assumed.items():
            if peak.kind != "assumed":
                raise ArgumentError("Peaks", f"assumed {name}", peak.kind, "an assumed figure")
        for name, peak in (*found, *self.assumed.items()):
            known = UNITS.get(name.split(".")[0].removesuffix("-once"), (peak.unit,))
            if peak.unit not in known:
                raise ArgumentError("Peaks", f"{name}.unit", peak.unit, " or ".join(known))

    @property
    def datasheet(self) -> Mapping[str, Peak]:
        """What the device's datasheet promises, under the same names; empty if it has none."""
        return datasheet_peaks(find_hardware(self.device))

    def get(self, name: str) -> Peak:
        """The measured figure of that name; MissingPeakError lists the names that exist."""
        if name in self.measured:
            return self.measured[name]
        raise self._missing(name, self.measured)

    def curve(self, name: str) -> Curve:
        """The measured curve of that name; MissingPeakError lists the names that exist."""
        if name in self.curves:
            return self.curves[name]
        raise self._missing(name, self.curves)

    def bandwidth(self, working_set_bytes: float, kind: str = "copy") -> float:
        """The bandwidth in B/s for a working set in bytes (all arrays together), interpolated in the measured curve.

        `kind` is "copy", "read", "write" or "triad". The suffix "-once" stands for a single pass on a hot cache, the
        kernel's start and end included; "torch-copy" and "torch-pointwise" for a single pass of torch's own operator.
        """
        if not 0 < working_set_bytes < float("inf"):
            raise ArgumentError("Peaks.bandwidth", "working_set_bytes", working_set_bytes, "a number of bytes above 0")
        found = self.curve(kind)
        if found.axis != "working_set_bytes":
            kinds = ", ".join(name for name, curve in self.curves.items() if curve.axis == "working_set_bytes")
            raise ArgumentError("Peaks.bandwidth", "kind", kind, f"one of {kinds}")
        return found.at(working_set_bytes)

    def matmul(self, dtype: str) -> Peak:
        """The best rate of matmuls in FLOP/s: dtype is fp32 (no TF32), tf32, bf16, fp16, fp8, fp64 or int8."""
        return self.curve(f"matmul.{short(dtype)}").best

    def arithmetic(self, dtype: str = "fp32", *, fma: bool = True) -> Peak:
        """The rate of plain arithmetic in FLOP/s: an FMA counts as 2 FLOP, a multiplication alone as 1."""
        return self.get(f"arithmetic.{short(dtype)}.{'fma' if fma else 'mul'}")

    def host_s(self, operator: str) -> Peak:
        """Host seconds per operator launch, by kind: pointwise, reduction, matmul, view, ..."""
        return self.get(f"host.{operator}")

    def _missing(self, name: str, there: Mapping[str, object]) -> MissingPeakError:
        have = ", ".join(there) or "nothing"
        hints = [note for note in self.notes if name.split(".")[0] in note]
        return MissingPeakError(
            f"Peaks: {name!r} was not measured on {self.device}{self.file and f' ({self.file})'}; there is {have}. "
            f"{'; '.join([*hints, RESOLUTION])}"
        )

    def __str__(self) -> str:
        return units.sayable(text(self))

    __repr__ = __str__


def short(dtype: str) -> str:
    """A data type's name as the peaks have it.

    >>> short("bfloat16"), short("torch.float32"), short("tf32")
    ('bf16', 'fp32', 'tf32')
    """
    name = str(dtype).removeprefix("torch.")
    return DTYPES.get(name, name)


# ---------------------------------------------------------------------------------------------------------------------
# The datasheet's figures under the names of the measured ones, never among them.

PLAIN_UNITS = ("cuda cores", "shader cores", "cpu cores")


def datasheet_peaks(hardware: Hardware | None) -> Mapping[str, Peak]:
    """What a datasheet promises; empty without one.

    >>> print(datasheet_peaks(find_hardware("NVIDIA H200"))["matmul.bf16"])
    989 TFLOP/s

    A product of matrices runs on the tensor cores where they have the data type, else on the plain units; plain
    arithmetic on the plain units. Multiplication alone is half of what they do, for a peak counts a fused multiply-add.
    """
    if hardware is None:
        return {}
    source = hardware.sources[0].title
    peaks = {"copy": Peak.stated(hardware.memory_bytes_per_s, "B/s", "datasheet", source=source)}
    for (dtype, unit), value in hardware.peaks.items():
        kind = "IOP/s" if dtype == "int8" else "FLOP/s"
        stated = Peak.stated(value, kind, "datasheet", source=source, on=unit)  # type: ignore[arg-type]
        if unit in PLAIN_UNITS:
            peaks[f"arithmetic.{dtype}.fma"] = stated
            peaks.setdefault(f"matmul.{dtype}", stated)
        else:
            peaks[f"matmul.{dtype}"] = stated
    return peaks


# ---------------------------------------------------------------------------------------------------------------------
# Peaks as a text: each measured figure with its interval, beside what the datasheet says.

HEAD = ("measured", "value", "95 % interval", "at", "datasheet", "share")
LEVELS = ("read", "copy", "triad", "write")


def text(peaks: Peaks) -> str:
    """A table of the peaks, then the bandwidth by working set, then what was assumed and what is missing."""
    software = (("driver", peaks.driver), ("CUDA", peaks.cuda), ("torch", peaks.torch), ("brrr", peaks.brrr))
    about = ", ".join(f"{name} {value}" for name, value in software if value)
    lines = [f"Peaks of {peaks.device} ({about}), measured {peaks.date}", ""]
    rows = [row[: 6 if peaks.datasheet else 4] for row in (HEAD, *_rows(peaks))]
    lines += [*units.table(rows), "", *_streams(peaks.curves)]
    lines += [f"sweep: {len(sweep)} {name}{_spread(sweep)}" for name, sweep in peaks.sweeps.items()]
    lines += [f"assumed: {name} {peak} ({_said(peak)})" for name, peak in peaks.assumed.items()]
    return "\n".join([*lines, *(f"note: {note}" for note in peaks.notes)]).rstrip()


def _spread(sweep: SweptCalls) -> str:
    """From the shortest to the longest of its times."""
    return ", " + " to ".join(units.seconds(f(sweep.seconds)) for f in (min, max)) if sweep.seconds else ""


def _rows(peaks: Peaks) -> Iterator[tuple[str, ...]]:
    promised = peaks.datasheet
    for name, curve in peaks.curves.items():
        by_set = curve.axis == "working_set_bytes"  # of the memory the largest set, which no cache holds
        at, peak = curve.points[-1] if by_set else curve.best_point
        place = units.nbytes(at) if by_set else f"{curve.axis} {at:g}"
        yield _row(name, peak, f"{place}{_clock({**curve.conditions, **peak.conditions})}", promised.get(name))
    for name, peak in peaks.measured.items():
        yield _row(name, peak, _said(peak), promised.get(name))


def _row(name: str, peak: Peak, at: str, promised: Peak | None) -> tuple[str, ...]:
    value, low, high = (units.quantity(each, peak.unit) for each in (peak.value, peak.low, peak.high))
    if promised is None:
        return name, value, f"{low} to {high}", at, "", ""
    share = peak.share_of(promised)
    doubt = " (more than promised: a cache, a higher clock, or wrong counting)" if share > 1 else ""
    return name, value, f"{low} to {high}", at, str(promised), units.percent(share) + doubt


def _clock(conditions: Mapping[str, object]) -> str:
    clock, held = conditions.get("sm_clock_hz"), conditions.get("held_back_by")
    said = f", {units.quantity(float(str(clock)), 'Hz')}" if clock is not None else ""
    return f"{said} ({held})" if held else said


def _said(peak: Peak) -> str:
    """What a figure was measured on, in a few words."""
    words = next((str(peak.conditions[key]) for key in ("operator", "by", "what") if key in peak.conditions), "")
    return f"{words}{_clock(peak.conditions)}"


def _streams(curves: Mapping[str, Curve]) -> list[str]:
    """Bandwidth by working set, a column a kind; where a kind was measured on nearly the same set, on one line."""
    kinds = [kind for kind in LEVELS if kind in curves]
    if not kinds:
        return []
    rows = [["working set", *kinds]]
    for place, _ in curves[kinds[0]].points:
        rows.append([units.nbytes(place), *(units.quantity(curves[kind].at(place), "B/s") for kind in kinds)])
    return [*units.table(rows), ""]


# ---------------------------------------------------------------------------------------------------------------------
# What `brrr calibrate` measured on a device, kept in its folder: `peaks.json` for people, and `sweeps.npz` for the many
# calls of its sweeps. The one holds a fingerprint of the other.

FORMAT = 7
"""A brrr reads no other one: peaks are measured again in two minutes."""
PEAKS, SWEEPS = "peaks.json", "sweeps.npz"


@dataclass(frozen=True)
class _File:
    """What `peaks.json` holds: the peaks without the calls of their sweeps, and those calls' fingerprint."""

    sweeps: str
    peaks: Peaks


def write(folder: Path, peaks: Peaks) -> Path:
    """Write the peaks into a device's folder; returns the path of `peaks.json`. RecordingError where that cannot be.

    A kill between both files leaves two that do not fit each other, and reading them says so.
    """
    require_writable(folder)
    if not (folder / PEAKS).exists() and not is_own(folder / SWEEPS):
        raise RecordingError(f"{folder / SWEEPS}: is there, and no {PEAKS} beside it tells whose. Move it away")
    content = packed(peaks.sweeps) if peaks.sweeps else b""
    outlines = {name: sweep.part(()) for name, sweep in peaks.sweeps.items()}
    if content:
        write_atomically(folder / SWEEPS, content)
    else:
        (folder / SWEEPS).unlink(missing_ok=True)
    text = json_text(FORMAT, asdict(_File(_fingerprint(content), replace(peaks, sweeps=outlines))))
    write_atomically(folder / PEAKS, text)
    return folder / PEAKS


def _fingerprint(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest() if content else ""


def read_peaks(folder: Path | str) -> Peaks:
    """The peaks of a device's folder of recordings; RecordingError if a file is damaged, or there are none."""
    found = find_peaks(folder)
    if found is None:
        raise RecordingError(f"{Path(folder) / PEAKS}: there are no peaks. {RESOLUTION}")
    return found


def find_peaks(folder: Path | str) -> Peaks | None:
    """As `read_peaks`, but None where there are none; files are read once, and anew when they have changed."""
    path = Path(folder) / PEAKS
    if not path.is_file():
        return None
    return _read(path, *((each.stat().st_mtime_ns, each.stat().st_size) if each.is_file() else None
                         for each in (path, path.with_name(FILE))))  # fmt: skip


@lru_cache(maxsize=8)
def _read(path: Path, *states: tuple[int, int] | None) -> Peaks:
    """The arguments behind the first tell one state of the files from another."""
    file, beside = read_json(path, _File, FORMAT), path.with_name(SWEEPS)
    require_its(path.parent, file.peaks)
    peaks = file.peaks
    if file.sweeps:
        content = kept(beside)
        if content is None or _fingerprint(content) != file.sweeps:
            wrong = "is missing or cannot be read" if content is None else "is not what was measured with them"
            hint = "Restore it, or run `brrr calibrate`"
            raise RecordingError(f"{beside}: {wrong}, and the peaks beside it need it. {hint}")
        peaks = replace(peaks, sweeps=Packed(content, peaks.sweeps, beside))
    object.__setattr__(peaks, "file", str(path))
    return peaks


def require_its(folder: Path, peaks: Peaks) -> None:
    """RecordingError where a device's folder is that of another one than was measured: by its machine, or its name."""
    if (folder / FILE).is_file():
        machine = read_object(folder / FILE)
        there = str(machine.get("device")), str(machine.get("kind"))
    else:
        known, mine = find_hardware(folder.name), find_hardware("cpu" if is_cpu(peaks.kind) else peaks.device)
        there = (known.name, "") if known and mine and known != mine else (peaks.device, peaks.kind)
    if there != (peaks.device, peaks.kind):
        raise RecordingError(
            f"{folder / PEAKS}: these are the peaks of {peaks.device} ({peaks.kind}), and the folder is that of "
            f"{' '.join(there).strip()}. Keep them elsewhere: `brrr calibrate --out DIR`"
        )


def recorded_peaks(device: str = "h200", root: Path | str | None = None) -> Peaks:
    """The peaks that were recorded for a device, by the short name of its folder.

    `root` is the folder of all recordings (default: the search path). ArgumentError for a device without peaks,
    RecordingError for damaged ones.
    """
    roots = search_path() if root is None else (Path(root),)
    found = first_that_reads(device_folders(device, roots), find_peaks)
    if found is None:
        there = {path.parent.name for each in roots for path in each.glob(f"*/{PEAKS}") if "." not in path.parent.name}
        expected = f"one of {', '.join(sorted(there)) or 'none'}"
        raise ArgumentError("recorded_peaks", "device", device, expected, RESOLUTION)
    return found


def find_recorded(device: str) -> Peaks | None:
    """As `recorded_peaks`, but None for a device without peaks."""
    return first_that_reads(device_folders(device), find_peaks)


def slug_of(peaks: Peaks) -> str:
    """The name of the device's folder of recordings."""
    from brrr.gpu.device import slug

    return "cpu" if is_cpu(peaks.kind) else slug(peaks.device)
