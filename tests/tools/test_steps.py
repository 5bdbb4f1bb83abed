"""The drawn steps of decoding: always the same, measured as they come, predicted when they are judged."""

import json
from pathlib import Path
from typing import Any

import pytest

from brrr_course.experiments.decode.theory import Call, Shape
from tools.prediction import steps

FIRST = Shape(words=2000, hidden=96, layers=2, heads=12, kv_heads=3, inner=240, dtype="float32"), Call(4, 1, 40)


def test_sixty_settings_are_drawn_and_stay_the_same() -> None:
    found = list(steps.drawn())
    assert len(set(found)) == steps.COUNT and found == list(steps.drawn())
    assert {shape.dtype for shape, _ in found} == {"bfloat16", "float16", "float32"}
    assert all(shape.heads % shape.kv_heads == 0 for shape, _ in found)


def test_a_cpu_measures_them_smaller_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "drawn", lambda by: iter([FIRST]))
    monkeypatch.setattr(steps, "BUDGET_S", 0.02)
    assert steps.main([str(tmp_path), "0", "cpu"]) == 0 and not (tmp_path / steps.FILE).exists()  # no time
    for _ in range(2):
        assert steps.main([str(tmp_path), "60", "cpu"]) == 0
    (row,) = [json.loads(line) for line in (tmp_path / steps.FILE).read_text().splitlines()]
    assert row["way"] == "eager" and row["device"] == "cpu" and row["measured_period_s"] > 0
    assert steps.main([]) == 2


def test_each_way_is_judged_beside_the_roofline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape, call = FIRST
    rows: list[dict[str, Any]] = [
        {"program": way, "device": "h100", "shape": shape, "call": call, "way": way, "measured_period_s": 1e-4,
         "measured_busy_s": 1e-4, "relu_host_s": 9e-6, "flags": []} for way in ("eager", "graph", "attention")
    ]  # fmt: skip
    rows.append({"program": "none", "device": "h100", "way": "eager", "error": "no memory"})
    (tmp_path / steps.FILE).write_text("".join(json.dumps(each) + "\n" for each in rows))
    assert steps.main([str(tmp_path), "--judge"]) == 0
    told = capsys.readouterr().out
    assert "no memory" in told and told.count("the datasheet's roofline") == 3 and told.count("calibrated") == 3
    by_way = {row["way"]: steps.predicted(row) for row in rows[:3]}
    assert by_way["eager"]["predicted_period_s"] > by_way["graph"]["predicted_period_s"]
    assert all(row["roofline_period_s"] < row["predicted_period_s"] for row in by_way.values())
