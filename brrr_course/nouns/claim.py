"""A claim: a sentence of a lesson as a predicate over measurements; its verdict is computed, per device.

A verdict is *holds*, *fails* (with the numbers), *undecided* (the interval straddles), or *not measured*. *Claim
written after the data* is a mark beside it: the recording was there when the claim was fixed.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Literal

from brrr.core.errors import ArgumentError, NotRecordedError, RecordingError
from brrr.core.measurement import Estimate
from brrr_course.nouns.expression import ExpressionError, Scope, compute, estimate, flat
from brrr_course.nouns.ledger import Entry, ledger_path, past, read_ledger
from brrr_course.nouns.wording import bounds_told, filled, names_in, told, words

Status = Literal["holds", "fails", "undecided", "not measured"]
UNKNOWN = {"fails": "We did not look for the cause.", "undecided": "The claim's bound lies inside the interval."}
"""What a claim says that gives no reason."""


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds on a device, with the measured value that decides it.

    >>> print(Verdict("holds", "2.4x at size 4096"))
    holds: 2.4x at size 4096
    """

    status: Status
    measured: str
    note: str = ""
    """How many of the rows that it read break an inequality of the six times; empty where none does."""

    @property
    def figure(self) -> str:
        """What was measured in short: up to the first semicolon, and intervals only where they leave it undecided.

        >>> Verdict("holds", "2.4x (2.3x to 2.5x) at size 4096; size 8192, called once, is left out").figure
        '2.4x at size 4096'
        """
        told = self.measured.partition(";")[0]
        return told if self.status == "undecided" else re.sub(r" \((?!needed: )[^()]*\)", "", told)

    def __str__(self) -> str:
        return f"{self.status}: {self.measured}"


Judge = Callable[[Any], Verdict]
"""Takes an `Evidence`, which knows experiments and sources, and returns the verdict on it."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the ledger with the title of its source; `package` is the module whose functions it may call."""

    entry: Entry
    title: str
    package: str = ""

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
        return "; ".join(filter(None, (*self._told(), one.decides, one.rivals)))

    def _told(self) -> list[str]:
        """Each expression in words with its bounds, what names stand for, and where it looks."""
        one = self.entry
        pairs = zip(one.value, one.bounds(), strict=True)
        said = [words(text) + (f": {bounds_told(*ends, one.unit)}" if ends != (1, 1) else "") for text, ends in pairs]
        used = set().union(*map(names_in, one.value))
        for name in reversed(list(one.let)):  # a name stands behind those that its expression uses
            used |= names_in(one.let[name]) if name in used else set()
        said += [f"{name} is {words(text)}" for name, text in one.let.items() if name in used]
        where = ", ".join(f"{axis} {' or '.join(map(str, values))}" for axis, values in one.at.items())
        return [*said, f"at {where}" if where else ""]

    def after_the_data(self, source: str) -> bool:
        """Whether the recording of that name was there when the claim was fixed; what is measured live never was."""
        kind, _, device = source.partition(":")
        return kind == "recorded" and device in self.entry.after_data

    def because(self, source: str, verdict: Verdict) -> str:
        """Why it fails or is undecided on the recording of that name, or that no cause is known; else nothing."""
        kind, _, device = source.partition(":")
        if kind != "recorded" or verdict.status not in UNKNOWN:
            return ""
        return self.entry.because.get(device) or UNKNOWN[verdict.status]

    def elsewhere(self, source: str, verdict: Verdict) -> str:
        """On which other recordings the contrary came out last, and why, as far as that is known; else nothing."""
        other = {"holds": "fails", "fails": "holds"}.get(verdict.status)
        last = {on: told[-1][2] for (name, on), told in past(ledger_path().with_name("history.csv")).items()
                if name == self.entry.id and source != f"recorded:{on}"}  # fmt: skip
        said = [f"It {other} on the {on.upper()}. {self.entry.because.get(on, '')}" for on in last if last[on] == other]
        return " ".join(map(str.strip, said))

    def earlier(self, source: str) -> list[str]:
        """Its verdicts on earlier recordings of that name, each time that a new one brought another; oldest first.

        Where the claim was changed, and its recording judged anew, that is no flip: `changed` tells it.
        """
        known = [line for line in self._past("history.csv", source) if line[2] != "not measured"]
        flips = [one for one, later in pairwise(known) if one[2] != later[2] and not later[4]]
        once = {(date, verdict): f"{verdict.upper()} on {date} ({value})" for date, _, verdict, value, _ in flips}
        return list(once.values())

    def older(self, source: str) -> str:
        """How many of the rows that it rests on were measured before its text was committed; nothing where none was."""
        for commit, second, older, rows, _ in self._past("ages.csv", source):
            if int(older):
                return f"{older} of {rows} rows were measured before its text was committed, {commit} ({second[:8]})"
        return ""

    def _past(self, table: str, source: str) -> list[list[str]]:
        kind, _, device = source.partition(":")
        found = past(ledger_path().with_name(table)) if kind == "recorded" else {}
        return found.get((self.entry.id, device), [])

    def verdict(self, evidence: Any) -> Verdict:
        """The verdict on this evidence; *not measured* where it lacks what the claim looks at."""
        if self.entry.not_here:
            return Verdict("not measured", self.entry.not_here)
        try:
            by_value = bool(self.entry.value)
            found = decided(self.entry, evidence, functions_of(self.package)) if by_value else self._judge(evidence)
            return replace(found, note=evidence.doubted)
        except NotRecordedError as missing:
            return Verdict("not measured", str(missing))

    @property
    def _judge(self) -> Judge:
        """The function that the ledger names."""
        found: Judge | None = functions_of(self.package).get(self.entry.judge)
        if found is None:
            raise RecordingError(
                f"{ledger_path()}: {self.entry.id}.judge is {self.entry.judge!r}; expected a function of {self.package}"
            )
        return found


