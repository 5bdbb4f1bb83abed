"""Lessons import what README, docs/ and `brrr_course` document; older copies are told where a name is now."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import NOTEBOOKS, REPOSITORY

import brrr_course

SOURCES = sorted((NOTEBOOKS / "source").rglob("*.py"))
OF_PACKAGE = [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("package*.md")]
SHOWN = "".join(re.findall(r"```python\n(.*?)```", "".join(each.read_text("utf-8") for each in OF_PACKAGE), re.DOTALL))


def imported(source: str) -> Iterator[tuple[str, str]]:
    """What a text of Python imports of brrr, as (module, name); of `import brrr`, the attributes that it uses."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("brrr", "brrr_course"):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith(("brrr.", "brrr_course.")))
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("brrr", "brrr_course")
        ):
            yield node.value.id, node.attr


DOCUMENTED = {*imported(SHOWN), *(("brrr_course", name) for name in brrr_course.__all__)}


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


def test_what_never_was_is_missing() -> None:
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from brrr import nothing")
