"""matmul(..., verify=True): wrong rows are found and replaced, right ones left alone; what it cannot be asked for."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from brrr.core.errors import ArgumentError
from brrr.strassen import matmul, prepare
from brrr.strassen.split import guard
from brrr.strassen.verifying import row_errors
from brrr_course.experiments.strassen_errors.inputs import random_inputs, row_error

SPLIT: dict[str, Any] = {"inner": "fp16x3", "level": 0}
LEVELS: list[dict[str, Any]] = [{"level": 1}, {"level": 2, "form": "winograd"}]


def inputs(kind: str, m: int, k: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    make = {
        "normal": torch.randn,
        "uniform": torch.rand,
        "integer": lambda *shape: torch.randint(-9, 10, shape).float(),
        "sparse": lambda *shape: torch.randn(shape) * (torch.rand(shape) < 0.02),
    }[kind]
    return make(m, k), make(k, n)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["normal", "uniform", "integer", "sparse"])
def test_what_is_right_is_left_alone(kind: str, dtype: torch.dtype) -> None:
    asked = [{}, *(LEVELS if kind != "sparse" else []), *([SPLIT, {"accuracy": "tf32"}] if dtype.itemsize == 4 else [])]
    for m, k, n in ((64, 64, 64), (100, 300, 70), (512, 64, 511), (1024, 1024, 1024)):
        a, b = (each.to(dtype) for each in inputs(kind, m, k, n))
        for options in asked if n < 1024 else asked[:2]:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert torch.equal(matmul(a, b, verify=True, **options), matmul(a, b, **options))


@pytest.mark.parametrize("kind", ["graded inside", "masked", "outlier channel", "contrary rows"])
@pytest.mark.parametrize("size", [64, 300])
def test_what_is_wrong_is_found_and_replaced(kind: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "lost_digits", lambda a, b: False)
    a, b = random_inputs(kind, size, size, seed=1)
    out, ready = torch.empty(size, size), prepare(b, rows=size, **SPLIT)
    for call in (
        lambda: matmul(a, b, verify=True, **SPLIT),
        lambda: matmul(a, b, verify=True, out=out, **SPLIT),
        lambda: matmul(a, ready, verify=True),
    ):
        with pytest.warns(UserWarning, match=r"row \d+ is wrong by .* of its size, and .* was asked for") as said:
            found = call()
        assert torch.equal(found, a @ b) and said[0].filename == __file__
    assert torch.equal(out, a @ b)
    assert row_error(matmul(a, b, **SPLIT), a.double() @ b.double(), columns=False) > 1e-5


def test_a_row_that_a_level_loses_is_found() -> None:
    a, b = inputs("normal", 256, 256, 256)
    a[128:] *= 1e-6
    with pytest.warns(UserWarning, match="the classical product is taken instead"):
        assert torch.equal(matmul(a, b, level=1, inner="sgemm", verify=True), a @ b)


def test_errors_are_estimated_and_no_random_number_is_taken() -> None:
    a, b = inputs("normal", 64, 200, 300)
    made = a @ b
    made[5] += 1e-3 * torch.randn(300)
    state = torch.get_rng_state()
    errors, sizes = row_errors(a, b, made)
    assert torch.equal(state, torch.get_rng_state())
    exact = a.double() @ b.double()
    assert 0.4 < float(errors[5] / (made[5] - exact[5]).norm()) < 2.5 and errors.argmax() == 5
    assert float(sizes[5]) >= 0.99 * float(exact[5].norm())


def test_what_is_not_finite_is_so_in_the_classical_product(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = inputs("normal", 64, 64, 64)
    a[3, 5], a[7, 0], b[9, 2] = torch.inf, torch.nan, -torch.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = matmul(a, b, verify=True)
    assert torch.equal(found.isfinite(), (a @ b).isfinite())
    large = torch.full((64, 64), 3e38)
    with pytest.warns(UserWarning, match="row 0 is wrong by inf"):  # a level's sums overflow
        assert torch.equal(matmul(large, torch.eye(64), level=1, inner="sgemm", verify=True), large)


def test_gradients_flow_through_either(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (each.requires_grad_() for each in inputs("normal", 64, 64, 64))
    wanted = torch.autograd.grad((a @ b).sum(), (a, b))
    for limit in (1e-30, None):
        if limit:
            monkeypatch.setattr("brrr.strassen.verifying.ROOM", limit)
            with pytest.warns(UserWarning, match="taken instead"):
                found = matmul(a, b, verify=True)
        else:
            monkeypatch.undo()
            found = matmul(a, b, verify=True)
        for one, two in zip(torch.autograd.grad(found.sum(), (a, b)), wanted, strict=True):
            torch.testing.assert_close(one, two)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_nothing_to_look_at_is_refused() -> None:
    a, b = inputs("normal", 8, 8, 8)
    assert matmul(a[:0], b, verify=True).shape == (0, 8) and not matmul(a[:, :0], b[:0], verify=True).any()
    with pytest.raises(Exception, match="verify"):
        torch.compile(lambda a, b: matmul(a, b, verify=True), backend="eager", fullgraph=True)(a, b)
    with pytest.raises(ArgumentError, match="verify is True"):
        torch.compile(lambda a, b: matmul(a, b, verify=True), backend="eager")(a, b)
    with pytest.raises(ArgumentError, match="verify is True"):
        torch.vmap(lambda each: matmul(each, b, verify=True))(a[None])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert matmul(a, b, verify=True).dtype == torch.bfloat16
