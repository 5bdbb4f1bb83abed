"""Make the executed edition: notebooks/*.ipynb from the readable notebooks/source/*.py, with a recording's outputs.

    python notebooks/build.py             execute every lesson and solution on the recording, and write them
    python notebooks/build.py 01          the same for the lessons whose name starts with 01
    python notebooks/build.py --empty     write them without outputs, executing nothing
    python notebooks/build.py --pages     write what is made of the sources beside them: docs/, README's parts
    python notebooks/build.py --out DIR   write them elsewhere

The edition is for reading: pictures and text, no widgets, nothing covered. Students work on copies without outputs.
"""

from __future__ import annotations

import argparse
import ast
import functools
import math
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_markdown_cell

from brrr.core.errors import BrrrError, NotRecordedError
from brrr.core.units import quantity
from brrr_course.lessons import course
from brrr_course.nouns.claim import functions_of
from brrr_course.nouns.experiment import has_gpu
from brrr_course.nouns.expression import ExpressionError, Scope, Table, compute, flat, middle, pointwise
from brrr_course.nouns.ledger import course_devices, ledger_path, read_ledger
from brrr_course.nouns.source import Evidence
from brrr_course.site.addresses import in_colab, repository

if TYPE_CHECKING:
    from brrr_course.lessons.claims_table import ClaimsTable

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "source"
FIELDS_KEPT = {"kernelspec", "language_info", "brrr"}
GLOSSARY = tomllib.loads((HERE.parent / "data" / "glossary.toml").read_text(encoding="utf-8"))["term"]
MEANING = {spelling.lower(): term["means"] for term in GLOSSARY for spelling in (term["name"], *term.get("also", ()))}


def sources(prefix: str = "") -> list[Path]:
    """The sources of lessons and solutions whose names start with `prefix`."""
    return sorted(path for path in SOURCE.rglob("*.py") if path.name.startswith(prefix))


def target(source: Path, out: Path) -> Path:
    """Where the notebook of a source goes: the same place below `out` that the source has below source/."""
    return (out / source.relative_to(SOURCE)).with_suffix(".ipynb")


def read(source: Path) -> Any:
    """The notebook of a source, without outputs; the cells' ids follow their places, so that a rebuild changes none.

    Cells tagged `teaching` are for docs/teaching_lessons.md alone.
    """
    notebook = jupytext.read(source, fmt="py:percent")
    notebook.cells = [cell for cell in notebook.cells if "teaching" not in cell.metadata.get("tags", [])]
    for place, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{place:02d}"
        if cell.cell_type == "markdown":
            cell.source = with_meanings(BY.sub("", SO.sub("", cell.source)))
    told = _told(source, notebook.metadata.get("readme", {}))
    if told:
        notebook.cells[0].source += f"\n\n{_minutes_said(notebook, int(told['minutes']))}"
    if colab := in_colab(source.stem) if source.parent == SOURCE else "":
        told_there = f"[{BADGE}]({colab})\n\n{IN_COLAB.format(repository())}"
        notebook.cells.insert(1, new_markdown_cell(told_there, id="colab", metadata={"tags": ["setup", "colab"]}))
    own = {**notebook.metadata.get("brrr", {}), **told}
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    notebook.metadata = nbformat.from_dict({"kernelspec": kernel, "brrr": own})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


SO = re.compile(r"\n<!-- so (\w+)(?:@(\w+))?: (.*?)\s-->", re.DOTALL)
"""What makes a sentence so, on the line behind it: `<!-- so EXPERIMENT: CONDITION; ... -->`; readers do not see it."""

BY = re.compile(r"\n<!-- by (.*?)\s-->", re.DOTALL)
"""What else makes a sentence so, where nothing was measured: `<!-- by definition -->`, `<!-- by the code above -->`."""

