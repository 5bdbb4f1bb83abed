"""Split products on inputs where two terms lose digits: the guard, its rule, and what a call takes by itself."""

import pytest
import torch

from brrr.strassen.execution import prepare_right, steps
from brrr.strassen.implementations import Implementation
from brrr.strassen.launcher import run_all
from brrr.strassen.multiply import matmul
from brrr.strassen.operands import Arena
from brrr.strassen.planner import plan
from brrr.strassen.split.guard import SPREAD, lost_digits
from brrr_course.experiments.strassen_errors import HARD, INPUTS, random_inputs, row_error
from tests.strassen_split_calls import split, split_product

ALL = [*INPUTS, *HARD]


@pytest.mark.parametrize("inputs", ALL)
@pytest.mark.parametrize("shape", [(64, 200, 96), (256, 256, 256), (33, 1500, 7)], ids=str)
def test_no_row_is_worse_than_the_librarys(inputs: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = random_inputs(inputs, k, max(m, n), seed=3)
    a, b = a[:m], b[:, :n]
    exact = a.double() @ b.double()
    theirs = row_error(a @ b, exact, columns=False)
    way, out = Implementation("fp16x3", prepared=True), torch.empty(m, n)
    run_all(steps(way, a, prepare_right(b, way), out, Arena(2**22, "cpu")))
    for found in (out, *(matmul(a, right, inner="fp16x3", level=0) for right in (b, b.t().contiguous().t()))):
        ours = row_error(found, exact, columns=False)
        assert ours <= 4 * theirs or ours == theirs == 0


@pytest.mark.parametrize("inputs", ["graded inside", "masked", "outlier channel", "contrary rows"])
def test_without_the_guard_these_would_be_wrong(inputs: str) -> None:
    a, b = random_inputs(inputs, 256, 128, seed=3)
    exact = a.double() @ b.double()
    assert lost_digits(a, b)
    assert row_error(split_product(split(a), split(b, transposed=True)), exact, columns=False) > 1e-5


@pytest.mark.parametrize("inputs", ["normal", "uniform", "symmetric", "integer", "badly scaled rows", "uneven rows"])
def test_what_loses_nothing_is_left_alone(inputs: str) -> None:
    assert not lost_digits(*random_inputs(inputs, 256, 128, seed=3))


def test_only_the_places_where_rows_are_largest_count() -> None:
    a, b = torch.ones(4, 6), torch.ones(6, 3)
    a[:, 2], b[2] = 0.5, 0.0
    assert not lost_digits(a, b)  # a row of zeros that no row of a is largest at
    a[3, 2] = 2.0
    assert lost_digits(a, b)
    b[2] = 1 / SPREAD
    assert not lost_digits(a, b)
    a[3], b[2] = 0.0, 0.0
    assert not lost_digits(a, b)  # a row of zeros is largest nowhere
    assert not lost_digits(torch.zeros(4, 6), b) and not lost_digits(a, torch.zeros(6, 3))
    assert not lost_digits(torch.zeros(0, 6), b) and not lost_digits(torch.zeros(4, 0), torch.zeros(0, 3))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("size", [256, 3000, 8192, 16384, 30000])
def test_by_itself_a_call_takes_no_levels(dtype: str, size: int) -> None:
    assert plan(size, size, size, dtype=dtype, device="h200").implementation.level == 0
    assert plan(size, size, size, dtype=dtype, device="h200", prepared=True).implementation.level == 0
