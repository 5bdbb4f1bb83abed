"""What a class sees together: whose schedule of a pipeline, or tile of a kernel, is fastest."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from brrr.core import units
from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.measurement import Value
from brrr_course.experiments import PLAYED, experiment, own_choice
from brrr_course.lessons.sharing import gateway
from brrr_course.lessons.waiting import Comparison
from brrr_course.nouns.experiment import Experiment


def enter(shown: str, game: str = "schedule", **choice: Value) -> Comparison:
    """Measure your choice of numbers on the class's device, and enter it into a ranking under a name of your own.

    >>> enter("the night shift", chunks=8, buffers=3)  # doctest: +SKIP
    2 entries for schedule; the fastest: the night shift
    >>> enter("ada", "tiling", rows=64, columns=64, depth=32, warps=4, stages=3)  # doctest: +SKIP
    2 entries for tiling; the fastest: brrr's own choice

    The class's gateway runs the course's own kernels with these numbers and checks their results; it never runs a
    student's code.

    Parameters
    ----------
    shown : str
        The name that the ranking shows.
    game : {"schedule", "tiling"}
        A pipeline's chunks and buffers, or the tile of a layer's kernel (on a GPU).
    **choice
        The numbers, by name.

    Returns
    -------
    Comparison
        The ranking, the fastest first.

    Raises
    ------
    ArgumentError
        If the game, or one of its values, does not exist.
    UnavailableError
        If there is no gateway, or if the class's device cannot run the game.
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
    """Show the class's ranking of a game as it is now.

    >>> leaderboard()  # doctest: +SKIP
    2 entries for schedule; the fastest: the night shift

    Parameters
    ----------
    game : {"schedule", "tiling"}
        As for `enter`.

    Returns
    -------
    Comparison
        The ranking, the fastest first.

    Raises
    ------
    ArgumentError, UnavailableError
        As for `enter`.
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
