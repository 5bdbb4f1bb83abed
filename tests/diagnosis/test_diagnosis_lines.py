"""Lines of the user's code: of operators, gradients, Python, and waiting for data; and steps by their optimisers."""

import re
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from brrr.cli.diagnose import main
from brrr.diagnosis.diagnosing import diagnose, diagnose_trace
from brrr.diagnosis.lines import lines_of, python_by_line
from brrr.diagnosis.split import by_optimiser
from brrr.tracing.events import Event
from brrr.tracing.lines import DATA, LINE, MOST, LineSpans
from brrr.tracing.trace_file import Trace

WEIGHT, X = torch.randn(64, 64, requires_grad=True), torch.randn(8, 64)


def step() -> None:
    h = X @ WEIGHT
    y = torch.tanh(h)
    y.sum().backward()


def test_an_operator_stands_at_its_line_and_a_gradient_at_that_of_its_operator() -> None:
    found = diagnose(step, device="cpu", budget_s=0.02)
    calls = {line.name.partition("`")[2]: line.calls / found.steps for line in found.lines}
    assert calls["h = X @ WEIGHT`"] == 3, "the product, its gradient's, and the sum with what was there"
    assert calls["y = torch.tanh(h)`"] == 2 and "test_diagnosis_lines.py:" in found.details()


def test_a_saved_trace_names_the_users_functions(tmp_path: Path) -> None:
    with torch.profiler.profile(with_stack=True, record_shapes=True) as made:
        step()
    made.export_chrome_trace(str(tmp_path / "trace.json"))
    names = [line.name for line in diagnose_trace(tmp_path / "trace.json", "cpu").lines]
    assert any(re.search(r"test_diagnosis_lines.py:\d+ step$", name) for name in names), names
    assert not any("site-packages" in name or "torch/" in name for name in names)


TRAIN = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)])
optimizer = torch.optim.SGD(model.parameters())
def batches():
    for k in range(4):
        rows = [[float(i * j) for i in range(64)] for j in range(600)]
        yield torch.tensor(rows[:8])
for x in batches():
    model(x[:]).square().mean().backward()
    optimizer.step()
"""


def test_a_scripts_steps_are_its_optimisers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """And what it waits for stands at the lines that make it."""
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    assert main([str(tmp_path / "train.py")]) == 0
    said = capfd.readouterr().out
    for part in (r"LIVE · (?!a CPU).+ · 20\S+ · 4 steps of ", r"line, with its gradients [^`]*train.py:10 `",
                 r"addmm is called 8 .* \(see .*train.py:10 `", r"waiting for data\n.*train.py:7 `"):  # fmt: skip
        assert re.search(part, said), said


def events(*rows: tuple[str, int, int]) -> list[Event]:
    """Operators by their names, and all else as spans."""
    made = [Event(name, "operator" if "::" in name else "annotation", start, end) for name, start, end in rows]
    return sorted(made, key=lambda each: (each.start_ns, -each.end_ns))


def test_what_is_told_once_is_recognised_by_its_order() -> None:
    """Two lines of equal operators behind some of set-up; the fourth begins otherwise,
    and has no lines until three operators tell where it is.
    """
    calls = [(f"aten::{name}", 2 * at, 2 * at + 1) for at, name in enumerate("iaabaabaabcaab")]
    made = events(*((f"{LINE}{line}", 2 * at, 2 * at + 2) for at, line in enumerate("i012012")), *calls)
    lines = lines_of(made)
    assert [lines[id(each)] for each in made if each.sort == "operator"] == [*"i012012012", "", "", "", "2"]


@pytest.mark.parametrize(("inside", "cause"), [
    ((f"{LINE}b.py:2 `yield rows`", 1_000, 90_000), "waiting for data"), (("aten::linear", 50_000, 60_000), "Python"),
    (("enumerate(DataLoader)#x", 10, 100_000), "loader"), ((f"{LINE}b.py:2", 99_000, 99_001), "waiting for data"),
])  # fmt: skip
def test_who_asks_for_data_waits_for_them_unless_a_model_computes(inside: tuple[str, int, int], cause: str) -> None:
    asks = f"{LINE}a.py:1 `for x in model_or_data:`"
    gives = f"{asks}{DATA}", 100_000, 100_001
    found = python_by_line(events((asks, 0, 100_000), inside, gives))
    assert max(found, key=lambda each: found[each].total()) == cause
    for others in [], [gives, (asks, 200_000, 200_900)]:  # no data, and data that are there at once but for one slice
        assert not python_by_line(events((asks, 0, 100_000), *others))["waiting for data"]


def loops(model: torch.nn.Module) -> None:
    for p in model.parameters():
        for k, row in [(1, [p])]:
            row = next(iter([row, k]))


def test_what_gives_numbers_parameters_or_modules_is_no_loader(seen: list[str]) -> None:
    with LineSpans():
        loops(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    data = {each.partition("`")[0] for each in seen if each.endswith(DATA)}
    assert data == {"for k, row in [(1, [p])]:", "row = next(iter([row, k]))"}


@pytest.mark.parametrize(("unit", "steps"), [
    ("aaaaaO", 1), ("aaaaaO" * 2, 2), ("aaabbO", 1), ("aaaaaObbbbbbbbbO", 1), ("OaaaOO", 1), ("O", 1), ("a", 0),
    ("abO" * 3 + 10 * "v", 3),
])  # fmt: skip
def test_a_step_ends_with_the_last_of_its_optimisers(unit: str, steps: int) -> None:
    """Behind some operators of set-up, and where a model is tested; each takes 5 ns of 10, an optimiser's is marked."""
    made = [(name, 10 * at + 1) for at, name in enumerate("i" * 20 + 4 * unit)]
    rows = [(f"aten::{name}", at, at + 5) for name, at in made]
    rows += [("Optimizer.step#", at - 1, at + 5) for name, at in made if name == "O"]
    found = by_optimiser(Trace(tuple(events(*rows)), {}))
    length = 10 * len(unit.rstrip("v")) // max(1, steps)
    assert [each.end_ns - each.start_ns for each in found] == [length] * 4 * steps


def counted(n: int) -> int:
    total = 0
    for each in range(n):
        total += each
    return total


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr("brrr.tracing.lines.marker", lambda: lambda n: nullcontext(names.append(n.partition("`")[2])))
    return names


def test_lines_are_told_as_they_run_and_what_goes_on_and_on_is_not(seen: list[str]) -> None:
    with LineSpans():
        counted(1)
    assert seen[-4:] == ["for each in range(n):`", "total += each`", "for each in range(n):`", "return total`"]
    with LineSpans():
        counted(3 * MOST)
    assert seen.count("total += each`") < MOST + 9


def test_who_follows_the_lines_already_is_left_alone(seen: list[str]) -> None:
    was = sys.gettrace()
    sys.settrace(lambda *_: None)
    with LineSpans():
        counted(1)
    sys.settrace(was)
    assert not seen
