"""Builds the site: the lessons in a process for each core, and the index."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

from brrr.core.errors import ArgumentError, BrrrError
from brrr.core.private import end_with
from brrr.core.recordings import VARIABLE, recorded_devices
from brrr_course.lessons.course import copy_of, notebooks_in, road
from brrr_course.nouns.places import share
from brrr_course.site.documents import documents, glossary
from brrr_course.site.frame import read
from brrr_course.site.index import index_page, list_page
from brrr_course.site.page import Page, kept_page, lesson_page, metadata_of, why_page
from brrr_course.site.questions import Question, questions
from brrr_course.site.reference import reference
from brrr_course.site.written import replace_all, require_free
from brrr_course.sources import source


def build(out: Path, lessons: Collection[str] = (), *, device: str = "h200", recordings: Path | None = None,
          slides: bool = False, say: Callable[[str], None] = lambda _: None) -> list[Path]:  # fmt: skip
    """Write the course's pages into a folder and return their paths; what no build wrote stays (`written.py`).

    >>> build(Path("public"), device="h200")  # doctest: +SKIP
    [PosixPath('public/00_start_here.html'), ...]

    `lessons` are numbers of those to run (default: all); the pages of others stay as they lie there, and in the index.
    `device` names the recording, `recordings` the folder of recordings (default: the course's own); `slides` writes
    each lesson as slides too, NAME.slides.html; `say` is told of each lesson that is done, and what a recording lacks.
    ArgumentError for a lesson that is not there, a device that was not recorded, or a folder with the lessons or files
    of others; BrrrError where the course's own lacks something.
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
        numbers = {path.stem.partition("_")[0]: path for path in paths}
        if unknown := {*lessons} - numbers.keys():
            raise ArgumentError("brrr site", "LESSON", min(unknown), f"one of {', '.join(numbers)}")
        around = dict(zip(paths, roads(paths).values(), strict=True))
        run = {path: around[path] for number, path in numbers.items() if not lessons or number in lessons}
        notebooks = {f"notebooks/{path.name}": copy_of(path).encode() for path in paths}
        require_free(out, ["index.html", *(f"{path.stem}.html" for path in paths), *notebooks])  # before the minutes
        asked, found = questions(), dict[str, Page]()
        context, count = get_context("spawn"), min(os.cpu_count() or 1, 4)
        with ProcessPoolExecutor(count, context, _begin, (os.getpid(),)) as pool:
            why = pool.submit(why_page)
            page = partial(lesson_page, with_slides=slides, asked=asked)
            for each in pool.map(page, run, *zip(*run.values(), strict=True)):
                if each.missing and recordings is None:
                    raise BrrrError(f"brrr site: {each.name}: {'; '.join(each.missing)}")
                replace_all(out, {f"{each.name}.html": each.html.encode()}, alone=False)
                found[each.name] = each
                say("\n".join([f"{len(found)} of {len(run)}: {each.name}", *each.missing]))
        there = [found[path.stem] if path in run else kept_page(path, out, asked) for path in paths
                 if path in run or (out / f"{path.stem}.html").is_file()]  # fmt: skip
        pages = {"why.html": why.result()} | site_pages(there, asked)
    beside = {name: read(name) for name in ("offline.js", "manifest.webmanifest", "icon.svg")}
    replace_all(out, {n: text.encode() for n, text in (pages | beside).items()} | notebooks, alone=not lessons)
    return [out / name for name in pages]


def _begin(parent: int) -> None:
    end_with(parent)
    gc.set_threshold(50_000)  # each figure is garbage at once: to collect it need not mean to look through torch


def site_pages(found: Sequence[Page], asked: Sequence[Question]) -> dict[str, str]:
    """All pages by their files' names, the index last."""
    beside = documents(share("docs")) | reference()
    pages = {f"{each.name}.slides": each.slides for each in found if each.slides}
    pages |= {slug: page for each in found for slug, page in each.questions.items()}
    pages |= {each.slug: each.page() for each in asked if not each.lesson}
    pages |= {name: page for name, (_, page) in beside.items()} | glossary(found)
    there = [each for each in asked if each.slug in pages]
    pages |= {each.name: each.html for each in found} | {"questions": list_page(there, found)}
    pages["index"] = index_page(found, there, {name: title for name, (title, _) in beside.items()})
    return {f"{name}.html": html for name, html in pages.items()}


def roads(paths: Sequence[Path]) -> dict[str, tuple[str, str]]:
    """By lesson, those before and after it: along the main road; from a side road to where it leaves that, and on.

    A side road's notebook says in its metadata from which lesson it `leaves`.
    """
    by_number = {path.stem.partition("_")[0]: path.stem for path in paths} | {"": ""}
    leaves = {path.stem.partition("_")[0]: metadata_of(path).get("leaves", "") for path in paths}
    found, before, along = dict[str, tuple[str, str]](), "", road(leaves)
    for main, after in zip(along, [*along, ""][1:], strict=False):
        found |= {each: (leaves[each] or before, after) for each in (main, *along[main])}
        before = main
    return {by_number[each]: (by_number[found[each][0]], by_number[found[each][1]]) for each in leaves}
