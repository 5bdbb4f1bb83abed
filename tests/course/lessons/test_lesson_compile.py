"""Lesson 12: which lines break a graph, its own step, and what compiling is compared with."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from synthetic import Synthetic

from brrr.core.measurement import Estimate
from brrr_course import check, compare, guess
from brrr_course.experiments.checked import quietly
from brrr_course.lessons.special_quantities import PAID
from brrr_course.nouns.source import Evidence

LESSON = Path(__file__).resolve().parents[3] / "notebooks" / "source" / "12_compile.py"
TEXT = LESSON.read_text("utf-8")


def test_the_lessons_own_step_is_right_and_refused() -> None:
    code = TEXT.split("def step(x):\n    size")[1].split("\n\n\ncheck(")[0]
    names: dict[str, Any] = {"torch": torch}
    exec(f"def step(x):\n    size{code}", names)
    assert (
        "the result is right, but fullgraph=true refuses it: " in str(check("12-fullgraph", step=names["step"])).lower()
    )


def test_which_of_the_six_lines_break_the_graph() -> None:
    lines = re.findall(r"# (\S.*?) +# \d\n", TEXT.split("whether it breaks the graph:")[1].split("<details>")[0])
    assert len(lines) == 6 and "# 1, 3 and 5." in TEXT
    breaking = []
    for number, line in enumerate(lines, 1):
        names: dict[str, Any] = {"torch": torch, "history": []}
        exec(f"def f(h):\n    h = h + 2\n    {line}\n    return h * 3\n", names)
        graphs: list[Any] = []

        def counted(graph: Any, _: Any, made: list[Any] = graphs) -> Any:
            made.append(graph)
            return graph.forward

        with quietly():
            call: Any = torch.compile(names["f"], backend=counted)
            call(torch.randn(16, 4))
        if len(graphs) > 1:
            breaking.append(number)
    assert breaking == [1, 3, 5]


@pytest.mark.parametrize(("gain_s", "option"), [(1e-2, 0), (1e-3, 1), (1e-4, 2), (1e-6, 3), (-1e-6, 3)])
def test_what_compiling_cost_is_divided_by_what_a_call_gains(
    gain_s: float, option: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {"first cold": 5.0, "eager": 1.0, "compile": 1.0 - gain_s}
    monkeypatch.setattr(Evidence, "get", lambda self, line, **at: Estimate(times[line], times[line], times[line], 9))
    g = guess("q", options=PAID, answer=PAID[option])
    found = compare(g, "compiled", of="payback", at={"program": "MLP", "size": "small"}, source=Synthetic())
    assert "and so it is" in found.text and len(found.rows) == 6
    assert ("never" in str(found.rows)) == (gain_s < 0)


def test_the_lesson_offers_the_options_that_are_compared() -> None:
    assert "spans = [" + ", ".join(f'"{each}"' for each in PAID) + "]" in TEXT
