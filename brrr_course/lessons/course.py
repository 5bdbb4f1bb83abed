"""The course's lessons: which there are, which of them run live on this machine, and the student's copies."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.gpu import CUDA
from brrr.gpu.device import others
from brrr_course.nouns.places import COURSE, share

ROAD = ("00", "01", "02", "03", "04", "05", "07", "10", "15", "12", "11", "16")
"""The main road, by the lessons' numbers. Every other lesson is a side road, and says from which one it `leaves`."""

ELSEWHERE = ("00", "01", "02", "03", "04", "05", "07", "10", "15", "11")
"""Those that an accelerator without CUDA runs live, too: by torch's own operators and the host's clock."""

State = Literal["live", "partly live", "replayed", "problem"]

_USUAL_NEEDS = ("cuda",)  # of a notebook that does not say what its figures need to be measured live

# Words in a notebook's metadata -> the doctor's row; the last two are no row of its.
ROW_OF = {
    "cuda": "CUDA", "torch": "torch", "pycuda": "PyCUDA", "triton": "Triton", "nvmath": "nvmath",
    "cupti": "CUPTI", "compiler": "C compiler", "two_gpus": "a second GPU", "two_boards": "both boards",
}  # fmt: skip


@dataclass(frozen=True)
class Lesson:
    """One lesson and how it runs here; `note` says why."""

    name: str
    state: State
    note: str = ""


def lessons(folder: Path, have: Callable[[str], bool]) -> tuple[Lesson, ...]:
    """Every lesson, which is every notebook in the folder; `have` tells whether a row is fine.

    >>> lessons(Path("nowhere"), lambda row: False)
    ()
    """
    return tuple(_lesson(path, have) for path in notebooks_in(folder))


_SAID = {
    "live": "Lessons that run live",
    "partly live": "Partly live",
    "replayed": "Replayed from recordings",
    "problem": "Cannot be opened",
}


@dataclass(frozen=True)
class Lessons:
    """What the course adds to `brrr doctor`."""

    lessons: tuple[Lesson, ...]

    def lines(self) -> list[str]:
        """One line for each state."""
        lines = [_line(state, [one for one in self.lessons if one.state == state]) for state in _SAID]
        return [line for line in lines if line]


def _line(state: str, some: list[Lesson]) -> str:
    """Lessons that share a reason stand together."""
    if not some:
        return ""
    reasons = dict.fromkeys(one.note for one in some)
    parts = []
    for reason in reasons:
        names = ", ".join(one.name for one in some if one.note == reason)
        parts.append(f"{names} ({reason})" if reason else names)
    return f"{_SAID[state]}: {'; '.join(parts)}."


def lessons_here(have: Callable[[str], bool]) -> Lessons:
    """The course's lessons on this machine; a folder that cannot be read is a lesson that cannot be opened."""
    try:
        return Lessons(lessons(share("notebooks"), have))
    except Exception as error:
        return Lessons((Lesson("lessons", "problem", f"the folder of lessons cannot be read: {error}"),))


def _lesson(path: Path, have: Callable[[str], bool]) -> Lesson:
    name = path.stem
    try:
        own = _own(path)
    except (OSError, ValueError) as error:
        return Lesson(name, "problem", f"{path.name} cannot be read: {error}")
    needs = own.get("needs", _USUAL_NEEDS)
    missing = [ROW_OF[need] for need in needs if not _is_here(need, have)]
    if not missing:
        return Lesson(name, "live")
    if not have("torch"):
        return Lesson(name, "replayed", "recorded figures; nothing runs without torch")
    if "CUDA" not in missing:
        return Lesson(name, "partly live", f"recorded figures where {', '.join(missing)} would be needed")
    if have("accelerator") and name.partition("_")[0] in ELSEWHERE:
        return Lesson(name, "partly live", "by the host's clock, on this accelerator; recorded where CUDA is needed")
    if not own.get("cpu", True):
        return Lesson(name, "replayed", "recorded figures; a CPU runs none of its experiments")
    what = "two processes on the CPU" if "two_gpus" in needs else "what runs on a CPU"
    return Lesson(name, "partly live", f"GPU figures from the recording; BRRR_SOURCE=cpu measures {what}")


