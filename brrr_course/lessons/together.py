"""What a class sees together: how often each answer was given, and whose schedule of a pipeline is fastest."""

from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from brrr.core import units
from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.measurement import Value
from brrr_course.experiments import PLAYED, experiment, own_choice
from brrr_course.lessons.sharing import gateway, line
from brrr_course.lessons.waiting import Comparison
from brrr_course.nouns.experiment import Experiment

BAR = 30
"""Characters of the longest bar."""


def class_answers(question: str) -> Comparison:
    """How often the class gave each answer to a question, or each mark to an exercise; for the teacher's token.

    >>> class_answers("01-timer")  # doctest: +SKIP
    12 answers: 01-timer
    right        9  ##############################
    wrong        3  ##########
    """

    def counted(found: Sequence[Any]) -> Comparison:
        most = max((count for _, count in found), default=1)
        rows = tuple((value, str(count), "#" * round(BAR * count / most)) for value, count in found)
        return Comparison(f"{sum(count for _, count in found)} answers: {question}", ("answer", "students", ""), rows)

    path = f"/answers?name={quote(line(question))}"
    shown: Comparison = gateway("class_answers").connection.ask("GET", path, read=counted)
    return shown


def enter(shown: str, game: str = "schedule", **choice: Value) -> Comparison:
    """Measure a choice on the class's device and enter it into a ranking under a name of one's own.

    >>> enter("the night shift", chunks=8, buffers=3)  # doctest: +SKIP
    2 entries for schedule; the fastest: the night shift
    >>> enter("ada", "tiling", rows=64, columns=64, depth=32, warps=4, stages=3)  # doctest: +SKIP
    2 entries for tiling; the fastest: brrr's own choice

    game: `schedule`, a pipeline's chunks and buffers; `tiling`, the tile of a layer's kernel, on a GPU. The gateway
    runs the course's own kernels with these numbers, checks their result, and never runs code of a student.
    ArgumentError for a game that there is not, and for values that it does not have; UnavailableError where the class's
    device cannot run it.
    """
    found, remote = _game("enter", game), gateway("enter")
    point = found.point(**choice)
    variants = remote.variants(found)
    if not variants:
        raise UnavailableError(f"enter: {game} needs a GPU, and the class's device is {remote.device_name}")
    for each in (found.point(**own_choice(game, variants[0])), point):  # the package's own is the one to beat
        remote.measure(found, variants[0], each)
    entry = {"experiment": game, "point": point, "shown": shown}
    table: Comparison = remote.connection.ask("POST", "/scores", entry, partial(_table, found))
    return table


def leaderboard(game: str = "schedule") -> Comparison:
    """The ranking as it is now, the fastest first; games and errors as of `enter`.

    >>> leaderboard()  # doctest: +SKIP
    2 entries for schedule; the fastest: the night shift
    """
    read = partial(_table, _game("leaderboard", game))
    table: Comparison = gateway("leaderboard").connection.ask("GET", f"/scores/{game}", read=read)
    return table


def _game(call: str, game: str) -> Experiment:
    if game not in PLAYED:
        raise ArgumentError(call, "game", game, f"one of {', '.join(PLAYED)}")
    return experiment(game)


def _table(found: Experiment, rows: Sequence[Any]) -> Comparison:
    first = f"; the fastest: {rows[0]['shown']}" if rows else ""
    cells = tuple((row["shown"], *map(str, row["point"].values()), units.seconds(row["seconds"], 3)) for row in rows)
    names = [axis.name for axis in found.axes]
    return Comparison(f"{len(rows)} entries for {found.name}{first}", ("name", *names, "a call takes"), cells)
