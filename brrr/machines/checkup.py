"""`brrr doctor`: what is here, which lessons therefore run live, and the one command that would enable more."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from brrr import paths
from brrr.lessons import course
from brrr.lessons.course import Lesson
from brrr.machines import advice, inventory
from brrr.machines.advice import Advice
from brrr.machines.inventory import Row

_MARK = {"found": "yes", "missing": "no", "problem": "PROBLEM"}


@dataclass(frozen=True)
class Report:
    """The doctor's answer; printed, or shown as a table in a notebook."""

    cuda: bool
    rows: tuple[Row, ...]
    lessons: tuple[Lesson, ...]
    advice: Advice

    def __str__(self) -> str:
        widths = [max(len(cell) for cell in column) for column in zip(*self._cells(), strict=True)]
        table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in self._cells()]
        return "\n".join([*table, "", *self._lines()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        head, *body = (f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in self._cells())
        return "\n".join([head, "| --- " * 4 + "|", *body, "", *(f"- {line}" for line in self._lines())])

    def as_json(self) -> str:
        """The same for programs."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)

    def _cells(self) -> list[tuple[str, str, str, str]]:
        found = [(row.what, _MARK[row.status], row.seen, row.enables) for row in self.rows]
        return [("what", "here", "seen", "enables"), *found]

    def _lines(self) -> list[str]:
        lines = [_lesson_line(state, [one for one in self.lessons if one.state == state]) for state in _SAID]
        return [line for line in lines if line] + [_advice_line(self.advice)]


_SAID = {
    "live": "Lessons that run live",
    "partly live": "Partly live",
    "replayed": "Replayed from recordings",
    "problem": "Cannot be opened",
    "to come": "To come",
}


def doctor() -> Report:
    """What is here, which lessons run live, and what would enable more. Never raises: what fails is a row."""
    facts = inventory.gather()
    rows = inventory.rows(facts)
    fine = {row.what: row for row in rows}
    try:
        found = course.lessons(paths.share("notebooks"), lambda what: fine[what].status == "found")
    except Exception as error:
        found = (Lesson("lessons", "problem", f"the folder of lessons cannot be read: {error}"),)
    try:
        more = advice.advise(facts, fine)
    except Exception as error:
        more = Advice(None, f"No advice: {error}")
    return Report(facts.cuda_problem is None, rows, found, more)


def main(argv: Sequence[str] | None = None) -> int:
    """`brrr doctor [--require cuda] [--json]`: print the report; exit status 1 if what is required is missing."""
    parser = argparse.ArgumentParser(prog="brrr doctor", description="What is here, and which lessons run live.")
    parser.add_argument("--require", choices=["cuda"], help="exit with 1 unless this works")
    parser.add_argument("--json", action="store_true", help="print for a program instead of a person")
    options = parser.parse_args(argv)
    answer = doctor()
    print(answer.as_json() if options.json else answer)
    return 1 if options.require == "cuda" and not answer.cuda else 0


def _lesson_line(state: str, some: list[Lesson]) -> str:
    """One line for each state; lessons that share a reason stand together."""
    if not some:
        return ""
    reasons = dict.fromkeys(one.note for one in some)
    parts = []
    for reason in reasons:
        names = ", ".join(one.name for one in some if one.note == reason)
        parts.append(f"{names} ({reason})" if reason else names)
    return f"{_SAID[state]}: {'; '.join(parts)}."


def _advice_line(more: Advice) -> str:
    return f"To enable more ({more.why}): {more.command}" if more.command else more.why
