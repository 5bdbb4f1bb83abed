"""The drawn steps of decoding: always the same, measured as they come, predicted when they are judged."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from brrr_course.experiments.decode.theory import Call, Shape
from tools.prediction import steps

FIRST = Shape(words=2000, hidden=96, layers=2, heads=12, kv_heads=3, inner=240, dtype="float32"), Call(4, 1, 40)


def test_sixty_settings_are_drawn_and_stay_the_same() -> None:
    found, again = (list(islice(steps.drawn(), steps.COUNT)) for _ in range(2))
    assert len(set(found)) == steps.COUNT and found == again
    assert {shape.dtype for shape, _ in found} == {"bfloat16", "float16", "float32"}
    assert all(shape.heads % shape.kv_heads == 0 for shape, _ in found)


def test_a_cpu_measures_them_smaller_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "drawn", lambda by: iter([FIRST]))
    monkeypatch.setattr(steps, "BUDGET_S", 0.02)
    assert steps.main([str(tmp_path), "0", "cpu"]) == 0 and not (tmp_path / steps.FILE).exists()  # no time
    for _ in range(2):
        assert steps.main([str(tmp_path), "60", "cpu"]) == 0
    (row,) = [json.loads(line) for line in (tmp_path / steps.FILE).read_text().splitlines()]
    assert row["device"] == "cpu" and row["eager"]["period_s"] > 0 and "graph" not in row
    assert steps.main([str(tmp_path), "--judge"]) == 0 and steps.main([]) == 2


def test_each_way_is_judged_beside_the_roofline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape, call = FIRST
    ways = {way: {"period_s": 1e-4, "host_s": 9e-6} for way in ("eager", "graph", "attention", "relu")}
    row: dict[str, Any] = {"name": "one", "device": "h100", "shape": shape, "call": call, **ways}
    kept = row, {"name": "none", "device": "h100", "error": "no memory"}
    (tmp_path / steps.FILE).write_text("".join(json.dumps(each) + "\n" for each in kept))
    assert steps.main([str(tmp_path), "--judge"]) == 0
    assert "none: no memory" in capsys.readouterr().out
    found = steps.errors_of(row)
    assert len(found) == 9 and found["eager", "measured peaks"] > found["graph", "measured peaks"]
    assert all(found[way, "roofline"] < found[way, "datasheet"] for way in ("eager", "graph", "attention"))
