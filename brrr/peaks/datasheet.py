"""The datasheet's figures under the names of the measured ones, never among them."""

from __future__ import annotations

from collections.abc import Mapping

from brrr.machines.datasheet import Hardware, find_hardware
from brrr.peaks.peak import Peak

PLAIN_UNITS = ("cuda cores", "cpu cores")


def datasheet_peaks(device: str) -> Mapping[str, Peak]:
    """What the datasheet of a device promises; empty for one without.

    >>> print(datasheet_peaks("NVIDIA H200")["matmul.bf16"])
    989 TFLOP/s

    A product of matrices runs on the tensor cores where they have the data type, else on the plain units; plain
    arithmetic on the plain units. Multiplication alone is half of what they do, for a peak counts a fused multiply-add.
    """
    found = find_hardware(device)
    return _of(found) if found is not None else {}


def _of(hardware: Hardware) -> dict[str, Peak]:
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
