"""Where measurements come from: `Live("cuda")`, `Live("cpu")` or `Recorded("h200")`, one interface.

A recorded source has only the points that were recorded: it never invents one between.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from brrr.core.measurement import Measurement
from brrr.core.values import Badge, Point, Value
from brrr.course.nouns.experiment import Experiment

if TYPE_CHECKING:
    from brrr.tracing.timeline import Timeline


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


def quick() -> bool:
    """Whether `BRRR_QUICK=1` asks for small live grids."""
    return os.environ.get("BRRR_QUICK", "") not in ("", "0")
