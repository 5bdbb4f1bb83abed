"""Refits of product kernels: which points they use, and that a change is kept only where it lowers the error."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import cast

import pytest

from brrr.roofline.device_model import model_of
from brrr.roofline.products import Family, best_tiling, families
from brrr_course.experiments.gemm import HELD_OUT
from tools.products_refit import Measured, errors, loss, neighbours, points, refitted

NAME = "short, 4 B"
MODEL = model_of("h200")


@cache
def measured() -> list[Measured]:
    """The family's points, read off the recording once."""
    return points(NAME, MODEL)


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    """A refit tries its constants in the package's own table."""
    before = dict(families())
    yield
    cast("dict[str, Family]", families()).update(before)
    best_tiling.cache_clear()


def test_points_are_of_the_family_and_none_is_held_out() -> None:
    of = measured()
    assert len(of) > 100 and all(product.dtype == "bfloat16" for product, _, _ in of)
    assert not any(product.k in HELD_OUT and product.m == product.k for product, _, _ in of)


def test_a_refit_finds_back_what_was_spoiled() -> None:
    of = measured()[:40]
    spoiled = replace(families()[NAME], start_s=4e-6)
    before = loss(errors(spoiled, of, MODEL), of)
    better = refitted(spoiled, 60, of, MODEL)
    assert loss(errors(better, of, MODEL), of) < before


def test_a_step_is_between_neighbours_in_columns() -> None:
    product, _, _ = measured()[0]
    of = [(replace(product, n=n), seconds, 1.0) for n, seconds in ((32, 1.0), (33, 2.0), (34, 2.01), (40, 9.0))]
    assert neighbours(of) == [(0, 1)]
