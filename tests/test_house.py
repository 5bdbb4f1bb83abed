"""Rules of the house that no tool knows: comparisons with a device's name, one name a class, paths in structure.md."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DEVICES = {"cuda", "cpu", "cpu-queue"}
WORDS = {"variant.implementation in ('cpu', 'gpu', 'queue')"}  # a variant's name, where it is called so
"""Comparisons where such a word is no device's name."""


def modules(package: str) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        if "share" not in path.parts:
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text("utf-8"))


def compared(module: ast.Module) -> list[str]:
    """The comparisons with a device's name."""
    found = [each for each in ast.walk(module) if isinstance(each, ast.Compare)]
    return [ast.unparse(each) for each in found if DEVICES & {*map(_text, ast.walk(each))}]


def _text(node: ast.AST) -> object:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@pytest.mark.parametrize("package", ["brrr", "brrr_course"])
def test_no_devices_name_is_compared_outside_gpu(package: str) -> None:
    """`brrr.gpu` answers: is_gpu, is_cpu, is_queue, tensors_on."""
    found = {f"{path}: {each}" for path, module in modules(package) for each in compared(module) if each not in WORDS}
    assert {each for each in found if not each.startswith("brrr/gpu/")} == set()


@pytest.mark.parametrize("line", ["x == 'cuda'", "'cpu' != x.type", "x in ('cpu', 'cpu-queue')", "x not in {'cuda'}"])
def test_a_comparison_is_found(line: str) -> None:
    assert compared(ast.parse(f"if {line}:\n    pass")) == [line] and not compared(ast.parse("device = 'cuda'"))


@pytest.mark.parametrize("package", ["brrr", "brrr_course"])
def test_a_public_classs_name_is_its_own(package: str) -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path, module in modules(package):
        for each in module.body:
            if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                found[each.name].append(path)
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_the_files_of_docs_structure_are_there() -> None:
    text = (ROOT / "docs" / "structure.md").read_text("utf-8")
    named = {*re.findall(r"`([\w/]+\.(?:py|js|html|toml|csv))`", text)}
    here = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.*") if ".venv" not in path.parts}
    assert (
        len(named) > 20
        and {each for each in named if not any(f"/{path}".endswith(f"/{each}") for path in here)} == set()
    )


def test_words_that_are_compared_no_more_are_struck_off() -> None:
    used = {each for package in ("brrr", "brrr_course") for _, module in modules(package) for each in compared(module)}
    assert used >= WORDS