def _is_here(need: str, have: Callable[[str], bool]) -> bool:
    """No machine has two boards of one chip: where these are compared, both are recorded."""
    if need == "two_gpus":
        return have("CUDA") and len(others(CUDA, 1)) == 1
    return need != "two_boards" and have(ROW_OF[need])


def _own(path: Path) -> dict[str, Any]:
    """What the notebook's metadata says under brrr: `needs`, and `cpu: false` where a CPU runs no experiment of it."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    metadata = notebook.get("metadata") if isinstance(notebook, dict) else None
    if not isinstance(metadata, dict):
        raise ValueError("it is not a notebook: it has no metadata")
    own = metadata.get("brrr")
    if not isinstance(own, dict):
        return {}
    needs = own.get("needs", [])
    if not isinstance(needs, list) or not all(isinstance(need, str) and need in ROW_OF for need in needs):
        raise ValueError(f"brrr.needs is {needs!r}; expected a list of {', '.join(ROW_OF)}")
    return own


def road(leaves: Mapping[str, str]) -> dict[str, list[str]]:
    """The lessons of the main road in their order, each with the side roads that leave from it, and from those.

    >>> road({"06b": "06", "11": "", "12": "", "12b": "12", "12c": "12b"})
    {'12': ['12b', '12c'], '11': [], '06b': []}

    `leaves` has by each lesson's number the one that it leaves from, empty on the main road. At the road's end stands
    what ROAD does not name, and what leaves from a lesson that is not there.
    """
    main = [number for number, begins in leaves.items() if begins not in leaves]
    found: dict[str, list[str]] = {number: [] for number in sorted(main, key=(*ROAD, *main).index)}
    for number in leaves:
        at = number
        while at not in found:
            at = leaves[at]
        if at != number:
            found[at].append(number)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# The student's copies of the lessons: made once, without the answers in the outputs, and never overwritten.


def default_work() -> Path:
    """The folder of the student's copies: `work` in the repository, or in the current folder if brrr is installed."""
    repository = COURSE.parent
    return (repository if (repository / "pyproject.toml").is_file() else Path.cwd()) / "work"


def notebooks_in(folder: Path) -> list[Path]:
    """The lessons in `folder`, in their order; solutions lie in a folder of their own and are none of them."""
    return sorted(path for path in folder.glob("*.ipynb") if path.is_file())


def copy_lessons(source: Path, work: Path) -> list[Path]:
    """Copy each lesson that `work` lacks, without its outputs, and return the new copies; never overwrite one."""
    if not notebooks_in(source):
        raise UnavailableError(
            f"brrr lab: there are no lessons in {source}. Install brrr again, or restore that folder."
        )
    try:
        work.mkdir(parents=True, exist_ok=True)
        missing = [path for path in notebooks_in(source) if not (work / path.name).exists()]
        return [_copy_stripped(path, work / path.name) for path in missing]
    except OSError as error:
        raise UnavailableError(_no_permission(work, error)) from error


def copy_of(lesson: Path) -> str:
    """The text of a lesson's copy: without outputs, and with its edition."""
    notebook = strip_outputs(json.loads(lesson.read_text("utf-8")))
    notebook["metadata"]["brrr"] = {**notebook["metadata"].get("brrr", {}), "edition": edition(notebook)}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _copy_stripped(lesson: Path, copy: Path) -> Path:
    """Write `copy` whole or not at all, and not over a file that somebody made in the meantime."""
    half = copy.with_name(f".{copy.name}.{os.getpid()}")
    half.touch(exist_ok=False)  # one that is there is not ours to remove
    try:
        half.write_text(copy_of(lesson), "utf-8")
        if not copy.exists():
            half.rename(copy)
    finally:
        half.unlink(missing_ok=True)  # left over where the disk is full
    return copy


