"""A variant's name is a label: under another name it has the same points, cost, prediction, and work."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path

import pytest

import brrr_course.experiments
from brrr_course.experiments import NAMES, PLAYED, experiment
from brrr_course.nouns.experiment import Experiment, Variant

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


@pytest.mark.parametrize("name", [name for name in CHECKED if name != "first_call"])
def test_the_same_is_run_and_right(name: str) -> None:
    found, work = experiment(name), import_module(f"brrr_course.experiments.{name}.work")
    for variant, point in small(found):
        made = work.workload(renamed(variant), point)
        made.others.get("prepare", lambda: None)()
        assert made.check() <= made.tolerance, (variant.name, point)
        named = found.workload(variant.name, point)
        assert made.cost == named.cost
        for each in (made, named):
            each.close()


def small(found: Experiment) -> Iterator[tuple[Variant, dict[str, int | float | str]]]:
    """The variants without a GPU, each at the first of the points that it has."""
    for variant in found.variants:
        point = next((each for each in found.points(quick=True) if found.has(variant.name, each)), None)
        compiles = variant.way in ("compile", "script")  # for seconds, where there is a compiler at all
        if not variant.on_gpu and variant.timer == "measure" and point is not None and not compiles:
            yield variant, dict(point)


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
