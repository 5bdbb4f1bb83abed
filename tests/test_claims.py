"""The table of claims: every claim with its source, what decides it, the device, the measured value and the verdict."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import made_up
import pytest

from brrr.core.errors import ArgumentError, RecordingError
from brrr.core.measurement import Estimate, Measurement
from brrr.course.experiments import experiment
from brrr.course.lessons import claims_table
from brrr.course.lessons.claims_table import claims
from brrr.course.nouns.claim import Claim, Verdict
from brrr.course.nouns.source import Evidence
from brrr.course.sources.live import Live
from brrr.course.sources.recorded import Recorded
from brrr.course.sources.rows import Timed

MATMUL = experiment("matmul")


@pytest.fixture
def recordings(synthetic_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The synthetic recordings in the place of the course's own."""
    monkeypatch.setenv("BRRR_RECORDINGS", str(synthetic_root))
    return synthetic_root


def statuses(root: Path, device: str = "h200") -> dict[str, str]:
    return {claim.name: verdict.status for claim, verdict in claims("matmul", Recorded(device, root)).rows}


def test_the_table_says_all_of_every_claim(synthetic_root: Path) -> None:
    table = claims("matmul", Recorded("h200", synthetic_root))
    text, markdown = str(table), table._repr_markdown_()
    assert "RECORDED · Synthetic H200 · 2000-01-01 · torch 2.11.0+cu130" in text
    assert "RECORDED · Synthetic H200 · 2000-01-01 · torch 2.11.0+cu130" in markdown
    assert len(table.rows) == len(MATMUL.claims) >= 4
    for claim, verdict in table.rows:
        for part in (claim.text, claim.source, claim.decides, verdict.measured):
            assert part in text
            assert claims_table._cell(part) in markdown
        assert verdict.status in markdown
        assert verdict.status.upper() in text


def test_the_verdicts_follow_the_made_up_machine(synthetic_root: Path) -> None:
    """It sends at 9 GB/s and multiplies at 50 TFLOP/s: half and half at 32768, by construction."""
    table = statuses(synthetic_root)
    assert table["gpu-wins-at-scale"] == "holds"
    assert table["first-call-bump"] == "holds"
    assert table["unsynchronized-flat"] == "holds"
    assert table["transfers-half"] == "holds"


def test_other_measurements_give_other_verdicts(tmp_path: Path) -> None:
    """The same recording, but with products a hundred times slower: the transfers no longer weigh anything."""
    made_up.record(tmp_path, made_up.GPU, measure=lambda step: made_up.measure(step, slower=100.0))
    table = statuses(tmp_path)
    assert table["transfers-half"] == "fails"
    assert table["unsynchronized-flat"] == "holds"


def test_what_a_device_did_not_record_is_not_measured(synthetic_root: Path) -> None:
    table = claims("matmul", Recorded("cpu", synthetic_root))
    assert {verdict.status for claim, verdict in table.rows if claim.name == "transfers-half"} == {"not measured"}


def test_an_experiment_without_a_recording_is_not_measured(synthetic_root: Path) -> None:
    table = claims("sines", Recorded("h200", synthetic_root))
    assert {verdict.status for _, verdict in table.rows} == {"not measured"}
    assert "recorded:h200, not recorded" in str(table)


def test_a_single_call_is_widened_before_a_claim_judges_it() -> None:
    """It has no interval: a tenth either way is allowed for, so that no claim holds by a hair."""
    one, many = Estimate(1.0, 1.0, 1.0, 1), Estimate(2.0, 1.99, 2.01, 40)
    known = {(8,): Measurement(latency_s=one), (16,): Measurement(latency_s=many)}
    evidence = Evidence(MATMUL, cast(Any, SimpleNamespace(known=lambda experiment, variant: known)))
    curve = evidence.curve("cpu", "size")
    assert (curve[8].low, curve[8].median, curve[8].high) == pytest.approx((0.9, 1.0, 1.1)) and curve[16] == many
    assert evidence.get("cpu", size=8) == curve[8] == evidence.everywhere("cpu")[8,]


