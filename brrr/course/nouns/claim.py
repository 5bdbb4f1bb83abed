"""A claim: a sentence of a lesson as a predicate over measurements; its verdict is computed, per device.

A verdict is *holds*, *fails* (with the numbers), *undecided* (the interval straddles), *not measured*, or *retired*
(its experiment or way is gone). *After the data* is a mark beside it: the recording was there when the claim was fixed.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from brrr.core import units
from brrr.core.errors import NotRecordedError, RecordingError
from brrr.core.files import share, typed
from brrr.core.measurement import Estimate

Status = Literal["holds", "fails", "undecided", "not measured", "retired"]


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds on a device, with the measured value that decides it.

    >>> print(Verdict("holds", "2.4x at size 4096"))
    holds: 2.4x at size 4096
    """

    status: Status
    measured: str

    def __str__(self) -> str:
        return f"{self.status}: {self.measured}"


Judge = Callable[[Any], Verdict]
"""Takes an `Evidence`, which knows experiments and sources, and returns the verdict on it."""


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
    compares: the statistic; field: of which of the six times, or of what else; cache: hot or cold; rivals: whom with,
    and what either side had prepared. fixed: the date of its text; after_data: whose recordings were there before.
    not_here: why nothing here can judge it. retired: when and why its experiment or way went, `last` its last verdicts.
    """

    id: str
    sentence: str
    source: str
    place: str
    compares: str
    field: str
    cache: str
    points: str
    rivals: str
    tolerance: str
    fixed: str
    after_data: tuple[str, ...]
    changed: tuple[Change, ...]
    not_here: str
    retired: str
    last: Mapping[str, str]


@dataclass(frozen=True)
class Claim:
    """A sentence of the ledger with the title of its source and the predicate that judges it, if any can."""

    entry: Entry
    title: str
    judge: Judge | None

    @property
    def name(self) -> str:
        """What it is called within its experiment."""
        return self.entry.id.partition(".")[2]

    @property
    def text(self) -> str:
        """The sentence."""
        return self.entry.sentence

    @property
    def source(self) -> str:
        """The title of its source, and the place there."""
        return ", ".join(filter(None, (self.title, self.entry.place)))

    @property
    def decides(self) -> str:
        """What is compared, of which times, where, with whom, and within which bounds."""
        one = self.entry
        of = ", ".join(filter(None, (one.field, one.cache)))
        return "; ".join(filter(None, (one.compares, of, one.points, one.rivals, one.tolerance)))

    def after_the_data(self, source: str) -> bool:
        """Whether the recording of that name was there when the claim was fixed; what is measured live never was."""
        return source.removeprefix("recorded:") in self.entry.after_data

    def verdict(self, evidence: Any) -> Verdict:
        """The verdict on this evidence; *not measured* where it lacks what the claim looks at."""
        if self.entry.retired:
            last = self.entry.last.get(evidence.source.name.removeprefix("recorded:"), "not measured")
            return Verdict("retired", f"{self.entry.retired}; the last verdict was {last}")
        if self.judge is None:
            return Verdict("not measured", self.entry.not_here)
        try:
            return self.judge(evidence)
        except NotRecordedError as missing:
            return Verdict("not measured", str(missing))


def ratio_verdict(over: Estimate, under: Estimate, at_least: float, what: str) -> Verdict:
    """Whether `over / under >= at_least`, on the 95 % intervals: the verdict of "A is at least k times B".

    >>> ratio_verdict(Estimate(4.0, 3.9, 4.1, 9), Estimate(2.0, 1.9, 2.1, 9), 1.5, "eager over graph")
    Verdict(status='holds', measured='eager over graph is 2x (1.86x to 2.16x), at least 1.5x was claimed')
    """
    ratio = over / under
    return Verdict(not_below(ratio, at_least), f"{what} is {ratio:x}, at least {units.ratio(at_least)} was claimed")


def band_verdict(value: Estimate, low: float, high: float, text: str) -> Verdict:
    """Whether a value lies inside `low` to `high` with its whole interval."""
    if low <= value.low and value.high <= high:
        return Verdict("holds", text)
    return Verdict("fails" if value.high < low or value.low > high else "undecided", text)


def not_below(value: Estimate, bound: float) -> Status:
    """*holds* if the whole interval reaches the bound, *fails* if none of it does, else *undecided*."""
    if value.low >= bound:
        return "holds"
    return "fails" if value.high < bound else "undecided"


def not_above(value: Estimate, bound: float) -> Status:
    """*holds* if the whole interval stays at or below the bound, *fails* if none of it does, else *undecided*."""
    if value.high <= bound:
        return "holds"
    return "fails" if value.low > bound else "undecided"


def opposite(status: Status) -> Status:
    """The verdict on the contrary: *holds* and *fails* change places."""
    return {"holds": "fails", "fails": "holds"}.get(status, status)  # type: ignore[return-value]


def weakest(statuses: Iterable[Status]) -> Status:
    """The verdict on "all of them": *fails* if one does, *holds* if all do.

    >>> weakest(["holds", "undecided"])
    'undecided'
    """
    return min(statuses, key=("fails", "undecided", "holds").index)


# ---- data/claims.toml: the only place of a claim's text ----


@dataclass(frozen=True)
class Ledger:
    """Every claim, and the titles of the sources that they name."""

    sources: Mapping[str, str]
    claim: tuple[Entry, ...]


ABSENT: dict[str, Any] = {each.name: "" for each in fields(Entry)} | {"after_data": (), "changed": (), "last": {}}


def claims_of(experiment: str, judges: Mapping[str, Judge]) -> tuple[Claim, ...]:
    """The claims of an experiment, in the ledger's order; RecordingError where ledger and code name different ones.

    >>> claims_of("made-up", {})
    ()
    """
    path = share("data") / "claims.toml"
    ledger = read_ledger(path)
    mine = [each for each in ledger.claim if each.id.partition(".")[0] == experiment]
    found = tuple(Claim(each, ledger.sources[each.source], judges.get(each.id.partition(".")[2])) for each in mine)
    judged = {each.name for each in found if not (each.entry.retired or each.entry.not_here)}
    if unmatched := judged ^ judges.keys():
        names = ", ".join(sorted(unmatched))
        raise RecordingError(f"{path}: {experiment} has {names} here or in its code, not in both")
    return found


@functools.cache
def read_ledger(path: Path) -> Ledger:
    """Read and check a file of claims; RecordingError names the file, the claim and what is wrong with it."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        found: Ledger = typed(Ledger, {**tables, "claim": [{**ABSENT, **each} for each in tables.get("claim", ())]})
        seen: set[str] = set()
        for each in found.claim:
            _check(each, found.sources)
            if each.id in seen:
                raise ValueError(f"{each.id} stands there twice")
            seen.add(each.id)
    except (OSError, ValueError, TypeError) as error:  # a damaged TOML file raises a kind of ValueError
        raise RecordingError(f"{path}: {error}. Restore the file from the repository.") from error
    return found


def _check(entry: Entry, sources: Mapping[str, str]) -> None:
    if entry.source not in sources:
        raise ValueError(f"{entry.id}.source is {entry.source!r}; expected one of {', '.join(sources)}")
    needed = ("sentence", "fixed") if entry.not_here else ("sentence", "fixed", "compares", "tolerance")
    for name in needed:
        if not getattr(entry, name):
            raise ValueError(f"{entry.id}.{name} is missing")
    if not all(re.fullmatch(r"\d{4}-\d\d-\d\d", day) for day in (entry.fixed, *(each.date for each in entry.changed))):
        raise ValueError(f"{entry.id}.fixed is {entry.fixed!r}; expected a date as 2026-11-22, as for each change")
