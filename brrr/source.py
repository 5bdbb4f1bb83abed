"""Where measurements come from: `Live("cuda")`, `Live("cpu")` or `Recorded("h200")`, one interface.

A recorded source has only the points that were recorded: it never invents one between.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from brrr.errors import ArgumentError
from brrr.experiment import DeviceKind, Experiment, Point, Value
from brrr.measurement import Measurement

if TYPE_CHECKING:
    from brrr.tracing.model import Timeline


@dataclass(frozen=True)
class Badge:
    """What stands on every figure and table: live or recorded, the device, the date, torch's version."""

    kind: Literal["LIVE", "RECORDED", "PREDICTED", "DATASHEET", "LIVE, CPU QUEUE"]
    device: str
    date: str
    torch: str

    def __str__(self) -> str:
        return " · ".join(part for part in (self.kind, self.device, self.date, self.torch) if part)


class Source(Protocol):
    """One interface over measuring now and having measured before."""

    @property
    def name(self) -> str:
        """`recorded:h200`, `cuda` or `cpu`: what `BRRR_SOURCE` takes."""

    @property
    def live(self) -> bool:
        """Whether asking for a point may start a measurement."""

    def badge(self, experiment: Experiment) -> Badge:
        """What stands on the figure."""

    def variants(self, experiment: Experiment) -> tuple[str, ...]:
        """The variants that this source can show, in the experiment's order."""

    def values(self, experiment: Experiment, axis: str) -> tuple[Value, ...]:
        """The values that a slider of this axis snaps to."""

    def known(self, experiment: Experiment, variant: str) -> Mapping[tuple[Value, ...], Measurement]:
        """What is there without measuring: from the point's values, in the order of the axes, to the measurement."""

    def measure(self, experiment: Experiment, variant: str, point: Point) -> Measurement:
        """The measurement at the point; NotRecordedError (naming the nearest) where a recording lacks it."""

    def measure_together(self, experiment: Experiment, variants: Sequence[str], point: Point) -> None:
        """Measure what is not known yet of a point, the variants in turn, so that their ratios come from one run.

        `measure` then gives each; what could not be measured raises there.
        """

    def traced(self, experiment: Experiment, variant: str) -> tuple[dict[str, Value], ...]:
        """The points whose timeline is there without tracing, in the order of `Experiment.traces`."""

    def timeline(self, experiment: Experiment, variant: str, point: Point) -> Timeline:
        """The timeline at the point, traced now where the source is live; else NotRecordedError where there is none."""


_live: dict[str, Source] = {}
"""The live sources of this session: what one cell measured, the next one knows."""


def quick() -> bool:
    """Whether `BRRR_QUICK=1` asks for small live grids."""
    return os.environ.get("BRRR_QUICK", "") not in ("", "0")


def source(name: str | None = None) -> Source:
    """The source of that name: `recorded:h200`, `cuda` or `cpu`; None asks `BRRR_SOURCE`, then looks for a GPU.

    >>> source("recorded:h200").live
    False
    """
    name = name or os.environ.get("BRRR_SOURCE") or _default_name()
    kind, _, device = name.partition(":")
    if kind == "recorded":
        from brrr.recordings.recorded import Recorded

        return Recorded(device or "h200")
    if name in ("cuda", "cpu"):
        from brrr.live import Live

        live: DeviceKind = "cuda" if name == "cuda" else "cpu"
        if name not in _live:
            _live[name] = Live(live)
        return _live[name]
    raise ArgumentError("source", "name", name, "recorded:DEVICE, cuda or cpu", _recordings_hint())


def _default_name() -> str:
    from brrr.device import default_device_kind

    return "cuda" if default_device_kind() == "cuda" else "recorded:h200"


def _recordings_hint() -> str:
    from brrr.recordings.recorded import recorded_devices

    devices = ", ".join(f"recorded:{device}" for device in recorded_devices())
    return f"Recordings here: {devices or 'none'}"
