"""The model of a device: its figures, measured or from a datasheet, and a note of each that a prediction used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NoReturn

from brrr.core import units
from brrr.core.errors import ArgumentError
from brrr.core.measurement import Processor
from brrr.gpu import CUDA, is_cpu, is_cuda, is_gpu
from brrr.gpu.datasheet import Hardware, find_hardware, hardware
from brrr.gpu.probe import cpu_name
from brrr.roofline.peak import Curve, Kind, Peak
from brrr.roofline.peaks import MissingPeakError, Peaks, datasheet_peaks, find_recorded
from brrr.roofline.reference import SHORT, held_by_power, issued_like_the_reference, rates_of, reference


@dataclass(frozen=True)
class Used:
    """One figure that a prediction rests on: its name, its origin, and the least and the greatest value used of it.

    >>> print(Used("copy", "datasheet", "B/s", 4.8e12, 4.8e12))
    copy 4.8 TB/s (datasheet)
    """

    name: str
    kind: Kind
    unit: str
    low: float
    high: float

    def __str__(self) -> str:
        least, most = (units.quantity(value, self.unit) for value in (self.low, self.high))
        return f"{self.name} {least if least == most else f'{least} to {most}'} ({self.kind})"


@dataclass
class DeviceModel:
    """The figures of one device, of one origin; what that origin cannot tell is `assumed`, and says so.

    A measured model never takes a figure from a datasheet: what was not measured is a MissingPeakError. `used` grows
    as figures are asked for, `notes` with every simplification on the way. `reference` are the peaks whose sweep tells
    what the terms leave out, of a device that was swept itself its own.
    """

    device: str
    kind: Processor
    origin: str
    figures: Mapping[str, Peak]
    curves: Mapping[str, Curve] = field(default_factory=dict)
    sm_count: int | None = None
    peaks: Peaks | None = None
    reference: Peaks | None = None
    hardware: Hardware | None = None
    used: dict[str, Used] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def measured(cls, peaks: Peaks) -> DeviceModel:
        """On what `calibrate` measured; of the host's costs, by operator, the reference's at this host's speed."""
        known, carried = find_hardware(peaks.device), bool(peaks.reference)
        return cls(
            peaks.device, peaks.kind, f"measured {peaks.date[:10]}",
            {**(like_the_reference(peaks.measured) if carried else {}), **peaks.assumed, **peaks.measured},
            peaks.curves, known.sm_count if known else _sm_count(peaks), peaks,
            reference() if carried else peaks if peaks.sweeps else None, known,
        )  # fmt: skip

    @classmethod
    def of_datasheet(cls, hardware: Hardware) -> DeviceModel:
        """On a datasheet: bandwidth and arithmetic; launches and host costs are assumed."""
        kind: Processor = "cpu" if "cpu cores" in hardware.dense else CUDA
        figures = {**assumed_launches(kind), **datasheet_peaks(hardware)}
        slow = [each for each in SHORT if is_gpu(kind) and "matmul.fp32" in figures and f"matmul.{each}" not in figures]
        figures |= {f"matmul.{each}": replace(figures["matmul.fp32"], kind="assumed") for each in slow}
        notes = [f"it has no units for {' and '.join(slow)}: such products count as in fp32"] * bool(slow)
        return cls(hardware.name, kind, "datasheet", figures, {}, hardware.sm_count, None,
                   reference() if is_gpu(kind) else None, hardware, notes=notes)  # fmt: skip

    @cached_property
    def for_terms(self) -> DeviceModel:
        """The same with the rates that kernels reach: of a datasheet's the reference's shares, measured ones so."""
        if self.peaks is not None or self.reference is None or self.hardware is None:
            return self
        self.note(f"of its datasheet's rates it is taken to reach the shares that an {self.reference.device} reaches")
        if held_by_power(self.hardware):
            self.note("its board's power, not its peak, sets the pace of long products; short ones may be faster")
        figures, curves = rates_of(self.hardware)
        made = replace(self, figures={**self.figures, **figures}, curves=curves)
        made.__dict__["for_terms"] = made
        return made

    @property
    def clock_hz(self) -> float | None:
        """The clock of its multiprocessors: as it was seen when arithmetic was measured, else the datasheet's."""
        seen = self.figures["arithmetic.fp32.fma"].conditions if "arithmetic.fp32.fma" in self.figures else {}
        clock = seen.get("sm_clock_hz") or (self.hardware and self.hardware.boost_clock_hz)
        return float(clock) if clock else None

    @property
    def is_gpu(self) -> bool:
        """Whether work is issued by one clock and done by another."""
        return not is_cpu(self.kind)

    def has(self, name: str) -> bool:
        """Whether there is a figure or a curve of that name."""
        return name in self.figures or name in self.curves

    def has_units(self, name: str) -> bool:
        """Whether it has that rate, and not only that of float32 in its place."""
        return self.has(name) and (name in self.curves or self.figures[name].kind != "assumed")

    def value(self, name: str) -> float:
        """A figure, noted as used; of a curve its best. MissingPeakError says what to run."""
        if not self.has(name):
            self._missing(name)
        return self.use(name, self._figure(name).value, self._figure(name))

    def _figure(self, name: str) -> Peak:
        return self.curves[name].best if name in self.curves else self.figures[name]

    def best_rate(self, dtype: str) -> float:
        """The best FLOP/s of a data type (as in "bf16") on any unit: of products of matrices, or of multiply-adds."""
        names = [name for name in (f"matmul.{dtype}", f"arithmetic.{dtype}.fma") if self.has(name)]
        return self.value(max(names, key=lambda name: self._figure(name).value, default=f"matmul.{dtype}"))

    def roof_s(self, flop: float, nbytes: float, dtype: str = "fp32") -> float:
        """The least seconds that the roofline allows for FLOP of a data type and bytes through the memory.

        >>> model_of("datasheet:h200").roof_s(flop=0.0, nbytes=4.8e12)
        1.0

        The longer of both times (S. Williams et al., Roofline, 2009). MissingPeakError where a rate is not known.
        """
        return max(nbytes / self._memory_rate() if nbytes else 0.0, flop / self.best_rate(dtype) if flop else 0.0)

    def _memory_rate(self) -> float:
        """B/s of a copy from memory: of a measured curve its end, since smaller sets lie in a cache."""
        if "copy" not in self.curves:
            return self.value("copy")
        return self.use("copy", self.curves["copy"].points[-1][1].value, self.curves["copy"].points[-1][1])

    def use(self, name: str, value: float, origin: Peak) -> float:
        """Note that a value of a figure was used; returns the value."""
        before = self.used.get(name)
        low, high = (value, value) if before is None else (min(before.low, value), max(before.high, value))
        self.used[name] = Used(name, origin.kind, origin.unit, low, high)
        return value

    def note(self, what: str) -> None:
        """Say what was simplified, each thing once."""
        if what not in self.notes:
            self.notes.append(what)

    def _missing(self, name: str) -> NoReturn:
        if self.peaks is not None:
            self.peaks.get(name)  # raises, and names what is there and what to run
        there = ", ".join(each for each, peak in self.figures.items() if peak.kind == "datasheet")
        hint = "Choose another data type or another device; or measure it there: brrr.calibrate()"
        raise MissingPeakError(f"predict: the datasheet of {self.device} gives no {name}; it gives {there}. {hint}")


