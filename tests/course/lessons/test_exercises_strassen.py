"""The exercises of lessons 09 and 09b: right answers are taken, known wrong ones refused with a reason."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from strassen_made_up import recording

from brrr.strassen.algebra.blocks import BLOCKS
from brrr.strassen.algebra.forms import STRASSEN
from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises import lesson_09_crossover, lesson_09_sign
from brrr_course.lessons.exercises.lesson_09_crossover import Measured, fitted, measured, model_crossing
from brrr_course.lessons.exercises.lesson_09_sign import coefficients_of, expanded, in_words, wanted
from brrr_course.sources.recorded import Recorded

# ---- one sign, one sum ----


def recombined(m1: Any, m2: Any, m3: Any, m4: Any, m5: Any, m6: Any, m7: Any) -> tuple[Any, ...]:
    return m1 + m4 - m5 + m7, m3 + m5, m2 + m4, m1 - m2 + m3 + m6


def broken(m1: Any, m2: Any, m3: Any, m4: Any, m5: Any, m6: Any, m7: Any) -> tuple[Any, ...]:
    return m1 + m4 - m5 + m7, m3 + m5, m2 + m4, m1 + m2 + m3 + m6


def test_the_right_sign_and_sum() -> None:
    assert check("09-sign", sign=-1, recombine=recombined).right
    assert check("09-sign", sign=..., recombine=recombined).status == "not answered"


def test_the_forms_own_sums_are_what_is_wanted() -> None:
    for block, signs in zip(BLOCKS, STRASSEN.result, strict=True):
        assert np.array_equal(expanded(signs), wanted(block))
    assert np.array_equal(expanded(STRASSEN.result[0], lesson_09_sign.LEFT, lesson_09_sign.RIGHT), wanted("11"))


def test_the_drawing_does_not_show_the_sum_whose_sign_is_asked_for() -> None:
    asked = abs(lesson_09_sign.RIGHT[lesson_09_sign.SEVENTH])
    same = [signs for signs in STRASSEN.right if np.array_equal(abs(signs), asked)]
    assert [signs.tolist() for signs in same] == [[0, 0, 1, 1]], "the drawing's own has the other sign"


def test_a_wrong_sign_is_written_out() -> None:
    mark = check("09-sign", sign=1, recombine=recombined)
    assert not mark.right and "2 A12 B22 + 2 A22 B22 too much" in mark.text
    for other in (0, True, "+", None, 2):
        assert "Write +1 or -1" in check("09-sign", sign=other, recombine=recombined).hint


def test_a_wrong_sum_says_what_does_not_cancel() -> None:
    mark = check("09-sign", sign=-1, recombine=broken)
    assert not mark.right and "C22 = M1 + M2 + M3 + M6" in mark.text
    assert "besides 2 A21 B11 + 2 A22 B11" in mark.text and "M2 in C22" in mark.hint


@pytest.mark.parametrize(
    ("recombine", "said"),
    [
        (3, "is 3"),
        (lambda *m: None, "returned None"),
        (lambda *m: (1.0,) * 4, "whole numbers"),
        (lambda *m: m[:3], "for seven numbers"),
        (lambda m1, *m: m1 / 0, "ZeroDivisionError"),
        (lambda *m: recombined(*m)[::-1], "C11"),
    ],
)
def test_other_wrong_recombinations(recombine: Any, said: str) -> None:
    mark = check("09-sign", sign=-1, recombine=recombine)
    assert mark.status == "wrong" and said in mark.text


def test_every_single_wrong_sign_is_found() -> None:
    for row in range(4):
        for column in range(7):
            signs = STRASSEN.result.astype(int)
            signs[row, column] = -signs[row, column] if signs[row, column] else 1
            mine = signs.tolist()

            def wrong(*m: Any, mine: Any = mine) -> list[Any]:
                return [sum((s * each for s, each in zip(signs, m, strict=True)), 0) for signs in mine]

            given = coefficients_of(wrong)
            assert not isinstance(given, str) and given.tolist() == mine
            assert check("09-sign", sign=-1, recombine=wrong).status == "wrong"


def test_products_of_blocks_in_words() -> None:
    assert in_words(2 * wanted("11") - 3 * wanted("12")) == "2 A11 B11 - 3 A11 B12 + 2 A12 B21 - 3 A12 B22"
    assert in_words(np.zeros((4, 4), dtype=np.int64)) == "nothing"


# ---- one crossing ----


def test_the_model_is_fitted_through_two_points() -> None:
    line = {n: 3e-14 * n**3 + 5e-12 * n**2 for n in (1000, 3000)}
    a, b = fitted(line)
    assert math.isclose(a, 3e-14) and math.isclose(b, 5e-12)
    assert model_crossing(line, {n: 2 * t for n, t in line.items()}) == math.inf
    assert model_crossing(line, {n: t / 2 for n, t in line.items()}) == 0.0
    assert model_crossing(line, {n: t / 2 + 1e-10 * n**2 for n, t in line.items()}) > 0


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
    assert "never wins" in str(Measured(4096, None)) and "from the smallest" in str(Measured(None, 512))
    assert lesson_09_crossover._note(2000.0, Measured(1024, 2048)) == ""
    assert "miss it" in lesson_09_crossover._note(9000.0, Measured(1024, 2048))


# ---- scaling ----


def scaled(a: torch.Tensor, b: torch.Tensor, multiply: Any) -> torch.Tensor:
    rows = a.abs().amax(1, keepdim=True).log2().floor().exp2()
    columns = b.abs().amax(0).log2().floor().exp2()
    return torch.as_tensor(multiply(a / rows, b / columns) * rows * columns)


def test_scaling_by_powers_of_two_is_right() -> None:
    mark = check("09b-scaling", scaled=scaled)
    assert mark.right and "two levels unscaled" in mark.text


def _as_given(a: Any, b: Any, multiply: Any) -> Any:
    rows = a.abs().amax().log2().floor().exp2()
    columns = b.abs().amax(0).log2().floor().exp2()
    return multiply(a / rows, b / columns) * rows


def _one_factor(a: Any, b: Any, multiply: Any) -> Any:
    return _as_given(a, b, multiply) * b.abs().amax(0).log2().floor().exp2()


def _no_powers(a: Any, b: Any, multiply: Any) -> Any:
    rows, columns = a.abs().amax(1, keepdim=True), b.abs().amax(0)
    return multiply(a / rows, b / columns) * rows * columns


def _in_place(a: Any, b: Any, multiply: Any) -> Any:
    a /= 2
    return multiply(a, b) * 2


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_as_given, "not a @ b"),
        (_one_factor, "worst row's error"),
        (_no_powers, "whole numbers"),
        (_in_place, "changed a or b"),
        (lambda a, b, multiply: a @ b, "called 0 times"),
        (lambda a, b, multiply: multiply(a, b), "worst row's error"),
        (lambda a, b, multiply: multiply(a, b)[0], "returned a tensor of shape"),
        (3, "is 3"),
    ],
)
def test_wrong_scalings(function: Any, said: str) -> None:
    mark = check("09b-scaling", scaled=function)
    assert mark.status == "wrong" and said in (mark.text[0].lower() + mark.text[1:])


# ---- 09b-terms ----


def test_terms_of_bfloat16() -> None:
    mark = check("09b-terms", terms=3, products=6, faster=2.5)
    assert mark.right and "2.5x" in mark.text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"terms": 2}, "2 times 8 bits are not 24"),
        ({"terms": 4}, "4 times 8 bits are not 24"),
        ({"products": 9}, "every pair"),
        ({"products": 3}, "with its like"),
        ({"products": 5}, "below 3"),
        ({"faster": 770 / 51}, "for one product"),
        ({"faster": 0}, "above 0"),
    ],
)
def test_terms_of_bfloat16_wrong(changed: dict[str, float], said: str) -> None:
    mark = check("09b-terms", **{"terms": 3, "products": 6, "faster": 770 / 51 / 6, **changed})
    assert mark.status == "wrong"
    assert said in f"{mark.text} {mark.hint}"
