"""Lesson 11b: its exercises take what is right and tell the usual slips apart; its drawing computes what it shows."""

import math
import re
from typing import Any

import numpy as np
import pytest

from brrr_course import check, drawing
from brrr_course.lessons.drawings.flash_tiles import IN_THREE_STEPS, K, Q, V, moved, results, steps


def by_the_book(m: Any, total: Any, result: Any, scores: Any, values: Any) -> Any:
    new = max(m, scores.max())
    factor, weights = np.exp(m - new), np.exp(scores - new)
    return new, total * factor + weights.sum(), result * factor + weights @ values


def over_a_whole_row(m: Any, total: Any, result: Any, scores: Any, values: Any) -> Any:
    """Another right way: what was seen so far counts as one key more, with score m and the sum as its weight."""
    new = np.append(scores, m).max()
    weights = np.exp(np.append(scores, m) - new) * np.append(np.ones(len(scores)), total)
    return new, weights.sum(), weights @ np.vstack([values, result / (total or 1.0)])


def without(sum_too: bool, result_too: bool, power: int = 1) -> Any:
    def update(m: Any, total: Any, result: Any, scores: Any, values: Any) -> Any:
        new = max(m, scores.max())
        factor, weights = np.exp(m - new) ** power if total else 1.0, np.exp(scores - new)
        return (
            new,
            total * (factor if sum_too else 1) + weights.sum(),
            result * (factor if result_too else 1) + weights @ values,
        )

    return update


def own_maximum(m: Any, total: Any, result: Any, scores: Any, values: Any) -> Any:
    weights = np.exp(scores - scores.max())
    return scores.max(), total + weights.sum(), result + weights @ values


def no_maximum(m: Any, total: Any, result: Any, scores: Any, values: Any) -> Any:
    weights = np.exp(scores)
    return 0.0, total + weights.sum(), result + weights @ values


def last_tile(m: Any, total: Any, result: Any, scores: Any, values: Any) -> Any:
    return by_the_book(-math.inf, 0.0, np.zeros(3), scores, values)


@pytest.mark.parametrize("update", [by_the_book, over_a_whole_row])
def test_a_running_softmax_is_right(update: Any) -> None:
    assert check("11b-online", update=update).right


@pytest.mark.parametrize(
    ("update", "said"),
    [
        (without(False, False), "neither the sum nor the result so far is rescaled"),
        (without(True, False), "the result so far is not"),
        (without(False, True), "the sum is not"),
        (without(True, True, power=-1), "upside down"),
        (own_maximum, "only its own maximum"),
        (no_maximum, "overflow"),
        (last_tile, "the first number of the result"),
        (lambda *given: given[:2], "must return the maximum, the sum and the result"),
        (lambda *given: by_the_book(*given)[2], "must return the maximum, the sum and the result"),
        (..., "not answered"),
    ],
)  # fmt: skip
def test_the_usual_slips_are_told(update: Any, said: str) -> None:
    mark = check("11b-online", update=update)
    assert not mark.right and said in str(mark).lower()


MATRIX = 2 * 32 * 16384**2


@pytest.mark.parametrize(
    ("matrix_bytes", "times", "said"),
    [(MATRIX, 128, "Right"), (17.2e9, 129.5, "Right"), (MATRIX, 126, "Four times the matrix"),
     (MATRIX / 32, 128, "one head's"), (MATRIX / 2, 128, "those are numbers"), (MATRIX, 32, "more than once"),
     (MATRIX, 64, "four times, not twice"), (MATRIX, 512, "four arrays"), (..., 128, "Not answered")],
)  # fmt: skip
def test_the_bytes_are_counted(matrix_bytes: Any, times: Any, said: str) -> None:
    assert said in str(check("11b-bytes", matrix_bytes=matrix_bytes, times=times))


def test_the_drawing_computes_the_softmax_of_whole_rows() -> None:
    weights = np.exp2(Q @ K.T)
    assert np.allclose(results(len(steps())), weights @ V / weights.sum(axis=1))
    assert results(1).size == 0 and len(results(2)) == 2
    rises = [step.factor[at] < 1 for step in steps() if step.keys.start for at in range(2)]
    assert any(rises) and not all(rises), "a maximum rises in some rows, and stays in others"


def test_each_step_tells_numbers_that_one_can_follow() -> None:
    shown = [text for text, _ in drawing("flash-tiles").everywhere()]
    assert len(shown) == 7 and "no score was computed" in shown[0]
    assert "maximum 2 → 3, factor 2^(2 - 3) = 0.5, sum 0.5 · 1.75 + 1.375 = 2.25" in shown[2]
    assert "All results equal those of whole rows" in shown[-1]
    went = [int(re.findall(r"(\d+) of 72 numbers went", text)[0]) for text in shown[1:]]
    assert went == [moved(n) for n in range(1, 7)]
    assert moved(6) < IN_THREE_STEPS == 4 * 36 + 36
