"""The packages stay small: each has a budget of code lines, without blanks, comments and docstrings.

Everybody may lower a number. To raise one, say in the change what the lines buy.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUDGET = {
    ("brrr", "python"): 19_779,
    ("brrr", "cuda"): 2_200,
    ("brrr_course", "python"): 23_799,
    ("brrr/roofline", "python"): 3_394,
    ("brrr/strassen", "python"): 2_815,
    ("brrr/strassen", "cuda"): 800,
    ("tools", "python"): 5_338,
}
ENDINGS = {"python": (".py", ".pyi"), "cuda": (".cu", ".cuh")}


def python_lines(text: str) -> int:
    """Lines of code: no blank line, comment or docstring (a text that documents a name is one)."""
    bodies = [node.body for node in ast.walk(ast.parse(text)) if isinstance(getattr(node, "body", None), list)]
    texts = [each for body in bodies for each in body if isinstance(each, ast.Expr) and is_text(each.value)]
    said = {number for each in texts for number in range(each.lineno, (each.end_lineno or each.lineno) + 1)}
    lines = enumerate(text.split("\n"), 1)
    return sum(1 for number, line in lines if line.strip() and line.strip()[0] != "#" and number not in said)


def is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def cuda_lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


COUNT = {"python": python_lines, "cuda": cuda_lines}


@pytest.mark.parametrize(("folder", "language"), BUDGET)
def test_a_package_keeps_to_its_budget(folder: str, language: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*") if path.suffix in ENDINGS[language]]
    lines = sum(COUNT[language](path.read_text(encoding="utf-8")) for path in files)
    print(f"{folder}: {lines} lines of {language}, {BUDGET[folder, language]} at most")
    assert files and lines <= BUDGET[folder, language]


SMALL = '"""What it is."""\n\n# why\nA = 1\n"""What A is."""\n\n\ndef f():\n    """Says."""\n    return A\n'


def test_only_code_counts() -> None:
    assert python_lines(SMALL) == 3
    assert cuda_lines("// what\n\nint a; // more\n") == 1
