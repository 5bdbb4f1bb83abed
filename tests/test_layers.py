"""The layers of `pyproject.toml`, which `make lint` checks, can fail: also inside a function, and for types alone."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CHECK = "from importlinter.cli import lint_imports_command as lint; lint(['--no-cache'])"
UPWARD = {
    "inside a function": "def late():\n    import brrr_course.nouns.claim\n",
    "for types alone": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import brrr_course.nouns.claim\n",
}


def checked(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", CHECK], cwd=folder, capture_output=True, text=True, check=False)


def house(folder: Path) -> Path:
    """A small package under this project's contracts: every layer is there, and empty but for a class."""
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text("utf-8"), "utf-8")
    layers = [path.name for path in (ROOT / "brrr").iterdir() if (path / "__init__.py").exists()]
    rooms = [path.name for path in (ROOT / "brrr_course").iterdir() if (path / "__init__.py").exists()]
    both = [*(f"brrr/{layer}" for layer in layers), *(f"brrr_course/{room}" for room in rooms)]
    for name in ["tools", "brrr", "brrr_course", *both]:
        (folder / name).mkdir()
        (folder / name / "__init__.py").touch()
    for name in ("brrr/__main__", "brrr_course/__main__", "brrr_course/nouns/claim"):
        (folder / f"{name}.py").write_text("class Claim: ...\n", "utf-8")
    return folder


@pytest.mark.parametrize("where", UPWARD)
def test_an_import_that_leads_up_is_found(where: str, tmp_path: Path) -> None:
    assert checked(house(tmp_path)).returncode == 0
    (tmp_path / "brrr/core/units.py").write_text(UPWARD[where], "utf-8")
    done = checked(tmp_path)
    assert done.returncode == 1 and "brrr is not allowed to import brrr_course" in done.stdout
