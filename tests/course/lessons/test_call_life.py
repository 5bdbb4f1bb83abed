"""The drawing of one call's life: the recording's times, and no picture of a time that is not there."""

from dataclasses import replace
from pathlib import Path

import pytest

from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Measurement, Point
from brrr_course.experiments import experiment
from brrr_course.lessons.drawings import drawing
from brrr_course.lessons.drawings.call_life import FUNCTIONS, life
from brrr_course.nouns.experiment import Experiment
from brrr_course.sources.recorded import Recorded

OWN = Path(__file__).parents[3] / "data" / "recordings"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_its_lengths_are_the_recordings(function: str) -> None:
    source = Recorded("h200", OWN)
    measured = source.measure(experiment("timers"), "measure", {"function": function, "cache": "hot"})
    found = life(source, function)
    assert measured.host_s and measured.kernel_s and measured.period_s and measured.latency_s
    assert (found.host, found.kernel) == (measured.host_s.median, measured.kernel_s.median)
    assert (found.period, found.latency) == (measured.period_s.median, measured.latency_s.median)
    assert found.host <= found.start <= found.latency and found.start + found.kernel <= found.latency


def test_a_time_that_is_missing_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    source, measure = Recorded("h200", OWN), Recorded.measure

    def without(self: Recorded, described: Experiment, variant: str, point: Point) -> Measurement:
        return replace(measure(self, described, variant, point), period_s=None)

    monkeypatch.setattr(Recorded, "measure", without)
    with pytest.raises(NotRecordedError, match="period_s"):
        life(source, "relu-64x1024")


def test_a_source_without_such_times_shows_the_recording() -> None:
    made = drawing("call-life", source="recorded:cpu", function="gemm-512")
    assert "a product of 512 x 512" in made.text and "kernel_s, the GPU's work" in made.text
    assert made.picture().png.startswith(b"\x89PNG")
