"""A recording of claims: what they look at, what is left out, and that the claims can be judged on it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import made_up
import pytest

from brrr.core.measurement import Measurement
from brrr_course.experiments import experiment
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import Evidence, Key
from brrr_course.sources import record
from brrr_course.sources.claimed import claimed, ends_and_middle
from brrr_course.sources.plan import DurationEstimator, Step, claim_steps, steps
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.recording import Recording

H200 = Recorded("h200")
MATMUL, REPEAT, STRASSEN = (experiment(name) for name in ("matmul", "repeat", "strassen"))


def planned(*experiments: Experiment, **options: Any) -> tuple[list[Step], list[str]]:
    """The plan for an H200, whose pace is known."""
    pace = DurationEstimator(16)
    for each in experiments:
        pace.learn_rows(each, H200.recording(each).rows)
    return claim_steps(experiments, "cuda", H200, pace, **options)


class Only:
    """A recording as if only what some steps measure had been recorded."""

    def __init__(self, found: list[Step]) -> None:
        self.there = {(s.experiment.name, v, tuple(s.point.values())) for s in found for v in s.variants}

    def __getattr__(self, name: str) -> Any:
        return getattr(H200, name)

    def known(self, asked: Experiment, variant: str) -> Mapping[Key, Measurement]:
        return {at: m for at, m in H200.known(asked, variant).items() if (asked.name, variant, at) in self.there}


@pytest.mark.parametrize("name", ["matmul", "timers", "repeat", "fusion", "strides", "sines", "occupancy", "block"])
def test_each_claim_is_decided_by_what_it_looks_at(name: str) -> None:
    """As it is on the whole recording."""
    asked = experiment(name)
    source: Any = Only(planned(asked)[0])
    for claim in asked.claims:
        assert claim.verdict(Evidence(asked, source)).status == claim.verdict(Evidence(asked, H200)).status, claim.name


def test_all_ways_of_a_point_of_several_devices_are_kept_for_they_are_measured_in_turns() -> None:
    found, _ = planned(experiment("data_parallel"))
    turns = [set(step.variants) for step in found if step.point["bucket"] == 25]
    assert len(turns) > 3 and all(each == {"after", "flat", "buckets", "alone", "one"} for each in turns)


def test_only_the_variants_that_are_looked_at_are_measured() -> None:
    whole = {tuple(step.point.values()): step.variants for step in steps([REPEAT], "cuda")}
    found, _ = planned(REPEAT)
    assert all(set(step.variants) <= set(whole[tuple(step.point.values())]) for step in found)
    assert sum(len(step.variants) for step in found) < sum(map(len, whole.values())) / 3


def test_what_is_left_out_is_named() -> None:
    found, left_out = planned(MATMUL, STRASSEN, experiment("gemm"))
    assert "LEFT OUT matmul size=16384: cpu, too large for a CPU" in left_out
    assert any(
        re.match(r"LEFT OUT strassen size=16384: \d+ variants, predicted to take \d+ s", each) for each in left_out
    )
    assert any(re.match(r"LEFT OUT gemm: the \d+ points of curves", each) for each in left_out)
    assert not [s for s in found if s.experiment is MATMUL and "cpu" in s.variants and int(s.point["size"]) > 8192]


def test_an_interval_is_wide_where_no_verdict_needs_a_narrow_one() -> None:
    looks = claimed(MATMUL, H200)
    assert {look.narrow for look in looks.values()} == {True, False}
    named = [step for step in planned(MATMUL)[0] if step.phase in ("anchor", "claim")]
    for step in named:
        narrow = any(looks[name, tuple(step.point.values())].narrow for name in step.variants)
        assert not (step.wide and narrow) and step.precision == (0.05 if step.wide else None)
    assert all(step.wide for step in planned(experiment("timers"))[0] if step.phase == "claim")


def test_without_a_reference_made_up_times_tell() -> None:
    assert ("gpu", (32768,)) in claimed(MATMUL, None)


def test_the_sliders_ends_and_middle_are_there_for_each_line_that_is_shown() -> None:
    found, _ = planned(experiment("pseudo_linear_flaws"))
    there = {tuple(step.point.values()) for step in found}
    assert set(ends_and_middle(experiment("pseudo_linear_flaws").axes)) <= there


def test_values_can_be_chosen() -> None:
    found, _ = planned(MATMUL, only={"size": ["1"], "variant": ["gpu"]})
    assert [(dict(step.point), step.variants) for step in found] == [({"size": 1}, ("gpu",))]
    assert planned(MATMUL, only={"batch": ["1"]})[0] == []


@pytest.mark.usefixtures("own_environment")
def test_the_command_says_how_long_records_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, points = iter(range(9)), iter(range(9))

    def interrupted(step: Step) -> Any:
        if next(points) == 4:
            raise KeyboardInterrupt
        return made_up.measure(step)

    here = lambda kind: (made_up.GPU, made_up.run_info(f"run-{next(runs)}"))  # noqa: E731
    monkeypatch.setattr(record, "collect_environment", here)
    monkeypatch.setattr("brrr_course.sources.isolated.measure_step", interrupted)
    monkeypatch.setattr(record, "sm_clock_hz", lambda: None)
    command = ["matmul", "--claims", "--device", "cuda", "--out", str(tmp_path), "--minutes", "0.6"]
    assert record.main([*command, "--plan"]) == 0
    assert re.search(r"min predicted, in about \d+ runs?", capsys.readouterr().out)
    assert record.main(command) == record.INTERRUPTED == 130
    assert "the same command goes on with them" in capsys.readouterr().out
    monkeypatch.setattr("brrr_course.sources.isolated.measure_step", made_up.measure)
    assert record.main(command) == 0
    rows = Recording.read(tmp_path / "h200", MATMUL).rows
    assert {row.point for row in rows} == {tuple(step.point.values()) for step in planned(MATMUL)[0]}
    assert {row.run for row in rows} == {"run-1", "run-2"}
