"""`data/claims.toml`: the only place of a claim's text, and which claims each lesson shows."""

import functools
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from brrr.core.errors import RecordingError
from brrr.core.files import typed
from brrr_course.nouns import table
from brrr_course.nouns.expression import ExpressionError, Scope, compute, estimate, read
from brrr_course.nouns.places import share


@dataclass(frozen=True)
class Change:
    """A change of a claim after it was fixed: what and why, and its verdicts before and after."""

    date: str
    what: str
    why: str
    before: str
    after: str


@dataclass(frozen=True)
class Entry:
    """What the ledger says of a claim; a field that does not apply is empty.

    id: the experiment's name, a dot and the claim's. source: a key of the ledger's sources; place: where in it.
    value: the expressions that decide it; within, about or about_gain: what is allowed; at: where they look; let: names
    for expressions; alone: whether nothing stands in where there is no GPU; unit and reads: how the numbers are told.
    judge: the function that decides what no expression can say, decides: what it does. rivals: whom with, and what
    either side had prepared. fixed: the date of its text; after_data: whose recordings were there before. not_here: why
    nothing here can judge it; certain: why no recording can change its verdict. so_what: what follows for the reader,
    of a claim that carries a lesson. because: from a recording to why the claim fails or is undecided there. cause:
    what judges the cause that the sentence names, or what we take for the cause and nothing judges.
    """

    id: str
    sentence: str
    cause: str
    source: str
    place: str
    rivals: str
    fixed: str
    after_data: tuple[str, ...]
    changed: tuple[Change, ...]
    not_here: str
    certain: str
    so_what: str
    because: Mapping[str, str]
    value: tuple[str, ...]
    within: tuple[tuple[float | str, ...], ...]
    about: float
    about_gain: float
    at: Mapping[str, tuple[str | float, ...]]
    let: Mapping[str, str]
    alone: bool
    unit: str
    reads: str
    judge: str
    decides: str

    def bounds(self) -> list[tuple[float, float]]:
        """The lowest and the highest that each value may be."""
        if self.about or self.about_gain:
            room = max(0.05, (self.about_gain - 1) / 5)
            low, high = (0.8 * self.about, 1.2 * self.about)
            if self.about_gain:
                low, high = self.about_gain - room, self.about_gain + room
            return [(low, high)] * len(self.value)
        found = [(_end(low), _end(high)) for low, high in self.within] or [(1.0, 1.0)]  # it must be true
        return found * (len(self.value) if len(found) == 1 else 1)

    @property
    def experiment(self) -> str:
        """The name of its experiment."""
        return self.id.partition(".")[0]


@dataclass(frozen=True)
class Ledger:
    """Every claim, the titles of the sources that they name, and by number the claims that carry each lesson."""

    sources: Mapping[str, str]
    lessons: Mapping[str, tuple[str, ...]]
    claim: tuple[Entry, ...]


ABSENT: dict[str, Any] = {each.name: "" for each in fields(Entry)} | {
    "after_data": (), "changed": (), "because": {},
    "value": (), "within": (), "about": 0, "about_gain": 0, "at": {}, "let": {}, "alone": False, "unit": "x",
}  # fmt: skip


def _end(end: str | float) -> float:
    """An end of what is allowed, which may be an expression, as "1/1.2" is."""
    if isinstance(end, str) and end.lstrip("-") != "inf":
        return estimate(compute(end, Scope())).median
    return float(end)


