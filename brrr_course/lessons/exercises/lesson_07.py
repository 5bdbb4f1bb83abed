"""Exercises 07-waves and 07-slow-line: count tiles and waves, and find the line of a model that is slow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from brrr.core import units
from brrr.counting.cost import Matmul
from brrr.roofline.shapes import product_time_s
from brrr_course.lessons.checking import Exercise, Mark, slip

ROWS, COLUMNS, TILE, PARTS, SMS = 2048, 385, (128, 256), 4, 132
"""The product, the kernel's tile (rows, columns), the parts of each sum, and the GPU's multiprocessors."""


def pieces(columns: int) -> int:
    """The pieces of work: a block for each tile of the result and each part of its sums.

    >>> pieces(256), pieces(257)
    (64, 128)
    """
    return math.ceil(ROWS / TILE[0]) * math.ceil(columns / TILE[1]) * PARTS


def widest(columns: int) -> int:
    """The most columns that take as many pieces.

    >>> widest(257)
    512
    """
    return math.ceil(columns / TILE[1]) * TILE[1]


def grade_waves(pieces: Any, waves: Any, columns: Any) -> Mark:
    """The pieces of work with 385 columns, the waves that they make, and the most columns that take no longer."""
    given: Mapping[str, Any] = {"pieces": pieces, "waves": waves, "columns": columns}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return Mark("wrong", f"`{name}` is {value!r}.", "Write a number.")
    if hint := _about_pieces(pieces) or _about_waves(waves) or _about_columns(columns):
        return Mark("wrong", *hint)
    free = widest(COLUMNS) - COLUMNS
    text = f"up to {widest(COLUMNS)} columns the work is the same: {free} of them are free."
    return Mark("right", f"{text} The next one begins a new column of tiles, and a second wave.")


WAVES_EXERCISE = Exercise("07-waves", grade_waves)


def _about_pieces(answer: float) -> tuple[str, str] | None:
    right = pieces(COLUMNS)
    if answer == right:
        return None
    down, across = math.ceil(ROWS / TILE[0]), math.ceil(COLUMNS / TILE[1])
    known = {
        down * across: ("those are the tiles.", f"Each sum is cut into {PARTS} parts: a block each."),
        down * PARTS: ("that is one column of tiles.", f"{COLUMNS} columns do not fit into {TILE[1]}."),
    }
    exact = ROWS / TILE[0] * COLUMNS / TILE[1] * PARTS
    if math.isclose(answer, exact, rel_tol=1e-3):
        return "a part of a tile is computed as a whole one.", "Round up, each way, before you multiply."
    what, hint = slip(answer, known, ("not so many.", "Tiles down times tiles across times parts; round up each way."))
    return f"`pieces`: {what}", hint


def _about_waves(answer: float) -> tuple[str, str] | None:
    right = math.ceil(pieces(COLUMNS) / SMS)
    if answer == right:
        return None
    if math.isclose(answer, pieces(COLUMNS) / SMS, rel_tol=0.02):
        return "`waves`: a wave that is not full takes as long as a full one.", "Round up."
    return f"`waves` is {answer:g}.", f"{SMS} multiprocessors work on {SMS} pieces at once."


def _about_columns(answer: float) -> tuple[str, str] | None:
    if answer == widest(COLUMNS):
        return None
    if answer == widest(COLUMNS) + 1:
        return "`columns`: that one is the first of the next column of tiles.", "One fewer."
    hint = f"Another column of tiles begins behind every {TILE[1]}; more pieces than {SMS} need another wave."
    return f"`columns` is {answer:g}.", hint


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 07-slow-line: which of four products is slow, and what would mend it.

TOKENS, WIDTH, WORDS = 12287, 768, 50257
LINES: Mapping[str, tuple[int, int, int]] = {
    "qkv": (TOKENS, 3 * WIDTH, WIDTH), "out": (TOKENS, WIDTH, WIDTH), "up": (TOKENS, 4 * WIDTH, WIDTH),
    "head": (TOKENS, WORDS, WIDTH),
}  # fmt: skip
"""The products of a small language model, as (rows, columns, depth); its tokens are odd in number."""
SLOW = "head"
MOST_MORE = 0.01


COMPARE = (
    "Compare FLOP/s, not times: a long line may be a fast one. That the tokens are odd in number does not matter: "
    "which dimension is contiguous?"
)


def model_lines() -> dict[str, tuple[int, int, int]]:
    """The four products of exercise 07-slow-line: (M, N, K) by name.

    >>> model_lines()["head"]
    (12287, 50257, 768)
    """
    return dict(LINES)


def grade_slow_line(line: Any, words: Any) -> Mark:
    """The line's name, and a vocabulary of whole 16 bytes that holds all words and few more."""
    if not isinstance(line, str) or line not in LINES:
        return Mark("wrong", f"`line` is {line!r}.", f"One of {', '.join(LINES)}.")
    if line != SLOW:
        return Mark("wrong", f"`{line}` gets as many FLOP/s as its size allows.", COMPARE)
    if isinstance(words, bool) or not isinstance(words, int):
        return Mark("wrong", f"`words` is {words!r}.", "Write a whole number.")
    if words < WORDS:
        return Mark(
            "wrong", f"{words} are fewer than the vocabulary's {WORDS} words.", "Words cannot be left out: add some."
        )
    if words % 8:
        return Mark("wrong", f"rows of {words} bfloat16 do not begin at 16 bytes.", "16 bytes hold eight of them.")
    if words > WORDS * (1 + MOST_MORE):
        return Mark("wrong", f"{words} would do, but words that nobody uses are work as well.", "Take fewer.")
    before, after = (product_time_s(_head(each), "h200") for each in (WORDS, words))
    faster = units.ratio(before / after)
    text = f"{words - WORDS} words that nobody uses make the line {faster} as fast, as predicted for an H200."
    return Mark("right", text)


SLOW_LINE_EXERCISE = Exercise("07-slow-line", grade_slow_line, {"line": tuple(LINES)})


def _head(words: int) -> Matmul:
    return Matmul(TOKENS, words, WIDTH, dtype="bfloat16", transposed=(False, True))
