"""What a lesson says under *At work* runs as it stands, without brrr; and the cheat sheet holds all of it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from harness import build_script
from parts_rules import FENCED

build = build_script()
BLOCKS = {
    source.stem: code
    for source in build.sources()
    if (found := build.WORK.search(source.read_text("utf-8")))
    for language, code in FENCED.findall(re.sub(r"^# ?", "", found[1], flags=re.MULTILINE))
    if language == "python"
}


def test_most_lessons_have_lines_of_python() -> None:
    assert len(BLOCKS) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("lesson", BLOCKS)
def test_the_lines_run_as_they_stand(lesson: str, tmp_path: Path) -> None:
    code = BLOCKS[lesson]
    if re.search("cuda|pin_memory", code) and "is_available" not in code and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    if "torch.compile" in code and shutil.which("g++") is None and not torch.cuda.is_available():
        pytest.skip("torch.compile needs a C++ compiler on a CPU")
    ran = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", build.PAGES, ids=lambda page: page.stem)
def test_the_pages_are_made_of_the_lessons_and_the_glossary(page: Path) -> None:
    assert page.read_text("utf-8") == build.PAGES[page](), "run: python notebooks/build.py"


@pytest.mark.slow
def test_the_page_of_devices_is_what_the_recordings_say_now() -> None:
    assert (build.DOCS / "devices.md").read_text("utf-8") == build.devices(), "run: python notebooks/build.py --pages"


def test_a_claim_that_turns_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    knee, flat = "It grows. [repeat.knee-32-to-64]", "It is flat. [repeat.flat-at-first]"
    rows = [
        f"| {knee} | undecided | fails | holds (claim written after the data) |",
        f"| {flat} | undecided | holds | holds |",
    ]
    told = "\n".join(["| claim | cpu | h100 | h200 |", "| --- | --- | --- | --- |", *rows, "", "RECORDED"])
    monkeypatch.setattr("brrr_course.lessons.claims_table.main", lambda _: print(told))
    turned, _, every = build.devices().partition("## All 2\n")
    assert "## The 1 that turn\n" in turned and rows[0] in every and rows[1] in every
    assert "| fails: The arithmetic is the H200's" in turned and flat not in turned
