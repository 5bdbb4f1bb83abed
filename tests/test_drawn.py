"""What takes seconds comes in turns: a fifth a day, in time every one; and what is listed exists."""

from pathlib import Path

import pytest
import today

LISTED = [line for line in (Path(__file__).parent / "slow.txt").read_text("utf-8").splitlines() if line[:1] != "#"]
ROOT = Path(__file__).resolve().parents[1]


def test_what_is_listed_exists() -> None:
    for line in LISTED:
        path, _, name = line.partition("::")
        assert f"def {name.partition('[')[0]}" in (ROOT / path).read_text("utf-8"), line


def test_each_day_runs_a_fifth_and_in_time_all_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [line if "::" in line else f"{line}::test_first" for line in LISTED]
    quick, ran = ["tests/test_drawn.py::test_quick"], set[str]()
    for day in range(60):
        monkeypatch.setattr(today, "SEED", f"day {day}")
        left = today.left_out([*names, *quick])
        assert len(names) - len(left) == -(-len(names) // today.SHARE)
        ran |= {*names, *quick} - left
    assert ran == {*names, *quick}
    monkeypatch.setattr(today, "SEED", "all")
    assert today.left_out(names) == set()
