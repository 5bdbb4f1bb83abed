"""The class's ranking: whose schedule of a pipeline is fastest, and is it faster than the package's own choice?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from brrr.core import units
from brrr.core.measurement import Value
from brrr.course.experiments import experiment
from brrr.course.lessons.sharing import gateway
from brrr.course.lessons.waiting import Comparison


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
    remote.measure(found, variant, point)
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