REASON = re.compile(f"{SO.pattern}|{BY.pattern}", re.DOTALL)
ABSOLUTE = re.compile(r"\b(?:all(?!-)|whatever|does not|nothing|hardly|at most|twice|never|always)\b", re.IGNORECASE)
SENTENCE = re.compile(r"\S.*?(?:[.!?][*)]*(?=\s|\Z)|(?=\n\s*\n|\n(?:[-|>]|\d\.) |\Z))", re.DOTALL)
UNSAID = re.compile(r"^```.*?^```$|^#+ .*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def absolute(source: Path) -> list[tuple[str, str]]:
    """A source's sentences that say *all*, *nothing*, *at most* or the like, each with what makes it so, or "".

    That stands behind the line in which the sentence ends, or between its lines. Exercises assume, and questions ask: these are left out.
    """
    found = []
    for cell in jupytext.read(source, fmt="py:percent").cells:
        if cell.cell_type != "markdown" or "your-turn" in cell.metadata.get("tags", []):
            continue
        reasons = [*SO.finditer(cell.source), *BY.finditer(cell.source)]
        text = REASON.sub(lambda mark: " " * len(mark[0]), cell.source)  # a reason between two lines parts no sentence
        text = UNSAID.sub(lambda mark: re.sub(r"[^\n]", " ", mark[0]), text)
        for said in SENTENCE.finditer(text):
            if ABSOLUTE.search(said[0]) and not re.search(r"\?[*)]*\Z", said[0]):
                ends = f"{cell.source}\n".find("\n", said.end())
                own = [_reason(each) for each in reasons if said.start() <= each.start() <= ends]
                shown = REASON.sub("", cell.source[said.start() : said.end()])
                found.append((" ".join(shown.split()), "; ".join(own)))
    return found


def _reason(mark: re.Match[str]) -> str:
    said = " ".join(mark[mark.re.groups].split())
    return f"`{said}`" if mark.re is SO else f"by {said}"


def not_so(source: Path) -> list[str]:
    """The conditions behind a source's sentences that do not hold, each with what it comes to.

    A condition is an expression of docs/claims_notation.md over medians: it is true, or `EXPRESSION is LOW to HIGH`. Before it,
    `NAME = EXPRESSION` gives a name, and `at(AXIS=VALUE)` is where times are read that do not say otherwise.
    `EXPERIMENT@h100` asks another recording than the lesson's.
    """
    notebook = jupytext.read(source, fmt="py:percent")
    device = notebook.metadata.get("brrr", {}).get("recorded", "h200")
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return [wrong for about, other, said in SO.findall(text) for wrong in _not_so(about, other or device, said)]


class Medians(Evidence):
    """Evidence for a sentence, which tells medians: without their intervals."""

    def table(self, *asked: Any, **how: Any) -> Table:
        found = super().table(*asked, **how)
        return replace(found, values={key: middle(value) for key, value in found.values.items()})


def predicted(evidence: Evidence, line: str, **at: Any) -> float:
    """Seconds of a dashed line at a point."""
    from brrr_course.view.predictions import Predictions

    found = Predictions(evidence.experiment, evidence.source, on=True).time_s(evidence.experiment.line(line), at)
    if found is None:
        raise NotRecordedError(f"{line} is not predicted at {at}")
    return found


def _not_so(about: str, device: str, said: str) -> list[str]:
    from brrr_course.experiments import experiment
    from brrr_course.sources import source

    parts = [" ".join(part.split()) for part in said.split(";")]
    named = dict(found.groups() for part in parts if (found := re.fullmatch(r"(\w+) = (.+)", part)))
    places = [each for part in parts if part.startswith("at(") for each in ast.parse(part, mode="eval").body.keywords]
    evidence = Evidence(experiment(about), source(f"recorded:{device}"))
    functions = {**functions_of(f"brrr_course.experiments.{about}"), "predicted": predicted}
    of_it = {name: functools.partial(_median_of, call, evidence) for name, call in functions.items()}
    at = {each.arg: compute(ast.unparse(each.value), Scope()) for each in places}
    scope = Scope(Medians(evidence.experiment, evidence.source), at, of_it, let=named)
    conditions = [part for part in parts if not re.match(r"\w+ = |at\(", part)]
    return [f"{about}: {each}: {wrong}" for each in conditions if (wrong := _wrong(each, scope))]


def _median_of(call: Any, evidence: Evidence, medians: Medians, *given: Any, **at: Any) -> Any:
    return pointwise(middle, call(evidence, *given, **at))


def _wrong(condition: str, scope: Scope) -> str:
    """What a condition comes to that does not hold."""
    found = re.fullmatch(r"(.+) is (\S+) to (\S+)", condition)
    expression, low, high = found.groups() if found else (condition, 1, 1)
    try:
        values = [middle(each) for each in flat(compute(expression, scope))]
    except (BrrrError, ExpressionError, TypeError) as error:
        return str(error)
    return "" if values and all(float(low) <= each <= float(high) for each in values) else f"it is {values}"


FIGURES = {"explore", "drawing", "timeline", "factory", "roofline_of", "ridge_by_generation"}
PARTS = {"your-turn": "for your turn", **dict.fromkeys(("claims", "remember", "work", "next"), "to close")}
"""What a cell's tag says of where its minutes go; those of all others go to the first part."""


def minutes(source: Path) -> float:
    """How many minutes a lesson takes a cold reader, who leaves out *More*: about what its solution's section says."""
    return sum(by_part(read(source)).values())


def by_part(notebook: Any) -> dict[str, float]:
    """The minutes of each part: 90 words of prose a minute, 2 a figure, 0.75 a term, 12 the exercise, 4 the claims."""
    spent, known = {"to explore": 0.0, "for your turn": 12.0, "to close": 4.0}, set[str]()
    for cell in notebook.cells:
        if cell.source.startswith("## More: "):
            continue
        part = next((PARTS[tag] for tag in cell.metadata.get("tags", []) if tag in PARTS), "to explore")
        if cell.cell_type == "code":
            called = [node.func for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)]
            spent[part] += 2 * sum(getattr(each, "id", "") in FIGURES for each in called)
            continue
        text = re.sub("```.*?```", "", cell.source, flags=re.DOTALL)
        terms = set(re.findall('<abbr title="([^"]*)"', text)) - known
        known |= terms
        spent[part] += len(re.findall(r"\w[\w'’-]*", re.sub(r"</?abbr[^>]*>", "", text))) / 90 + 0.75 * len(terms)
    return spent


