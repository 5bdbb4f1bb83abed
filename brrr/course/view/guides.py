"""The theoretical lines of a view: where they stand, for which device, and what may not pass them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import product
from typing import TYPE_CHECKING

from brrr.core.values import Point, Value
from brrr.course.nouns.experiment import Experiment, Guide
from brrr.course.nouns.source import Source

if TYPE_CHECKING:
    from brrr.gpu.datasheet import Hardware

RATES = ("rate", "bytes", "flop")
ABOVE = "above the limit: an accounting error or a cache"
"""What stands beside every rate over a datasheet's: it is never printed bare."""


def hardware_of(source: Source, experiment: Experiment) -> Hardware | None:
    """The datasheet of a source's device: what a live one looked up, else by the name on its badge."""
    from brrr.gpu.datasheet import Hardware, find_hardware

    live = getattr(getattr(source, "device", None), "hardware", None)
    return live if isinstance(live, Hardware) else find_hardware(source.badge(experiment).device)


def label(guide: Guide) -> str:
    """The name with its kind in front: `DATASHEET link limit`."""
    return f"{guide.kind} {guide.label}"


class Guides:
    """The theoretical lines of one view (as `time`, `rate` or `ratio`) of an experiment on a source's device.

    One that bounds certain lines only is left out where none of these is among `lines`.
    """

    def __init__(
        self, experiment: Experiment, source: Source, view: str, values: Mapping[str, tuple[Value, ...]],
        lines: Collection[str],
    ) -> None:  # fmt: skip
        self.hardware = hardware_of(source, experiment)
        here = [guide for guide in experiment.guides if not guide.lines or set(guide.lines) & set(lines)]
        wanted = [guide for guide in here if guide.view == view]
        points = [dict(zip(values, each, strict=True)) for each in product(*values.values())] if wanted else []
        self._heights = {guide.name: {_key(p): self._height(guide, p) for p in points} for guide in wanted}
        self.drawn = [guide for guide in wanted if self.all_heights(guide)]
        self.unknown = [guide for guide in wanted if guide.kind == "DATASHEET" and self.hardware is None]

    def _height(self, guide: Guide, point: Point) -> float | None:
        height = guide.at(self.hardware, point)
        return height if height is not None and math.isfinite(height) and height > 0 else None

    def at(self, guide: Guide, point: Point) -> float | None:
        """Where it stands at a point of the sliders; None where it does not apply."""
        return self._heights[guide.name].get(_key(point))

    def all_heights(self, guide: Guide) -> list[float]:
        """Its heights at all points of all sliders."""
        return [height for height in self._heights[guide.name].values() if height is not None]

    def exceeded(self, line: str, value: float, point: Point) -> Guide | None:
        """The datasheet's limit that a line's rate passes at a point, if any."""
        for guide in self.drawn:
            height = self.at(guide, point)
            bounds = guide.kind == "DATASHEET" and guide.view in RATES and line in (guide.lines or (line,))
            if bounds and height is not None and value > height:
                return guide
        return None


def _key(point: Point) -> tuple[Value, ...]:
    return tuple(value for _, value in sorted(point.items()))
