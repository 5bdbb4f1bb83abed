"""The code of README and docs/: every name of it exists, what needs no GPU runs as it stands; first pages are short."""

import ast
import re
from typing import Any

import pytest
import torch
from PIL import Image

import brrr
from brrr.core.files import PACKAGE
from brrr_course.experiments import experiment
from brrr_course.lessons.claims_table import main
from brrr_course.sources import source

DOCS, README = PACKAGE.parent / "docs", (PACKAGE.parent / "README.md").read_text("utf-8")
CODE, APART = (re.compile(rf"(?<{sign}not run -->\n)```python\n(.*?)```", re.DOTALL) for sign in "!=")
FIRST = sorted({each.stem.partition("_")[0] for each in DOCS.glob("*_*.md")})
"""Pages with others behind them: of `docs/timer.md` those are `docs/timer_*.md`."""
PRINTED = {"diagnosis": "load in the background", "package": "RTX 4090", "predictor": "29.4 MB", "timer": "period_s"}


def read(pages: str) -> str:
    return "".join(each.read_text("utf-8") for each in sorted(DOCS.glob(pages)))


BLOCKS = [*CODE.findall(README), *APART.findall(read("package*.md"))]
ELSEWHERE = (
    "measure", "trace", "scaling_test", "capture", "Pipeline", "find_transition", "calibrate", "print(m",
    "PersistentRNN", "print(t", "diagnose", "print(found",
)  # fmt: skip
"""Lines with these need a GPU, what another line returned, a placeholder's value or minutes."""


def statements() -> list[str]:
    return [ast.unparse(each) for block in BLOCKS for each in ast.parse(block).body]


def given() -> dict[str, Any]:
    """What README's reader has."""
    a, b, x = torch.randn(48, 64), torch.randn(64, 1024), torch.randn(64, 1024)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 64), torch.nn.ReLU())
    return {"brrr": brrr, "torch": torch, "model": model, "step": torch.relu, "a": a, "b": b, "x": x}


def test_every_name_of_the_package_exists() -> None:
    used = {
        node.attr
        for block in [*BLOCKS, *CODE.findall(read("package*.md"))]
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


@pytest.mark.parametrize("name", FIRST)
def test_a_first_page_is_short_and_its_code_runs_as_it_stands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It leads to all pages behind it. Their code runs too, block after block, as somebody types it."""
    text, names = read(f"{name}.md"), dict[str, Any]()
    assert len(text.split()) <= 1200 and len(text.partition("```")[0].split()) <= 150
    assert [each for each in DOCS.glob(f"{name}_*.md") if f"]({each.name}" not in text] == []
    for block in CODE.findall(read(f"{name}*.md")):
        exec(block, names)
    assert PRINTED.get(name, "") in capsys.readouterr().out


def test_a_task_of_the_package_takes_five_lines_at_most() -> None:
    tasks = re.split(r"\n### \d\. ", read("package.md"))[1:]
    code = [re.findall(r"```(?:python|bash)\n(.*?)```", task, re.DOTALL)[0] for task in tasks]
    assert len(code) == 5 and max(each.count("\n") - each.count("\n\n") for each in code) <= 5


def test_the_count_of_claims_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count"]) == 0
    shown = re.search(r"<!-- brrr claims --count -->\n(.*?)<!-- end -->", read("claims.md"), re.DOTALL)
    assert shown and shown[1] == capsys.readouterr().out, "run: python notebooks/build.py --pages"


def test_the_picture_moves_over_every_size_and_is_light() -> None:
    path = PACKAGE.parent / "docs" / "images" / "slider.gif"
    with Image.open(path) as picture:
        assert picture.n_frames == len(source("recorded:h200").values(experiment("matmul"), "size"))
    assert path.stat().st_size < 2e6 and f"(docs/images/{path.name})" in README
