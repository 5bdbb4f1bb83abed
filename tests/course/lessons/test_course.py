"""Which lessons run live where: what each says of itself follows from the experiments that it shows."""

import ast
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import jupytext
import pytest

from brrr.gpu import device
from brrr_course.experiments import NAMES, experiment
from brrr_course.lessons import course
from brrr_course.nouns.places import COURSE
from brrr_course.sources import FALLBACK, source_for

NOTEBOOKS = COURSE.parent / "notebooks"
SOURCES = sorted((NOTEBOOKS / "source").glob("*.py"))
SHOWN = {"explore": 0, "compare": 1, "timeline": 0, "scaling_test": 0, "find_transition": 0}
"""The calls of a lesson that show an experiment, and which argument names it."""

each_lesson = pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)


def shown(text: str) -> set[str]:
    """The experiments that a lesson's code shows."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    found = set()
    for call in calls:
        place = SHOWN.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if place is not None and len(call.args) > place and isinstance(call.args[place], ast.Constant):
            found.add(call.args[place].value)
    return found & {*NAMES}


def derived(names: set[str]) -> dict[str, Any]:
    """What a lesson with these experiments has to say of itself."""
    all_of_them = [experiment(name) for name in names]
    packages = [import_module(f"brrr_course.experiments.{name}") for name in names]
    return {
        "cuda": any(way.on_gpu for each in all_of_them for way in each.variants),
        "two_gpus": any(each.devices > 1 for each in all_of_them),
        "two_boards": any(hasattr(package, "REFERENCE") for package in packages),
        "cpu": any(each.variants_on("cpu") for each in all_of_them),
    }


def said(own: dict[str, Any]) -> dict[str, Any]:
    return {word: word in own["needs"] for word in ("cuda", "two_gpus", "two_boards")} | {"cpu": own.get("cpu", True)}


@each_lesson
def test_a_lesson_says_what_its_experiments_need(path: Path) -> None:
    own = jupytext.read(path, fmt="py:percent").metadata["brrr"]
    names = shown(path.read_text("utf-8"))
    assert names, "every lesson shows an experiment"
    assert said(own) == derived(names)
    kept = json.loads((NOTEBOOKS / f"{path.stem}.ipynb").read_text("utf-8"))["metadata"]["brrr"]
    assert kept.items() >= own.items(), "run: python notebooks/build.py"


def here(monkeypatch: pytest.MonkeyPatch, gpus: int, *rows: str) -> dict[str, course.Lesson]:
    """The lessons on a machine with that many GPUs where these rows of the doctor are fine."""
    names = ["NVIDIA H200"] * gpus
    monkeypatch.setattr(course, "others", lambda kind, count: [(name, "") for name in names[1:]][:count])
    fine = {"torch", *rows, *(["CUDA"] if gpus else [])}
    return {each.name: each for each in course.lessons(NOTEBOOKS, lambda row: row in fine)}


LIBRARIES = ("PyCUDA", "Triton", "nvmath", "CUPTI", "C compiler")


@pytest.mark.parametrize("rows", [(), LIBRARIES], ids=["bare", "all libraries"])
def test_without_a_gpu_no_lesson_is_called_live(monkeypatch: pytest.MonkeyPatch, rows: tuple[str, ...]) -> None:
    found = here(monkeypatch, 0, *rows)
    assert len(found) == len(SOURCES)
    assert not [name for name, each in found.items() if each.state in ("live", "problem")]
    for path in SOURCES:
        runs = derived(shown(path.read_text("utf-8")))
        each = found[path.stem]
        assert each.state == ("partly live" if runs["cpu"] else "replayed")
        assert "record" in each.note and ("two processes" in each.note) == runs["two_gpus"]


def test_one_gpu_is_not_two_and_no_machine_has_two_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = here(monkeypatch, 1, *LIBRARIES), here(monkeypatch, 2, *LIBRARIES)
    assert one["14_two_gpus"].note == "recorded figures where a second GPU would be needed"
    assert two["14_two_gpus"].state == "live"
    assert {name for name, each in two.items() if each.state != "live"} == {"10b_memory_swap"}
    assert two["10b_memory_swap"].note == "recorded figures where both boards would be needed"


@pytest.mark.parametrize("name", ["collective", "data_parallel", "tensor_parallel"])
def test_two_processes_on_a_cpu_are_a_live_source(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What the doctor says of lesson 14: unasked the recording is shown, with BRRR_SOURCE=cpu two processes."""
    monkeypatch.setattr(device, "cuda_problem", lambda: "there is no NVIDIA GPU")
    monkeypatch.delenv("BRRR_SOURCE", raising=False)
    assert source_for(None, name).name == FALLBACK
    monkeypatch.setenv("BRRR_SOURCE", "cpu")
    found = source_for(None, name)
    assert found.live and found.variants(experiment(name))
    assert "2 processes" in found.badge(experiment(name)).device
