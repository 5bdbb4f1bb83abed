"""Runs a lesson under nbval: on a copy, to which cells are added that answer every guess and move every slider."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
NOTEBOOKS = REPOSITORY / "notebooks"
LESSONS = sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))
SOLUTIONS = sorted((NOTEBOOKS / "solutions").glob("[0-9]*.ipynb"))

KEEP = """
import brrr_course.view.display
brrr_course.view.display.shown = set()  # keeps them: nbval forgets the result of a cell
"""

ANSWER_ALL = """
from brrr_course.lessons.guessing import Guess
for asked in {id(value): value for value in globals().values() if isinstance(value, Guess)}.values():
    assert not asked.answered, asked
    form = asked.form
    unit = getattr(form, "unit", "s")
    number = f"1 {'ms' if unit == 's' else unit}"
    asked.answer(getattr(form, "items", None) or getattr(form, "options", [number])[0])
"""

SWEEP = """
from brrr_course.view.display import shown, sweep_all
assert not any(each.covered for each in shown)
swept = sweep_all()
assert {count} <= swept <= {most}, f"{{swept}} explorers were swept; the lesson has {count}"
"""

RIGHT = "assert _.right, _"

FORGET = "%reset -f"  # the solution must bring its own imports and names


def calls(notebook: Any, name: str) -> int:
    """How often the notebook's code calls the function `name`."""
    found = 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            nodes = ast.walk(ast.parse(cell.source))
            found += sum(isinstance(n, ast.Call) and getattr(n.func, "id", "") == name for n in nodes)
    return found


def with_sweep(notebook: Any) -> Any:
    """The lesson, then all guesses answered, the comparisons once more, and every slider moved to its ends."""
    compared = [cell.source for cell in notebook.cells if "compare" in cell.metadata.get("tags", [])]
    count = sum(calls(notebook, name) for name in ("explore", "timeline", "drawing"))
    most = count + calls(notebook, "roofline_of")  # a sentence where nobody knows the roofs
    cells = [ANSWER_ALL, *compared, SWEEP.format(count=count, most=most)]
    notebook.cells = [_code(KEEP), *notebook.cells, *map(_code, cells)]
    return notebook


def with_all_right(notebook: Any) -> Any:
    """The solution, and behind every exercise the proof that it was marked right."""
    cells: list[Any] = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "code" and "check(" in cell.source:
            cells.append(_code(RIGHT))
    notebook.cells = cells
    return notebook


def then(notebook: Any, after: Any) -> Any:
    """One notebook and then another in the same kernel, which starts anew for it but for what it has loaded."""
    for cell in after.cells:
        cell["id"] = f"{len(notebook.cells)}-{cell['id']}"  # both may have a cell-01
    notebook.cells = [*notebook.cells, _code(FORGET), *after.cells]
    return notebook


def _code(source: str) -> Any:
    return nbformat.v4.new_code_cell(source)


def run_nbval(notebook: Any, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the notebook under nbval in `folder`; pytest's exit status says whether a cell raised."""
    path = folder / "lesson.ipynb"
    nbformat.write(notebook, path)
    command = [sys.executable, "-m", "pytest", "-p", "nbval.plugin", "--nbval-lax", "--nbval-current-env"]
    command += ["--nbval-cell-timeout=120", "-p", "no:cacheprovider", "-q", "--rootdir", str(folder), path.name]
    search = os.pathsep.join(filter(None, [str(REPOSITORY), str(HERE), os.environ.get("PYTHONPATH", "")]))
    clean = {name: value for name, value in os.environ.items() if name not in ("BRRR_STATIC", "BRRR_QUICK")}
    given = {"PYTHONPATH": search, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment}
    return subprocess.run(command, cwd=folder, env={**clean, **given}, check=False,
                          capture_output=True, text=True, timeout=900)  # fmt: skip


def read(path: Path) -> Any:
    """A notebook in the current format."""
    return nbformat.read(path, as_version=4)


def build_script() -> ModuleType:
    """notebooks/build.py as a module."""
    spec = importlib.util.spec_from_file_location("notebooks_build", NOTEBOOKS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
