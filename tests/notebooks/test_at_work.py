"""What stands under *At work* and *What measured it* runs as it is; and the cheat sheet holds all of *At work*."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import parts_rules
import pytest
import torch
from harness import build_script

from brrr_course.experiments import NAMES
from brrr_course.lessons import course
from brrr_course.nouns.table import written
from brrr_course.sources import laptops

build = build_script()
BLOCKS = {
    source.stem: code
    for source in build.sources()
    if (found := build.WORK.search(source.read_text("utf-8")))
    for language, code in parts_rules.FENCED.findall(re.sub(r"^# ?", "", found[1], flags=re.MULTILINE))
    if language == "python"
}
MEASURE = {
    f"{source.stem}, what measured it": code
    for source in build.lessons()
    for cell in build.read(source).cells
    for code in parts_rules.MEASURED.findall(cell.source)
}


FORKS = """
import contextlib, json, os, sys, traceback, torch
for line in sys.stdin:
    asked = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.chdir(asked["folder"])
    for number in (1, 2):
        os.dup2(os.open("said", os.O_CREAT | os.O_APPEND | os.O_WRONLY), number)
    try:
        exec(compile(asked["code"], "<string>", "exec"), {"__name__": "__main__"})
        raise SystemExit(0)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        status = 1
        traceback.print_exc()
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    os._exit(status)
"""
"""Runs each program in a process of its own that has torch loaded: to load it takes longer than to run most."""


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[str, Path], int]]:
    """A function that runs a program in a folder, and returns its exit status; what it said lies there."""
    if not hasattr(os, "fork"):
        pytest.skip("forks processes")
    command = [sys.executable, "-I", "-c", FORKS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:
        assert forks.stdin is not None and forks.stdout is not None

        def run_one(code: str, folder: Path) -> int:
            print(json.dumps({"code": code, "folder": str(folder)}), file=forks.stdin, flush=True)
            return int(forks.stdout.readline())

        yield run_one


def test_most_lessons_have_lines_of_python() -> None:
    assert len(BLOCKS) >= 12


@pytest.mark.parametrize("lesson", BLOCKS | MEASURE)
def test_the_lines_run_as_they_stand(lesson: str, run: Callable[[str, Path], int], tmp_path: Path) -> None:
    code = (BLOCKS | MEASURE)[lesson]
    if lesson in MEASURE:
        compile(code, lesson, "exec")
        if "import torch" not in code:
            pytest.skip("goes on from the lesson's names")
        if re.search("cuda|pin_memory", code) and "is_available" not in code and not torch.cuda.is_available():
            pytest.skip("needs a GPU")
    if "torch.compile" in code and shutil.which("g++") is None and not torch.cuda.is_available():
        pytest.skip("torch.compile needs a C++ compiler on a CPU")
    assert run(code, tmp_path) == 0, (tmp_path / "said").read_text("utf-8")


def test_lines_that_fail_are_seen_and_leave_nothing_behind(run: Callable[[str, Path], int], tmp_path: Path) -> None:
    assert run("import math, sys\nname = 1", tmp_path) == 0
    assert run("name", tmp_path) == 1 and "NameError" in (tmp_path / "said").read_text("utf-8")
    assert run("raise SystemExit(3)", tmp_path) == 3


@pytest.mark.parametrize("page", build.PAGES, ids=lambda page: page.stem)
def test_the_pages_are_made_of_the_lessons_and_the_glossary(page: Path) -> None:
    assert page.read_text("utf-8") == build.PAGES[page](), "run: python notebooks/build.py"


def test_an_address_makes_the_clone_and_the_badges(monkeypatch: pytest.MonkeyPatch) -> None:
    lesson = build.lessons()[1]
    monkeypatch.setenv("BRRR_REPOSITORY", "")
    before, readme = build.read(lesson), build.readme()
    assert not re.search("git clone|colab|<this", readme)
    monkeypatch.setenv("BRRR_REPOSITORY", "https://github.com/o/n/")
    made, readme = build.read(lesson), build.readme()
    assert course.strip_outputs(made)["cells"] == before.cells and course.edition(made) == course.edition(before)
    for text, name in ((made.cells[1].source, lesson.stem), (readme, "00_start_here")):
        assert "git clone --depth 1 https://github.com/o/n brrr" in text and f"/o/n/blob/main/notebooks/{name}." in text
    assert "(https://o.github.io/n/why.html)" in readme
    assert [problem for rule in parts_rules.ALL_RULES for problem in rule(made)] == []


def test_the_page_of_devices_is_what_the_recordings_say_now() -> None:
    assert (build.DOCS / "devices.md").read_text("utf-8") == build.devices(), "run: python notebooks/build.py --pages"


def test_that_page_finds_the_experiments_of_each_lesson() -> None:
    of = build.lessons_of(NAMES)
    assert of["matmul"] == ["00", "01"] and of["memory_swap"] == ["10b"] and of["strassen_errors"] == ["09b"]
    assert {*chain(*of.values())} == {path.stem.partition("_")[0] for path in build.lessons()}


def test_readers_own_gpus_stand_there_with_their_units_or_that_nobody_has_sent_one(tmp_path: Path) -> None:
    table, of = tmp_path / "laptops.csv", {"vendor": "apple", "model": "Air", "browser": "Safari", "date": "2026-01-31"}
    table.write_text(written(laptops.COLUMNS, []), "utf-8")
    assert build.laptops(table) == ["Nobody has sent one yet."] and build.HEADINGS.keys() == laptops.FIGURES.keys()
    matmul = zip((*laptops.ENDS, "_at"), ("2.15e11", "2e11", "4e11", "64"), strict=True)
    with table.open("a", encoding="utf-8") as file:
        line = of | {"tick_s": "0.001"} | {f"matmul_flop_per_s{end}": value for end, value in matmul}
        csv.DictWriter(file, [each.name for each in laptops.COLUMNS]).writerow(line)
    head, _, told = build.laptops(table)
    assert told.startswith("| apple, Air | Safari | 2026-01-31 | not measured |") and head.count("|") == told.count("|")
    assert told.endswith(" | 215 GFLOP/s (200 GFLOP/s to 400 GFLOP/s), at 64 | 1 ms |") and "| matmul |" in head


def test_a_claim_that_turns_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    knee, flat = "It grows. [repeat.knee-32-to-64]", "It is flat. [repeat.flat-at-first]"
    rows = [
        f"| {knee} | undecided | fails | holds (claim written after the data) |",
        f"| {flat} | undecided | holds | holds |",
    ]
    told = "\n".join(["| claim | cpu | h100 | h200 |", "| --- | --- | --- | --- |", *rows, "", "RECORDED"])
    monkeypatch.setattr(build, "tables", list)
    monkeypatch.setattr("brrr_course.lessons.claims_table.beside", lambda _: told)
    turned, _, every = build.devices().partition("## All 2\n")
    assert "## The 1 that turn\n" in turned and rows[0] in every and rows[1] in every
    assert "| fails: The arithmetic is the H200's" in turned and flat not in turned
