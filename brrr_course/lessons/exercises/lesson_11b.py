"""Exercise 11b-online: a softmax in tiles, with a running maximum and sum that are rescaled when the maximum rises."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from brrr_course.lessons.marks import Wrong, ask, exercise

Numbers = npt.NDArray[np.float64]

TILES, KEYS, WIDTH = 5, 4, 3
LARGE = 800.0
"""A score whose exponential overflows, unless a maximum is taken off first."""

BOTH = "Sum and result so far both hold exponentials with the old maximum taken off: multiply by exp(m - new)."
SLIPS = (
    ((0, 0, 1), "neither the sum nor the result so far is rescaled", BOTH),
    ((1, 0, 1), "the sum is rescaled, the result so far is not", BOTH),
    ((0, 1, 1), "the result so far is rescaled, the sum is not", BOTH),
    ((-1, -1, 1), "the factor is upside down", "The old maximum is the smaller one: exp(m - new) is at most 1."),
    ((0, 0, 0), "each tile has only its own maximum", "Take the larger one of `m` and the tile's."),
)
"""Powers of the factor that sum and result are given, whether the maximum is carried on; what is said."""


@exercise("11b-online")
def online(update: Any) -> str:
    """Tiles of random scores whose maximum rises and falls; then scores so large that their exponentials overflow."""
    scores, values = np.random.randn(TILES, KEYS) * 2, np.random.randn(TILES, KEYS, WIDTH)
    scores += np.array([0.0, 2.0, 4.0, -3.0, 6.0])[:, None]
    whole = np.exp(scores - scores.max())
    expected = np.einsum("tk,tkw->w", whole, values) / whole.sum()
    found = _run(update, scores, values)
    if not np.allclose(found, expected):
        for slip, text, hint in SLIPS:
            if np.allclose(found, _slipped(scores, values, *slip)):
                raise Wrong(f"{text}.", hint)
        raise Wrong(f"the first number of the result is {found[0]:.4g}; expected {expected[0]:.4g}.",
                    "Compare with the drawing: new maximum, factor, sum, result.")  # fmt: skip
    if not np.allclose(_run(update, scores + LARGE, values), expected):
        raise Wrong("scores of 800 overflow.", "Take the new maximum off before np.exp.")
    return f"{TILES} tiles give the softmax of the whole row, which nobody had to store."


def _run(update: Any, scores: Numbers, values: Numbers) -> Numbers:
    """What the reader's function makes of all tiles, divided by its sum."""
    state: Any = -math.inf, 0.0, np.zeros(WIDTH)
    for tile, own in zip(scores, values, strict=True):
        with np.errstate(all="ignore"):
            state = ask(update, *state, tile.copy(), own.copy())
        if not isinstance(state, tuple) or len(state) != 3 or np.shape(state[2]) != (WIDTH,):
            raise Wrong("`update` must return the maximum, the sum and the result so far.", "return new, total, result")
    with np.errstate(all="ignore"):
        return np.asarray(state[2] / state[1], dtype=float)


def _slipped(scores: Numbers, values: Numbers, of_sum: int, of_result: int, carried: int) -> Numbers:
    """The result where the factor has these powers."""
    m, total, result = -math.inf, 0.0, np.zeros(WIDTH)
    for tile, own in zip(scores, values, strict=True):
        new = max(m, tile.max()) if carried else tile.max()
        factor, weights = math.exp(m - new) if m > -math.inf else 1.0, np.exp(tile - new)
        total, result = total * factor**of_sum + weights.sum(), result * factor**of_result + weights @ own
        m = new
    return result / total
