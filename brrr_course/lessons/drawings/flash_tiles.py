"""The drawing of flash attention on six tokens: tiles of queries and keys, the running maximum and sum, step by step.

Powers of two stand in for those of e, so that each number can be followed by hand; GPUs compute it so too, with the
scores times log2(e).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from brrr.core.measurement import Value
from brrr.drawing import style
from brrr.drawing.style import Picture
from brrr_course.lessons.drawings import Dial, LessonDrawing

Numbers = npt.NDArray[np.float64]

Q = np.array([[1, 0], [0, 1], [1, 1], [2, 0], [0, 2], [2, 1]])
K = np.array([[1, 0], [2, 1], [0, 1], [1, 2], [3, 0], [0, 2]])
V = np.array([4, 2, 6, 8, 1, 4])
"""Small enough to multiply in one's head; the largest score of most queries lies in the second tile of keys."""

TOKENS, ROWS, COLUMNS = len(Q), 2, 3
"""Tokens; queries and keys of a tile."""

_WIDE, _HIGH, _LEFT, _TOP, _CELL, _ROW = 760, 366, 92, 84, 38, 34
_NEW, _READ = "#D55E00", "#0072B2"
_FACES = {_NEW: "#fdeee6", _READ: "#e8f2f9", "": style.PAPER}
BADGE = "COMPUTED, with powers of two"


@dataclass(frozen=True)
class TileStep:
    """A tile of queries meets a tile of keys: its scores, and what is kept of each query before and after."""

    queries: slice
    keys: slice
    scores: Numbers
    before: tuple[Numbers, Numbers, Numbers]
    after: tuple[Numbers, Numbers, Numbers]

    @property
    def factor(self) -> Numbers:
        """What the sum and the result so far are multiplied by: 2^(old maximum - new maximum)."""
        return np.exp2(self.before[0] - self.after[0])

    @property
    def weights(self) -> Numbers:
        """2^(score - new maximum)."""
        return np.exp2(self.scores - self.after[0][:, None])

    @property
    def ends(self) -> bool:
        """Whether these were the last keys."""
        return bool(self.keys.stop == TOKENS)


