"""The teacher's page: the class's guesses as they come, then what was measured beside them.

The page itself is open to all and holds nothing. What it shows comes from two routes that take a teacher's token alone,
which is typed into the page and sent in a header, and never part of an address. Of what students send it shows counts:
an answer that the question cannot have is counted, and not shown.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.private import python
from brrr_course.classroom.histogram import Form, rows
from brrr_course.classroom.store import ClassStore
from brrr_course.lessons.answers import Answer, Choice, Quantity, Ranking
from brrr_course.lessons.course import notebooks_in
from brrr_course.lessons.sharing import AGREED, OWN, line
from brrr_course.nouns.places import share

FORMS: Mapping[str, Callable[..., Form]] = {each.__name__: each for each in (Choice, Quantity, Ranking)}
RECORDED = "h200"
"""Whose recording is shown, where a lesson does not name another."""
SECONDS = 180.0
"""How long a lesson may take to be run, with what it must measure."""
FILES = {"/teacher": ("teacher.html", "text/html"), "/teacher.js": ("teacher.js", "text/javascript"),
         "/teacher.css": ("teacher.css", "text/css")}  # fmt: skip
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"
HEADERS = {
    "Content-Security-Policy": f"{POLICY}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
}  # fmt: skip


def page_routes() -> list[Route]:
    """The page's own files, which anybody may read."""
    texts = {path: (Path(__file__).with_name(name).read_text("utf-8"), kind) for path, (name, kind) in FILES.items()}
    return [Route(path, Response(text, headers=HEADERS, media_type=kind), methods=["GET"])
            for path, (text, kind) in texts.items()]  # fmt: skip


@lru_cache
def titles() -> dict[str, str]:
    """Each lesson's number with its title.

    >>> titles()["01"]
    "01 · Why does the GPU's time look constant?"
    """
    found = {}
    for path in notebooks_in(share("notebooks")):
        (first, *_) = json.loads(path.read_text("utf-8"))["cells"]
        found[path.stem.partition("_")[0]] = "".join(first["source"]).partition("\n")[0].strip("# ").replace("*", "")
    return found


