"""Measuring now: `Live(CUDA)`, `Live("mps")`; and `Live("cpu")`, which also offers the CPU queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from brrr.core.errors import BrrrError, UnavailableError
from brrr.core.measurement import DeviceKind, Measurement, Point, Value
from brrr.core.private import keep_compiled_code_private
from brrr.gpu import CUDA
from brrr_course.nouns.experiment import Experiment
from brrr_course.sources.on_device import OnDevice

if TYPE_CHECKING:
    from brrr.tracing.timeline import Timeline
    from brrr_course.sources.rows import Timed


class Live(OnDevice):
    """Measurements taken now on this machine; a point measured once is kept for the session.

    >>> Live("cpu").live
    True

    `explore` and the others take it as `source`.

    Parameters
    ----------
    kind : str
        The device: "cpu", or an accelerator's kind, such as "cuda" or "mps".
    budget_s : float
        About how many seconds to measure each point.

    Raises
    ------
    UnavailableError
        If the device is not here.
    """

    def __init__(self, kind: DeviceKind = CUDA, *, budget_s: float = 0.2) -> None:
        from brrr.gpu.device import this_device

        keep_compiled_code_private()
        self.name = self.kind = kind
        self.device = this_device(kind)
        self.device_name, self.torch_version = self.device.name, self.device.torch_version or ""
        self.budget_s = budget_s
        self._measured: dict[tuple[str, str], dict[tuple[Value, ...], Measurement]] = {}
        self._timelines: dict[tuple[str, str], dict[tuple[Value, ...], Timeline]] = {}

    def known(self, experiment: Experiment, variant: str) -> Mapping[tuple[Value, ...], Measurement]:
        """What was measured so far in this session."""
        experiment.variant(variant)
        return self._measured.get((experiment.name, variant), {})

    def measure(self, experiment: Experiment, variant: str, point: Point) -> Measurement:
        """Check the result, then measure it. The measurement is kept, and asking again returns the same."""
        full = experiment.point(**point)
        key = tuple(full.values())
        kept = self._measured.setdefault((experiment.name, variant), {})
        if key not in kept:
            self._require("measure", experiment, variant)
            from brrr_course.sources.timers import measure_variant

            kept[key] = _with_error(measure_variant(experiment, variant, full, budget_s=self.budget_s))
        return kept[key]

    def measure_together(self, experiment: Experiment, variants: Sequence[str], point: Point) -> None:
        """Measure in turns those of the variants that run here and are not known yet; keep what succeeds."""
        from brrr_course.sources.timers import measure_point

        full = experiment.point(**point)
        key = tuple(full.values())
        wanted = [v for v in self.variants(experiment) if v in variants and experiment.has(v, full)]
        missing = [v for v in wanted if key not in self.known(experiment, v)]
        if len(missing) < 2:
            return
        for variant, found in measure_point(experiment, missing, full, budget_s=self.budget_s).items():
            if not isinstance(found, BrrrError):
                self._measured.setdefault((experiment.name, variant), {})[key] = _with_error(found)

    def traced(self, experiment: Experiment, variant: str) -> tuple[dict[str, Value], ...]:
        """The points traced so far in this session."""
        names = [axis.name for axis in experiment.axes]
        kept = self._timelines.get((experiment.name, variant), {})
        return tuple(dict(zip(names, key, strict=True)) for key in kept)

    def timeline(self, experiment: Experiment, variant: str, point: Point) -> Timeline:
        """Check the result, then trace it. The timeline is kept, and asking again returns the same."""
        full = experiment.point(**point)
        key = tuple(full.values())
        kept = self._timelines.setdefault((experiment.name, variant), {})
        if key not in kept:
            self._require("timeline", experiment, variant)
            from brrr_course.sources.timers import trace_variant

            kept[key] = trace_variant(experiment, variant, full)
        return kept[key]

    def _require(self, call: str, experiment: Experiment, variant: str) -> None:
        if variant not in self.variants(experiment):
            lacks = experiment.lacks(experiment.variant(variant), self.kind)
            raise UnavailableError(
                f"Live({self.kind!r}).{call}: variant {variant!r} of {experiment.name!r} needs {lacks}; "
                f"here there are {', '.join(self.variants(experiment))}"
            )


def _with_error(timed: Timed) -> Measurement:
    """The measurement with the relative error that the check found."""
    return replace(timed.measurement, error=timed.error)