def _minutes_said(notebook: Any, told: int) -> str:
    """A lesson's minutes by its parts, which together are those that the course's map says."""
    spent = by_part(notebook)
    shares = {part: round(each * told / sum(spent.values())) for part, each in spent.items()}
    shares["to explore"] += told - sum(shares.values())
    return f"{told} minutes: {', '.join(f'{each} {part}' for part, each in shares.items())}."


def _told(source: Path, head: dict[str, str]) -> dict[str, str]:
    """What the course's map says of a lesson: how many minutes it takes, and what to read before; a solution has none."""
    minutes = re.findall(r"^\| Minutes \| (\d+)", _section(source), re.MULTILINE) if head else []
    return {"minutes": minutes[0], "before": head["before"]} if minutes else {}


def with_meanings(text: str) -> str:
    """The text with what its marked terms mean, shown by hovering: `[[occupancy]]` and `[[occupancy|occupied]]`.

    SystemExit for a term that is not in data/glossary.toml.
    """
    return re.sub(r"\[\[([^\[\]|]+)(?:\|([^\[\]|]+))?\]\]", lambda found: _hover(found[1], found[2] or found[1]), text)


def _hover(term: str, word: str) -> str:
    return f'<abbr title="{escape(_meaning(term))}">{word}</abbr>'


def _meaning(term: str) -> str:
    name = " ".join(term.split())
    if name.lower() not in MEANING:
        raise SystemExit(f"[[{name}]] is not in data/glossary.toml")
    return str(MEANING[name.lower()])


def edition(notebook: Any) -> dict[str, str]:
    """What a lesson is executed with: the recording of the device that its metadata names (`brrr: recorded: cpu`)."""
    return {"BRRR_SOURCE": f"recorded:{notebook.metadata['brrr'].get('recorded', 'h200')}", "BRRR_STATIC": "1"}


def execute(notebook: Any, environment: dict[str, str]) -> Any:
    """Run all cells in a fresh kernel and an empty folder; an exception in a cell ends the build."""
    before = dict(os.environ)
    search = os.pathsep.join(filter(None, [str(HERE.parent), before.get("PYTHONPATH", "")]))
    os.environ.update(environment, PYTHONPATH=search)  # this repository's brrr, installed or not
    try:
        with tempfile.TemporaryDirectory() as folder:
            client = NotebookClient(notebook, timeout=300, kernel_name="python3", store_widget_state=False,
                                    coalesce_streams=True, resources={"metadata": {"path": folder}})  # fmt: skip
            client.execute()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return tidy(notebook)


def tidy(notebook: Any) -> Any:
    """Without what differs between two runs of the same notebook: times of execution, versions of the kernel."""
    notebook.metadata = nbformat.from_dict({k: v for k, v in notebook.metadata.items() if k in FIELDS_KEPT})
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            output.get("metadata", {}).pop("execution", None)
            if "image/png" in output.get("data", {}):  # the same picture for a dark page: of a live one
                output["data"].pop("text/html", None)
    return notebook