@lru_cache
def asked_by_lessons() -> frozenset[tuple[str, str]]:
    """What may be answered: `("check", exercise)` and `("guess", question)`, as the executed lessons have them.

    >>> ("check", "00-launches") in asked_by_lessons()
    True
    """
    found = {AGREED, OWN}
    for path in notebooks_in(share("notebooks")):
        for cell in (cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"):
            printed = "".join(text for output in cell["outputs"] for text in output.get("text", ()))
            found |= {("check", name) for name in re.findall(r'\bcheck\("([^"]+)"', "".join(cell["source"]))}
            found |= {("guess", line(question)) for question in re.findall(r"(.+)\nNot answered yet", printed)}
    return frozenset(found)


# ---------------------------------------------------------------------------------------------------------------------
# A lesson's questions, and what each is held against.


class Truths:
    """What lessons ask and what was measured: each lesson is run once, in a process of its own.

    >>> await Truths().of("01", own=False)  # doctest: +SKIP
    [{'question': 'For 2048 × 2048 matrices, this clock says ...', 'measured': 7.9e-06, ...}, ...]

    `serving` is where the gateway says how to reach it: with `own`, the class's device measures, not a recording's.
    """

    def __init__(self, serving: Path | None = None) -> None:
        self._serving, self._tasks = serving, dict[tuple[str, bool], asyncio.Task[list[dict[str, Any]]]]()

    async def of(self, lesson: str, *, own: bool, wait_s: float = 0.1) -> list[dict[str, Any]] | None:
        """The lesson's questions; None as long as they are not known. What failed is tried again the next time."""
        if lesson not in await asyncio.to_thread(titles):
            raise ArgumentError("guesses", "lesson", lesson, f"one of {', '.join(titles())}")
        if own and self._serving is None:
            raise UnavailableError("this gateway does not say how it is reached: only the recording can be shown")
        if (lesson, own) not in self._tasks:
            self._tasks[lesson, own] = asyncio.create_task(self._run(lesson, own))
        task = self._tasks[lesson, own]
        await asyncio.wait([task], timeout=wait_s)
        if task.done() and (task.cancelled() or task.exception()):
            del self._tasks[lesson, own]
        return task.result() if task.done() else None

    def forget(self, lesson: str) -> None:
        """What the class's device made of it is asked for again: it may have measured more by then."""
        if (task := self._tasks.get((lesson, True))) and task.done():
            del self._tasks[lesson, True]

    async def _run(self, lesson: str, own: bool) -> list[dict[str, Any]]:
        (notebook,) = share("notebooks").glob(f"{lesson}_*.ipynb")
        device = json.loads(notebook.read_text("utf-8"))["metadata"].get("brrr", {}).get("recorded", RECORDED)
        own_too = [str(self._serving)] if own else []
        command = python("brrr_course.classroom.truth", str(notebook), f"recorded:{device}", *own_too)
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        try:
            printed, complained = await asyncio.wait_for(child.communicate(), SECONDS)
        except TimeoutError:
            raise UnavailableError(f"lesson {lesson} was not measured within {SECONDS:.0f} s: try it again") from None
        finally:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
        if child.returncode:
            why = complained.decode(errors="replace").strip().rpartition("\n")[2]
            raise UnavailableError(f"lesson {lesson} could not be run ({why})")
        found: list[dict[str, Any]] = json.loads(printed)
        return found


# ---------------------------------------------------------------------------------------------------------------------
# The class's guesses, counted.


def laptop(told: str) -> list[float]:
    """Bytes and FLOP a second of a student's GPU, and the seconds of a launch alone and among many.

    >>> laptop("[1e11, 3e12, 7e-5, 2e-6]")
    [100000000000.0, 3000000000000.0, 7e-05, 2e-06]
    """
    with suppress(ValueError, TypeError):
        found = [float(each) for each in json.loads(told)]
        if len(found) == 4 and all(0 < each < 1e18 for each in found):
            return found
    raise ArgumentError("answers", "value", told, "four positive numbers: bytes/s, FLOP/s, and two times of a launch")


def laptops(store: ClassStore) -> list[list[float]]:
    """Those of all who agreed, in no order that tells whose is whose."""
    return sorted(laptop(value) for (value,) in store.read("SELECT value FROM answer WHERE kind = ?", OWN[0]))


def counted(store: ClassStore, questions: Sequence[Mapping[str, Any]], reveal: bool) -> dict[str, Any]:
    """How often what was guessed of each question, and what was measured if it is to be revealed."""
    query = "SELECT COUNT(DISTINCT name) FROM token WHERE NOT teacher AND expires > ?"
    ((students,),) = store.read(query, time.time())
    query = "SELECT value, COUNT(*) FROM answer WHERE kind = 'guess' AND name = ? GROUP BY value"
    given = [dict(store.read(query, line(each["question"]))) for each in questions]
    told = [_told(asked, counts, reveal) for asked, counts in zip(questions, given, strict=True)]
    return {"students": students, "questions": told}


def _told(asked: Mapping[str, Any], given: Mapping[str, int], reveal: bool) -> dict[str, Any]:
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in asked["given"].items()}
    form, measured = FORMS[asked["form"]](**fields), asked["measured"] if reveal else None
    measured = tuple(measured) if isinstance(measured, list) else measured
    fit = Counter[Answer]()
    for value, count in given.items():
        with suppress(ArgumentError):
            fit[form.parse(value)] += count
    truth = {name: asked[name] for name in ("said", "header", "rows", "badge")}
    return {
        "question": asked["question"], "order": isinstance(form, Ranking), "rows": rows(form, fit, measured),
        "count": fit.total(), "unfit": sum(given.values()) - fit.total(),
        "truth": {**truth, "measured": "" if measured is None else form.show(measured)} if reveal else None,
    }  # fmt: skip
