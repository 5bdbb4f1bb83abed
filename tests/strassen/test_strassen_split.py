"""Two-term splits and their product on the CPU: exact where they say so, and why sums leave the tensor core."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.strassen.accuracy import CHUNK, SPLIT_ERROR, TRUNCATION, split_error
from brrr.strassen.split.splits import Terms
from brrr.strassen.split.splitting import split, split_product

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
    assert bool(((terms.value() - x).abs() <= 2.0**-23 * x.double().abs()).all())


def test_small_numbers_are_exact_to_a_small_part_of_the_largest() -> None:
    x = torch.randn(50, 64) * torch.exp2(torch.randint(-60, 1, (50, 64)).float())
    largest = x.double().abs().amax(1, keepdim=True)
    allowed = torch.maximum(2.0**-23 * x.double().abs(), 2.0**-39 * largest)
    assert bool(((split(x).value() - x).abs() <= allowed).all())
    per_matrix, unscaled = split(x, scale="matrix"), split(x, scale="none")
    assert len(per_matrix.exponents.unique()) == 1 and not unscaled.exponents.any()
    assert relative(per_matrix.value(), x) < 1e-7 and relative(unscaled.value(), x) < 1e-6


def test_whole_numbers_of_22_bits_are_exact() -> None:
    x = torch.randint(-(2**21), 2**21, (30, 30)).float()
    assert torch.equal(split(x).value(), x.double())


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
def test_infinity_and_nan_spoil_their_own_row_and_column(value: float) -> None:
    a, b = torch.randn(5, 9), torch.randn(9, 6)
    a[2, 3], b[4, 1] = value, value
    product = split_product(split(a), split(b, transposed=True))
    spoilt = torch.zeros(5, 6, dtype=torch.bool)
    spoilt[2], spoilt[:, 1] = True, True
    assert torch.equal(~product.isfinite(), spoilt)
    assert relative(product[~spoilt], (a.double() @ b.double())[~spoilt]) < 1e-6


def test_beyond_float16_s_range_unscaled_numbers_are_infinite() -> None:
    assert split(torch.tensor([[1e5, 1.0]]), scale="none").hi[0, 0, :2].isinf().tolist() == [True, False]


def test_results_out_of_range_are_infinite_or_subnormal_and_a_large_times_a_small_row_is_neither() -> None:
    big, small = torch.full((1, 4), 2.0**120), torch.full((1, 4), 2.0**-147)
    assert split_product(split(big), split(big)).item() == math.inf
    assert split_product(split(small), split(small)).item() == 0.0
    assert split_product(split(big), split(small)).item() == 2.0**-25
    assert split_product(split(torch.full((1, 1), 2.0**-73)), split(torch.full((1, 1), 2.0**-73))).item() == 2.0**-146


# ---- the product ----


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 5), st.integers(0, 40), st.integers(0, 40), st.integers(0, 70), st.booleans())
def test_any_shape_against_float64(batch: int, m: int, n: int, k: int, flat: bool) -> None:
    shape = () if flat else (batch,)
    a, b = torch.randn(*shape, m, k), torch.randn(*shape, k, n)
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


def test_out_and_terms_are_used_again() -> None:
    a, b = torch.randn(2, 5, 7), torch.randn(2, 6, 7)
    left, out = split(torch.zeros(2, 5, 7)), torch.empty(2, 5, 6)
    assert split(a, out=left) is left
    assert split_product(left, split(b), out) is out
    assert relative(out, a.double() @ b.double().transpose(1, 2)) < 1e-6


# ---- what is refused ----

X = torch.randn(3, 8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: split(X.double()), "x is 'torch.float64 "),
        (lambda: split([1.0]), "x is 'list'"),  # type: ignore[arg-type]
        (lambda: split(X[0]), r"float32 \(8,\)'; expected a float32 matrix"),
        (lambda: split(X, terms=3), "terms is 3; expected 2"),
        (lambda: split(X, scale="column"), "scale is 'column'; expected one of row, matrix, none"),
        (lambda: split(X, how="cublas"), "how is 'cublas'"),
        (lambda: split(X, out=split(X.T.contiguous())), "out is 'terms "),
        (lambda: split_product(split(X), X), "right is 'Tensor'; expected Terms"),  # type: ignore[arg-type]
        (lambda: split_product(split(X), split(X[:, :7])), "right is '1 matrices of k = 7'"),
        (lambda: split_product(split(X), split(X[None])), "right is '1 matrices of k = 8'"),
        (lambda: split_product(split(X), split(X), torch.empty(3, 4)), r"out is 'torch.float32 \(3, 4\)"),
        (lambda: split_product(split(X), split(X), torch.empty(3, 3).half()), "out is 'torch.float16"),
        (lambda: split_product(split(X), split(X), torch.empty(3, 6)[:, ::2]), "its rows contiguous"),
        (lambda: split_product(split(X), split(X), how="cublas"), "how is 'cublas'"),
        (lambda: split_product(split(X), split(X), chunk=0), "chunk is 0"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_the_kernel_needs_a_gpu() -> None:
    with pytest.raises(UnavailableError, match="how='torch' runs here"):
        split_product(split(X), split(X), how="cuda")


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


def test_the_model_grows_with_the_chunk_and_with_k() -> None:
    assert split_error(8192, 128) < split_error(8192, 256) < split_error(8192, 8192)
    assert split_error(16384) > split_error(1024)
    assert split_error(8192, 8192) > 3 * 512 * TRUNCATION * 0.99
