"""The algebra of both forms, exactly: tensors of whole numbers, numbering, schedules and shapes."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from typing import Any

import numpy as np
import pytest

from brrr.core.errors import ArgumentError
from brrr.strassen import FORMS, Form, block_shape, coefficients
from brrr.strassen.accuracy import amplification
from brrr.strassen.algebra.blocks import BLOCKS, Schedule, block_place, buffer_shape, products_shape, transposed_block
from brrr.strassen.algebra.forms import BASIS, form_of, in_basis
from tests.strassen_error_growth import bound, growth

BOTH = pytest.mark.parametrize("form", FORMS)
ALL = pytest.mark.parametrize("form", [*FORMS, "balanced"])
LEVELS = pytest.mark.parametrize("level", range(4))


# --- the identity -----------------------------------------------------------------------------------------------------


def tensor(left: Any, right: Any, result: Any) -> np.ndarray[Any, Any]:
    """How often block a of A times block b of B is in block c of C: [a, b, c], for any level's signs."""
    exact = (np.asarray(signs, dtype=np.float64) for signs in (left, right, result))  # quarters and small integers
    return np.einsum("pa,pb,cp->abc", *exact)


def matrix_tensor(size: int) -> np.ndarray[Any, Any]:
    """The same of the matrix product itself: C_ij is the sum of A_ik B_kj, blocks numbered in rows."""
    made = np.zeros((size**2,) * 3, dtype=np.int64)
    for i, j, k in product(range(size), repeat=3):
        made[i * size + k, k * size + j, i * size + j] = 1
    return made


def grid_tensor(level: int) -> np.ndarray[Any, Any]:
    """The matrix product's tensor, its blocks numbered level by level as the coefficients are."""
    size, count = 2**level, 4**level
    in_rows = [block_place(b, level)[0] * size + block_place(b, level)[1] for b in range(count)]
    return matrix_tensor(size)[np.ix_(in_rows, in_rows, in_rows)]


@ALL
@LEVELS
def test_the_signs_are_the_matrix_product_exactly(form: str, level: int) -> None:
    c = coefficients(form, level)
    if level < 3:
        assert (tensor(c.left, c.right, c.result) == grid_tensor(level)).all()
        return
    blocks = np.random.default_rng().integers(-99, 100, (2, 64))  # 64^3 terms of 343 products: on numbers instead
    made = c.result.astype(float) @ ((c.left @ blocks[0]) * (c.right @ blocks[1]))  # exact: far below 2^53
    assert (made == np.einsum("abc,a,b->c", grid_tensor(3), *blocks)).all()


@ALL
def test_three_levels_as_a_tensor_too(form: str) -> None:
    c = coefficients(form, 3)
    left = np.einsum("pa,cp->acp", c.left.astype(float), c.result.astype(float)).reshape(-1, 343)
    made = (left @ c.right.astype(float)).reshape(64, 64, 64)  # small integers, or over 2^18: exact in float64
    assert (made.transpose(0, 2, 1) == grid_tensor(3)).all()


@ALL
@pytest.mark.parametrize("side", ["left", "right", "result"])
def test_any_one_sign_turned_is_found(form: str, side: str) -> None:
    right = form_of(form)
    for place in np.argwhere(getattr(right, side)):
        parts = {name: getattr(right, name).copy() for name in ("left", "right", "result")}
        parts[side][tuple(place)] *= -1
        assert (tensor(**parts) != matrix_tensor(2)).any()


# --- numbering and schedules ------------------------------------------------------------------------------------------


@ALL
def test_the_outer_level_is_the_most_significant_digit(form: str) -> None:
    one, two = coefficients(form, 1), coefficients(form, 2)
    for outer, inner in [(5, 2), (0, 6), (3, 3)]:
        row = two.left[7 * outer + inner].reshape(4, 4)
        assert (row == np.outer(one.left[outer], one.left[inner])).all()


@LEVELS
def test_places_of_blocks(level: int) -> None:
    places = [block_place(b, level) for b in range(4**level)]
    assert len(set(places)) == 4**level
    for b, (i, j) in enumerate(places):
        assert places[transposed_block(b, level)] == (j, i)
        assert b == sum((2 * (i >> s & 1) + (j >> s & 1)) * 4**s for s in range(level))


@ALL
@LEVELS
def test_signs_of_a_transposed_right_operand(form: str, level: int) -> None:
    c = coefficients(form, level)
    for b in range(4**level):
        assert (c.right_transposed[:, transposed_block(b, level)] == c.right[:, b]).all()


def test_eighteen_and_fifteen_additions() -> None:
    counted = {name: [s.operator for s in form.schedule.steps] for name, form in FORMS.items() if form.schedule}
    assert {name: len(steps) - steps.count("*") for name, steps in counted.items()} == {"strassen": 18, "winograd": 15}
    assert {name: steps.count("*") for name, steps in counted.items()} == {"strassen": 7, "winograd": 7}
    assert {name: form.additions for name, form in FORMS.items()} == {"strassen": 18, "winograd": 15}
    assert {name: form.flat_additions for name, form in FORMS.items()} == {"strassen": 18, "winograd": 24}


@BOTH
def test_a_schedule_multiplies_matrices(form: str) -> None:
    draw = np.random.default_rng()
    a, b = draw.integers(-(10**6), 10**6, (6, 10)), draw.integers(-(10**6), 10**6, (10, 4))
    halves = {"A": (a, 3, 5), "B": (b, 5, 2)}
    blocks = {
        name + block: x[rows * (block[0] == "2") :, columns * (block[1] == "2") :][:rows, :columns]
        for name, (x, rows, columns) in halves.items()
        for block in BLOCKS
    }
    schedule = FORMS[form].schedule
    assert schedule is not None
    found = schedule.run(blocks, np.matmul)
    assert (np.block([[found["C11"], found["C12"]], [found["C21"], found["C22"]]]) == a @ b).all()


