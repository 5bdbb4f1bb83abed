"""`brrr claims`, and the claims of a lesson: what is claimed, and whether it holds on a device."""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches

from brrr.core.errors import ArgumentError, BrrrError, NotRecordedError
from brrr.core.measurement import Badge
from brrr.core.recordings import recorded_devices
from brrr_course.experiments import NAMES, experiment
from brrr_course.nouns.claim import Claim, Verdict
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.ledger import course_devices, ledger_path, read_ledger
from brrr_course.nouns.source import Evidence, Source
from brrr_course.sources import source as source_named
from brrr_course.sources import source_for
from brrr_course.view.display import caption_html, folded_html, message_html, signed

Rows = tuple[tuple[Claim, Verdict], ...]

AFTER = " (claim written after the data)"
SIGNS = {"holds": ("✓", "right"), "fails": ("✗", "wrong"), "undecided": ("?", "open")}


@dataclass(frozen=True)
class ClaimsTable:
    """Claims with their verdicts on one source."""

    title: str
    badge: str
    rows: Rows
    source: str = ""
    others: str = ""
    """The command that prints these and all others of their experiments; empty where they are all."""

    def mark(self, claim: Claim) -> str:
        """What stands beside a verdict whose data were there when the claim was fixed."""
        return AFTER if claim.after_the_data(self.source) else ""

    def __repr__(self) -> str:
        return "\n".join([self._top, *(self._brief(*row) for row in self.rows), *self._more])

    def details(self) -> str:
        """The same with what decides each claim, its source, and how it was changed: what `brrr claims` prints."""
        return "\n\n".join([self._top, *(self._full(*row) for row in self.rows), *self._more])

    def _repr_html_(self) -> str:
        shown = "".join(self._html(*row) for row in self.rows)
        return caption_html(self.badge) + shown + "".join(map(caption_html, self._more))

    @property
    def _top(self) -> str:
        return f"{self.title} · {self.badge}"

    @property
    def _more(self) -> list[str]:
        return [f"All claims with their evidence, in a terminal: {self.others}"] if self.others else []

    def _head(self, claim: Claim, verdict: Verdict) -> str:
        return f"{verdict.status.upper() + self.mark(claim):<12} {claim.text}"

    def _notes(self, claim: Claim, verdict: Verdict) -> list[str]:
        """What is doubtful, why it does not hold, where it turns, and what follows for the reader."""
        why, turns = claim.because(self.source, verdict), claim.elsewhere(self.source, verdict)
        notes = {"Doubtful:": verdict.note, "Why?": why, "Cause:": claim.entry.cause, "Elsewhere:": turns}
        notes["So what?"] = claim.entry.so_what
        return [f"{asked} {told}" for asked, told in notes.items() if told]

    def _brief(self, claim: Claim, verdict: Verdict) -> str:
        return "\n    ".join([self._head(claim, verdict), in_short(verdict), *self._notes(claim, verdict)])

    def _html(self, claim: Claim, verdict: Verdict) -> str:
        sign, kind = SIGNS.get(verdict.status, ("–", "open"))
        found = folded_html(f"{sign} {verdict.status}{self.mark(claim)}", signed(in_short(verdict)))
        return message_html(kind, claim.text, self._notes(claim, verdict), found)

    def _full(self, claim: Claim, verdict: Verdict) -> str:
        told = {"measured": verdict.measured, "doubtful": verdict.note, "because": claim.because(self.source, verdict)}
        told |= {"earlier": "; ".join(claim.earlier(self.source)), "older": claim.older(self.source)}
        told |= {"decides": claim.decides, "cause": claim.entry.cause, "source": claim.source}
        lines = [f"{name:<9} {text}" for name, text in told.items() if text]
        for each in claim.entry.changed:
            lines.append(f"changed   {each.date}: {each.what}, for {each.why}; {each.before} -> {each.after}")
        return "\n    ".join([self._head(claim, verdict), *lines])


def in_short(verdict: Verdict) -> str:
    """What was measured, and the bound that the verdict follows from.

    >>> in_short(Verdict("holds", "2.03x (2x to 2.1x) at size 4096; at least 2x was claimed"))
    '2.03x at size 4096 (needed: at least 2x)'
    """
    bound = re.search(r"; ([^;]*) was claimed$", verdict.measured)
    return f"{verdict.figure} (needed: {bound[1]})" if bound else verdict.figure


