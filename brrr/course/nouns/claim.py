"""A claim: a sentence of a lesson as a predicate over measurements; its verdict is computed, per device.

A verdict is *holds*, *fails* (with the numbers), *undecided* (the interval straddles) or *not measured*.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from brrr.core import units
from brrr.core.errors import NotRecordedError, RecordingError
from brrr.core.files import share, typed
from brrr.core.measurement import Estimate

Status = Literal["holds", "fails", "undecided", "not measured"]


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
class Claim:
    """A sentence with its source and the predicate that judges it.

    `decides` says in words what is compared, with its tolerance, the field and the cache state.
    """

    name: str
    text: str
    source: str
    decides: str
    judge: Judge

    def verdict(self, evidence: Any) -> Verdict:
        """The verdict on this evidence; *not measured* where it lacks what the claim looks at."""
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
class Entry:
    """What the ledger says of a claim: `id` is the experiment's name, a dot and the claim's; `place` in the source."""

    id: str
    sentence: str
    source: str
    place: str
    decides: str


@dataclass(frozen=True)
class Ledger:
    """Every claim, and the titles of the sources that they name."""

    sources: Mapping[str, str]
    claim: tuple[Entry, ...]

    def said_by(self, entry: Entry) -> str:
        """The title of its source, and the place there."""
        return ", ".join(filter(None, (self.sources[entry.source], entry.place)))


def claims_of(experiment: str, judges: Mapping[str, Judge]) -> tuple[Claim, ...]:
    """The claims of an experiment, in the ledger's order; RecordingError where ledger and code name different ones.

    >>> claims_of("sines", dict.fromkeys(("half-by-script", "longer-gains-more", "until-arithmetic")))[0].text
    'torch.jit.script saves almost half of the time of four sines.'
    """
    path = share("data") / "claims.toml"
    ledger = read_ledger(path)
    mine = {name: each for each in ledger.claim for whose, _, name in [each.id.partition(".")] if whose == experiment}
    if unmatched := mine.keys() ^ judges.keys():
        raise RecordingError(
            f"{path}: {experiment} has {', '.join(sorted(unmatched))} here or in its code, not in both"
        )
    return tuple(
        Claim(name, each.sentence, ledger.said_by(each), each.decides, judges[name]) for name, each in mine.items()
    )


@functools.cache
def read_ledger(path: Path) -> Ledger:
    """Read and check a file of claims; RecordingError names the file, the claim and what is wrong with it."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        found: Ledger = typed(Ledger, {**tables, "claim": [{"place": "", **each} for each in tables.get("claim", ())]})
        for number, each in enumerate(found.claim):
            if each.source not in found.sources:
                raise ValueError(f"{each.id}.source is {each.source!r}; expected one of {', '.join(found.sources)}")
            if each.id in (one.id for one in found.claim[:number]):
                raise ValueError(f"{each.id} stands there twice")
    except (OSError, ValueError, TypeError) as error:  # a damaged TOML file raises a kind of ValueError
        raise RecordingError(f"{path}: {error}. Restore the file from the repository.") from error
    return found
