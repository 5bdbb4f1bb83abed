"""Scaling by powers of two: exact, undone exactly, and a help to inputs whose blocks differ much in size."""

import pytest
import torch

from brrr.core.errors import ArgumentError
from brrr.strassen.algebra.forms import FORMS, form_of
from brrr_course.experiments.strassen_errors import random_inputs, relative_error, row_error
from brrr_course.lessons.scaling_by_powers import STEPS, RowScaling, scaled_product, shifted

IMPLEMENTATIONS = pytest.mark.parametrize("way", STEPS)


@IMPLEMENTATIONS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_scaling_rounds_nothing_and_is_undone(way: str, dtype: torch.dtype) -> None:
    a, b = (torch.randn(shape).to(dtype) for shape in ((9, 13), (13, 6)))
    scaling = RowScaling.of(a, b, way)
    left, right = scaling.apply(a, b)
    assert torch.equal(shifted(left, scaling.rows[:, None] - scaling.inner), a)
    assert torch.equal(shifted(right, scaling.columns + scaling.inner[:, None]), b)
    wide = scaling.undo(left.double() @ right.double())
    torch.testing.assert_close(wide, a.double() @ b.double(), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("level", [1, 2, 3])
def test_scaling_helps_the_badly_scaled(form: str, level: int) -> None:
    f = form_of(form)
    for inputs, ways, error in (
        ("badly scaled inside", ("inner", "outer-inner", "inner-outer"), relative_error),
        ("badly scaled rows", ("outer", "outer-inner", "inner-outer"), row_error),
    ):
        a, b = random_inputs(inputs, 256, 32)
        wanted = a.double() @ b.double()
        plain = error(scaled_product(a, b, f, level, None), wanted)
        for way in ways:
            assert 20 * error(scaled_product(a, b, f, level, way), wanted) < plain


@IMPLEMENTATIONS
def test_zeros_and_what_is_not_finite(way: str) -> None:
    a, b = torch.randn(4, 5), torch.randn(5, 3)
    a[1], a[:, 2], b[:, 0] = 0, 0, 0
    a[0, 0] = torch.inf
    b[4, 2] = torch.nan
    left, right = RowScaling.of(a, b, way).apply(a, b)
    assert torch.equal(left == 0, a == 0) and torch.equal(right == 0, b == 0)
    assert torch.equal(left.isinf(), a.isinf()) and torch.equal(right.isnan(), b.isnan())


@IMPLEMENTATIONS
@pytest.mark.parametrize(("m", "k", "n"), [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1)])
def test_empty_and_single(way: str, m: int, k: int, n: int) -> None:
    a, b = torch.randn(m, k), torch.randn(k, n)
    scaling = RowScaling.of(a, b, way)
    left, right = scaling.apply(a, b)
    assert torch.equal(scaling.undo(left @ right), a @ b)


def test_exponents_beyond_one_factor() -> None:
    tiny, huge = torch.tensor([2.0**-140]), torch.tensor([2.0**120])
    assert shifted(tiny, torch.tensor([260])) == huge and shifted(huge, torch.tensor([-260])) == tiny
    assert shifted(huge, torch.tensor([10])).isinf().all()


def test_arguments_that_do_not_fit() -> None:
    a = torch.ones(2, 3)
    with pytest.raises(ArgumentError, match="way"):
        RowScaling.of(a, a.t(), "sideways")
    with pytest.raises(ArgumentError, match="3 rows"):
        RowScaling.of(a, a)
    with pytest.raises(ArgumentError, match="floating-point"):
        RowScaling.of(a, torch.ones(3, 2, dtype=torch.int64))
