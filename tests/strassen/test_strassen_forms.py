"""The algebra of both forms, exactly: tensors of whole numbers, numbering, schedules and shapes."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from brrr.strassen.accuracy import amplification
from brrr.strassen.algebra.blocks import block_shape, buffer_shape, level_of, products_shape
from brrr.strassen.algebra.forms import FORMS
from tests.refusals import refused

BOTH = pytest.mark.parametrize("form", FORMS)
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


@BOTH
def test_the_signs_are_the_matrix_product_exactly(form: str) -> None:
    f = FORMS[form]
    assert (tensor(f.left, f.right, f.result) == matrix_tensor(2)).all()


# --- schedules --------------------------------------------------------------------------------------------------------


def test_eighteen_and_fifteen_additions() -> None:
    signs = {name: [step.operator for step in form.schedule.steps] for name, form in FORMS.items()}
    assert {name: len(each) - each.count("*") for name, each in signs.items()} == {"strassen": 18, "winograd": 15}


# --- shapes -----------------------------------------------------------------------------------------------------------


@LEVELS
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (0, 5, 3), (1001, 999, 17), (64, 128, 256), (8, 0, 9)])
def test_shapes_fit_each_other(level: int, m: int, k: int, n: int) -> None:
    left, right = buffer_shape(m, k, "left", level), buffer_shape(k, n, "right", level)
    turned, made = buffer_shape(n, k, "right", level), products_shape(m, n, level)
    assert left[2] == right[1] == turned[2] and made == (7**level, left[1], right[2])
    assert turned[1] == right[2] and left[2] % 8 == right[2] % 8 == 0
    for size, parts in ((m, left[1]), (k, left[2]), (n, right[2])):
        assert size <= parts * 2**level < size + 8 * 2**level
    assert left[1:] == block_shape(m, k, level)


@pytest.mark.parametrize("level", [-1, 4, 1.0, True, "2"])
def test_what_is_no_level(level: Any) -> None:
    with refused("level", level):
        level_of(level)


# --- growth ---------------------------------------------------------------------------------------------------------


@BOTH
def test_amplification_is_that_of_random_errors_in_the_products(form: str) -> None:
    """Products off by independent errors of one relative size: the result's own error, drawn."""
    draw, f = np.random.default_rng(3), FORMS[form]
    a, b = draw.normal(size=(2, 4, 40, 40))
    products = np.einsum("pa,aij->pij", f.left, a) @ np.einsum("pb,bij->pij", f.right, b)
    sizes = np.sqrt((products**2).mean(axis=(1, 2), keepdims=True))
    away = np.einsum("cp,pij->cij", f.result, draw.normal(size=products.shape) * sizes)
    wanted = np.einsum("cp,pij->cij", f.result, products)
    assert np.linalg.norm(away) / np.linalg.norm(wanted) == pytest.approx(amplification(form), rel=0.1)
