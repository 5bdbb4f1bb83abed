"""The executed edition: made from the sources as they are now, with pictures and text only."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import made_up
import nbformat
import pytest

if os.environ.get("BRRR_SOURCE") == "cuda":
    pytest.skip("the edition shows the recording: it is checked where `make test` runs", allow_module_level=True)

from harness import LESSONS, NOTEBOOKS, SOLUTIONS, build_script, read

from brrr_course import claims
from brrr_course.lessons.course import ROAD, road
from brrr_course.site.build import roads

build = build_script()
EDITION = [*LESSONS, *SOLUTIONS]
NUMBERED = {lesson.name.partition("_")[0]: lesson for lesson in LESSONS}
by_name = pytest.mark.parametrize("path", EDITION, ids=lambda path: f"{path.parent.name}-{path.stem}")


def test_every_source_has_its_notebook_and_no_notebook_lacks_a_source() -> None:
    assert sorted(build.target(source, NOTEBOOKS) for source in build.sources()) == sorted(EDITION)


@by_name
def test_the_cells_are_those_of_the_source(path: Path) -> None:
    source = (build.SOURCE / path.relative_to(NOTEBOOKS)).with_suffix(".py")
    assert _cells(read(path)) == _cells(build.read(source)), "run: python notebooks/build.py"


def _cells(notebook: Any) -> list[tuple[str, str, list[str]]]:
    return [(cell.cell_type, cell.source, list(cell.metadata.get("tags", []))) for cell in notebook.cells]


@by_name
def test_it_was_executed_from_top_to_bottom(path: Path) -> None:
    counts = [cell.execution_count for cell in read(path).cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run: python notebooks/build.py"


@by_name
def test_its_outputs_are_for_reading(path: Path) -> None:
    assert build.problems(read(path)) == []


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_each_explorer_left_a_picture_with_a_line_of_text(path: Path) -> None:
    explored = [cell for cell in read(path).cells if cell.cell_type == "code" and "explore(" in cell.source]
    for cell in explored:
        kinds = {kind for output in cell.outputs for kind in output.get("data", {})}
        assert "text/plain" in kinds
        assert kinds & {"image/png", "text/html", "image/svg+xml"}, cell.source


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_what_held_is_what_the_recording_says_now(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fold as well: a claim whose text or verdict changed makes a new edition. Asked as the cell asks."""
    notebook = read(path)
    monkeypatch.setenv("BRRR_SOURCE", build.edition(notebook)["BRRR_SOURCE"])
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and "claims(" in cell.source]
    named = re.search(r"recorded:\w+", cell.source)
    now, stored = claims(path.stem.split("_")[0], source=named and named[0]), cell.outputs[0].data
    again = f"run: python notebooks/build.py {path.stem}"
    assert stored["text/plain"] == str(now), again
    assert stored["text/html"] == now._repr_html_(), again


def _with_output(output: Any) -> Any:
    cell = nbformat.v4.new_code_cell("1")
    cell.outputs = [output]
    return nbformat.v4.new_notebook(cells=[cell])


view = "application/vnd.jupyter.widget-view+json"


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (nbformat.v4.new_output("display_data", data={view: {"model_id": "1"}}), "widget view"),
        (nbformat.v4.new_output("stream", name="stderr", text="careful"), "stderr"),
        (nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=[]), "raised ValueError"),
        (nbformat.v4.new_output("stream", name="stdout", text="in /home/somebody/x.py"), "path of this machine"),
    ],
)
def test_each_problem_of_an_output_is_found(output: Any, found: str) -> None:
    assert found in "\n".join(build.problems(_with_output(output)))


def test_widget_state_is_found() -> None:
    notebook = nbformat.v4.new_notebook(metadata={"widgets": {"state": {}}})
    assert build.problems(notebook) == ["widget state in the metadata"]


