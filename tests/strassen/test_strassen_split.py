"""Two-term splits and their product on the CPU: exact where they say so, and why sums leave the tensor core."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brrr.strassen.accuracy import CHUNK, SPLIT_ERROR, split_error
from brrr.strassen.split.operands_kernel import Terms
from tests.strassen_split_calls import split, split_product, value

# ---- the split ----


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found.double() - expected.double()).norm() / expected.double().norm())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(-140, 120), st.integers(1, 20))
def test_numbers_near_their_row_s_largest_are_exact_to_the_last_digit(seed: int, exponent: int, k: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    x = (torch.rand(4, k, generator=draw) + 2**-15) * torch.randint(0, 2, (4, k), generator=draw).mul(2).sub(1)
    x[:, 0] = 1.0
    x = torch.ldexp(x.double(), torch.tensor(float(exponent))).float()  # the smallest ones are subnormal
    terms = split(x)
    assert terms.hi.abs().max() <= 2**15
    assert bool(((value(terms, k) - x).abs() <= 2.0**-23 * x.double().abs()).all())


def test_small_numbers_are_exact_to_a_small_part_of_the_largest() -> None:
    x = torch.randn(50, 64) * torch.exp2(torch.randint(-60, 1, (50, 64)).float())
    largest = x.double().abs().amax(1, keepdim=True)
    allowed = torch.maximum(2.0**-23 * x.double().abs(), 2.0**-39 * largest)
    assert bool(((value(split(x), 64) - x).abs() <= allowed).all())


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
def test_infinity_and_nan_spoil_their_own_row_and_column(value: float) -> None:
    a, b = torch.randn(5, 9), torch.randn(9, 6)
    a[2, 3], b[4, 1] = value, value
    product = split_product(split(a), split(b, transposed=True))
    spoilt = torch.zeros(5, 6, dtype=torch.bool)
    spoilt[2], spoilt[:, 1] = True, True
    assert torch.equal(~product.isfinite(), spoilt)
    assert relative(product[~spoilt], (a.double() @ b.double())[~spoilt]) < 1e-6


def test_results_out_of_range_are_infinite_or_subnormal_and_a_large_times_a_small_row_is_neither() -> None:
    big, small = torch.full((1, 4), 2.0**120), torch.full((1, 4), 2.0**-147)
    assert split_product(split(big), split(big)).item() == math.inf
    assert split_product(split(small), split(small)).item() == 0.0
    assert split_product(split(big), split(small)).item() == 2.0**-25
    assert split_product(split(torch.full((1, 1), 2.0**-73)), split(torch.full((1, 1), 2.0**-73))).item() == 2.0**-146


# ---- the product ----


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 70))
def test_any_shape_against_float64(m: int, n: int, k: int) -> None:
    a, b = torch.randn(m, k), torch.randn(k, n)
    product = split_product(split(a), split(b, transposed=True))
    expected = a.double() @ b.double()
    assert product.shape == expected.shape and product.dtype == torch.float32
    assert float((product - expected).norm()) <= 1e-6 * float(a.double().norm() * b.double().norm())


@pytest.mark.parametrize("scaled", ["normal", "uniform", "rows", "columns of both"])
def test_the_error_is_that_of_float32(scaled: str) -> None:
    a, b = torch.randn(64, 400), torch.randn(48, 400)
    if scaled == "uniform":
        a, b = torch.rand(64, 400), torch.rand(48, 400)
    if scaled == "rows":
        a *= torch.exp2(torch.randint(-40, 40, (64, 1)).float())
    if scaled == "columns of both":  # of k: no scaling of rows can help here
        size = torch.exp2(torch.randint(-6, 7, (400,)).float())
        a, b = a * size, b / size
    exact = a.double() @ b.double().T
    lengths = a.double().norm(dim=1)[:, None] * b.double().norm(dim=1)[None, :]
    found, usual = (
        float(((each - exact) / lengths).abs().max()) for each in (split_product(split(a), split(b)), a @ b.T)
    )
    assert found < max(4 * usual, 3e-7)


# ---- why the sums leave the tensor core: an emulation of one that truncates ----


def truncated(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Cut to float32's 24 bits, towards zero."""
    mantissa, exponent = np.frexp(x)
    cut: np.ndarray[Any, Any] = np.ldexp(np.trunc(np.ldexp(mantissa, 24)), exponent - 24)
    return cut


def emulated(left: Terms, right: Terms, chunk: int, depth: int = 64) -> torch.Tensor:
    """The product as `split_product.cu` sums it: steps of 16 are truncated, chunks are added and rounded to nearest."""
    terms = [np.asarray(each[0].double()) for each in (left.hi, left.lo, right.hi, right.lo)]
    total = np.zeros((terms[0].shape[0], terms[2].shape[0]), np.float32)
    for start in range(0, terms[0].shape[1], chunk):
        part = np.zeros(total.shape)
        for step in range(start, start + chunk, depth):
            for one, other in ((0, 3), (1, 2), (0, 2)):
                for k in range(step, step + depth, 16):
                    part = truncated(part + terms[one][:, k : k + 16] @ terms[other][:, k : k + 16].T)
        total += part.astype(np.float32)
    e = left.exponents[0].double()[:, None] + right.exponents[0].double()[None, :]
    return torch.ldexp(torch.from_numpy(total).double(), e)


@pytest.fixture(scope="module")
def sums() -> dict[int, float]:
    """Errors of the emulation at k = 4096, by chunk."""
    a, b = torch.randn(96, 4096), torch.randn(80, 4096)
    left, right, exact = split(a), split(b), a.double() @ b.double().T
    return {chunk: relative(emulated(left, right, chunk), exact) for chunk in (CHUNK, 128, 512, 4096)}


def test_a_total_outside_keeps_the_digits_that_truncation_loses(sums: dict[int, float]) -> None:
    assert sums[CHUNK] < sums[128] < sums[512] / 2 < sums[4096] / 8
    assert sums[4096] > 5e-6 and sums[CHUNK] < 3e-7


def test_the_error_model_tells_the_emulation(sums: dict[int, float]) -> None:
    for chunk, error in sums.items():
        assert split_error(4096, chunk) / 1.5 < error < 1.5 * split_error(4096, chunk), chunk


def test_the_split_itself_costs_as_much_as_the_model_says() -> None:
    a, b = torch.randn(100, 1000), torch.randn(100, 1000)
    left, right = split(a), split(b)
    hi_hi, hi_lo, lo_hi = (
        x[0].double() @ y[0].double().T for x, y in ((left.hi, right.hi), (left.hi, right.lo), (left.lo, right.hi))
    )
    made = torch.ldexp(hi_hi + hi_lo + lo_hi, left.exponents[0].double()[:, None] + right.exponents[0].double())
    assert relative(made, a.double() @ b.double().T) == pytest.approx(SPLIT_ERROR, rel=0.25)
