"""`brrr claims`: what the sources say, and whether it holds on a device."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from brrr.core.errors import ArgumentError, BrrrError, NotRecordedError
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

    def __str__(self) -> str:
        return "\n\n".join(
            [f"{self.experiment.title} ({self.experiment.name}) · {self.badge}", *map(_block, self.rows)]
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        head = ["claim", "source", "what decides", "measured", "verdict"]
        lines = [f"**{_cell(self.badge)}**", "", _line(head), _line(["---"] * len(head))]
        for claim, verdict in self.rows:
            cells = [claim.text, claim.source, claim.decides, verdict.measured]
            lines.append(_line([*map(_cell, cells), f"**{verdict.status}**"]))
        return "\n".join(lines)


def _block(row: tuple[Claim, Verdict]) -> str:
    claim, verdict = row
    return "\n".join(
        [
            f"{verdict.status.upper():<12} {claim.text}",
            f"    measured  {verdict.measured}",
            f"    decides   {claim.decides}",
            f"    source    {claim.source}",
        ]
    )


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
    return ClaimsTable(chosen, badge, tuple((claim, claim.verdict(Evidence(chosen, given))) for claim in wanted))


def main(argv: Sequence[str], offered: Sequence[Experiment] = ()) -> int:
    """`brrr claims [--source NAME] [EXPERIMENT...]`: 0, or 2 for a wrong argument or a damaged file.

    The experiments are the course's, or those offered.
    """
    from brrr.course.experiments import NAMES, chosen

    names = [each.name for each in offered] or NAMES
    parser = argparse.ArgumentParser(prog="brrr claims", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument(
        "experiments", nargs="*", metavar="EXPERIMENT", help=f"{', '.join(names)}; all if none is named"
    )
    parser.add_argument("--source", help="recorded:DEVICE, cuda or cpu (default: what BRRR_SOURCE says)")
    options = parser.parse_args(argv)
    try:
        source = source_named(options.source)
        tables = [claims(each, source) for each in chosen(options.experiments, offered)]
    except BrrrError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n\n\n".join(map(str, tables)))
    return 0
