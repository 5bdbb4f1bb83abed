"""Each part stays small: CEILINGS holds its code lines, without blanks, comments and docstrings.

A ceiling stands one per cent over what is there, and only falls: who takes lines out commits the lower number
with them. CONTRIBUTING.md ("A budget that falls") says what to do where a change hits one.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CEILINGS = {
    # folder: Python; what a GPU or a browser runs
    "brrr": (20_090, 2_130),
    "brrr_course": (22_770, 1_662),
    "tools": (1_850, 0),
    "tests": (37_826, 460),
}
BESIDE = (".cu", ".cuh", ".cpp", ".js", ".mjs", ".ts", ".wgsl")
BUNDLES = (".min.js", ".bundle.js", ".bundle.mjs")
"""What a tool has built of other files counts as nothing."""


def python_lines(text: str) -> int:
    """Lines of code: no blank line, comment or docstring (a text that documents a name is one)."""
    bodies = [node.body for node in ast.walk(ast.parse(text)) if isinstance(getattr(node, "body", None), list)]
    texts = [each for body in bodies for each in body if isinstance(each, ast.Expr) and is_text(each.value)]
    said = {number for each in texts for number in range(each.lineno, (each.end_lineno or each.lineno) + 1)}
    lines = enumerate(text.split("\n"), 1)
    return sum(1 for number, line in lines if line.strip() and line.strip()[0] != "#" and number not in said)


def is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def other_lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


def counted(path: Path) -> tuple[int, int]:
    """The lines of a file: as Python, and as what a GPU or a browser runs."""
    if path.suffix in (".py", ".pyi"):
        return python_lines(path.read_text(encoding="utf-8")), 0
    other = path.suffix in BESIDE and not path.name.endswith(BUNDLES)
    return 0, other_lines(path.read_text(encoding="utf-8")) if other else 0


def lines_of(folder: Path) -> tuple[int, int]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "node_modules" not in path.parts)
    each = [counted(path) for path in files]
    return sum(python for python, _ in each), sum(other for _, other in each)


def complaint(folder: str, lines: int, ceiling: int) -> str:
    """What is wrong with so many lines under that ceiling, and what to do; empty where nothing is."""
    if lines > ceiling:
        return (
            f"{folder}: {lines:,} lines of code, {ceiling:,} at most. One in, one out: take out, whole, what your "
            "change makes needless or retires. Is there nothing? Say so in the pull request, "
            "where a maintainer raises the ceiling"
        )
    lowest = lines + -(-lines // 100)
    return f"{folder}: {lines:,} lines of code now; lower its ceiling to {lowest:,}" if ceiling > 1.02 * lines else ""


@pytest.mark.parametrize("folder", CEILINGS)
def test_a_part_stays_below_its_ceiling_which_falls_with_it(folder: str) -> None:
    found = zip((folder, f"{folder}'s kernels and pages"), lines_of(ROOT / folder), CEILINGS[folder], strict=True)
    assert [said for each in found if (said := complaint(*each))] == []


SMALL = '"""What it is."""\n\n# why\nA = 1\n"""What A is."""\n\n\ndef f():\n    """Says."""\n    return A\n'


def test_only_code_counts(tmp_path: Path) -> None:
    texts = {
        "a.py": SMALL, "b.pyi": "A: int\n", "c.cu": "// what\n\nint a; // more\n", "in/d.mjs": "a()\nb()\n",
        "e.wgsl": "fn f() {}\n",
        "f.bundle.js": "a()\n", "g.min.js": "a()\n", "h.md": "text\n", "i.css": "a {}\n",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert lines_of(tmp_path) == (4, 4)


@pytest.mark.parametrize(("lines", "ceiling", "said"), [
    (100, 100, ""), (101, 100, "101 lines of code, 100 at most. One in, one out"), (100, 102, ""), (0, 0, ""),
    (100, 103, "lower its ceiling to 101"), (1234, 2000, "lower its ceiling to 1,247"),
])  # fmt: skip
def test_a_ceiling_is_not_passed_and_falls(lines: int, ceiling: int, said: str) -> None:
    assert said in complaint("brrr", lines, ceiling) if said else not complaint("brrr", lines, ceiling)