def test_a_live_source_has_measured_nothing_yet() -> None:
    table = claims("matmul", Live("cpu"))
    assert {verdict.status for _, verdict in table.rows} == {"not measured"}
    assert "LIVE" in str(table)


def test_a_damaged_recording_is_no_verdict(writable_root: Path) -> None:
    path = writable_root / "h200" / "matmul.csv"
    path.write_text(path.read_text().replace("latency_s", "latency_us"))
    with pytest.raises(RecordingError, match=r"matmul\.csv: wrong columns"):
        claims("matmul", Recorded("h200", writable_root))


def test_markdown_cells_keep_their_bars_and_stars_to_themselves() -> None:
    odd = Claim("odd", "a | b *c*\nd_e `f` <b> $x$", "S | T", "x\\y", lambda evidence: Verdict("holds", "1 | 2"))
    table = claims_table.ClaimsTable(MATMUL, "badge", ((odd, Verdict("holds", "1 | 2")),))
    row = table._repr_markdown_().splitlines()[-1]
    assert row.replace("\\|", "").count("|") == 6
    assert "a \\| b \\*c\\* d\\_e \\`f\\` \\<b\\> \\$x\\$" in row


@pytest.mark.usefixtures("recordings")
def test_a_source_may_be_given_by_its_name() -> None:
    assert "Synthetic CPU" in str(claims("matmul", "recorded:cpu"))


@pytest.mark.usefixtures("recordings")
def test_without_a_source_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_SOURCE", "recorded:cpu")
    assert "Synthetic CPU" in str(claims("matmul"))


def test_an_unknown_experiment_is_an_argument_error(synthetic_root: Path) -> None:
    with pytest.raises(ArgumentError, match="name is 'matmull'; expected one of matmul"):
        claims("matmull", Recorded("h200", synthetic_root))


@pytest.mark.usefixtures("recordings")
def test_the_command_prints_every_claim_and_a_failing_claim_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert claims_table.main(["--source", "recorded:h200", "matmul"]) == 0
    text = capsys.readouterr().out
    assert all(claim.text in text for claim in MATMUL.claims)
    made_up.record(tmp_path, made_up.GPU, measure=lambda step: made_up.measure(step, slower=100.0))
    monkeypatch.setenv("BRRR_RECORDINGS", str(tmp_path))
    assert claims_table.main(["--source", "recorded:h200", "matmul"]) == 0
    assert "FAILS" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "recorded:b200"], "device is 'b200'; expected one of cpu, h200"),
        (["--source", "tpu"], "name is 'tpu'; expected recorded:DEVICE, cuda or cpu"),
        (["--source", "recorded:h200", "matmull"], "name is 'matmull'; expected one of matmul"),
    ],
)
@pytest.mark.usefixtures("recordings")
def test_wrong_arguments_end_the_command(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert claims_table.main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_damaged_recording_ends_the_command(
    writable_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BRRR_RECORDINGS", str(writable_root))
    path = writable_root / "h200" / "matmul.csv"
    path.write_text(path.read_text()[:-1])
    assert claims_table.main(["--source", "recorded:h200", "matmul"]) == 2
    assert "matmul.csv: is truncated" in capsys.readouterr().err


def test_a_size_called_once_does_not_decide_whether_the_lie_is_flat(tmp_path: Path) -> None:
    """Its issuing, behind a long wait, takes ten times as long; called more than once, the same would decide."""

    def measure(step: Any, flags: tuple[str, ...]) -> dict[str, Any]:
        runs = dict(made_up.measure(step))
        if step.point == {"size": 32768} and isinstance(run := runs.get("gpu"), Timed):
            slow = dataclasses.replace(run.measurement, host_s=made_up.estimate(60e-6), flags=flags)
            runs["gpu"] = dataclasses.replace(run, measurement=slow)
        return runs

    made_up.record(tmp_path / "once", made_up.GPU, measure=lambda step: measure(step, ("single-call",)))
    made_up.record(tmp_path / "often", made_up.GPU, measure=lambda step: measure(step, ()))
    assert statuses(tmp_path / "once")["unsynchronized-flat"] == "holds"
    assert statuses(tmp_path / "often")["unsynchronized-flat"] == "fails"