def claims(name: str | Experiment, source: Source | str | None = None) -> ClaimsTable:
    """Show what a lesson or an experiment claims, and whether the measurements agree.

    >>> print(claims("04b", "recorded:h200"))
    Lesson 04b · RECORDED · NVIDIA H200 · ...
    HOLDS        Memory that fits into the L2 cache is read and written faster.
    ...

    Parameters
    ----------
    name : str or Experiment
        A lesson ("01"), an experiment ("matmul") or a claim ("repeat.flat-at-first").
    source : str or Source, optional
        Where the measurements come from, as for `explore`. A live source judges what was measured in this session.

    Returns
    -------
    ClaimsTable
        Each sentence with its verdict and the numbers that decide it: holds, fails, undecided, or not measured. For a
        lesson, the claims that it rests on.

    Raises
    ------
    ArgumentError
        If there is no lesson, experiment or claim of that name.
    RecordingError
        If a recording is damaged.

    Notes
    -----
    Verdicts are computed from the claims' expressions in data/claims.toml (docs/claims_notation.md).
    """
    lessons = read_ledger(ledger_path()).lessons
    if isinstance(name, str) and name in lessons:
        about = dict.fromkeys(each.partition(".")[0] for each in lessons[name])
        others = f"brrr claims {' '.join(about)}"
        return judged(f"Lesson {name}", lessons[name], source_for(source, next(iter(about))), others)
    if isinstance(name, str) and name in _ids():
        return judged(name, [name], source_for(source, name.partition(".")[0]))
    found = experiment(name) if isinstance(name, str) else name
    given = source_for(source, found.name)
    rows = tuple((claim, claim.verdict(Evidence(found, given))) for claim in found.claims)
    return ClaimsTable(f"{found.title} ({found.name})", _badge([found], given), rows, given.name)


def judged(title: str, ids: Sequence[str], given: Source, others: str = "") -> ClaimsTable:
    """Some claims by their ids, with their verdicts on a source."""
    names = dict.fromkeys(each.partition(".")[0] for each in ids)
    badge = _badge([experiment(name) for name in names], given)
    return ClaimsTable(title, badge, _judged(ids, given), given.name, others)


def _judged(ids: Sequence[str], given: Source) -> Rows:
    found = []
    for each in ids:
        asked = experiment(each.partition(".")[0])
        claim = next(claim for claim in asked.claims if claim.entry.id == each)
        found.append((claim, claim.verdict(Evidence(asked, given))))
    return tuple(found)


def _badge(experiments: Sequence[Experiment], given: Source) -> str:
    """One badge for all of them, from the first date to the last."""
    found = []
    for each in experiments:
        with suppress(NotRecordedError):
            found.append(given.badge(each))
    if not found:
        return f"{given.name}, not recorded"
    dates = sorted(each.date for each in found)
    kind = max((each.kind for each in found), key=len)  # where the CPU queue stands in for any, it says so
    device, torch = (dict.fromkeys(getattr(each, name) for each in found) for name in ("device", "torch"))
    date = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    gpus = frozenset[str]().union(*(each.gpus for each in found))
    return str(Badge(kind, " and ".join(device), date, "; ".join(filter(None, torch)), gpus))


COUNTED = (
    *(f"{each} {when}" for when in ("before", "after") for each in SIGNS), "cannot change", "not measured", "flipped"
)  # fmt: skip


def by_source(tables: Sequence[ClaimsTable]) -> dict[str, list[tuple[ClaimsTable, Claim, Verdict]]]:
    """Every claim of some tables with its verdict, under the title of its source."""
    found: dict[str, list[tuple[ClaimsTable, Claim, Verdict]]] = {}
    for table in tables:
        for claim, verdict in table.rows:
            found.setdefault(claim.title, []).append((table, claim, verdict))
    return dict(sorted(found.items()))


def counted(tables: Sequence[ClaimsTable]) -> str:
    """How many claims have which verdict on each recording, a bound beside a farther one left out.

    Those fixed before their data, those fixed after, and those that no recording can change stand apart; `flipped` had
    another verdict on an earlier recording of that name.
    """
    devices = list(dict.fromkeys(table.source for table in tables))
    names = {claim.entry.id for table in tables for claim, _ in table.rows}
    found = {device: Counter[str]() for device in devices}
    for table in tables:
        for claim, verdict in table.rows:
            kinds = [_kind(table, claim, verdict)] * (f"{claim.entry.id}-far" not in names)
            found[table.source].update(kinds + ["flipped"] * bool(claim.earlier(table.source)))
    lines = [["claims", *(device.removeprefix("recorded:") for device in devices)], ["---", *["---:"] * len(devices)]]
    lines += [[kind, *(str(found[device][kind]) for device in devices)] for kind in COUNTED]
    return "\n".join(map(_line, lines))


