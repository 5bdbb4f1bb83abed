"""What a class sees together: how often each answer was given, and whose schedule of a pipeline is fastest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from brrr.core import units
from brrr.core.measurement import Value
from brrr.course.experiments import experiment
from brrr.course.experiments.schedule import OWN
from brrr.course.lessons.sharing import gateway, line
from brrr.course.lessons.waiting import Comparison

BAR = 30
"""Characters of the longest bar."""


def class_answers(question: str) -> Comparison:
    """How often the class gave each answer to a question, or each mark to an exercise; for the teacher's token.

    >>> class_answers("01-timer")  # doctest: +SKIP
    12 answers: 01-timer
    right        9  ##############################
    wrong        3  ##########
    """
    found = gateway("class_answers").connection.ask("GET", f"/answers?name={quote(line(question))}")
    most = max((count for _, count in found), default=1)
    rows = tuple((value, str(count), "#" * round(BAR * count / most)) for value, count in found)
    return Comparison(f"{sum(count for _, count in found)} answers: {question}", ("answer", "students", ""), rows)


def enter(shown: str, **schedule: Value) -> Comparison:
    """Measure a schedule on the class's device and enter it into the ranking under a name of one's choice.

    >>> enter("the night shift", chunks=8, buffers=3)  # doctest: +SKIP
    2 schedules; the fastest: the night shift

    The gateway runs the course's own kernels with these numbers, checks their result, and never runs code of a student.
    ArgumentError for values that the experiment `schedule` does not have.
    """
    found, remote = experiment("schedule"), gateway("enter")
    point = found.point(**schedule)
    (variant,) = remote.variants(found)
    for each in (found.point(**OWN[variant]), point):  # the package's own choice is ranked as soon as anybody enters
        remote.measure(found, variant, each)
    return _table(remote.connection.ask("POST", "/scores", {"experiment": found.name, "point": point, "shown": shown}))


def leaderboard() -> Comparison:
    """The ranking as it is now, the fastest first.

    >>> leaderboard()  # doctest: +SKIP
    2 schedules; the fastest: the night shift
    """
    return _table(gateway("leaderboard").connection.ask("GET", "/scores/schedule"))


def _table(rows: Sequence[Any]) -> Comparison:
    first = f"; the fastest: {rows[0]['shown']}" if rows else ""
    cells = tuple((row["shown"], *map(str, row["point"].values()), units.seconds(row["seconds"], 3)) for row in rows)
    names = [axis.name for axis in experiment("schedule").axes]
    return Comparison(f"{len(rows)} schedules{first}", ("name", *names, "a call takes"), cells)