def problems(notebook: Any) -> list[str]:
    """What must not stand in the edition: errors, stderr, widgets, and paths of the machine that built it."""
    found = ["widget state in the metadata"] if "widgets" in notebook.metadata else []
    for place, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            found += [f"cell {place}: {problem}" for problem in _output_problems(output)]
    return found


def _output_problems(output: Any) -> list[str]:
    if output.output_type == "error":
        return [f"it raised {output.ename}: {output.evalue}"]
    if output.get("name") == "stderr":
        return [f"it wrote to stderr: {output.text[:200]}"]
    data = output.get("data", {})
    found = [f"a widget view ({kind})" for kind in data if "widget" in kind]
    text = "".join(
        str(value) for kind, value in [*data.items(), ("text", output.get("text", ""))] if "image" not in kind
    )
    found += [f"an address in memory ({address})" for address in re.findall(r"\bat 0x[0-9a-f]{6,}", text)]
    machine_path = re.search(r"(?<![\w.:/])/(?:home|root|work|tmp|opt|usr|Users)/\S*|\b[A-Z]:\\\S*", text)
    return found + ([f"a path of this machine ({machine_path[0]})"] if machine_path else [])


def is_built(text: str) -> bool:
    """Whether it is a notebook of the edition, and no copy of one, which is somebody's own."""
    return '"brrr": {' in text and '"edition": "' not in text


def build(source: Path, out: Path, *, empty: bool = False) -> Path:
    """Make one notebook of the edition and return its path; SystemExit with what is wrong with its outputs."""
    if wrong := not_so(source):
        raise SystemExit(f"{source.name}: the recording does not say so:\n  " + "\n  ".join(wrong))
    if wrong := [said for said, reason in absolute(source) if not reason and source.parent.name != "solutions"]:
        raise SystemExit(f"{source.name}: nothing makes it so:\n  " + "\n  ".join(wrong))
    notebook = read(source)
    notebook = tidy(notebook) if empty else execute(notebook, edition(notebook))
    if wrong := problems(notebook):
        raise SystemExit(f"{source.name}:\n  " + "\n  ".join(wrong))
    path = target(source, out)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not is_built(path.read_text("utf-8", "replace")):
        raise SystemExit(
            f"{path}: is there, and is none that this wrote. Move it away, or name another folder: --out DIR"
        )
    path.write_text(nbformat.writes(notebook).rstrip("\n") + "\n", encoding="utf-8")
    return path


WORK = re.compile(r'^# %% \[markdown\] tags=\["work"\]\n# ## At work\n(.*?)(?=^# %%)', re.MULTILINE | re.DOTALL)


def cheatsheet() -> str:
    """One page of all lessons' *At work*: what does it without brrr."""
    parts = [
        "# Cheat sheet",
        "<!-- notebooks/build.py makes this page -->\nWhat each lesson leaves for work: plain PyTorch, CUDA or shell.",
    ]
    for source in sources():
        text = source.read_text(encoding="utf-8")
        if found := WORK.search(text):
            title = re.search(r"^# # (.*)$", text, re.MULTILINE)
            assert title is not None, source
            lines = [line.removeprefix("#").removeprefix(" ") for line in found[1].strip().splitlines()]
            parts += [f"## [{title[1]}](../notebooks/{source.stem}.ipynb)", "\n".join(lines).strip()]
    return "\n\n".join(parts) + "\n"


def glossary() -> str:
    """All terms of the course, with what they mean and the lesson that needs them first."""
    head = "# Glossary\n\n<!-- notebooks/build.py makes this page of data/glossary.toml -->\nThe course's terms."
    rows = [f"| {term['name']} | {term['means']} | {term['lesson']} |" for term in
            sorted(GLOSSARY, key=lambda term: str(term["name"]).lower())]  # fmt: skip
    return "\n".join([head, "", "| term | what it means | first in |", "| --- | --- | --- |", *rows, ""])


def sentences() -> str:
    """All lessons' sentences that say *all*, *nothing*, *at most* or the like, with what makes them so."""
    rows = [f"| {source.stem.partition('_')[0]} | {_cell(said)} | {_cell(reason)} |"
            for source in lessons() for said, reason in absolute(source)]  # fmt: skip
    return "\n".join([
        "# What makes it so", "", "<!-- notebooks/build.py makes this page of the lessons -->",
        "The lessons' sentences with *all*, *nothing*, *at most* and the like. Behind each stands the condition that the build",
        "evaluates over the recording's medians (`docs/claims_notation.md` has the notation), or why it needs no measurement.", "",
        "| lesson | sentence | so because |", "| --- | --- | --- |", *rows, "",
    ])  # fmt: skip


