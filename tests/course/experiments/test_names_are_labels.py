"""A variant's name is a label: under another name it has the same points, cost, prediction, and work."""

import ast
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

import brrr_course.experiments
from brrr_course.experiments import NAMES, PLAYED, experiment
from brrr_course.nouns.experiment import Variant

CHECKED = (*NAMES, *PLAYED)
OF_A_NAME = ("removeprefix", "removesuffix", "startswith", "endswith", "split", "rsplit", "partition", "rpartition")
FOLDER = Path(brrr_course.experiments.__file__).parent


def renamed(variant: Variant) -> Variant:
    return replace(variant, name="a name that says nothing")


@pytest.mark.parametrize("name", CHECKED)
def test_points_costs_and_predictions_do_not_ask_for_it(name: str) -> None:
    found = experiment(name)
    for variant in found.variants:
        for point in islice(found.points(), 0, None, 17):
            for ask in (found.supports, found.cost, found.predicts):
                assert ask is None or ask(variant, point) == ask(renamed(variant), point), (variant.name, point)


def test_no_experiment_takes_one_to_pieces() -> None:
    """`variant.name.split("-")`, `"eager" in variant.name` and their like."""
    taken = [f"{path.parent.name}/{path.name}:{node.lineno}" for path in sorted(FOLDER.rglob("*.py"))
             for node in ast.walk(ast.parse(path.read_text("utf-8"))) if takes_apart(node)]  # fmt: skip
    assert taken == []


def takes_apart(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in OF_A_NAME:
        return is_name(node.func.value)
    if isinstance(node, ast.Compare):  # "eager" in variant.name, variant.name == "eager"
        return any(is_name(each) for each in (node.left, *node.comparators))
    return isinstance(node, ast.Subscript) and (is_name(node.value) or is_name(node.slice))


def is_name(node: ast.AST) -> bool:
    """`variant.name`, or a call or a slice of it."""
    if isinstance(node, ast.Attribute) and node.attr == "name" and isinstance(node.value, ast.Name):
        return node.value.id == "variant"
    inner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    return inner is not None and is_name(inner)


@pytest.mark.parametrize("code", ['"eager" in variant.name', 'variant.name.split("-")', "MAKERS[variant.name]",
                                  'variant.name.removeprefix("a").endswith("b")', "variant.name[:3]"])  # fmt: skip
def test_such_code_is_found(code: str) -> None:
    assert any(takes_apart(node) for node in ast.walk(ast.parse(code)))
