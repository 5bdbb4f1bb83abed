"""docs/teaching_lessons.md has all that a teacher needs for every lesson, and the paths take no more minutes."""

import re
from pathlib import Path

import pytest
from harness import LESSONS, REPOSITORY, build_script, read

build = build_script()
DOCS = REPOSITORY / "docs"
TEACHING = DOCS / "teaching_lessons.md"
PARTS = ("| Goal |", "| Minutes |", "| Before |", "| Answers |",
         "**Three usual wrong guesses**", "**Answers", "**To discuss.**")  # fmt: skip


def sections(text: str) -> dict[str, str]:
    """From a lesson's number to its section."""
    parts = re.split(r"^## (?=\d)", text, flags=re.MULTILINE)[1:]
    return {part.split()[0]: part for part in parts}


def lacks(section: str) -> list[str]:
    """What a lesson's section does not have."""
    missing = [part for part in PARTS if part not in section]
    wrong = section.partition("**Three usual wrong guesses**")[2]
    return missing + [f"guess {number}" for number in (1, 2, 3) if f"\n{number}. " not in wrong]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_every_lesson_has_a_whole_section(lesson: Path) -> None:
    section = sections(TEACHING.read_text("utf-8"))[lesson.stem.split("_")[0]]
    assert lacks(section) == []
    title = read(lesson).cells[0].source.splitlines()[0].removeprefix("# ")
    assert section.startswith(title)


def test_a_section_that_lacks_something_is_found() -> None:
    section = sections(TEACHING.read_text("utf-8"))["01"]
    assert lacks(section.replace("**To discuss.**", "")) == ["**To discuss.**"]
    assert lacks(section.replace("\n3. ", "\n")) == ["guess 3"]


@pytest.mark.parametrize("page", [REPOSITORY / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda path: path.stem)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    """Those between pages, with their headings, are held by test_links.py; `make site` writes public/."""
    links = re.findall(r"\]\((?!https?:|public/)([^)#]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_minutes_of_a_path_add_up_and_no_lesson_takes_longer_than_it_says() -> None:
    parts = sections(TEACHING.read_text("utf-8")).items()
    whole = {number: int(re.findall(r"\| Minutes \| (\d+)", section)[0]) for number, section in parts}
    text = (DOCS / "teaching.md").read_text("utf-8")
    paths = re.findall(r"^\*\*[\w ]+\*\* \((\d+) minutes.*?\n\n(.*?)\n\n", text, flags=re.MULTILINE | re.DOTALL)
    assert len(paths) == 2
    for minutes, table in paths:
        rows = re.findall(r"^\| ([^|]+) \| (\d+) \|", table, flags=re.MULTILINE)
        assert sum(int(taken) for _, taken in rows) == int(minutes)
        assert all(int(taken) <= whole.get(lesson, 15) for lesson, taken in rows)


@pytest.mark.parametrize("source", build.lessons(), ids=lambda path: path.stem)
def test_the_minutes_of_a_lesson_are_about_what_its_length_says(source: Path) -> None:
    """So are README's, which are made of these."""
    (said,) = re.findall(r"^\| Minutes \| (\d+) \|$", build._section(source), re.MULTILINE)
    assert int(said) == pytest.approx(build.minutes(source), rel=0.15)


@pytest.mark.parametrize("source", build.lessons(), ids=lambda path: path.stem)
def test_the_second_exercise_of_a_lesson_is_more(source: Path) -> None:
    heads = re.findall(r"^# ## (Your turn|More): ", source.read_text("utf-8"), re.MULTILINE)
    assert heads == ["Your turn", "More"]
