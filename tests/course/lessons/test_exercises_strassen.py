"""What exercises 09-sign and 09-crossover compute with, and what they say on measurements."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strassen_made_up import recording

from brrr.strassen.algebra.blocks import BLOCKS
from brrr.strassen.algebra.forms import STRASSEN
from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises import lesson_09_crossover
from brrr_course.lessons.exercises.lesson_09_crossover import Crossover, measured
from brrr_course.lessons.exercises.lesson_09_sign import coefficients_of, expanded, in_words, wanted
from brrr_course.sources.recorded import Recorded

# ---- one wrong sign ----


def test_the_forms_own_sums_are_what_is_wanted() -> None:
    for block, signs in zip(BLOCKS, STRASSEN.result, strict=True):
        assert np.array_equal(expanded(signs), wanted(block))


def test_every_single_wrong_sign_is_found() -> None:
    for row in range(4):
        for column in range(7):
            signs = STRASSEN.result.astype(int)
            signs[row, column] = -signs[row, column] if signs[row, column] else 1
            mine = signs.tolist()

            def wrong(*m: Any, mine: Any = mine) -> list[Any]:
                return [sum((s * each for s, each in zip(signs, m, strict=True)), 0) for signs in mine]

            given = coefficients_of(wrong)
            assert given.tolist() == mine
            assert check("09-sign", recombine=wrong).status == "wrong"


def test_products_of_blocks_in_words() -> None:
    assert in_words(2 * wanted("11") - 3 * wanted("12")) == "2 A11 B11 - 3 A11 B12 + 2 A12 B21 - 3 A12 B22"
    assert in_words(np.zeros((4, 4), dtype=np.int64)) == "nothing"


# ---- one crossing ----


def model_crossing(classical: Any, strassen: Any) -> float:
    """Where two lines of the form a n^3 + b n^2 through two points each cross; inf where they never do."""
    (a, b), (c, d) = (np.linalg.solve([[n**3, n**2] for n in line], [*line.values()]) for line in (classical, strassen))
    return float((d - b) / (a - c)) if a > c else math.inf


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """A made-up recording as the session's source."""
    monkeypatch.setenv("BRRR_RECORDINGS", str(recording(tmp_path)))
    monkeypatch.setenv("BRRR_SOURCE", "recorded:h200")
    return Recorded("h200")


def test_the_student_s_function_on_measurements(recorded: Recorded) -> None:
    where = measured(recorded)
    assert where.loses is not None and where.wins is not None and where.loses < where.wins
    mark = check("09-crossover", sizes=(1024, 4096), crossing=model_crossing)
    assert mark.right and "RECORDED" in mark.text and f"wins from {where.wins} on" in mark.text
    assert "1024" in mark.text and "4096" in mark.text


def test_sizes_that_were_not_measured(recorded: Recorded) -> None:
    mark = check("09-crossover", sizes=(1000, 4096), crossing=model_crossing)
    assert mark.status == "wrong" and "at 1000" in mark.text
    for sizes in ((1024,), (1024, 1024), 1024, (1024, -1), (True, 4096), "no"):
        assert check("09-crossover", sizes=sizes, crossing=model_crossing).hint.startswith("Write two sizes")


@pytest.mark.parametrize(
    ("crossing", "said"),
    [
        (lambda c, s: None, "returned None"),
        (lambda c, s: math.nan, "returned nan"),
        (lambda c, s: 1000.0, "two lines that cross at"),
        (lambda c, s: 8 * model_crossing(c, s), "two lines that cross at"),
        (lambda c, s: min(model_crossing(c, s), 1e9), "never cross"),
        (lambda c, s: c[0], "KeyError"),
        ("f", "is 'f'"),
    ],
)
def test_wrong_functions(recorded: Recorded, crossing: Any, said: str) -> None:
    mark = check("09-crossover", sizes=(1024, 4096), crossing=crossing)
    assert mark.status == "wrong" and said in mark.text


def test_where_lines_cross_is_said_in_words() -> None:
    assert "never wins" in str(Crossover(4096, None)) and "from the smallest" in str(Crossover(None, 512))
    assert lesson_09_crossover._note(2000.0, Crossover(1024, 2048)) == ""
    assert "miss it" in lesson_09_crossover._note(9000.0, Crossover(1024, 2048))