def _cell(text: str) -> str:
    return re.sub(r"\[\[(?:[^\]|]*\|)?([^\]]*)\]\]", r"\1", text).replace("|", "\\|")


TEACHING, README = HERE.parent / "docs" / "teaching_lessons.md", HERE.parent / "README.md"


def teaching() -> str:
    """The teacher's page of lessons: its head as it stands, then each lesson's section, the last cell of its solution."""
    head, mark, _ = TEACHING.read_text(encoding="utf-8").partition("tagged `teaching`. -->\n")
    return "\n\n".join([head + mark.rstrip(), *(_section(source) for source in lessons())]) + "\n"


def lessons() -> list[Path]:
    """The lessons' sources, in their order."""
    return sorted(SOURCE.glob("*.py"))


def along() -> list[list[Path]]:
    """The lessons' sources along the main road, behind each those of the side roads that leave from it."""
    by_number = {path.stem.partition("_")[0]: path for path in lessons()}
    leaves = {number: _head(path)["brrr"].get("leaves", "") for number, path in by_number.items()}
    return [[by_number[each] for each in (main, *side)] for main, side in course.road(leaves).items()]


def _head(lesson: Path) -> Any:
    return jupytext.read(lesson, fmt="py:percent").metadata


def _section(lesson: Path) -> str:
    cells = jupytext.read(lesson.parent / "solutions" / lesson.name, fmt="py:percent").cells
    found = [str(cell.source).strip() for cell in cells if "teaching" in cell.metadata.get("tags", [])]
    if len(found) != 1:
        raise SystemExit(f"solutions/{lesson.name} has {len(found)} cells tagged `teaching`; expected one")
    return found[0]


def readme() -> str:
    """README as it stands, with the lessons along the road as their heads have them, and what the timer says as recorded."""
    rows = ["| lesson | question | minutes | read before |", "| --- | --- | --- | --- |"]
    for lesson in chain(*along()):
        told = _head(lesson)["readme"]
        minutes = re.findall(r"^\| Minutes \| (\d+)", _section(lesson), re.MULTILINE)
        link = f"[{lesson.stem.partition('_')[0]} {told['short']}]({pages() or 'public/'}{lesson.stem}.html)"
        rows.append(f"| {link} | {told['asks']} | {', '.join(minutes)} | {told['before']} |")
    text = between("lessons", "\n".join(rows), README.read_text(encoding="utf-8"))
    return addressed(between("timer", f"```text\n{timed()}\n```", text))


def timed() -> str:
    """What the timer said of README's call when it was recorded."""
    from brrr_course.experiments import experiment
    from brrr_course.sources import source

    recorded = source("recorded:h200")
    return recorded.measure(experiment("timers"), "measure", {"function": "relu-64x1024", "cache": "hot"}).details()


def addressed(text: str) -> str:
    """The text with how to clone the repository, and with README's ways in that need its address."""
    address = pages()
    colab = f"- **In Colab**: [{BADGE}]({in_colab('00_start_here')})"
    ways = [BADGES.format(repository()), "", PUBLISHED.format(address), colab, FROM_INDEX]
    text = between("ways", "\n".join(ways if address else [FROM_CLONE]), text)
    return between("clone", CLONE.format(repository()) if repository() else CLONE_IN_WORDS, text)


def pages() -> str:
    """Where the site stands, of a repository on GitHub; empty for another."""
    _, on_github, own = repository().partition("https://github.com/")
    owner, _, name = own.partition("/")
    return f"https://{owner}.github.io/{name}/" if on_github else ""


BADGES = (
    "[![Tests]({0}/actions/workflows/tests.yml/badge.svg)]({0}/actions/workflows/tests.yml) "
    "[![On the package index](https://img.shields.io/pypi/v/brrr-gpu)](https://pypi.org/project/brrr-gpu/)"
)
CLONE = """\
```bash
git clone --depth 1 {} brrr && cd brrr
```"""
CLONE_IN_WORDS = """\
Clone this repository by the address of its page, with `--depth 1`: all its history is about 160 MB. Then, in the clone:
<!-- given: 160 MB, in November 2026 -->"""
BADGE = "![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)"
IN_COLAB = """\
In Colab, run this first, in a cell of its own:

```
!git clone --depth 1 {} brrr
%pip install --quiet anywidget
%pip install ./brrr ./brrr/brrr_course --no-deps
```"""
PUBLISHED = "- **In your browser**, with nothing to install: [ten minutes]({0}why.html), or [the course]({0})."
FROM_CLONE = '- **For your own code**: `pip install ".[torch,plot,cuda]"` in the clone, without `cuda` on a CPU ([the package](docs/package.md)).'
FROM_INDEX = '- **For your own code**: `pip install "brrr-gpu[torch,plot,cuda]"`, without `cuda` on a CPU ([the package](docs/package.md)).'


