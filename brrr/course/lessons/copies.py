"""The student's copies of the lessons: made once, without the answers in the outputs, and never overwritten."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.paths import PACKAGE, share


def default_work() -> Path:
    """The folder of the student's copies: `work` in the repository, or in the current folder if brrr is installed."""
    repository = PACKAGE.parent
    return (repository if (repository / "pyproject.toml").is_file() else Path.cwd()) / "work"


def lessons(folder: Path) -> list[Path]:
    """The lessons in `folder`, in their order; solutions lie in a folder of their own and are none of them."""
    return sorted(path for path in folder.glob("*.ipynb") if path.is_file())


def copy_lessons(source: Path, work: Path) -> list[Path]:
    """Copy each lesson that `work` lacks, without its outputs, and return the new copies; never overwrite one."""
    if not lessons(source):
        raise UnavailableError(
            f"brrr lab: there are no lessons in {source}. Install brrr again, or restore that folder."
        )
    try:
        work.mkdir(parents=True, exist_ok=True)
        missing = [path for path in lessons(source) if not (work / path.name).exists()]
        return [_copy_stripped(path, work / path.name) for path in missing]
    except OSError as error:
        raise UnavailableError(_no_permission(work, error)) from error


def _copy_stripped(lesson: Path, copy: Path) -> Path:
    """Write `copy` whole or not at all, and not over a file that somebody made in the meantime."""
    text = json.dumps(strip_outputs(json.loads(lesson.read_text("utf-8"))), indent=1, ensure_ascii=False) + "\n"
    half = copy.with_name(f".{copy.name}.{os.getpid()}")
    half.write_text(text, "utf-8")
    if copy.exists():
        half.unlink()
    else:
        half.rename(copy)
    return copy


def strip_outputs(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook without outputs, execution counts and widget state, so that no answer stands under its question.

    >>> cell = {"cell_type": "code", "source": "1 + 1", "outputs": ["2"], "execution_count": 7}
    >>> strip_outputs({"cells": [cell], "metadata": {"widgets": {}}})
    {'cells': [{'cell_type': 'code', 'source': '1 + 1', 'outputs': [], 'execution_count': None}], 'metadata': {}}
    """
    blank: dict[str, Any] = {"outputs": [], "execution_count": None}
    cells = [{**cell, **blank} if cell["cell_type"] == "code" else cell for cell in notebook["cells"]]
    metadata = {name: value for name, value in notebook["metadata"].items() if name != "widgets"}
    return {**notebook, "cells": cells, "metadata": metadata}


def set_aside(name: str, work: Path) -> Path | None:
    """Rename the student's copy of lesson `name` (`01`, `01b` or a whole name) so that it is copied anew.

    Returns the new path, or None if there was no copy.
    """
    copy = work / find_lesson(name, share("notebooks")).name
    if not copy.exists():
        return None
    aside = copy.with_name(f"{copy.stem}.{time.strftime('%Y-%m-%d_%H%M%S')}.ipynb")
    if aside.exists():
        raise UnavailableError(f"brrr lab: {aside} is there already; wait a second and try again.")
    try:
        return copy.rename(aside)
    except OSError as error:
        raise UnavailableError(_no_permission(work, error)) from error


def find_lesson(name: str, source: Path) -> Path:
    """The lesson that `name` means: its number (`01`, `01b`) or its whole name, with or without `.ipynb`."""
    known = lessons(source)
    for path in known:
        if name in (path.stem, path.name, path.stem.split("_")[0]):
            return path
    numbers = ", ".join(path.stem.split("_")[0] for path in known)
    raise ArgumentError("brrr lab", "--fresh", name, f"one of the lessons {numbers}")


def _no_permission(work: Path, error: OSError) -> str:
    return (
        f"brrr lab: cannot write the lessons into {work} ({error.strerror or error}). "
        "Name a folder of your own: brrr lab --work DIR"
    )
