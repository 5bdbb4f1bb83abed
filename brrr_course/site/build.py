"""Builds the site: every lesson in a process of its own, and the index."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

from brrr.core.errors import ArgumentError, BrrrError
from brrr.core.private import end_with
from brrr.core.recordings import VARIABLE, recorded_devices
from brrr_course.lessons.course import copy_of, notebooks_in
from brrr_course.nouns.places import share
from brrr_course.site.documents import documents, glossary
from brrr_course.site.frame import read
from brrr_course.site.index import index_page
from brrr_course.site.page import Page, lesson_page, metadata_of
from brrr_course.site.questions import Question, list_page, questions
from brrr_course.site.reference import reference
from brrr_course.site.written import replace_all, require_free
from brrr_course.sources import source


def build(out: Path, *, device: str = "h200", recordings: Path | None = None, slides: bool = False,
          say: Callable[[str], None] = lambda _: None) -> list[Path]:  # fmt: skip
    """Write the course's pages into a folder and return their paths; what no build wrote stays (`written.py`).

    >>> build(Path("public"), device="h200")  # doctest: +SKIP
    [PosixPath('public/00_start_here.html'), ...]

    `device` names the recording, `recordings` the folder of recordings (default: the course's own); `slides` writes
    each lesson as slides too, NAME.slides.html; `say` is told what a recording lacks. ArgumentError for a device that
    was not recorded, or a folder with the lessons or files of others; BrrrError where the course's own lacks something.
    """
    if share("notebooks").resolve().is_relative_to(out.resolve()):
        raise ArgumentError("brrr site", "DIR", str(out), "a folder without the lessons in it")
    wanted = {"BRRR_SOURCE": f"recorded:{device}", "BRRR_STATIC": "", "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
    if recordings:  # over the course's own, which some cells name
        wanted[VARIABLE] = str(recordings)
    with patch.dict(os.environ, wanted):
        if device not in (recorded := recorded_devices()):
            raise ArgumentError("brrr site", "--device", device, f"one of {', '.join(recorded) or 'none recorded'}")
        source(f"recorded:{device}")
        paths = notebooks_in(share("notebooks"))
        if not paths:
            raise BrrrError("brrr site: there are no lessons. Install brrr again, or restore the folder notebooks.")
        before, after = zip(*roads(paths).values(), strict=True)
        notebooks = {f"notebooks/{path.name}": copy_of(path).encode() for path in paths}
        require_free(out, ["index.html", *(f"{path.stem}.html" for path in paths), *notebooks])  # before the minutes
        asked = questions()
        context, count = get_context("spawn"), min(os.cpu_count() or 1, 4)
        with ProcessPoolExecutor(count, context, end_with, (os.getpid(),)) as pool:
            found = list(pool.map(partial(lesson_page, with_slides=slides, asked=asked), paths, before, after))
        pages = site_pages(found, asked)
    lacking = [f"{each.name}: {missing}" for each in found for missing in each.missing]
    if lacking and recordings is None:
        raise BrrrError("brrr site: " + "; ".join(lacking))
    for missing in lacking:
        say(missing)
    beside = {name: read(name) for name in ("offline.js", "manifest.webmanifest", "icon.svg")}
    pictures = {name: png for each in found for name, png in each.pictures.items()}
    texts = {name: text.encode() for name, text in (pages | beside).items()}
    replace_all(out, texts | pictures | notebooks)
    return [out / name for name in pages]


def site_pages(found: Sequence[Page], asked: Sequence[Question]) -> dict[str, str]:
    """All pages by their files' names, the index last."""
    beside = documents(share("docs")) | reference()
    pages = {f"{each.name}.slides": each.slides for each in found if each.slides}
    pages |= {slug: page for each in found for slug, page in each.questions.items()}
    pages |= {each.slug: each.page() for each in asked if not each.lesson}
    pages |= {name: page for name, (_, page) in beside.items()} | glossary(found)
    there = [each for each in asked if each.slug in pages]
    pages |= {each.name: each.html for each in found} | {"questions": list_page(there)}
    pages["index"] = index_page(found, there, {name: title for name, (title, _) in beside.items()})
    return {f"{name}.html": html for name, html in pages.items()}


def roads(paths: Sequence[Path]) -> dict[str, tuple[str, str]]:
    """By lesson, those before and after it: along the main road; from a side road to where it leaves that, and on.

    A side road's notebook says in its metadata from which lesson it `leaves`.
    """
    leaves = {path.stem: metadata_of(path).get("leaves", "") for path in paths}
    by_number = {name.partition("_")[0]: name for name in leaves}
    main = ["", *(name for name, begins in leaves.items() if not begins), ""]
    found = {}
    for name, begins in leaves.items():
        at = name
        while leaves[at]:
            at = by_number[leaves[at]]
        place = main.index(at)
        found[name] = (by_number[begins] if begins else main[place - 1], main[place + 1])
    return found