def _kind(table: ClaimsTable, claim: Claim, verdict: Verdict) -> str:
    if verdict.status not in SIGNS:
        return verdict.status
    return "cannot change" if claim.entry.certain else f"{verdict.status} {'after' if table.mark(claim) else 'before'}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def sentences(tables: Sequence[ClaimsTable]) -> str:
    """What each source says, place by place, with its claim's name and its verdict on each recording."""
    lines = []
    for title, rows in by_source(tables).items():
        lines += ["", title, "=" * len(title)]
        for name in dict.fromkeys(claim.entry.id for _, claim, _ in rows):
            told = [(table, claim, verdict) for table, claim, verdict in rows if claim.entry.id == name]
            claim = told[0][1]
            lines.append(f"{claim.text}  [{name}; {claim.entry.place or 'whole text'}]")
            for table, claim, verdict in told:
                status = verdict.status.upper() + table.mark(claim)
                lines.append(f"    {table.source.removeprefix('recorded:')}: {status}: {verdict.measured}")
    return "\n".join(lines).strip()


def beside(tables: Sequence[ClaimsTable]) -> str:
    """Every claim with its verdict on each device beside the others, a line a claim: does it hold on mine?"""
    devices = list(dict.fromkeys(table.source.removeprefix("recorded:") for table in tables))
    found: dict[str, dict[str, str]] = {}
    for table in tables:
        for claim, verdict in table.rows:
            said = f"{claim.text} [{claim.entry.id}]"
            found.setdefault(said, {})[table.source.removeprefix("recorded:")] = verdict.status + table.mark(claim)
    badges = dict.fromkeys(table.badge for table in tables if not table.badge.endswith("not recorded"))
    lines = [_line(["claim", *devices]), _line(["---"] * (1 + len(devices)))]
    lines += [_line([said, *(told[device] for device in devices)]) for said, told in found.items()]
    return "\n".join([*lines, "", *badges])


def _ids() -> list[str]:
    """The claims that can be asked for one by one: an experiment that is gone is not here."""
    return [each.id for each in read_ledger(ledger_path()).claim if each.experiment in NAMES]


def _named(name: str) -> str | Experiment:
    """A lesson, an experiment or a claim; ArgumentError with the names that are most alike."""
    if name in (known := [*read_ledger(ledger_path()).lessons, *_ids()]):
        return name
    try:
        return experiment(name)
    except ArgumentError:
        near = ", ".join(get_close_matches(name, [*known, *NAMES], 5, 0.4)) or "those of `brrr claims --help`"
        raise ArgumentError("brrr claims", "name", name, f"one of {near}") from None


def main(argv: Sequence[str]) -> int:
    """`brrr claims [--source NAME] [--sources | --count | --devices] [LESSON | EXPERIMENT | CLAIM ...]`: 0, or 2.

    Each experiment's claims are printed as they are judged.
    """
    lessons = read_ledger(ledger_path()).lessons
    parser = argparse.ArgumentParser(prog="brrr claims", description=(__doc__ or "").partition(": ")[2])
    which = f"a lesson ({', '.join(lessons)}), an experiment ({', '.join(NAMES)}) or a claim's id; default: all"
    parser.add_argument("names", nargs="*", metavar="NAME", help=which)
    parser.add_argument("--source", help="recorded:DEVICE, cuda or cpu (default: what BRRR_SOURCE says)")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--sources", action="store_true", help="by what the sources say, with the place in each")
    forms.add_argument("--count", action="store_true", help="only how many have which verdict, on the course's devices")
    forms.add_argument("--devices", action="store_true", help="each claim's verdicts on all devices side by side")
    options = parser.parse_args(argv)
    shown = {options.count: counted, options.sources: sentences, options.devices: beside}.get(True)
    try:
        many = shown is not None and not options.source
        devices = [each for each in recorded_devices() if not options.count or each in course_devices()]
        names = [f"recorded:{device}" for device in devices] if many else [options.source]
        sources = [source_named(name) if name else None for name in names]  # None: each finds the one that has it
        found = [_named(each) for each in options.names or NAMES]
        tables = (claims(each, source) for each in found for source in sources)
        if shown is not None:
            print(shown(list(tables)))
        else:
            for place, table in enumerate(tables):
                print("\n\n" * bool(place) + table.details(), flush=True)
    except BrrrError as error:
        print(error, file=sys.stderr)
        return 2
    return 0
