"""How long a measurement will probably take, so that a slow one is asked about before it starts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from brrr.core.errors import BrrrError
from brrr.core.measurement import Measurement
from brrr.core.values import Value
from brrr.course.nouns.experiment import Experiment
from brrr.course.nouns.source import Source

ASK_ABOVE_S = 2.0
"""Live on a CPU, a point that probably takes longer asks first."""
CALLS = 6
"""How often a slow function is called at least: the check against its reference, the warm-up, and the samples."""
STEEPEST = 3
"""Where an experiment does not tell its cost: nothing in the course grows faster than the cube of a slider's value."""

Known = Mapping[tuple[Value, ...], Measurement]


def expected_s(experiment: Experiment, source: Source, variants: Sequence[str], point: Mapping[str, Value]) -> float:
    """Seconds that measuring the variants at a point probably takes; infinite where nothing is known.

    A smaller point measured in this session decides; without one, the recording of a CPU machine.
    """
    return sum(_one_s(experiment, source, variant, tuple(point.values())) for variant in variants)


def _one_s(experiment: Experiment, source: Source, variant: str, key: tuple[Value, ...]) -> float:
    known = source.known(experiment, variant)
    if key in known:
        return 0.0
    call = _extrapolated(experiment, variant, known, key)
    if call is None or call > ASK_ABOVE_S / CALLS:
        recorded = _extrapolated(experiment, variant, _recorded(experiment, variant), key)
        call = recorded if call is None else min(call, recorded or call)
    return float("inf") if call is None else CALLS * call


def _recorded(experiment: Experiment, variant: str) -> Known:
    from brrr.course.sources.recorded import Recorded

    for device in ("cpu", "h200"):  # the H200 machine's own CPU was recorded too
        try:
            known = Recorded(device).known(experiment, variant)
        except BrrrError:
            continue
        if known and experiment.variant(variant).device != "cuda":
            return known
    return {}


def _extrapolated(experiment: Experiment, variant: str, known: Known, key: tuple[Value, ...]) -> float | None:
    """One call's seconds: the least that the known points promise, each scaled by how much more work there is."""
    best: float | None = None
    for other, measured in known.items():
        call = _call_s(measured)
        growth = _growth(experiment, variant, key, other)
        if call is not None and growth is not None:
            best = call * growth if best is None else min(best, call * growth)
    return best


def _growth(experiment: Experiment, variant: str, to: tuple[Value, ...], start: tuple[Value, ...]) -> float | None:
    """How many times longer a point may take than a known one, at least once; None for another category."""
    names = [axis.name for axis in experiment.axes]
    pairs = list(zip(to, start, strict=True))
    if any(a != b for a, b in pairs if isinstance(a, str) or isinstance(b, str)):
        return None
    more, less = (experiment.cost_at(variant, dict(zip(names, key, strict=True))) for key in (to, start))
    if more is not None and less is not None and less.flop and less.bytes:
        return max(1.0, more.flop / less.flop, more.bytes / less.bytes)
    return math.prod(max(1.0, float(a) / float(b)) ** STEEPEST for a, b in pairs if not isinstance(a, str))


def _call_s(measured: Measurement) -> float | None:
    estimate = measured.latency_s or measured.period_s or measured.host_s
    return estimate.median if estimate else None