@functools.cache
def functions_of(package: str) -> Mapping[str, Callable[..., Any]]:
    """What the claims of an experiment may call: the functions of its module, if there is one."""
    if not package or find_spec(package) is None:
        return {}
    return {name: each for name, each in vars(import_module(package)).items() if callable(each)}


def scope_of(entry: Entry, evidence: Any, functions: Mapping[str, Callable[..., Any]] = {}) -> Scope:
    """What a claim's expressions are computed with."""
    at = {axis: values[0] if len(values) == 1 else list(values) for axis, values in entry.at.items()}
    return Scope(evidence, at, functions, let=entry.let, alone=entry.alone)


def decided(entry: Entry, evidence: Any, functions: Mapping[str, Callable[..., Any]] = {}) -> Verdict:
    """The verdict of a claim's expressions; RecordingError names the claim where one can't be computed."""
    scope = scope_of(entry, evidence, functions)
    try:
        values = [compute(text, scope) for text in entry.value]
        scope.names["value"] = values[0] if len(values) == 1 else values
        scope.names |= {f"value{place}": each for place, each in enumerate(values, 1)}
        said = "; ".join(told(each, entry.unit) for each in values)
        said = filled(with_bounds(entry), scope.name, entry.unit) if entry.reads else said
    except ZeroDivisionError as error:
        raise NotRecordedError("something that it divides by is zero here") from error
    except (ExpressionError, ArgumentError, TypeError, AttributeError) as error:
        raise RecordingError(f"{ledger_path()}: {entry.id}: {error}") from error
    if not all(map(flat, values)):
        raise NotRecordedError("no point of it was measured")
    bounds = entry.bounds()
    statuses = [
        band_verdict(estimate(each), *ends, "").status
        for value, ends in zip(values, bounds, strict=True)
        for each in flat(value)
    ]
    every = dict.fromkeys(bounds_told(*ends, entry.unit) for ends in bounds if ends != (1, 1))
    claimed = "" if NEEDED in said else " and ".join(every)
    queue = "on the CPU queue: " if scope.queued else ""
    return Verdict(weakest(statuses), f"{queue}{said}{f'; {claimed} was claimed' if claimed else ''}")


NEEDED = " (needed: "
"""What stands between a value and its bound where a claim has several."""


def with_bounds(entry: Entry) -> str:
    """What a claim reads; where its values have bounds of their own, each stands behind its value."""
    said, several = entry.reads, len({*entry.bounds()} - {(1, 1)}) > 1
    for place, (text, ends) in enumerate(zip(entry.value, entry.bounds(), strict=True), 1):
        if several and ends != (1, 1):
            for name in (text, f"value{place}"):
                said = said.replace(f"{{{name}}}", f"{{{name}}}{NEEDED}{bounds_told(*ends, entry.unit)})")
    return said


def band_verdict(value: Estimate, low: float, high: float, text: str) -> Verdict:
    """Whether a value lies inside `low` to `high` with its whole interval."""
    if low <= value.low and value.high <= high:
        return Verdict("holds", text)
    return Verdict("fails" if value.high < low or value.low > high else "undecided", text)


def weakest(statuses: Iterable[Status]) -> Status:
    """The verdict on "all of them": *fails* if one does, *holds* if all do.

    >>> weakest(["holds", "undecided"])
    'undecided'
    """
    return min(statuses, key=("fails", "undecided", "holds").index)


def claims_of(experiment: str, package: str = "") -> tuple[Claim, ...]:
    """The claims of an experiment, in the ledger's order; `package` is the module whose functions they may call.

    >>> claims_of("made-up")
    ()
    """
    ledger = read_ledger(ledger_path())
    mine = [each for each in ledger.claim if each.experiment == experiment]
    return tuple(Claim(each, ledger.sources[each.source], package) for each in mine)