@pytest.mark.parametrize("text", ["S = A11 + X", "S = A11 / A22", "A11 = A12 + A22", "S = A11"])
def test_a_schedule_that_cannot_be_followed(text: str) -> None:
    with pytest.raises(ArgumentError, match="KNOWN"):
        Schedule.parse(text)


# --- shapes -----------------------------------------------------------------------------------------------------------


@LEVELS
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (0, 5, 3), (1001, 999, 17), (64, 128, 256), (8, 0, 9)])
def test_shapes_fit_each_other(level: int, m: int, k: int, n: int) -> None:
    left, right = buffer_shape(m, k, "left", level), buffer_shape(k, n, "right", level)
    turned, made = buffer_shape(n, k, "right", level, transposed=True), products_shape(m, n, level)
    assert left[2] == right[1] == turned[2] and made == (7**level, left[1], right[2])
    assert turned[1] == right[2] and left[2] % 8 == right[2] % 8 == 0
    for size, parts in ((m, left[1]), (k, left[2]), (n, right[2])):
        assert size <= parts * 2**level < size + 8 * 2**level
    assert left[1:] == block_shape(m, k, level)


def test_arguments_that_do_not_fit() -> None:
    for level in (-1, 4, 1.0, True, "2"):
        with pytest.raises(ArgumentError, match="level"):
            coefficients("strassen", level)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="strassen, winograd"):
        coefficients("coppersmith", 1)
    with pytest.raises(ArgumentError, match="rows is -1"):
        block_shape(-1, 2, 1)
    with pytest.raises(ArgumentError, match="side"):
        buffer_shape(2, 2, "middle", 1)
    with pytest.raises(ArgumentError, match="left operand"):
        buffer_shape(2, 2, "left", 1, transposed=True)
    with pytest.raises(ArgumentError, match="shape"):
        Form("short", np.zeros((6, 4)), np.zeros((7, 4)), np.zeros((4, 7)))


def test_signs_cannot_be_overwritten() -> None:
    with pytest.raises(ValueError, match="read-only"):
        coefficients("winograd", 2).left[0, 0] = 5
    with pytest.raises(ValueError, match="read-only"):
        FORMS["strassen"].result[0, 0] = 5


def test_the_package_loads_nothing() -> None:
    code = "import sys, brrr.strassen; assert not {'torch', 'numpy'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


# --- growth and bounds ------------------------------------------------------------------------------------------------


@ALL
def test_amplification_is_that_of_random_errors_in_the_products(form: str) -> None:
    """Products off by independent errors of one relative size: the result's own error, drawn."""
    draw, f = np.random.default_rng(3), form_of(form)
    a, b = draw.normal(size=(2, 4, 40, 40))
    products = np.einsum("pa,aij->pij", f.left, a) @ np.einsum("pb,bij->pij", f.right, b)
    sizes = np.sqrt((products**2).mean(axis=(1, 2), keepdims=True))
    away = np.einsum("cp,pij->cij", f.result, draw.normal(size=products.shape) * sizes)
    wanted = np.einsum("cp,pij->cij", f.result, products)
    assert np.linalg.norm(away) / np.linalg.norm(wanted) == pytest.approx(amplification(form), rel=0.1)


def turned_growth(*bases: Any) -> float:
    """Strassen's growth in bases P, Q, R: products of P A Q^-1 and Q B R^-1."""
    p, q, r = bases
    f = FORMS["strassen"]
    sides = ((f.left, p.T, np.linalg.inv(q).T), (f.right, q.T, np.linalg.inv(r).T), (f.result.T, np.linalg.inv(p), r))
    squares = [((x @ s.reshape(7, 2, 2) @ y) ** 2).sum(axis=(1, 2)) for s, x, y in sides]
    return float(np.sqrt(np.prod(squares, axis=0).sum() / 16))


def test_no_basis_has_a_smaller_growth_than_is_said() -> None:
    best = np.array([[3**0.5 / 2, 0.5], [0, 1]])
    least = 5 / (3 * 2**0.5)
    assert turned_growth(best, best, best) == pytest.approx(least, rel=1e-12)
    assert turned_growth(*[np.array(BASIS)] * 3) == pytest.approx(growth("balanced"), rel=1e-12)
    assert growth("balanced") < 1.01 * least
    draw = np.random.default_rng(7)
    for spread in (0.01, 0.3, 1.0):
        found = [turned_growth(*(best + spread * draw.normal(size=(3, 2, 2)))) for _ in range(300)]
        assert min(found) >= least * (1 - 1e-12)


def test_a_basis_whose_signs_are_none() -> None:
    with pytest.raises(ArgumentError, match="halves"):
        in_basis(FORMS["strassen"], "thirds", ((1.0, 1 / 3), (0.0, 1.0)))


def test_bounds_are_those_of_the_theorems() -> None:
    unit = 2.0**-24
    assert bound("strassen", 1, 256, unit) == (12 * (128**2 + 5 * 128) - 5 * 256) * unit
    assert bound("winograd", 3, 256, unit) == (18**3 * (32**2 + 6 * 32) - 6 * 256) * unit
    assert growth("strassen") < 1.6 and growth("winograd") < 1.9
    with pytest.raises(ArgumentError, match="form"):
        bound(Form("other", *(getattr(FORMS["strassen"], x) for x in ("left", "right", "result"))), 1, 8)
