"""`brrr new-lesson`: what it writes keeps the form, runs, is judged, marks its exercises, before a word is changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from brrr.core.errors import ArgumentError, UnavailableError
from brrr_course.cli import new_lesson

ROOT = Path(__file__).resolve().parents[2]
SEEN = """
import os, sys
from pathlib import Path
sys.path[:0] = ["notebooks", "tests/notebooks"]
import build, made_up, parts_rules, test_teaching
from brrr_course.lessons.cells import Cells
from brrr_course.experiments import NAMES, experiment
from brrr_course.lessons.checking import check
from brrr_course.lessons.claims_table import claims
from brrr_course.sources.live import Live
import brrr_course

assert brrr_course.__file__.startswith({root!r}), brrr_course.__file__
assert NAMES[-1] == "sorting"
found = experiment("sorting")
for variant in found.variants:
    assert found.workload(variant.name, found.point(elements=1024)).check() < 1e-6
assert [claim.name for claim in found.claims] == ["one-is-faster"]
assert len(claims("19", source=Live("cpu")).rows) == 1
lesson, solution = (build.read(path) for path in build.sources("19"))
wrong = [f"{{rule.__name__}}: {{problem}}" for rule in parts_rules.ALL_RULES for problem in rule(lesson)]
assert wrong == [], wrong
given = {{}}
marks = []
for cell in solution.cells:
    if cell.cell_type == "code":
        exec(cell.source.replace("check(", "mark = check("), given)
        marks.append(given.pop("mark", None))
assert [mark.right for mark in marks if mark is not None] == [True, True], marks
assert test_teaching.lacks(build._section(build.SOURCE / "19_sorting.py")) == []
assert abs(build.minutes(build.SOURCE / "19_sorting.py") - 20) < 3

made_up.record(Path("data/recordings"), made_up.Machine("a-cpu", "Somebody's CPU", "cpu"), names=("sorting", "matmul"))
os.environ |= build.edition(lesson)
shown, said = [], []
cells = Cells("19", shown.append, said.append)
with cells.on_stage():
    for cell in lesson.cells:
        if cell.cell_type == "code":
            cells.run(cell.source)
assert "".join(said) == "", said
kinds = [type(each).__name__ for each in shown]
assert kinds == ["Guess", "Explorer", "Comparison", "Mark", "Mark", "ClaimsTable"], kinds
assert str(shown[-1]) == str(claims("19")) and "Somebody's CPU" in shown[-1].badge
assert "| [19 TODO](public/19_sorting.html) | TODO: the question? | 20 | 16 |" in build.readme()
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The repository without its recordings, executed notebooks and tests but those of the form."""
    for name in ("brrr_course", "notebooks/source", "tests/notebooks", "data/lesson"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "data", tmp_path / "data", dirs_exist_ok=True, ignore=shutil.ignore_patterns("recordings"))
    for name in ("notebooks/build.py", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for link in (*(ROOT / "notebooks").glob("*.ipynb"), ROOT / "notebooks" / "solutions"):
        (tmp_path / "notebooks" / link.name).symlink_to(link)
    return tmp_path


def test_three_files_and_two_tables_are_in_their_form(clone: Path) -> None:
    before = {path: path.read_bytes() for path in clone.rglob("*") if path.is_file()}
    written = new_lesson.write(clone, "19", "sorting")
    after = {path for path in clone.rglob("*") if path.is_file() and path.read_bytes() != before.get(path)}
    assert after == {*written} and len(written) == 5
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(clone), str(ROOT), str(ROOT / "tests")))}
    seen = subprocess.run(
        [sys.executable, "-c", SEEN.format(root=str(clone))], cwd=clone, env=environment, capture_output=True, text=True
    )
    assert seen.returncode == 0, seen.stderr
    ruff = [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), *map(str, written[:-2])]
    done = subprocess.run(ruff, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_what_is_there_is_kept(clone: Path) -> None:
    for number, name, argument in (("19", "matmul", "NAME"), ("10", "sorting", "NAME"), ("1", "sorting", "NUMBER"),
                                   ("19", "Sorting", "NAME"), ("19", "a/b", "NAME")):  # fmt: skip
        with pytest.raises(ArgumentError) as refused:
            new_lesson.write(clone, number, name)
        assert refused.value.argument == argument
    assert not (clone / "brrr_course/experiments/sorting").exists()


def test_an_installed_course_is_no_place_for_it(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no clone"):
        new_lesson.write(tmp_path, "19", "sorting")
