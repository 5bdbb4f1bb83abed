"""Which figures of a machine an explorer predicts with: its measured peaks, else its datasheet, else none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from brrr.core.errors import BrrrError
from brrr.course.nouns.experiment import Experiment
from brrr.course.nouns.source import Source
from brrr.course.view.guides import hardware_of

if TYPE_CHECKING:
    from brrr.gpu.datasheet import Hardware
    from brrr.roofline.peaks.peaks import Peaks

Kind = Literal["cuda", "cpu"]


@dataclass(frozen=True)
class Figures:
    """What is known of a device: `known` is what `brrr.predict` takes for it, `origin` where its figures come from."""

    kind: Kind
    known: Peaks | Hardware | None = None
    device: str = ""
    origin: str = ""
    measured: bool = False


def figures_of(source: Source, experiment: Experiment, kind: Kind) -> Figures:
    """The figures of a source's GPU or CPU; a CPU has no datasheet."""
    peaks = measured_peaks(source, kind)
    if peaks is not None:
        also = " and assumed" if peaks.assumed else ""
        return Figures(kind, peaks, peaks.device, f"measured {peaks.date[:10]}{also}", measured=True)
    hardware = hardware_of(source, experiment) if kind == "cuda" else None
    if hardware is None:
        return Figures(kind)
    return Figures(kind, hardware, hardware.name, "datasheet and assumed")


def what_to_run(source: Source, figures: Figures) -> str:
    """What to do where no peaks were measured; nothing where they were."""
    if figures.measured:
        return ""
    what = "GPU" if figures.kind == "cuda" else "CPU"
    if source.live:
        device = " --device cpu" if figures.kind == "cpu" else ""
        return f"No peaks of this {what} are kept here: run `brrr calibrate{device}`."
    return f"No peaks of that machine's {what} are recorded; `brrr calibrate` measures them there."


def measured_peaks(source: Source, kind: Kind) -> Peaks | None:
    """The peaks kept for a source's machine, None where there are none: of another device, or in a damaged file."""
    folder, name = getattr(source, "folder", None), ""
    if source.live:
        folder, name = _folder_here(kind)
    if folder is None:
        return None
    from brrr.roofline.peaks.file import find_peaks

    try:
        peaks = find_peaks(folder)
    except BrrrError:
        return None
    return peaks if peaks is not None and peaks.kind == kind and name in ("", peaks.device) else None


def _folder_here(kind: Kind) -> tuple[Path | None, str]:
    """Where this machine's recordings are kept, and the name of its device; None where it has no such device."""
    from brrr.core.paths import recordings_root
    from brrr.gpu.device import this_device

    try:
        here = this_device(kind)
    except BrrrError:
        return None, ""
    return recordings_root() / here.slug, here.name
