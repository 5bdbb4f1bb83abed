"""Which figures a device's name stands for: those recorded for it, else its datasheet; None is this machine."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.gpu.datasheet import Hardware, find_hardware, hardware
from brrr.roofline.basis import Basis
from brrr.roofline.peaks.peaks import MissingPeakError, Peaks

DATASHEET = "datasheet:"

Where = str | Peaks | Hardware | None


def basis_for(device: Where) -> Basis:
    """The figures for a device.

    >>> basis_for("datasheet:a100").origin
    'datasheet'

    `Peaks` and `Hardware` are taken as they are. "h200" means the peaks recorded for it, else its datasheet, with a
    note; "datasheet:h200" the datasheet in any case; "cuda" and None this machine, as `brrr calibrate` left it.
    """
    if isinstance(device, Peaks):
        return Basis.measured(device)
    if isinstance(device, Hardware):
        return Basis.of_datasheet(device)
    if device is None or device == "cuda":
        return Basis.measured(_peaks_here(device))
    if not isinstance(device, str):
        raise ArgumentError("predict", "device", device, "a device's name, Peaks, or None for this machine")
    if device.startswith(DATASHEET):
        return Basis.of_datasheet(_datasheet(device.removeprefix(DATASHEET), device))
    return _by_name(device)


def _by_name(device: str) -> Basis:
    known = find_hardware(device)
    recorded = _recorded(known.key if known is not None else device)
    if recorded is not None:
        return Basis.measured(recorded)
    basis = Basis.of_datasheet(_datasheet(device, device))
    basis.note(f"no measured peaks are recorded for {device!r}, so these are its datasheet's")
    return basis


def _datasheet(name: str, said: str) -> Hardware:
    try:
        return hardware(name)
    except ArgumentError as error:
        nearest = str(error).rpartition("Nearest: ")[2] if "Nearest: " in str(error) else ""
        hint = f"Nearest: {nearest}" if nearest else "Or pass what brrr.calibrate() returned on it."
        raise ArgumentError("predict", "device", said, error.expected, hint) from None


def _recorded(slug: str) -> Peaks | None:
    """The peaks recorded for a device, None where its recordings hold none; a damaged file is an error."""
    from brrr.core.paths import FILE, recorded_devices, recordings_root

    root = recordings_root()
    if slug not in recorded_devices(root):
        return None
    found = (root / slug / FILE).stat()
    return _read(root / slug, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=8)
def _read(folder: Path, modified_ns: int, size: int) -> Peaks | None:
    """The peaks of a folder, read anew when its file has changed; what else the arguments tell is for that alone."""
    from brrr.roofline.peaks.file import has_peaks, read_peaks

    return read_peaks(folder) if has_peaks(folder) else None


def _peaks_here(device: Literal["cuda"] | str | None) -> Peaks:
    """The peaks of the machine in hand, where they were measured on it."""
    from brrr.gpu.device import cuda_problem, this_device

    problem = cuda_problem()
    if device == "cuda" and problem:
        raise UnavailableError(
            f"predict: device is 'cuda', but CUDA does not work here: {problem}. Name a device instead, such as 'h200'"
        )
    here = this_device("cpu" if problem else "cuda")
    found = _recorded(here.slug)
    if found is None or found.device != here.name:
        raise MissingPeakError(
            f"predict: no peaks of this machine ({here.name}) are kept here. Run `brrr calibrate`, or pass "
            "device=brrr.calibrate(); or name a device, such as 'h200' or 'datasheet:a100'"
        )
    return found
