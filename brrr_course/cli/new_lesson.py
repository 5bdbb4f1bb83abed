"""`brrr new-lesson`: the three files of a lesson with its experiment, as a skeleton that runs, records and builds.

brrr new-lesson 15 sorting        # in a clone of the repository

What is to be written in them is marked TODO; CONTRIBUTING.md tells what each file holds.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from string import Template

from brrr.core.errors import ArgumentError, UnavailableError
from brrr_course.nouns.places import COURSE

FILES = {
    "experiment": "brrr_course/experiments/{name}.py",
    "lesson": "notebooks/source/{number}_{name}.py",
    "solution": "notebooks/source/solutions/{number}_{name}.py",
}
"""From a template in data/lesson/ to the file made of it."""
LEDGER, TABLES = "data/claims.toml", ("claims", "exercises")
"""Templates whose tables go to the end of the file of that name in data/."""


def main(argv: Sequence[str]) -> int:
    """`brrr new-lesson NUMBER NAME`: 0 when the files are written; nothing that is there is changed."""
    parser = argparse.ArgumentParser(prog="brrr new-lesson", description="Write a lesson's files, to be filled in.")
    parser.add_argument("number", metavar="NUMBER", help="two digits, and b for engineers: 11 or 11b")
    parser.add_argument("name", metavar="NAME", help="of the lesson and of its experiment: sorting")
    options = parser.parse_args(argv)
    for path in write(COURSE.parent, options.number, options.name):
        print(path)
    print("Then: `brrr record NAME --device cpu`, `python notebooks/build.py NUMBER` and `--pages`; CONTRIBUTING.md.")
    return 0


def write(root: Path, number: str, name: str) -> list[Path]:
    """Write the skeleton below the repository's root; ArgumentError for what is no such name, or there already."""
    templates, sources = root / "data" / "lesson", root / "notebooks" / "source"
    if not (root / LEDGER).is_file() or not templates.is_dir():
        raise UnavailableError(f"new-lesson: {root} is no clone of the repository; a lesson is written in one")
    for argument, value, form in (("NUMBER", number, r"\d\d[a-z]?"), ("NAME", name, r"[a-z][a-z0-9_]*")):
        if not re.fullmatch(form, value):
            raise ArgumentError("new-lesson", argument, value, f"what matches {form}")
    made = {templates / f"{key}.txt": root / path.format(name=name, number=number) for key, path in FILES.items()}
    there = [*(path for path in made.values() if path.exists()), *sources.glob(f"{number}_*.py")]
    if there:
        raise ArgumentError("new-lesson", "NAME", name, f"one that is not there yet: {there[0]}")
    before = max((path for path in sources.glob("*.py") if path.stem < number), key=lambda path: path.stem)
    title = re.findall(r"^# # (.*)$", before.read_text("utf-8"), re.MULTILINE)[0]
    told = {"NAME": name, "NUMBER": number, "BEFORE": before.stem, "BEFORE_NUMBER": before.stem.partition("_")[0],
            "BEFORE_TITLE": title, "TODAY": date.today().isoformat()}  # fmt: skip
    for template, path in made.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(_filled(template, told), encoding="utf-8")
    lesson = f'{number} = ["{name}.one-is-faster"]\n\n[[claim]]'
    tables = {templates / f"{key}.txt": root / "data" / f"{key}.toml" for key in TABLES}
    for template, path in tables.items():
        text = path.read_text(encoding="utf-8").replace("[[claim]]", lesson, 1)
        path.write_text(text + _filled(template, told), encoding="utf-8")
    return [*made.values(), *tables.values()]


def _filled(template: Path, told: dict[str, str]) -> str:
    return Template(template.read_text(encoding="utf-8")).substitute(told)
