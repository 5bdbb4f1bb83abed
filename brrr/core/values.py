"""The values that everything speaks of: a point of a grid, a kind of device, the badge of a figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Value = int | float | str
Point = Mapping[str, Value]
Processor = Literal["cuda", "cpu"]
DeviceKind = Literal[Processor, "cpu-queue"]
"""The CPU queue is one worker thread that runs what is submitted, so that a CPU can be asynchronous as a GPU is."""


@dataclass(frozen=True)
class Badge:
    """What stands on every figure and table: live or recorded, the device, the date, torch's version."""

    kind: Literal["LIVE", "RECORDED", "PREDICTED", "DATASHEET", "LIVE, CPU QUEUE"]
    device: str
    date: str
    torch: str

    def __str__(self) -> str:
        return " · ".join(part for part in (self.kind, self.device, self.date, self.torch) if part)