def _sm_count(peaks: Peaks) -> int | None:
    """The multiprocessors of a GPU without a datasheet here, if it is the one in hand."""
    if not is_cuda(peaks.kind):  # and torch need not be loaded
        return None
    import torch

    if not torch.cuda.is_available() or torch.cuda.get_device_name() != peaks.device:
        return None
    return int(torch.cuda.get_device_properties().multi_processor_count)


# ---------------------------------------------------------------------------------------------------------------------
# What no datasheet tells: the cost of issuing, launching and starting. Assumed, and always said to be.

REFERENCE_CALL = "host.relu"
"""The call whose cost stands for the host's speed: a relu of 8 x 8 numbers."""
_WHAT = "of the order seen with torch on a data-centre GPU; no datasheet gives it"

_CPU_S = {
    "host.pointwise": 1e-6, "host.in-place": 0.7e-6, "host.reduction": 1.2e-6, "host.softmax": 2.5e-6,
    "host.norm": 3.5e-6, "host.matmul": 1.3e-6, "host.view": 0.7e-6, "host.copy": 0.7e-6, "host.compiled": 10e-6,
}  # fmt: skip


LAUNCH_S: Mapping[str, float] = {"megakernel": 4e-6, "strassen": 4.8e-6}
"""What launching a kernel that is none of torch's operators costs the host, as measured beside an H200."""


def assumed_launches(kind: Processor) -> Mapping[str, Peak]:
    """Host costs, kernel floor and gaps where nothing was measured.

    >>> print(assumed_launches("cpu")["host.pointwise"])
    1 µs
    """
    if is_gpu(kind):
        return issued_like_the_reference()
    return {name: Peak.stated(time_s, "s", "assumed", what=_WHAT) for name, time_s in _CPU_S.items()}


