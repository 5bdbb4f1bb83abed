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
TEXT = "".join(page.read_text("utf-8") for page in (README, PACKAGE.parent / "docs" / "package.md"))
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
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
        for block in BLOCKS
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