def strip_outputs(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook without outputs, execution counts and widget state, so that no answer stands under its question.

    >>> cell = {"cell_type": "code", "source": "1 + 1", "outputs": ["2"], "execution_count": 7}
    >>> strip_outputs({"cells": [cell], "metadata": {"widgets": {}}})
    {'cells': [{'cell_type': 'code', 'source': '1 + 1', 'outputs': [], 'execution_count': None}], 'metadata': {}}
    """
    blank: dict[str, Any] = {"outputs": [], "execution_count": None}
    cells = [{**cell, **blank} if cell["cell_type"] == "code" else cell for cell in own_cells(notebook)]
    metadata = {name: value for name, value in notebook["metadata"].items() if name != "widgets"}
    return {**notebook, "cells": cells, "metadata": metadata}


def own_cells(notebook: dict[str, Any]) -> list[Any]:
    """A notebook's cells without the one that is for Colab alone: its badge, and how to install the course there.

    >>> own_cells({"cells": [{"source": "1"}, {"source": "[![Open in Colab]", "metadata": {"tags": ["colab"]}}]})
    [{'source': '1'}]
    """
    return [cell for cell in notebook["cells"] if "colab" not in cell.get("metadata", {}).get("tags", [])]


def edition(notebook: dict[str, Any]) -> str:
    """What tells one edition of a lesson from another: a digest of its cells, kept in the metadata of its copies."""
    cells = "\0".join("".join(cell["source"]) for cell in own_cells(notebook))
    return hashlib.sha256(cells.encode()).hexdigest()[:16]


def older_copies(source: Path, work: Path) -> list[str]:
    """The lessons whose copies in `work` were made of another edition than the one in `source`."""
    pairs = [(lesson, work / lesson.name) for lesson in notebooks_in(source)]
    return [lesson.stem for lesson, copy in pairs if copy.exists() and _is_older(lesson, copy)]


def _is_older(lesson: Path, copy: Path) -> bool:
    try:
        now, kept = (json.loads(path.read_text("utf-8")) for path in (lesson, copy))
        made_of = kept["metadata"].get("brrr", {}).get("edition") or edition(kept)
        return bool(made_of != edition(now))
    except (OSError, ValueError, LookupError, AttributeError, TypeError):  # no notebook any more: not for us to say
        return False


def guesses_beside(notebook: Path) -> Path:
    """The hidden file that keeps what was guessed in a notebook.

    >>> guesses_beside(Path("work/01_async_timing.ipynb")).name
    '.01_async_timing.guesses.json'
    """
    return notebook.with_name(f".{notebook.stem}.guesses.json")


def set_aside(name: str, work: Path) -> Path | None:
    """Rename the student's copy of lesson `name` (`01`, `01b` or a whole name) so that it is copied anew, unguessed.

    Returns the new path, or None if there was no copy.
    """
    copy = work / find_lesson(name, share("notebooks")).name
    if not copy.exists():
        return None
    aside = copy.with_name(f"{copy.stem}.{time.strftime('%Y-%m-%d_%H%M%S')}.ipynb")
    if aside.exists() or guesses_beside(aside).exists():
        raise UnavailableError(f"brrr lab: {aside} is there already; wait a second and try again.")
    try:
        if guesses_beside(copy).exists():
            guesses_beside(copy).rename(guesses_beside(aside))
        return copy.rename(aside)
    except OSError as error:
        raise UnavailableError(_no_permission(work, error)) from error


def find_lesson(name: str, source: Path) -> Path:
    """The lesson that `name` means: its number (`01`, `01b`) or its whole name, with or without `.ipynb`."""
    known = notebooks_in(source)
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