ROAD = HERE.parent / "docs" / "images" / "road.svg"
_BOX = (
    '<rect class="{kind}" x="{x}" y="{y}" width="128" height="44" rx="8"/>'
    '<text class="{kind}" x="{mid}" y="{at}">{number}</text><text x="{mid}" y="{under}">{short}</text>'
)
_STYLE = (
    "text{font:11.5px sans-serif;text-anchor:middle;fill:#222}text.main{font-weight:bold;font-size:14px}"
    "rect.main{fill:#cfe5f5;stroke:#0072b2}rect.side{fill:#f5f5f5;stroke:#999}.page{fill:#fff}"
    "path{stroke:#0072b2;stroke-width:2}path.side{stroke:#999;stroke-dasharray:3 3}"
)


def road() -> str:
    """The lessons' map as a picture: the main road from left to right, side roads below where they leave from."""
    columns = along()
    apart, drawn = 56, []
    wide, tall = 146 * len(columns) + 6, 8 + apart * max(map(len, columns))
    for place, paths in enumerate(columns):
        x = 12 + 146 * place
        drawn += [f'<path d="M{x + 128} 32h18"/>'] if place + 1 < len(columns) else []
        for k, path in enumerate(paths):
            y = 10 + apart * k
            drawn += [f'<path class="side" d="M{x + 64} {y - 12}v12"/>'] if k else []
            drawn.append(_BOX.format(
                kind="side" if k else "main", x=x, y=y, mid=x + 64, at=y + 19, under=y + 36,
                number=path.stem.partition("_")[0], short=escape(_head(path)["readme"]["short"]),
            ))  # fmt: skip
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" width="{wide}" role="img">'
    return f'{head}<style>{_STYLE}</style><rect class="page" width="{wide}" height="{tall}"/>{"".join(drawn)}</svg>\n'


MOVING = HERE.parent / "docs" / "images" / "slider.gif"


