"""The `overlap` experiment: what exists where, what is checked, and where its parts balance."""

from collections.abc import Mapping
from typing import Any

import pytest

from brrr.core.errors import NotRecordedError, WrongResultError
from brrr.core.measurement import Estimate, Measurement, Point, Value
from brrr_course.experiments import experiment
from brrr_course.experiments.overlap import Toy, balanced
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Evidence

OVERLAP = experiment("overlap")
TOYS = [variant.name for variant in OVERLAP.variants if variant.device == "cpu-queue"]
LINK, SINE = 55e9, 0.52e-9 / 270
"""A made-up machine: bytes a second each way, and seconds that one sine of one element takes."""


# ---- the CPU queue runs, and is checked ----


@pytest.mark.parametrize("name", TOYS)
@pytest.mark.parametrize("point", [{"elements": 1000, "sines": 1}, {"elements": 300_001, "sines": 5}])
def test_every_toy_variant_is_right(name: str, point: dict[str, Value]) -> None:
    workload = OVERLAP.workload(name, point)
    try:
        assert workload.check() < 1e-5
        assert workload.check() < 1e-5
    finally:
        workload.close()


@pytest.mark.parametrize("name", TOYS)
def test_a_wrong_result_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sine too many; of what only copies, a copy that does not arrive."""
    point: dict[str, Value] = {"elements": 5000, "sines": 128}
    if name == "queue-upload":
        monkeypatch.setattr("brrr.running.lanes.host_copy", lambda target, source: None)
    else:
        monkeypatch.setattr(Toy, "sines", lambda self, values: [values.sin_() for _ in range(129)])
    workload = OVERLAP.workload(name, point)
    with pytest.raises(WrongResultError):
        workload.check()
    workload.close()


def test_the_toy_timeline_shows_the_overlap_and_the_waits() -> None:
    from brrr_course.sources.timers import trace_variant

    point: dict[str, Value] = {"elements": 2**20, "sines": 40}
    streams, pipeline = (trace_variant(OVERLAP, name, point) for name in ("queue-streams", "queue-pipeline"))
    print(f"overlap: streams {streams.overlap_share:.0%}, pipeline {pipeline.overlap_share:.0%}")
    assert streams.overlap_share < 0.02
    assert pipeline.overlap_share > 0.2
    assert set(pipeline.streams) == {"upload queue", "compute queue", "download queue"}
    assert {span.kind for span in pipeline.device_spans()} == {"copy in", "kernel", "copy out"}


# ---- the claims ----


class MadeUp:
    """A source in which computing takes so many times what it does on a made-up machine."""

    kind = "cuda"

    def __init__(self, slower: float) -> None:
        self.slower = slower

    def known(self, experiment: Experiment, variant: str) -> Mapping[tuple[Value, ...], Measurement]:
        points = [point for point in experiment.points() if experiment.has(variant, point)]
        return {tuple(point.values()): self._measured(variant, point) for point in points}

    def _measured(self, variant: str, point: Point) -> Measurement:
        elements, sines = float(point["elements"]), float(point["sines"])
        seconds = self.slower * sines * elements * SINE if variant == "compute" else 4 * elements / LINK
        return Measurement(period_s=Estimate(seconds, 0.999 * seconds, 1.001 * seconds, 9))


@pytest.mark.parametrize(("slower", "sines"), [(1.0, 40), (4.0, 8)])
def test_the_balance_is_found_from_the_measurements(slower: float, sines: int) -> None:
    evidence: Any = Evidence(OVERLAP, MadeUp(slower))  # type: ignore[arg-type]
    assert (balanced(evidence, "elements"), balanced(evidence, "sines")) == (2**28, sines)


def test_where_nothing_balances_there_is_none() -> None:
    with pytest.raises(NotRecordedError, match="no number of sines takes as long as sending"):
        balanced(Evidence(OVERLAP, MadeUp(100.0)), "sines")  # type: ignore[arg-type]
