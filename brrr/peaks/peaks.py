"""What a device can do at best, as measured: bandwidths, arithmetic, launches, host costs; each figure with its origin.

>>> def rate(value): return Peak(value, value, value, "B/s")
>>> curve = Curve("working_set_bytes", ((1e6, rate(1e9)), (4e6, rate(4e9))))
>>> Peaks("Some GPU", "cuda", "2026-01-01", curves={"copy": curve}).bandwidth(2e6)
2000000000.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from brrr.errors import ArgumentError, BrrrError
from brrr.peaks.peak import Curve, Peak
from brrr.peaks.sweep import Sweep

DTYPES = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8", "int8": "int8",
}  # fmt: skip
"""torch's names of the data types, and those of the datasheets, by which the peaks go."""

RESOLUTION = "Run brrr.calibrate(), or `brrr calibrate`, on that machine"


class MissingPeakError(BrrrError, LookupError):
    """A peak was asked for that was not measured; the message names those that were, and what to run."""


@dataclass(frozen=True, repr=False)
class Peaks:
    """All that `calibrate` measured on one device.

    `measured` and `curves` hold nothing that was not measured on it; what had to be assumed stands in `assumed`, and
    the datasheet is asked anew each time (`datasheet`), so that the three never mix. `notes` say what is missing, and
    why. Names: `matmul.bf16` (curve by size), `arithmetic.fp32.fma`, `kernel.floor`, `gap.stream`, `gap.graph`,
    `host.pointwise` and so on; `copy`, `read`, `write`, `triad` (curves by working set). `sweeps` are the times of many
    `products` and `operators`, by which the predictor corrects its models.
    """

    device: str
    kind: Literal["cuda", "cpu"]
    date: str
    brrr: str = ""
    driver: str = ""
    cuda: str = ""
    torch: str = ""
    measured: Mapping[str, Peak] = field(default_factory=dict, hash=False)
    curves: Mapping[str, Curve] = field(default_factory=dict, hash=False)
    assumed: Mapping[str, Peak] = field(default_factory=dict, hash=False)
    sweeps: Mapping[str, Sweep] = field(default_factory=dict, hash=False)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        found = [*self.measured.items(), *((name, curve.points[0][1]) for name, curve in self.curves.items())]
        for name, peak in found:
            if peak.kind != "measured":
                raise ArgumentError("Peaks", name, peak.kind, "a measured figure")
        for name, peak in self.assumed.items():
            if peak.kind != "assumed":
                raise ArgumentError("Peaks", f"assumed {name}", peak.kind, "an assumed figure")

    @property
    def datasheet(self) -> Mapping[str, Peak]:
        """What the device's datasheet promises, under the same names; empty for a device without one."""
        from brrr.peaks.datasheet import datasheet_peaks

        return datasheet_peaks(self.device)

    def get(self, name: str) -> Peak:
        """A measured figure by its name; MissingPeakError names those that are there."""
        if name in self.measured:
            return self.measured[name]
        raise self._missing(name, self.measured)

    def curve(self, name: str) -> Curve:
        """A measured curve by its name; MissingPeakError names those that are there."""
        if name in self.curves:
            return self.curves[name]
        raise self._missing(name, self.curves)

    def bandwidth(self, working_set_bytes: float, kind: str = "copy") -> float:
        """B/s over a working set, all arrays counted, from the level of memory that holds it: interpolated.

        `kind` is copy, read, write or triad. With `-once` behind it, it is the rate of a single pass on a hot cache,
        the kernel's start and end included; `torch-copy` and `torch-pointwise` are torch's own operators, once.
        """
        if not 0 < working_set_bytes < float("inf"):
            raise ArgumentError("Peaks.bandwidth", "working_set_bytes", working_set_bytes, "a number of bytes above 0")
        found = self.curve(kind)
        if found.axis != "working_set_bytes":
            kinds = ", ".join(name for name, curve in self.curves.items() if curve.axis == "working_set_bytes")
            raise ArgumentError("Peaks.bandwidth", "kind", kind, f"one of {kinds}")
        return found.at(working_set_bytes)

    def stream_s(self, working_set_bytes: float, kind: str = "copy-once") -> float:
        """Seconds of one pass over a working set; never less than those of the smallest set that was measured."""
        smallest, _ = self.curve(kind).points[0]
        counted = max(working_set_bytes, smallest) if working_set_bytes > 0 else working_set_bytes
        return counted / self.bandwidth(counted, kind)

    @property
    def memory_bytes_per_s(self) -> Peak:
        """The copy bandwidth of the largest working set: that of the memory itself."""
        return self.curve("copy").points[-1][1]

    def matmul(self, dtype: str) -> Peak:
        """The best rate of matrix products: dtype is fp32 (without TF32), tf32, bf16, fp16, fp8, fp64 or int8."""
        return self.curve(f"matmul.{short(dtype)}").best

    def arithmetic(self, dtype: str = "fp32", *, fma: bool = True) -> Peak:
        """The rate of plain arithmetic: a fused multiply-add counts as 2 FLOP, a multiplication alone as 1."""
        return self.get(f"arithmetic.{short(dtype)}.{'fma' if fma else 'mul'}")

    def host_s(self, operator: str) -> Peak:
        """What issuing an operator of this class costs the host: pointwise, reduction, matmul, view, module, ..."""
        return self.get(f"host.{operator}")

    def _missing(self, name: str, there: Mapping[str, object]) -> MissingPeakError:
        have = ", ".join(there) or "nothing"
        hints = [note for note in self.notes if name.split(".")[0] in note]
        return MissingPeakError(
            f"Peaks: {name!r} was not measured on {self.device}; there is {have}. {'; '.join([*hints, RESOLUTION])}"
        )

    def __str__(self) -> str:
        from brrr.peaks.peaks_text import text

        return text(self)

    def __repr__(self) -> str:
        return str(self)


def short(dtype: str) -> str:
    """A data type's name as the peaks have it.

    >>> short("bfloat16"), short("torch.float32"), short("tf32")
    ('bf16', 'fp32', 'tf32')
    """
    name = str(dtype).removeprefix("torch.")
    return DTYPES.get(name, name)
