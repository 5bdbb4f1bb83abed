"""`brrr compare`: status 1 where an interval lies above the threshold, and only there."""

from pathlib import Path

import pytest

from brrr.cli.compare import main
from brrr.core.measurement import Estimate, Measurement
from brrr.diagnosis.timed import Timed
from brrr.timing.comparing import judged


def took(seconds: float, half: float = 0.01, n: int = 20, device: str = "a GPU") -> Measurement:
    return Measurement(device=device, period_s=Estimate(seconds, (1 - half) * seconds, (1 + half) * seconds, n))


OLD = took(1e-3)


@pytest.mark.parametrize(("new", "options", "status"), [
    (took(1.7e-3), [], 1), (took(1.7e-3), ["--threshold", "1.3"], 0), (took(1.7e-3, half=0.3), [], 0),
    (took(1.7e-3, n=1), [], 0), (took(1.4e-3), [], 0), (took(0.5e-3), [], 0), (OLD, ["--field", "span_s"], 2),
    (took(1e-3, device="another"), [], 2),
])  # fmt: skip
def test_the_interval_decides(new: Measurement, options: list[str], status: int, tmp_path: Path) -> None:
    for name, each in (("old", OLD), ("new", new)):
        (tmp_path / name).write_text(each.to_json(), "utf-8")
    assert main([str(tmp_path / "old"), str(tmp_path / "new"), *options]) == status


@pytest.mark.parametrize(("new", "status"), [((1.2, 1.25, 1.3), 1), ((1.2, 1.25, 1.04), 0), ((1.2, 1.25), 0)])
def test_of_three_processes_a_side_all_must_be_slower(new: tuple[float, ...], status: int, tmp_path: Path) -> None:
    for name, side in (("old", (1.0, 0.98, 0.99)), ("new", new)):
        (tmp_path / name).write_text("\n".join(took(each * 1e-3).to_json() for each in side), "utf-8")
    assert main([str(tmp_path / "old"), str(tmp_path / "new")]) == status


def test_it_reads_what_each_command_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, timed, none = (tmp_path / name for name in ("old", "new", "timed", "none"))
    old.write_text(judged({"f": OLD, "g": OLD}, "period_s").to_json(), "utf-8")
    new.write_text(judged({"g": took(2e-3), "h": OLD}, "period_s").to_json(), "utf-8")
    assert main([str(old), str(new)]) == 1
    out = capsys.readouterr().out
    assert "new is 2.00x slower" in out and "only in one file: f\nonly in one file: h" in out
    assert out.endswith("above 1.05x by all of the interval: g\n")
    timed.write_text(Timed(OLD, None, None, None, "host-bound").to_json(), "utf-8")
    assert main([str(timed), str(timed)]) == 0
    for text in ("{", "[]", '{"calls": {"f": 3}}'):
        none.write_text(text, "utf-8")
        assert main([str(none), str(timed)]) == 2 and f"{none} holds no measurement" in capsys.readouterr().err
