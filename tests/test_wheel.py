"""The packages that are built here hold what is the project's, whatever else lies in its folders."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAMES = ["class.db", "class.db-wal", "class.db.serving", "ada.token", "tokens/ada.token", ".env", "id_rsa", "notes.txt",
         "grades.csv", "mine.ipynb", "settings.toml", ".ipynb_checkpoints/01-checkpoint.ipynb", "mine/machine.json",
         "mine/matmul.csv", "mine/matmul.samples.npz", "peaks.json", "01_async_timing.guesses.json", "x.html",
         ".netrc", "core.1234", "private.pem", "answers.md"]  # fmt: skip
SECRET = b"a stranger's secret\n"
BUILD = "import sys; from hatchling.build import *; build_sdist(sys.argv[1]); build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git tracks, as it stands here, in a repository of its own, with strangers' files in every folder."""
    root = tmp_path_factory.mktemp("clone")
    tracked = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(tracked, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if listed.returncode:
        pytest.skip("this is no clone")
    names = [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    tops = ("brrr", "brrr_course", "data", "docs", "notebooks", "tools", "LICENSE", "CHANGELOG.md", "pyproject.toml")
    kept = [name for name in names if name.partition("/")[0] in tops]
    for name in kept:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    for command in (["init", "-q"], ["add", "--force", "."]):
        subprocess.run(["git", *command], cwd=root, check=True)
    rng = random.Random(0)
    folders = sorted({parent for name in kept for parent in Path(name).parents if parent.parts[:1] != ("tools",)})
    for number, folder in enumerate(folders):
        for name in {NAMES[number % len(NAMES)], *rng.sample(NAMES, 3)}:
            if not (root / folder / name).exists():
                (root / folder / name).parent.mkdir(parents=True, exist_ok=True)
                (root / folder / name).write_bytes(SECRET)
    return root


def build(folder: Path, out: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": "", "GIT_CEILING_DIRECTORIES": str(out)}
    command = [sys.executable, "-P", "-c", BUILD, str(out)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def built(folder: Path, out: Path) -> dict[str, dict[str, bytes]]:
    """By the built file's name what it holds: a sdist and a wheel."""
    out.mkdir()
    done = build(folder, out)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, bytes]] = {}
    for path in list(out.iterdir()):
        inside = out / f"inside {path.name}"
        shutil.unpack_archive(path, inside, "zip" if path.suffix == ".whl" else "gztar")
        files = (each for each in inside.rglob("*") if each.is_file())
        found[path.name] = {each.relative_to(inside).as_posix(): each.read_bytes() for each in files}
    return found


@pytest.mark.parametrize("folder", ["brrr_course", "."])
def test_nothing_of_a_stranger_s_is_packed(folder: str, clone: Path, tmp_path: Path) -> None:
    found = built(clone / folder, tmp_path / "out")
    assert len(found) == 2
    for name, content in found.items():
        assert [each for each, inner in content.items() if inner == SECRET] == [], name
        package = "brrr_course/" if "course" in name else "brrr/"
        listed = subprocess.run(["git", "ls-files", package], cwd=clone, stdout=subprocess.PIPE, text=True, check=True)
        apart = ("pyproject.toml", "course/README.md", "tracked.py")  # what builds the course, at the top of its sdist
        ours = {each for each in listed.stdout.splitlines() if not each.endswith(apart)}
        assert {each for each in ours if not any(inner.endswith(each) for inner in content)} == set(), name
        assert any(inner.endswith("h200/sweeps.npz") for inner in content) == (folder == "."), "they lie in one of both"


def test_without_git_the_course_is_not_built(clone: Path, tmp_path: Path) -> None:
    """A folder of files alone does not tell which of them are the course's; but for a sdist, which holds no others."""
    shutil.copytree(clone, tmp_path / "copy", ignore=shutil.ignore_patterns(".git"))
    done = build(tmp_path / "copy" / "brrr_course", tmp_path)
    assert done.returncode and "Build in a clone" in done.stderr and not list(tmp_path.glob("*.*"))