def met(before: tuple[Numbers, Numbers, Numbers], scores: Numbers, values: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Maximum, sum and result of each query, with a tile of keys more.

    >>> nothing = np.array([-np.inf]), np.zeros(1), np.zeros(1)
    >>> [float(each[0]) for each in met(nothing, np.array([[1.0, 2.0]]), np.array([4, 2]))]
    [2.0, 1.5, 4.0]
    """
    maximum = np.maximum(before[0], scores.max(axis=1))
    factor, weights = np.exp2(before[0] - maximum), np.exp2(scores - maximum[:, None])
    return maximum, before[1] * factor + weights.sum(axis=1), before[2] * factor + weights @ values


@cache
def steps() -> tuple[TileStep, ...]:
    """All tiles, in the order in which a kernel takes them."""
    found = []
    for row in range(0, TOKENS, ROWS):
        state = np.full(ROWS, -np.inf), np.zeros(ROWS), np.zeros(ROWS)
        for column in range(0, TOKENS, COLUMNS):
            queries, keys = slice(row, row + ROWS), slice(column, column + COLUMNS)
            scores = (Q[queries] @ K[keys].T).astype(float)
            found.append(TileStep(queries, keys, scores, state, state := met(state, scores, V[keys])))
    return tuple(found)


def results(count: int) -> Numbers:
    """The results of the queries that have met all keys after so many steps."""
    return np.array([each for step in steps()[:count] if step.ends for each in step.after[2] / step.after[1]])


def moved(count: int) -> int:
    """Numbers that went through memory: a tile of keys and values each step, queries at first, results at last."""
    done = steps()[:count]
    queries = sum(not step.keys.start for step in done) * ROWS * Q.shape[1]
    return int(queries + len(done) * COLUMNS * (K.shape[1] + 1) + len(results(count)))


IN_THREE_STEPS = int(Q.size + K.size + V.size) + TOKENS + 4 * TOKENS**2
"""The same with the matrix, which is written and read as scores and as weights."""


DRAWING = LessonDrawing("flash-tiles", lambda _: ([Dial("step", "step", tuple(range(len(steps()) + 1)))], draw, BADGE))


def text(count: int) -> str:
    """What the last step did to its first query."""
    if not count:
        return "Six queries, and six keys with a value each. Nothing is on the chip yet, and no score was computed."
    step = steps()[count - 1]
    rows, keys = (f"{each.start + 1} to {each.stop}" for each in (step.queries, step.keys))
    said = f"Queries {rows} meet keys {keys}. Query {step.queries.start + 1}: {_maximum(step, 0)}, {_sum(step, 0)}."
    if step.ends:
        said = f"{said} Divided by the sum, its result is {_result(step, 0)}."
    if count == len(steps()):
        weights = np.exp2(Q @ K.T)
        right = np.allclose(results(count), weights @ V / weights.sum(axis=1))
        said = f"{said} All results {'equal' if right else 'differ from'} those of whole rows."
    return f"{said} {moved(count)} of {moved(99)} numbers went through memory, in three steps {IN_THREE_STEPS}."


def _maximum(step: TileStep, at: int) -> str:
    old, new = step.before[0][at], step.after[0][at]
    if not step.keys.start:
        return f"maximum {new:g}"
    return f"maximum {old:g} → {new:g}, factor 2^({old:g} - {new:g}) = {step.factor[at]:g}"


def _sum(step: TileStep, at: int) -> str:
    return f"sum {_grown(step, at, 1, step.weights.sum(axis=1))}"


def _grown(step: TileStep, at: int, what: int, more: Numbers) -> str:
    """The old times its factor, and what the tile adds."""
    old = f"{step.factor[at]:g} · {step.before[what][at]:g} + " if step.keys.start else ""
    added = f"{more[at]:g}"
    return f"{old}{added}" + (f" = {step.after[what][at]:g}" if old else "")


def _result(step: TileStep, at: int) -> str:
    return f"{step.after[2][at]:g} / {step.after[1][at]:g} = {step.after[2][at] / step.after[1][at]:.3g}"


# ---- the picture: the matrix at the left, of which one tile is there; what the chip holds at the right ----


def draw(settings: Mapping[str, Value]) -> Picture:
    """The tile of this step with its scores, what was read for it, and what is kept of each of its queries."""
    count = int(settings["step"])
    made = style.figure(_WIDE, _HIGH)
    on = style.axes(made, left=0, bottom=0, right=1, top=1)
    on.set_xlim(0, _WIDE)
    on.set_ylim(_HIGH, 0)
    on.axis("off")
    step = steps()[count - 1] if count else None
    _matrix(on, count, step)
    if step is not None:
        _chip(on, step)
    told = f"Through memory so far: {moved(count)} of {moved(99)} numbers; in three steps {IN_THREE_STEPS}."
    _write(on, 20, 316, told, 10)
    _write(on, 20, 342, "orange: on the chip; scores are never stored", 8.5, "#a84300")
    _write(on, 310, 342, "blue: read from memory in this step", 8.5, _READ)
    return style.picture(made, text(count))


def _matrix(on: Axes, count: int, step: TileStep | None) -> None:
    """Keys and values above, queries at the left, results at the right; scores where this step has them."""
    right, bottom = _LEFT + TOKENS * _CELL, _TOP + TOKENS * _ROW
    done = results(count)
    for at in range(TOKENS):
        key, query = step is not None and _in(step.keys, at), step is not None and _in(step.queries, at)
        x, y = _LEFT + (at + 0.5) * _CELL, _TOP + (at + 0.5) * _ROW
        for height, what in ((26, f"{K[at, 0]}, {K[at, 1]}"), (50, str(V[at]))):
            _box(on, x, height, what, _READ if key else "")
        fresh = query and step is not None and not step.keys.start
        _box(on, 66, y, f"{Q[at, 0]}, {Q[at, 1]}", _READ if fresh else _NEW if query else "")
        _box(on, right + 34, y, f"{done[at]:.3g}" if at < len(done) else "", "", wide=48)
        for other in range(TOKENS):
            here = query and step is not None and _in(step.keys, other)
            words = f"{Q[at] @ K[other]}" if here else ""
            _box(on, _LEFT + (other + 0.5) * _CELL, y, words, _NEW if here else "", dashed=not here)
    for x, y, words in ((20, 26, "keys"), (20, 50, "values"), (44, 76, "queries"), (right + 10, 76, "results")):
        _write(on, x, y, words, 9, style.FAINT)
    for at in range(ROWS, TOKENS, ROWS):
        on.plot([_LEFT, right], [_TOP + at * _ROW] * 2, color=style.INK, linewidth=1.2)
    for at in range(COLUMNS, TOKENS, COLUMNS):
        on.plot([_LEFT + at * _CELL] * 2, [_TOP, bottom], color=style.INK, linewidth=1.2)


def _chip(on: Axes, step: TileStep) -> None:
    """What the chip holds of each query of the tile: maximum, weights, sum and result so far."""
    for at in range(ROWS):
        x, y = 420, 30 + 138 * at
        _write(on, x, y, f"On the chip, query {step.queries.start + at + 1}", 10.5, "#a84300")
        weights = ", ".join(f"{each:g}" for each in step.weights[at])
        lines = [_maximum(step, at), f"weights 2^(score - {step.after[0][at]:g}) = {weights}", _sum(step, at),
                 f"result so far {_grown(step, at, 2, step.weights @ V[step.keys])}"]  # fmt: skip
        for row, words in enumerate([*lines, *([f"result {_result(step, at)}"] if step.ends else [])], 1):
            _write(on, x, y + 21 * row, words, 9.5)


def _in(part: slice, at: int) -> bool:
    return bool(part.start <= at < part.stop)


def _box(on: Axes, x: float, y: float, words: str, edge: str, *, wide: float = _CELL - 4, dashed: bool = False) -> None:
    on.add_patch(Rectangle((x - wide / 2, y - 11), wide, 22, facecolor=_FACES[edge], edgecolor=edge or "#9aa4ae",
                           linewidth=1.6 if edge else 0.7, linestyle=(0, (3, 2)) if dashed else "-"))  # fmt: skip
    on.text(x, y, words, ha="center", va="center", fontsize=9.5, color=style.INK)


def _write(on: Axes, x: float, y: float, words: str, size: float, colour: str = style.INK) -> None:
    on.text(x, y, words, ha="left", va="center", fontsize=size, color=colour)