def test_a_rebuild_without_outputs_changes_nothing(tmp_path: Path) -> None:
    first, second = (build.build(build.sources("00")[0], tmp_path / name, empty=True) for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


LEAVES = {number: read(lesson).metadata["brrr"].get("leaves", "") for number, lesson in NUMBERED.items()}
"""From which lesson each leaves, as its head says."""
AROUND = roads(LESSONS)


def test_the_road_is_the_lessons_that_leave_from_none() -> None:
    assert list(road(LEAVES)) == list(ROAD), (
        "a lesson without `leaves: 'NN'` under `brrr:` in its head stands on the main road; if it should, name it in "
        "ROAD (brrr_course/lessons/course.py)"
    )


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_leads_on_along_the_road_and_back(lesson: Path) -> None:
    """A side road leads back to where it begins, and on to the lesson behind that on the main road."""
    before, after = AROUND[lesson.stem]
    last = [cell.source for cell in read(lesson).cells if cell.cell_type == "markdown"][-1]
    first, *_ = re.findall(r"\]\((\w+)\.ipynb\)", last)
    assert first == after or not after, f"the first link of *Next* is to lead to {after}"
    assert re.findall(r"\n\nBack: \[.*\]\((\w+)\.ipynb\)$", last, re.DOTALL) == [before] * bool(before), (
        f"the last line is to be `Back: [title]({before}.ipynb)`"
    )


def test_every_map_follows_the_road() -> None:
    """docs/teaching.md shows README's picture, which test_at_work.py holds."""
    along, readme = road(LEAVES), (NOTEBOOKS.parent / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| \[(\w+) .*\]\(.*\.html\) \|", readme, re.MULTILINE)
    assert rows == [each for main, side in along.items() for each in (main, *side)]
    assert f"{', '.join(ROAD[:-1])} and {ROAD[-1]} in a row" in readme
    (drawn,) = re.findall(r"```text\nmain road.*?\n(.*?)```", read(LESSONS[0]).cells[-1].source, re.DOTALL)
    assert {row[:2]: re.findall(r"\d\d[bc]?", row[2:]) for row in drawn.splitlines()} == along


def test_a_link_to_a_lesson_has_its_title() -> None:
    titles = {lesson.name: read(lesson).cells[0].source.partition("\n")[0].removeprefix("# ") for lesson in LESSONS}
    for lesson in LESSONS:
        said = " ".join(cell.source for cell in read(lesson).cells if cell.cell_type == "markdown")
        for text, name in re.findall(r"\[(\d\d\w? · [^\]]*)\]\((\w+\.ipynb)\)", said):
            assert " ".join(text.split()) == titles[name], lesson.name


LESSON = """# ---
# jupyter:
#   brrr:
#     recorded: cpu
# ---

# %%
from brrr_course import explore

explore("matmul")
"""


def test_a_lesson_shows_the_recording_that_its_head_names_each_part_with_its_software(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up.record(tmp_path / "own", made_up.CPU, {"size": ["64", "256"]})
    newer = made_up.run_info("run-2", "2001-01-01T00:00:00+00:00", made_up.CPU, torch="2.14.0+cpu")
    made_up.record(tmp_path / "own", made_up.CPU, {"size": ["512"]}, run=newer)
    monkeypatch.setenv("BRRR_RECORDINGS", str(tmp_path / "own"))
    monkeypatch.setattr(build, "SOURCE", tmp_path)
    (tmp_path / "99_own.py").write_text(LESSON)
    ends = signal.getsignal(signal.SIGINT)
    built = build.build(tmp_path / "99_own.py", tmp_path / "out").read_text()
    signal.signal(signal.SIGINT, ends)  # a kernel has its own, where this process ignores it as those in the background
    said = "torch 2.13.0+cpu, your recording; torch 2.14.0+cpu, your recording at size 512"
    assert f"RECORDED · Synthetic CPU · 2001-01-01 · {said}" in built


SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "×": 1.0}


@pytest.mark.parametrize(("lesson", "ours"), [
    ("06b_megakernel", "one kernel for all layers"), ("06b_megakernel", "best(), the fastest here"),
    ("08b_persistent", "weights kept on the chip"),
])  # fmt: skip
def test_a_figure_of_rivals_begins_with_the_strongest(lesson: str, ours: str) -> None:
    """A ladder compares its ends; elsewhere the first sentence is read as what was gained over the best."""
    book = json.loads((NOTEBOOKS / f"{lesson}.ipynb").read_text(encoding="utf-8"))
    figures = [cell for cell in book["cells"] if re.search("^explore", src := "".join(cell["source"]), re.M)
               and "ladder" not in src and "speedup" not in src]  # fmt: skip
    found = 0
    for cell in figures:
        text = next(
            "".join(one["data"]["text/plain"]) for one in cell["outputs"] if "text/plain" in one.get("data", {})
        )
        told, _, rest = text.partition(". At ")
        values = {
            label.rpartition(": At ")[2]: float(value) * SECONDS[unit]
            for label, value, unit in re.findall(r"(?:^|[;:] )([^;]*?): ([\d.]+) ?(ns|µs|ms|s|×)", rest)
            if "DATASHEET" not in label
        }
        mine = next((label for label in values if label.endswith(ours)), "")
        if mine and f"as long as {ours}" in told:
            strongest = min((label for label in values if label != mine), key=lambda label: values[label])
            assert re.search(rf"^(At [^,]*, )?{re.escape(strongest.rpartition(': ')[2])},? (took|ran) ", told), text
            found += 1
    assert found
