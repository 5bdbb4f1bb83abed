"""What is known of the device that tensors are on: its measured peaks, or its datasheet.

Importing this loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brrr.roofline.peaks.peaks import MissingPeakError, Peaks

if TYPE_CHECKING:
    from brrr.roofline.device_model import Where


def device_known(device: object) -> Where:
    """What to predict by for tensors on a device ("cuda" or "cpu"): its measured peaks, else its GPU's datasheet.

    MissingPeakError where there is neither.
    """
    from brrr.gpu.device import this_device
    from brrr.roofline.device_model import model_of

    kind = str(device).partition(":")[0]
    if kind == "cpu":
        return _cpu_peaks()
    try:
        model_of("cuda")
    except MissingPeakError:
        known = this_device("cuda").hardware
        if known is None:
            raise
        return f"datasheet:{known.key}"
    return "cuda"


def _cpu_peaks() -> Peaks:
    """The peaks of this machine's CPU, where they were measured; asked for by themselves, as a GPU may be here too."""
    from brrr.core.paths import recorded_devices
    from brrr.gpu.probe import cpu_name
    from brrr.roofline.peaks.file import recorded_peaks

    found = recorded_peaks("cpu") if "cpu" in recorded_devices() else None
    if found is None or found.device != cpu_name():
        raise MissingPeakError(f"matmul: no peaks of this CPU ({cpu_name()}) are kept here. Run `brrr calibrate`")
    return found