def _listed(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A claim's table with lists where the file may have a single value, and an open end as text."""
    found = {**ABSENT, **entry}
    found["value"] = [found["value"]] if isinstance(found["value"], str) else found["value"]
    pairs = found["within"]
    pairs = [pairs] if pairs and not isinstance(pairs[0], list) else pairs
    found["within"] = [[str(e) if isinstance(e, float) and math.isinf(e) else e for e in pair] for pair in pairs]
    found["at"] = {axis: at if isinstance(at, list) else [at] for axis, at in found["at"].items()}
    return found


def ledger_path() -> Path:
    """The course's own ledger.

    >>> ledger_path().name
    'claims.toml'
    """
    return share("data") / "claims.toml"


@functools.cache
def read_ledger(path: Path) -> Ledger:
    """Read and check a file of claims; RecordingError names the file, the claim and what is wrong with it."""
    try:
        tables = {"lessons": {}, **tomllib.loads(path.read_text(encoding="utf-8"))}
        found: Ledger = typed(Ledger, {**tables, "claim": list(map(_listed, tables.get("claim", ())))})
        seen: set[str] = set()
        for each in found.claim:
            _check(each, found.sources)
            if each.id in seen:
                raise ValueError(f"{each.id} stands there twice")
            seen.add(each.id)
        _check_lessons(found)
    except (OSError, ValueError, TypeError) as error:  # a damaged TOML file raises a kind of ValueError
        raise RecordingError(f"{path}: {error}. Restore the file from the repository.") from error
    return found


def _check(entry: Entry, sources: Mapping[str, str]) -> None:
    if entry.source not in sources:
        raise ValueError(f"{entry.id}.source is {entry.source!r}; expected one of {', '.join(sources)}")
    for name in ("sentence", "fixed"):
        if not getattr(entry, name):
            raise ValueError(f"{entry.id}.{name} is missing")
    _check_what_decides(entry)
    if not all(re.fullmatch(r"\d{4}-\d\d-\d\d", day) for day in (entry.fixed, *(each.date for each in entry.changed))):
        raise ValueError(f"{entry.id}.fixed is {entry.fixed!r}; expected a date as 2026-11-22, as for each change")
    for device, why in entry.because.items():
        if not why.endswith("."):
            raise ValueError(f"{entry.id}.because.{device} is {why!r}; expected a sentence with its full stop")


def _check_what_decides(entry: Entry) -> None:
    """An expression with its bounds, or a function, or why there is neither; and each expression can be read."""
    for place, text in {**{f"let.{name}": text for name, text in entry.let.items()},
                        **{f"value[{at}]": text for at, text in enumerate(entry.value)}}.items():  # fmt: skip
        try:
            read(text)
        except ExpressionError as error:
            raise ValueError(f"{entry.id}.{place} is {text!r}: {error}") from error
    if not any((entry.value, entry.judge, entry.not_here)):
        raise ValueError(f"{entry.id}.value is missing")
    if not entry.value:
        return
    if sum(map(bool, (entry.within, entry.about, entry.about_gain))) > 1:
        raise ValueError(f"{entry.id}: expected one of within, about and about_gain beside value")
    if not all(len(pair) == 2 for pair in entry.within) or len(entry.bounds()) != len(entry.value):
        raise ValueError(f"{entry.id}.within is {entry.within}; expected a lowest and a highest for each value")


def _check_lessons(ledger: Ledger) -> None:
    """Each name is there, no claim carries two lessons, and those that carry one are those with a `so_what`."""
    ids, carry = {each.id for each in ledger.claim}, dict[str, str]()
    for number, names in ledger.lessons.items():
        for name in names:
            if name not in ids:
                raise ValueError(f"lessons.{number} names {name!r}; expected the id of a claim")
            if carry.setdefault(name, number) != number:
                raise ValueError(f"lessons.{number} shows {name}, as lesson {carry[name]} does")
    for each in ledger.claim:
        if bool(each.so_what) != (each.id in carry):
            raise ValueError(f"{each.id}.so_what is {each.so_what!r}; expected one if it carries a lesson, else none")


Lines = Mapping[tuple[str, str], list[list[str]]]
"""From a claim's id and a device to what stands of them in each line of a table."""


def course_devices() -> tuple[str, ...]:
    """The devices that the course was recorded on: what it says of itself names these, whatever else is recorded here.

    >>> course_devices()
    ('cpu', 'h100', 'h200')
    """
    return tuple(sorted({device for _, device in past(ledger_path().with_name("history.csv"))}))


@functools.cache
def past(path: Path) -> Lines:
    """What `tools/history.py` found out from the repository: `history.csv` or `ages.csv` beside the ledger, if there.

    >>> past(ledger_path().with_name("history.csv"))["gemm.padding-gains", "h200"][0][2:]
    ['fails', ...]
    """
    found: dict[tuple[str, str], list[list[str]]] = {}
    for line in table.read(path) if path.exists() else ():
        claim, device, *told = line.values()
        found.setdefault((claim, device), []).append(told)
    return found