def like_the_reference(measured: Mapping[str, Peak]) -> Mapping[str, Peak]:
    """The reference's starts and gaps, and its host costs at the speed of one where a relu took what was measured."""
    theirs, what = issued_like_the_reference(), f"so many times a relu as beside an {reference().device}"
    by = measured[REFERENCE_CALL].value / theirs[REFERENCE_CALL].value if REFERENCE_CALL in measured else 1.0
    host = {name: peak.value * by for name, peak in theirs.items() if name.startswith("host.")}
    return {**theirs, **{name: Peak.stated(time_s, "s", "assumed", what=what) for name, time_s in host.items()}}


# ---------------------------------------------------------------------------------------------------------------------
# Which figures a device's name stands for: those recorded for it, else its datasheet; None is this machine.

DATASHEET = "datasheet:"

Where = str | Peaks | Hardware | None


def model_of(device: Where) -> DeviceModel:
    """The figures for a device.

    >>> model_of("datasheet:a100").origin
    'datasheet'

    `Peaks` and `Hardware` are taken as they are. "h200" means the peaks recorded for it, else its datasheet, with a
    note; "datasheet:h200" the datasheet in any case; an accelerator's kind this machine's GPU, as calibrated; "cpu"
    its CPU likewise, else the one that was recorded, with a note (`OTHER_CPU`). Where none is named (None), it is
    this machine where it has peaks, else the H200, with a note (`STANDS_IN`).
    """
    if isinstance(device, Peaks):
        return DeviceModel.measured(device)
    if isinstance(device, Hardware):
        return DeviceModel.of_datasheet(device)
    if device is None:
        model = model_of(meant := unnamed())
        if meant == STAND_IN:
            model.note(STANDS_IN)
        return model
    if is_gpu(device):
        return DeviceModel.measured(peaks_here(_kind_here(device)))
    if not isinstance(device, str):
        raise ArgumentError("predict", "device", device, "a device's name, Peaks, or None for this machine")
    if device.startswith(DATASHEET):
        return DeviceModel.of_datasheet(_datasheet(device.removeprefix(DATASHEET), device))
    model = _by_name(device)
    if is_cpu(device) and model.device != cpu_name():
        model.note(OTHER_CPU)
    return model


def unnamed() -> Peaks | str:
    """What is meant where no device is named: this machine's peaks where it has them, else "h200"."""
    try:
        return peaks_here(_kind_here(None))
    except MissingPeakError:
        return STAND_IN


STAND_IN = "h200"
STANDS_IN = "as no peaks of this machine are kept"
OTHER_CPU = "not this machine's CPU: brrr calibrate --device cpu measures it"
NOT_THIS_ONE = (STANDS_IN, OTHER_CPU)
"""Notes that stand behind the name of a device that one could take for another."""


def _by_name(device: str) -> DeviceModel:
    known = find_hardware(device)
    recorded = find_recorded(known.key if known is not None else device)
    if recorded is not None:
        return DeviceModel.measured(recorded)
    model = DeviceModel.of_datasheet(_datasheet(device, device))
    model.note(f"no measured peaks are recorded for {device!r}, so these are its datasheet's")
    return model


def _datasheet(name: str, said: str) -> Hardware:
    try:
        return hardware(name)
    except ArgumentError as error:
        nearest = str(error).rpartition("Nearest: ")[2] if "Nearest: " in str(error) else ""
        hint = f"Nearest: {nearest}" if nearest else "Or pass what brrr.calibrate() returned on it."
        raise ArgumentError("predict", "device", said, error.expected, hint) from None


def known_here(kind: Processor) -> Peaks | Hardware:
    """What is known of this machine's GPU or CPU: its measured peaks, else the GPU's datasheet.

    MissingPeakError where there is neither, UnavailableError where CUDA does not work.
    """
    from brrr.gpu.device import this_device

    try:
        return peaks_here(kind)
    except MissingPeakError:
        found = this_device(kind).hardware
        if found is None:
            raise
        return found


def _kind_here(device: object) -> Processor:
    """The GPU where it works, else the CPU; UnavailableError where the GPU was asked for and does not work."""
    from brrr.gpu.device import default_device_kind, processor_for

    if device is None:
        return default_device_kind()
    return processor_for("predict", device, "Name a device instead, such as 'h200'")


def peaks_here(kind: Processor) -> Peaks:
    """The peaks of the machine in hand; MissingPeakError where none were measured on it."""
    from brrr.gpu.device import slug, this_device

    here = this_device(kind)
    there = (find_recorded(name) for name in (here.slug, slug(here.name)))  # beside another CPU's by its name
    found = next((each for each in there if each is not None and each.device == here.name), None)
    if found is None:
        raise MissingPeakError(
            f"predict: no peaks of this machine ({here.name}) are kept here. Run `brrr calibrate`, or pass "
            "device=brrr.calibrate(); or name a device, such as 'h200' or 'datasheet:a100'"
        )
    return found
