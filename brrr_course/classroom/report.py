"""`brrr class report`: what each student did, by the name of their token, of those who agreed to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from brrr_course.classroom.store import ClassStore
from brrr_course.lessons.sharing import AGREED

HEADER = ("student", "agreed", "exercises right", "exercises tried", "guesses")


def report(store: ClassStore, more: Iterable[str] = ()) -> Iterator[tuple[object, ...]]:
    """A header and a row for each student: how much they did, then each exercise's mark and each guess.

    >>> list(report(Store(Path("class.db"))))  # doctest: +SKIP
    [('student', 'agreed', 'exercises right', ...), ('ada', 'yes', 3, 4, 5, 'right', ...)]

    Students are the names that have a token, and `more`: of a hub's users the file holds none. Who did not agree to be
    named stands there without answers.
    """
    known = (str(name) for (name,) in store.read("SELECT DISTINCT name FROM token WHERE NOT teacher"))
    given: dict[str, dict[tuple[str, str], str]] = {}
    for who, kind, name, value in store.read("SELECT who, kind, name, value FROM answer"):
        given.setdefault(who, {})[kind, name] = value
    students = {name: given.get(store.digest(name), {}) for name in sorted({*known, *more})}
    agreed = {name: found if AGREED in found else {} for name, found in students.items()}
    asked = sorted({each for found in agreed.values() for each in found} - {AGREED})
    yield (*HEADER, *(f"{kind}: {name}" for kind, name in asked))
    for name, found in agreed.items():
        marks = [value for (kind, answered), value in found.items() if kind == "check" and (kind, answered) != AGREED]
        guesses = sum(kind == "guess" for kind, _ in found)
        yield (name, "yes" if found else "no", marks.count("right"), len(marks), guesses,
               *(found.get(each, "") for each in asked))  # fmt: skip


def plain(row: Sequence[object]) -> list[object]:
    """A row of a CSV file, whose texts no spreadsheet takes for formulas, wherever it splits the line.

    >>> plain(["=1+1", "a;@b", "-5 s", 3])
    ["'=1+1", "a;'@b", "'-5 s", 3]
    """
    return [_FORMULA.sub(r"\1'\2", each) if isinstance(each, str) else each for each in row]


_FORMULA = re.compile(r'(^|[;,\t|])(["\s]*[=+\-@＝＋－＠])')
