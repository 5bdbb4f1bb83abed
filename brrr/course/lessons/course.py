"""The course's lessons: which there are, and which of them run live on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

State = Literal["live", "partly live", "replayed", "to come", "problem"]

# The whole course in its order; a lesson without a notebook is one to come.
COURSE = (
    "00_start_here",
    "01_async_timing",
    "02_transfers",
    "02b_overlap",
    "03_overhead",
    "03b_pseudo_linear",
    "04_memory_bound",
    "04b_caches",
    "05_fusion",
    "05b_codegen",
    "06_killing_overhead",
    "06b_megakernel",
    "07_gemm_shapes",
    "08_rnn",
    "08b_persistent",
    "09_strassen",
    "09b_strassen_forms",
    "10_diagnose_your_model",
)

# What a lesson's figures need to be measured live where its notebook does not say so itself.
_NEEDS: Mapping[str, tuple[str, ...]] = {"00_start_here": ()}
_USUAL_NEEDS = ("cuda",)

# Words in a notebook's metadata -> the doctor's row.
ROW_OF = {
    "cuda": "CUDA",
    "torch": "torch",
    "nvcc": "nvcc",
    "pycuda": "PyCUDA",
    "triton": "Triton",
    "nvmath": "nvmath",
    "cupti": "CUPTI",
    "compiler": "C compiler",
}


@dataclass(frozen=True)
class Lesson:
    """One lesson and how it runs here; `note` says why."""

    name: str
    state: State
    note: str = ""


def lessons(folder: Path, have: Callable[[str], bool]) -> tuple[Lesson, ...]:
    """Every lesson of the course, and any further notebook in the folder; `have` tells whether a row is fine.

    >>> lessons(Path("nowhere"), lambda row: False)[-1]
    Lesson(name='10_diagnose_your_model', state='to come', note='')
    """
    there = {path.stem: path for path in sorted(folder.glob("[0-9]*.ipynb"))}
    names = [*COURSE, *(name for name in there if name not in COURSE)]
    return tuple(_lesson(name, there[name], have) if name in there else Lesson(name, "to come") for name in names)


def _lesson(name: str, path: Path, have: Callable[[str], bool]) -> Lesson:
    try:
        needs = _needs(path)
    except (OSError, ValueError) as error:
        return Lesson(name, "problem", f"{path.name} cannot be read: {error}")
    if needs is None:
        needs = _NEEDS.get(name, _USUAL_NEEDS)
    missing = [ROW_OF[need] for need in needs if not have(ROW_OF[need])]
    if not missing:
        return Lesson(name, "live")
    if not have("torch"):
        return Lesson(name, "replayed", "recorded figures; nothing runs without torch")
    if missing == ["CUDA"]:
        return Lesson(name, "partly live", "GPU figures from the recording; what runs on a CPU is live")
    return Lesson(name, "partly live", f"recorded figures where {', '.join(missing)} would be needed")


def _needs(path: Path) -> tuple[str, ...] | None:
    """What the notebook's metadata says under brrr.needs; None if it says nothing."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    metadata = notebook.get("metadata") if isinstance(notebook, dict) else None
    if not isinstance(metadata, dict):
        raise ValueError("it is not a notebook: it has no metadata")
    own = metadata.get("brrr")
    if not isinstance(own, dict) or "needs" not in own:
        return None
    needs = own["needs"]
    if not isinstance(needs, list) or not all(isinstance(need, str) and need in ROW_OF for need in needs):
        raise ValueError(f"brrr.needs is {needs!r}; expected a list of {', '.join(ROW_OF)}")
    return tuple(needs)
