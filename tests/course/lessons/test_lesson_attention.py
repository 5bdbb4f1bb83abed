"""Lesson 11b: its drawing computes what it shows."""

import re

import numpy as np

from brrr_course import drawing
from brrr_course.lessons.drawings.flash_tiles import IN_THREE_STEPS, K, Q, V, moved, results, steps


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
