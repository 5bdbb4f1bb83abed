"""Builds the site: every lesson in a process of its own, and the index."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from brrr.core.errors import ArgumentError, BrrrError
from brrr.core.files import recorded_devices, share
from brrr.course.lessons.course import notebooks_in
from brrr.course.sources import source
from brrr.site.lesson import Lesson, lesson
from brrr.site.page import index_page, lesson_page

MOST_WORKERS = 4


def build(out: Path, *, device: str = "h200", recordings: Path | None = None,
          say: Callable[[str], None] = lambda _: None) -> list[Path]:  # fmt: skip
    """Write the course's pages into a folder and return their paths; what else lies there stays.

    >>> build(Path("public"), device="h200")  # doctest: +SKIP
    [PosixPath('public/00_start_here.html'), ...]

    `device` names the recording, `recordings` the folder of recordings (default: the course's own); `say` is told what
    a recording lacks. ArgumentError for a device that was not recorded, BrrrError where a view has no form on a page.
    """
    with _environment(device, recordings):
        if device not in recorded_devices():
            raise ArgumentError(
                "brrr site", "--device", device, f"one of {', '.join(recorded_devices()) or 'none recorded'}"
            )
        source(f"recorded:{device}")
        found = _lessons(notebooks_in(share("notebooks")))
    lacking = [f"{each.name}: {missing}" for each in found for missing in each.missing]
    if lacking and recordings is None:
        raise BrrrError("brrr site: " + "; ".join(lacking))
    for missing in lacking:
        say(missing)
    names = [each.name for each in found]
    badge = next((view["badge"] for each in found for view in each.views if view.get("badge")), device)
    pages = {name: lesson_page(each, before, after) for name, each, before, after
             in zip(names, found, ["", *names], [*names[1:], ""], strict=False)}  # fmt: skip
    pages["index"] = index_page(found, badge)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (out / f"{name}.html").write_text(text, encoding="utf-8", newline="\n")
    return [out / f"{name}.html" for name in pages]


def _lessons(paths: Sequence[Path]) -> list[Lesson]:
    """The lessons, each run in a fresh process, as many at a time as there are cores."""
    if not paths:
        raise BrrrError("brrr site: there are no lessons. Install brrr again, or restore the folder notebooks.")
    workers = min(os.cpu_count() or 1, MOST_WORKERS, len(paths))
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        return list(pool.map(lesson, paths))


@contextmanager
def _environment(device: str, recordings: Path | None) -> Iterator[None]:
    """The source and the folder of recordings that the lessons are to see, in this process and those it starts."""
    wanted = {"BRRR_SOURCE": f"recorded:{device}", "BRRR_STATIC": "", "OMP_NUM_THREADS": "1"}
    wanted |= {"BRRR_RECORDINGS": str(recordings.resolve())} if recordings else {}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
