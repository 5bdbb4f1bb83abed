"""The rules of a lesson's form, each as a function from a notebook to what breaks it; of its parts: parts_rules.py."""

import ast
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from harness import calls

STAGES = ("question", "guess", "run", "compare", "explain", "explore", "your-turn", "claims", "remember",
          "work", "next")  # fmt: skip
"""The parts of a lesson, in their order."""

AGAIN = ("guess", "run", "compare", "explain")
"""A lesson may go round these more than once before it moves on."""

MOST_CELLS, MOST_LINES, MOST_WORDS, MOST_EXPLORERS, MOST_EXERCISES = 25, 12, 1000, 3, 2

FIGURE = re.compile(r"\d[\d.,]*\s*(?:[nµm]?s|x|%|[kMGT]?B/s|[GT]?FLOP/s|times)(?![\w/])")


def tags(cell: Any) -> list[str]:
    """The tags of a cell."""
    return list(cell.metadata.get("tags", []))


def number(notebook: Any) -> str:
    """The lesson's number, from its title."""
    return next(iter(notebook.cells[0].source.removeprefix("# ").split()), "") if notebook.cells else ""


def prose(cell: Any) -> str:
    """A cell's text without the meanings behind its marked words, and without the way back; none of Colab's."""
    return "" if "colab" in tags(cell) else BACK.sub("", re.sub(r"</?abbr[^>]*>", "", cell.source))


FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
RULE = re.compile(r"^> \*\*Rule\.\*\* (.+)$", re.MULTILINE)
BACK = re.compile(r"\n\nBack: \[[^\]]*\]\([\w.]+\)$")


def stage(cell: Any) -> str | None:
    """The part of the lesson that a cell belongs to; None for a cell of set-up."""
    found = [tag for tag in tags(cell) if tag in STAGES]
    return found[0] if len(found) == 1 else None


def too_long(notebook: Any) -> list[str]:
    """At most 25 cells of ours, 12 lines a code cell, 1000 words but for fenced code, 3 explorers, 2 checks."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    text = [FENCED.sub("", prose(cell)) for cell in notebook.cells if cell.cell_type == "markdown"]
    words = sum(len(re.findall(r"\w[\w'’-]*", source)) for source in text)
    lines = max((len(cell.source.splitlines()) for cell in code), default=0)
    counts = [
        (len([cell for cell in notebook.cells if not {"yours", "colab"} & {*tags(cell)}]), MOST_CELLS, "cells"),
        (lines, MOST_LINES, "lines in a code cell"),
        (words, MOST_WORDS, "words"),
        (calls(notebook, "explore") - standing(notebook), MOST_EXPLORERS, "explorers"),
        (calls(notebook, "check"), MOST_EXERCISES, "exercises"),
    ]
    return [f"{count} {what}; at most {most}" for count, most, what in counts if count > most]


def standing(notebook: Any) -> int:
    """How many figures have no slider (`sliders=[]`): they are looked at, not explored."""
    return slider_counts(notebook).count(0)


def slider_counts(notebook: Any) -> list[int]:
    """How many sliders each explorer has whose cell names them."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    given = [keyword for source in code for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)
             for keyword in node.keywords if keyword.arg == "sliders"]  # fmt: skip
    return [len(each.value.elts) for each in given if isinstance(each.value, ast.List | ast.Tuple)]


def out_of_order(notebook: Any) -> list[str]:
    """Question, guess, run, compare, explain, explore, your turn, claims, remember, work, next.

    Guess to explain may come again.
    """
    found: list[str] = []
    for cell in notebook.cells:
        if not {"setup", *STAGES} & set(tags(cell)):
            found.append(f"no tag says which part this is: {cell.source[:40]!r}")
    order = [stage(cell) for cell in notebook.cells]
    order = [each for each in order if each in STAGES]
    for before, after in pairwise(order):
        again = before in AGAIN and after == "guess"
        if STAGES.index(after) < STAGES.index(before) and not again:
            found.append(f"{after} comes after {before}")
    return found + [f"no {each}" for each in STAGES if each not in order]


def helpers(notebook: Any) -> list[str]:
    """No function and no class outside the exercises."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code" and not any(tag.startswith("exercise:") for tag in tags(cell)):
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
            nodes = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, kinds)]
            found += [f"{type(node).__name__} in line {node.lineno} of {cell.source[:40]!r}" for node in nodes]
    return found


def figures_in_prose(notebook: Any) -> list[str]:
    """No measured number in the text, but for the rule's; an exercise may state what it starts from."""
    cells = [c for c in notebook.cells if c.cell_type == "markdown" and stage(c) != "your-turn"]
    found = [(cell, match) for cell in cells for match in FIGURE.finditer(RULE.sub("", prose(cell)))]
    return [f"{match[0]!r} in {cell.source[:40]!r}" for cell, match in found]


def checks_text_only(notebook: Any) -> list[str]:
    """A cell whose output is compared prints text and names its recording, or shows nothing that a source changes."""
    found = []
    for cell in notebook.cells:
        if "nbval-check-output" in tags(cell):
            if any(output.output_type != "stream" or output.name != "stdout" for output in cell.outputs):
                found.append(f"more than text: {cell.source[:40]!r}")
            if re.search(r"\b(?:explore|compare)\(", cell.source) and '"recorded:h200"' not in cell.source:
                found.append(f"no recording is named: {cell.source[:40]!r}")
    return found


def shows_what_held(notebook: Any) -> list[str]:
    """One cell shows the claims of the lesson, under "Which claims held", and no other cell any."""
    showing = [cell for cell in notebook.cells if cell.cell_type == "code" and "claims(" in cell.source]
    if len(showing) != 1:
        return [f"{len(showing)} cells show claims"]
    above = notebook.cells[notebook.cells.index(showing[0]) - 1].source
    found = [] if above.startswith("## Which claims held") else [f"claims stand below {above[:40]!r}"]
    shown = re.fullmatch(r'claims\("(\w+)"(?:, source="recorded:h[12]00")?\)', showing[0].source)
    return found + (
        [] if shown and shown[1] == number(notebook) else [f"{showing[0].source!r} in lesson {number(notebook)}"]
    )


RULES: tuple[Callable[[Any], list[str]], ...] = (
    too_long,
    out_of_order,
    helpers,
    figures_in_prose,
    checks_text_only,
    shows_what_held,
)
