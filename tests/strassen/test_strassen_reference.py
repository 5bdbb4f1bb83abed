"""The reference of every step: exact for integers of any shape, and narrow types rounded once."""

import math

import pytest
import torch

from brrr.strassen.algebra.blocks import products_shape
from brrr.strassen.algebra.forms import FORMS
from brrr.strassen.algebra.reference import post_add, pre_add, product
from brrr_course.experiments.strassen_errors import relative_error

BOTH = pytest.mark.parametrize("form", FORMS)
LEVELS = pytest.mark.parametrize("level", range(4))
SHAPES = [
    (1, 1, 1),
    (1, 9, 1),
    (5, 1, 7),
    (2, 3, 4),
    (17, 33, 65),
    (64, 64, 64),
    (0, 3, 2),
    (3, 0, 2),
    (3, 2, 0),
    (99, 8, 3),
]


def whole(*shape: int, most: int = 10**6) -> torch.Tensor:
    """Fresh random int64 numbers: products of these stay far below 2^63."""
    return torch.randint(-most, most + 1, shape)


@BOTH
@LEVELS
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_products_of_integers_are_exact(form: str, level: int, m: int, k: int, n: int) -> None:
    a, b = whole(m, k), whole(k, n)
    assert torch.equal(product(a, b, form, level), a @ b)
    turned = pre_add(b.t(), "right", form, level, transposed=True)
    assert torch.equal(turned.transpose(1, 2), pre_add(b, "right", form, level))


@BOTH
def test_operands_of_any_strides(form: str) -> None:
    a, b = whole(26, 22)[::2, 1::2], whole(9, 11).t()
    assert torch.equal(product(a, b, form, 2), a @ b)


@LEVELS
def test_a_result_shares_no_memory_with_what_it_came_from(level: int) -> None:
    x = torch.ones(8, 8)
    left = pre_add(x, "left", "strassen", level)
    made = post_add(products := torch.ones(products_shape(8, 8, level)), "strassen", level, (8, 8))
    left.zero_()
    made.zero_()
    assert bool((x == 1).all()) and bool((products == 1).all())


@BOTH
def test_narrow_types_are_summed_in_float32_and_rounded_once(form: str) -> None:
    x = torch.randn(40, 48).bfloat16()
    made = pre_add(x, "left", form, 3)
    assert made.dtype == torch.bfloat16 and torch.equal(made, pre_add(x.float(), "left", form, 3).bfloat16())
    products = torch.randn(products_shape(40, 48, 2)).half()
    exact = post_add(products.float(), form, 2, (40, 48))
    assert torch.equal(post_add(products, form, 2, (40, 48)), exact.half())


def test_errors_of_wrong_results_are_seen() -> None:
    wanted = torch.ones(2, 2, dtype=torch.float64)
    assert relative_error(torch.zeros(2, 2), wanted) == 1.0 and math.isnan(relative_error(wanted * math.nan, wanted))
    assert relative_error(wanted, wanted * 0) == math.inf and relative_error(wanted * 0, wanted * 0) == 0.0
