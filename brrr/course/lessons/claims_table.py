"""`brrr claims`: what the sources say, and whether it holds on a device."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from brrr.core.errors import ArgumentError, BrrrError, NotRecordedError
from brrr.core.files import recorded_devices
from brrr.course.nouns.claim import Claim, Verdict
from brrr.course.nouns.experiment import Experiment
from brrr.course.nouns.source import Evidence, Source
from brrr.course.sources import source as source_named


@dataclass(frozen=True)
class ClaimsTable:
    """The claims of one experiment with their verdicts on one source; a notebook shows it as a table."""

    experiment: Experiment
    badge: str
    rows: tuple[tuple[Claim, Verdict], ...]

    source: str = ""

    def mark(self, claim: Claim) -> str:
        """What stands beside a verdict whose data were there when the claim was fixed."""
        return AFTER if claim.after_the_data(self.source) else ""

    def __str__(self) -> str:
        return self._text("\n", full=False)

    def details(self) -> str:
        """The same with what decides each claim, its source, and how it was changed: what `brrr claims` prints."""
        return self._text("\n\n", full=True)

    def _text(self, between: str, *, full: bool) -> str:
        blocks = [_block(claim, verdict, self.mark(claim), full) for claim, verdict in self.rows]
        return between.join([f"{self.experiment.title} ({self.experiment.name}) · {self.badge}", *blocks])

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        head = ["claim", "source", "measured", "verdict"]
        lines = [f"**{_cell(self.badge)}**", "", _line(head), _line(["---"] * len(head))]
        for claim, verdict in self.rows:
            cells = [claim.text, claim.source, verdict.measured]
            lines.append(_line([*map(_cell, cells), f"**{verdict.status}**{self.mark(claim)}"]))
        return "\n".join(lines)


AFTER = " (after the data)"


def _block(claim: Claim, verdict: Verdict, mark: str, full: bool) -> str:
    lines = [f"{verdict.status.upper() + mark:<12} {claim.text}", f"    measured  {verdict.measured}"]
    if full:
        lines += [f"    decides   {claim.decides}", f"    source    {claim.source}"]
        lines += [
            f"    changed   {each.date}: {each.what}, for {each.why}; {each.before} -> {each.after}"
            for each in claim.entry.changed
        ]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """The text as one cell of a Markdown table: no bar and no line end of its own, stars and the like as they are."""
    text = " ".join(text.split())
    return "".join(f"\\{letter}" if letter in "\\|*_`<>[]$" else letter for letter in text)


def claims(name: str | Experiment, source: Source | str | None = None, *, only: Sequence[str] = ()) -> ClaimsTable:
    """The claims of an experiment with their verdicts on a source: `claims("matmul", "recorded:h200")`.

    `source` is a Source or its name (default: what `BRRR_SOURCE` says, else a GPU if there is one, else the
    recording). A live source judges what was measured in this session. A claim whose points are missing is *not
    measured*; a damaged recording raises RecordingError. `only` names the claims to show, where not all are wanted;
    ArgumentError for one that does not exist.
    """
    from brrr.course.experiments import experiment

    chosen = experiment(name) if isinstance(name, str) else name
    given = source_named(source) if source is None or isinstance(source, str) else source
    names = [claim.name for claim in chosen.claims]
    if unknown := [each for each in only if each not in names]:
        raise ArgumentError("claims", "only", unknown, f"some of {', '.join(names)}")
    wanted = [claim for claim in chosen.claims if not only or claim.name in only]
    try:
        badge = str(given.badge(chosen))
    except NotRecordedError:
        badge = f"{given.name}, not recorded"
    judged = tuple((claim, claim.verdict(Evidence(chosen, given))) for claim in wanted)
    return ClaimsTable(chosen, badge, judged, given.name)


VERDICTS = ("holds", "fails", "undecided", "not measured", "retired")


def by_source(tables: Sequence[ClaimsTable]) -> dict[str, list[tuple[ClaimsTable, Claim, Verdict]]]:
    """Every claim of some tables with its verdict, under the title of its source."""
    found: dict[str, list[tuple[ClaimsTable, Claim, Verdict]]] = {}
    for table in tables:
        for claim, verdict in table.rows:
            found.setdefault(claim.title, []).append((table, claim, verdict))
    return dict(sorted(found.items()))


def counted(tables: Sequence[ClaimsTable]) -> str:
    """How many claims of each source have which verdict on each recording, those fixed after their data apart."""
    lines = [_line(["source", "recording", *VERDICTS]), _line(["---"] * 2 + ["---:"] * len(VERDICTS))]
    for title, rows in by_source(tables).items():
        for source in dict.fromkeys(table.source for table, *_ in rows):
            here = [
                (verdict.status, bool(table.mark(claim))) for table, claim, verdict in rows if table.source == source
            ]
            lines.append(_line([title, source.removeprefix("recorded:"), *(_count(here, each) for each in VERDICTS)]))
    return "\n".join(lines)


def _count(found: Sequence[tuple[str, bool]], status: str) -> str:
    before, after = found.count((status, False)), found.count((status, True))
    return f"{before} + {after} after the data" if after else str(before)


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


def main(argv: Sequence[str], offered: Sequence[Experiment] = ()) -> int:
    """`brrr claims [--source NAME] [--sources | --count] [EXPERIMENT...]`: 0, or 2 for a wrong argument or a bad file.

    The experiments are the course's, or those offered.
    """
    from brrr.course.experiments import NAMES, chosen

    names = [each.name for each in offered] or NAMES
    parser = argparse.ArgumentParser(prog="brrr claims", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument(
        "experiments", nargs="*", metavar="EXPERIMENT", help=f"{', '.join(names)}; all if none is named"
    )
    parser.add_argument("--source", help="recorded:DEVICE, cuda or cpu (default: what BRRR_SOURCE says)")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--sources", action="store_true", help="by what the sources say, with the place in each")
    forms.add_argument("--count", action="store_true", help="only how many have which verdict, as a Markdown table")
    options = parser.parse_args(argv)
    try:
        many = (options.sources or options.count) and not options.source
        names = [f"recorded:{device}" for device in recorded_devices()] if many else [options.source]
        sources = [source_named(name) for name in names]
        tables = [claims(each, source) for each in chosen(options.experiments, offered) for source in sources]
    except BrrrError as error:
        print(error, file=sys.stderr)
        return 2
    shown = counted(tables) if options.count else sentences(tables) if options.sources else None
    print("\n\n\n".join(table.details() for table in tables) if shown is None else shown)
    return 0