def moving() -> bytes:
    """README's picture: lesson 01's first figure, whose slider moves from place to place."""
    from matplotlib import get_data_path
    from PIL import Image, ImageDraw, ImageFont

    from brrr.drawing.style import readable
    from brrr_course import explore
    from brrr_course.view.still import png_of, still_of
    from brrr_course.view.words import verdict

    fonts = Path(get_data_path(), "fonts", "ttf")
    plain, bold = (ImageFont.truetype(str(fonts / f"DejaVuSans{kind}.ttf"), 26) for kind in ("", "-Bold"))
    found = explore("matmul", lines=["unsynchronized", "synchronized"], source="recorded:h200")
    values, frames = found.scene.values["size"], []
    on = still_of(found.scene).axes[0]
    place, (least, most) = on.get_position(), map(math.log, on.get_xlim())
    for value in values:
        found.set(size=value)
        drawn = Image.open(BytesIO(png_of(found.scene)))
        frame = Image.new("RGB", (drawn.width, drawn.height + 110), "white")
        frame.paste(drawn.convert("RGB"), (0, 110))
        pen, left, right = ImageDraw.Draw(frame), drawn.width * place.x0, drawn.width * place.x1
        x = left + (right - left) * (math.log(value) - least) / (most - least)
        pen.text((30, 18), verdict(found.scene), "black", bold)
        pen.line((left, 80, right, 80), "#999", 6)
        pen.ellipse((x - 15, 65, x + 15, 95), "#0072b2")
        pen.text((30, 64), "size", "black", plain)
        pen.text((right + 30, 64), readable(value), "black", plain)
        frames.append(frame.resize((frame.width * 2 // 3, frame.height * 2 // 3)).quantize(64))
    told, pauses = BytesIO(), [900 if value >= 1024 else 250 for value in values]  # in ms
    frames[0].save(told, "gif", save_all=True, append_images=frames[1:], duration=pauses, loop=0, optimize=True)
    return told.getvalue()


def between(name: str, made: str, text: str) -> str:
    """The text with what is made between its marks `<!-- name -->` and `<!-- end -->`."""
    return re.sub(
        rf"(<!-- {name} -->\n).*?(?=<!-- end -->)", lambda found: f"{found[1]}{made}\n", text, flags=re.DOTALL
    )


def public_names() -> str:
    """docs/package_names.md with a line for each public name, the first of its docstring."""
    import brrr

    rows = ["| name | what it is |", "| --- | --- |"]
    for name in (each for each in brrr.__all__ if not each.startswith("_")):
        said = (getattr(brrr, name).__doc__ or "").strip().partition("\n\n")[0]
        rows.append(f"| `brrr.{name}` | {' '.join(said.split()).replace('``', '`')} |")
    rows.append("<!-- definition: the first lines of docstrings -->")
    return between("names", "\n".join(rows), (DOCS / "package_names.md").read_text(encoding="utf-8"))


def counted() -> str:
    """docs/claims.md with the count of the verdicts that the recordings show now: `brrr claims --count`."""
    from brrr_course.lessons import claims_table

    told = claims_table.counted(tables())
    return between("brrr claims --count", told, (DOCS / "claims.md").read_text(encoding="utf-8"))


def tables() -> list[ClaimsTable]:
    """Every experiment's claims on each of the course's own devices: what else is recorded here is the reader's."""
    from brrr_course.experiments import NAMES
    from brrr_course.lessons.claims_table import claims

    return [claims(name, f"recorded:{device}") for name in NAMES for device in course_devices()]


def devices() -> str:
    """Each claim's verdict on each of the course's devices, first those that turn: `brrr claims --devices`."""
    from brrr_course.lessons import claims_table

    head, dashes, *rows = [line for line in claims_table.beside(tables()).splitlines() if line.startswith("|")]
    cells = [
        {cell.partition(" (")[0] for cell in row.strip("| ").split(" | ")[-dashes.count("---") + 1 :]} for row in rows
    ]
    turned = [_with_reasons(row) for row, said in zip(rows, cells, strict=True) if {"holds", "fails"} <= said]
    return "\n".join([
        "# Does it hold on another device?", "", "<!-- notebooks/build.py --pages makes this page -->",
        "What each claim came out as on every recorded device: `brrr claims --devices` prints it with your own recordings,",
        "and with `--source cuda` what was measured now.", "",
        f"## The {len(turned)} that turn", "",
        "A claim that holds on one device and fails on another teaches most. Beside each verdict that fails stands why.", "",
        head, dashes, *turned, "", "## On how many GPUs", "", ON_HOW_MANY, "", *recorded_on(), "",
        "## Laptops", "", LAPTOPS, "", *laptops(), "", f"## All {len(rows)}", "", head, dashes, *rows, "",
    ])  # fmt: skip


ON_HOW_MANY = """\
A recording grows run by run, each on one GPU of the model, or on two. The first line counts all of them, the others those
that the newest rows come from, as a figure's badge does. A CPU tells no number to count by."""
LAPTOPS = """\
What a browser measured of its reader's own GPU, by WebGPU: the median, with the lowest and the highest round, at the
largest size for which there was time. Phones and desktops are welcome too. To add yours, press *Measure my own GPU*
below a figure of lesson 01, then *Copy what to send*, and paste that into an issue, with the name of your device
([which browsers can](setup_browser.md))."""
HEADINGS = {
    "copy_bytes_per_s": ("copies", "B/s"), "flop_per_s": ("FMAs", "FLOP/s"), "launch_alone_s": ("a launch alone", "s"),
    "launch_among_s": ("among many", "s"), "fusion_gain": ("gain by fusion", "x"),
    "matmul_flop_per_s": ("matmul", "FLOP/s"),
}  # fmt: skip


def recorded_on() -> list[str]:
    """On how many GPUs each device's recording rests, and each experiment's; what of the lessons a device lacks."""
    from brrr_course.experiments import NAMES, experiment
    from brrr_course.sources.recorded import Recorded
    from brrr_course.sources.recording import Machine

    every = [Recorded(device, ledger_path().with_name("recordings")) for device in course_devices()]
    sources, shown = [each for each in every if has_gpu(each.kind)], lessons_of(NAMES)
    runs = [Machine.read(each.folders[0]).runs for each in sources]
    counts = [f"{len({gpu.uuid for run in some for gpu in run.devices})} in {len(some)} runs" for some in runs]
    head = ["experiment", "lessons", *(f"GPUs: {each.device}" for each in sources)]
    rows = [head, ["---", "---", *["---:"] * len(sources)], ["all", "", *counts]]
    for asked in map(experiment, NAMES):
        there = [str(len(each.badge(asked).gpus)) if asked.name in each.experiments() else "–" for each in sources]
        together = f", {asked.devices} at a time" * (asked.devices > 1)
        rows.append([asked.name + together, ", ".join(shown[asked.name]), *there])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    for each in sources:
        lacks = [f"{name} ({', '.join(of)})" for name, of in shown.items() if of and name not in each.experiments()]
        lines += ["", f"Of the lessons' experiments the {each.device.upper()} lacks {', '.join(lacks) or 'none'}."]
    return lines


def lessons_of(names: Sequence[str]) -> dict[str, list[str]]:
    """By the experiment the lessons whose cells show it, or that one of its claims carries."""
    found, carry = {name: list[str]() for name in names}, read_ledger(ledger_path()).lessons
    for lesson in lessons():
        number, shown = lesson.stem.partition("_")[0], re.findall(r'\(\s*"(\w+)"', lesson.read_text(encoding="utf-8"))
        for name in {*shown, *(each.partition(".")[0] for each in carry[number])} & {*names}:
            found[name].append(number)
    return found


def laptops(table: Path | None = None) -> list[str]:
    """The table of readers' own GPUs, line by line: `brrr join` adds to it."""
    from brrr_course.sources.laptops import TABLE, named, read

    head = ["GPU", "browser", "day", *(heading for heading, _ in HEADINGS.values()), "the clock's step"]
    rows = [
        [named(line | {"browser": "", "date": ""}), line["browser"], line["date"],
         *(_figure(line, name, unit) for name, (_, unit) in HEADINGS.items()), quantity(line["tick_s"], "s")]
        for line in read(table or TABLE)
    ]  # fmt: skip
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    return lines if rows else ["Nobody has sent one yet."]


def _figure(line: Mapping[str, Any], name: str, unit: str) -> str:
    """A figure of that table with its interval, and the size that it is of."""
    if line[name] is None:
        return "not measured"
    ends = (line[f"{name}{end}"] for end in ("", "_low", "_high"))
    said, low, high = (quantity(value, unit).replace(" x", "x") for value in ends)
    return f"{said} ({low} to {high})" + (f", at {line[f'{name}_at']}" if f"{name}_at" in line else "")


def _with_reasons(row: str) -> str:
    """A row of the claims' table, each verdict that fails with why it does, as far as that is known."""
    claim, *verdicts = row.strip("| ").split(" | ")
    (because,) = (each.because for each in read_ledger(ledger_path()).claim if claim.endswith(f"[{each.id}]"))
    told = zip(course_devices(), verdicts, strict=True)
    return f"| {' | '.join([claim, *(f'{said}: {because[on]}' if on in because else said for on, said in told)])} |"


DOCS = HERE.parent / "docs"
PAGES = {
    DOCS / "cheatsheet.md": cheatsheet,
    DOCS / "glossary.md": glossary,
    DOCS / "package_names.md": public_names,
    DOCS / "sentences.md": sentences,
    TEACHING: teaching,
    README: readme,
    **{
        page: lambda page=page: addressed(page.read_text(encoding="utf-8"))
        for page in (DOCS / "classroom.md", DOCS / "setup.md")
    },
    ROAD: road,
}
SLOW = {DOCS / "claims.md": counted, DOCS / "devices.md": devices}
"""What takes every claim's verdict on every recording."""


def main(argv: Sequence[str]) -> int:
    """Build the edition, or a part of it; the exit status."""
    parser = argparse.ArgumentParser(description="Make the executed edition of the lessons.")
    parser.add_argument("prefix", nargs="?", default="", help="only the lessons whose name starts so, as 01")
    parser.add_argument("--empty", action="store_true", help="no outputs: execute nothing")
    parser.add_argument("--pages", action="store_true", help="no notebooks: only the pages made of the sources")
    parser.add_argument("--out", type=Path, default=HERE, help="where to (default: notebooks/)")
    options = parser.parse_args(argv)
    if os.environ.get("BRRR_RECORDINGS") and options.out == HERE and not options.empty:
        print("BRRR_RECORDINGS is set: its recordings would lie over the course's in the edition. Unset it, or give --out.",
              file=sys.stderr)  # fmt: skip
        return 2
    for source in [] if options.pages else sources(options.prefix):
        print(build(source, options.out, empty=options.empty))
    if options.out == HERE:
        for page, made in (*PAGES.items(), *([] if options.prefix else SLOW.items())):
            page.write_text(made(), encoding="utf-8")
        if not options.prefix:
            MOVING.write_bytes(moving())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
