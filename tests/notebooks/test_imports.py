"""Lessons import what README documents and `brrr_course`; what they imported once still works, with a warning."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import NOTEBOOKS, REPOSITORY

import brrr_course

SOURCES = sorted((NOTEBOOKS / "source").rglob("*.py"))
README = "".join(re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(encoding="utf-8"), re.DOTALL))


def imported(source: str) -> Iterator[tuple[str, str]]:
    """What a text of Python imports of brrr, as (module, name); of `import brrr`, the attributes that it uses."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "brrr":
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("brrr."))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "brrr":
            yield "brrr", node.attr


DOCUMENTED = {*imported(README), *(("brrr_course", name) for name in brrr_course.__all__)}


def internals(source: str) -> list[str]:
    """What a lesson imports that is documented nowhere."""
    return [f"{module}: {name}" for module, name in imported(source) if (module, name) not in DOCUMENTED]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(NOTEBOOKS / "source")))
def test_a_lesson_imports_what_is_documented(source: Path) -> None:
    assert internals(source.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("line", [
    "from brrr_course.lessons.checking import check", "from brrr import secret", "import brrr.core.units",
    "import brrr\nbrrr.elsewhere()", "def f():\n    from brrr_course import view",
])  # fmt: skip
def test_an_import_of_internals_is_found(line: str) -> None:
    assert internals(line) != []


ONCE = """
from brrr import units
from brrr.codegen.generated import generated
from brrr.experiments import experiment
from brrr.experiments.cos_cos_work import cos_cos
from brrr.experiments.mlp import BATCHES
from brrr.experiments.mlp import BATCHES, BETWEEN_BATCHES
from brrr.experiments.mlp_table import mlp_table
from brrr.experiments.strassen_table import strassen_table
from brrr.kernels.megakernel_time import H200, Network, plan, predicted_s
from brrr.lessons.available import first_available
from brrr.lessons.copy_comparison import against_copy
from brrr.lessons.drawings import drawing
from brrr.lessons.growth_comparison import compare_growth
from brrr.lessons.memory_comparison import compare_memory
from brrr.lessons.published_gain import compare_published
from brrr.lessons.roofline_points import roofline_of
from brrr.lessons.strassen_comparison import compare_fused, compare_growth
from brrr.lessons.triton_here import tl, triton
from brrr.networks import Way
from brrr.roofline.generations import ridge_by_generation
from brrr.source import source
from brrr.strassen import Estimate, Plan
"""
"""What lessons imported beside the public names before modules moved, and names that classes had."""

WARNED = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    {line}
{use}
names = {{str(each.message).split(" is ")[0] for each in said if each.category is DeprecationWarning}}
assert names >= {{*{wanted}}}, names
"""


def test_what_lessons_imported_once_still_works_and_warns() -> None:
    script = ""
    for line in ONCE.strip().splitlines():
        module, names = line.removeprefix("from ").split(" import ")
        wanted = [f"{module}.{name}" for name in names.split(", ")] if module != "brrr" else []
        script += WARNED.format(line=line, use="units.seconds(1.0)" if not wanted else "", wanted=wanted)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("line", ["import brrr.lessons.nothing", "from brrr.lessons.available import nothing"])
def test_what_never_was_is_still_missing(line: str) -> None:
    with pytest.raises(ImportError):
        exec(line)
