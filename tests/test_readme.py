"""The code of README and docs/package.md: every name of it exists, and what needs no GPU runs as it stands."""

import ast
import re
from typing import Any

import pytest
import torch
from PIL import Image

import brrr
from brrr.core.files import PACKAGE
from brrr.roofline.communication import fitted
from brrr_course.experiments import experiment
from brrr_course.lessons.claims_table import main
from brrr_course.sources import source

README = PACKAGE.parent / "README.md"
CLAIMS = PACKAGE.parent / "docs" / "claims.md"
FENCED = re.compile(r"```python\n(.*?)```", re.DOTALL)
RUNS, _, REST = (PACKAGE.parent / "docs" / "package.md").read_text("utf-8").partition("**Needs an NVIDIA GPU**")
BLOCKS = FENCED.findall(README.read_text("utf-8") + REST)
ELSEWHERE = (
    "measure", "trace", "scaling_test", "capture", "Pipeline", "find_transition", "calibrate", "print(m",
    "PersistentRNN", "print(t", "diagnose", "print(found",
)  # fmt: skip
"""Lines with these need a GPU, what another line returned, a placeholder's value or minutes."""


def statements() -> list[str]:
    return [ast.unparse(each) for block in BLOCKS for each in ast.parse(block).body]


def given() -> dict[str, Any]:
    """What README's reader has."""
    model = torch.nn.Sequential(torch.nn.Linear(1024, 64), torch.nn.ReLU())
    x = torch.randn(64, 1024)
    names = {"brrr": brrr, "torch": torch, "model": model, "step": torch.relu, "x": x, "b": torch.randn(64, 1024)}
    two = {
        "half": torch.nn.Linear(1024, 64),
        "link": fitted({8: 1e-5, 1e6: 2e-5, 1e9: 1e-2}),
        "work": 1e-4,
        "exchange": 1e-4,
    }
    return {**names, **two, "a": torch.randn(48, 64)}


def test_every_name_of_the_package_exists() -> None:
    used = {
        node.attr
        for block in [*BLOCKS, *FENCED.findall(RUNS)]
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "brrr"
    }
    assert len(used) > 10 and all(hasattr(brrr, name) for name in used), used


@pytest.mark.parametrize("line", [
    each for each in statements() if not any(word in each for word in ELSEWHERE) and "cuda" not in each
])  # fmt: skip
def test_a_line_runs(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each by itself, behind the imports of its kind."""
    imports = [each for each in statements() if each.startswith("from")]
    exec("\n".join([*imports, line]), given())
    assert bool(capsys.readouterr().out) == line.startswith("print")


def test_the_page_of_the_package_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    """What needs no GPU, block after block, as somebody types it."""
    names: dict[str, Any] = {}
    for block in FENCED.findall(RUNS):
        exec(block, names)
    told = capsys.readouterr().out
    assert all(each in told for each in ("TransformerEncoderLayer", "NVIDIA GeForce RTX 4090", "relu", "PREDICTED"))


def test_a_task_of_that_page_takes_five_lines_at_most() -> None:
    tasks = re.split(r"\n### \d\. ", RUNS.partition("\n## What a time")[0])[1:]
    lines = [re.findall(r"```(?:python|bash)\n(.*?)```", task, re.DOTALL)[0].split("\n") for task in tasks]
    assert [sum(map(bool, each)) <= 5 for each in lines] == [True] * 5


def test_the_count_of_claims_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count"]) == 0
    shown = re.search(r"<!-- brrr claims --count -->\n(.*?)<!-- end -->", CLAIMS.read_text(encoding="utf-8"), re.DOTALL)
    assert shown and shown[1] == capsys.readouterr().out, "run: python notebooks/build.py --pages"


def test_the_picture_moves_over_every_size_and_is_light() -> None:
    path = PACKAGE.parent / "docs" / "images" / "slider.gif"
    found = source("recorded:h200")
    with Image.open(path) as picture:
        assert picture.n_frames == len(found.values(experiment("matmul"), "size"))
    assert path.stat().st_size < 2e6 and f"(docs/images/{path.name})" in README.read_text("utf-8")
