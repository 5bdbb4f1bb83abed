"""The Triton kernels in Triton's interpreter: odd and prime sizes, three types, and what they refuse."""

import re
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton has no build for this system")

from interpreter import interpreted_cases, ptx

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.kernels import pseudo_linear as kernels
from brrr_course.experiments.pseudo_linear.check import pseudo_error

ALLOWED = {"float32": 1e-6, "bfloat16": 1e-2, "float16": 1e-3}


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    """What the kernels gave on fresh random input, in a process that runs them in the interpreter."""
    return interpreted_cases("triton_cases.py")


@pytest.mark.parametrize("dtype", ALLOWED)
def test_forward_and_gradients_at_every_size(interpreted: dict[str, Any], dtype: str) -> None:
    mine = {case: errors for case, errors in interpreted["errors"].items() if case.endswith(f" {dtype}")}
    assert len(mine) == (10 if dtype == "float32" else 5)
    for case, errors in mine.items():
        for which, error in errors.items():
            assert error <= ALLOWED[dtype], f"{case} {which}: {error}"


def test_the_special_cases(interpreted: dict[str, Any]) -> None:
    assert len(interpreted["special"]) == 8
    assert [name for name, fine in interpreted["special"].items() if not fine] == []


@pytest.mark.parametrize("which", ["y", "dx", "dw", "db"])
@pytest.mark.parametrize("wrong", ["a bit off", "NaN", "half missing"])
def test_the_check_can_fail(which: str, wrong: str) -> None:
    x, g, w, b = torch.randn(50, 7), torch.randn(50, 7), torch.randn(7), torch.randn(7)
    right = {"y": x * w + b, "dx": g * w, "dw": (g * x).sum(0), "db": g.sum(0)}
    check = pseudo_error(x, w, b, g)
    assert check(tuple(right.values())) < 1e-6
    spoilt = right[which].clone()
    if wrong == "a bit off":
        spoilt *= 1.001
    elif wrong == "NaN":
        spoilt.view(-1)[-1] = float("nan")
    else:
        spoilt[spoilt.shape[0] // 2 :] = 0
    assert not check(tuple({**right, which: spoilt}.values())) <= 1e-4


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": torch.randn(3, 4, dtype=torch.float64)}, "x is torch.float64; expected a tensor of float32"),
        ({"w": [1.0] * 4}, "w is 'list'"),
        ({"w": torch.randn(5)}, r"w is \(5,\); expected shape \(4,\)"),
        ({"b": torch.randn(4, 1)}, r"b is \(4, 1\)"),
        ({"x": torch.tensor(1.0)}, r"w is \(4,\); expected shape \(0,\)"),
        ({"b": torch.randn(4, device="meta")}, "b is 'meta'; expected a tensor on cpu"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"x": torch.randn(3, 4), "w": torch.randn(4), "b": torch.randn(4), **changed}
    with pytest.raises(ArgumentError, match=message):
        kernels.pseudo_linear(**given)


def test_on_the_cpu_it_says_what_is_missing() -> None:
    with pytest.raises(UnavailableError, match="needs an NVIDIA GPU"):
        kernels.pseudo_linear(torch.randn(3, 4), torch.randn(4), torch.randn(4))


@pytest.mark.parametrize("width", [1, 15, 16, 64, 100, 1023, 1024, 1025, 24576, 2**20])
def test_tiles_cover_the_width_and_stay_small(width: int) -> None:
    for rows, columns in (kernels.tile_of(width), kernels.backward_tile_of(width)):
        assert rows * columns <= kernels.TILE
        assert columns & (columns - 1) == 0
        assert columns >= min(width, 256)
        assert rows * width < 2**31


POINTER = {"float32": "*fp32", "bfloat16": "*bf16"}
CONSTANTS: dict[str, dict[str, Any]] = {
    "_forward": {"ROWS": 4, "COLUMNS": 1024},
    "_backward": {"NEED_DX": True, "STEPS": 4, "ROWS": 8, "COLUMNS": 256},
    "_add_parts": {"STEPS": 2, "LINES": 128, "COLUMNS": 16},
}
SIZES = ("batch", "width", "column_tiles", "parts")


@pytest.mark.parametrize("architecture", [75, 90])
@pytest.mark.parametrize("dtype", POINTER)
@pytest.mark.parametrize("sizes", ["i32", "i64", "all one"])
@pytest.mark.parametrize("name", CONSTANTS)
def test_each_kernel_compiles_without_a_gpu(name: str, sizes: str, dtype: str, architecture: int) -> None:
    """As Triton does at the first call: a size of one is a constant then, and a large batch has 64 bits."""
    text = _ptx(name, sizes, POINTER[dtype], architecture, aligned=False)
    assert f".target sm_{architecture}" in text
    assert "ld.global" in text


@pytest.mark.parametrize("name", ["_forward", "_backward"])
def test_widths_that_are_multiples_of_sixteen_move_four_numbers_at_a_time(name: str) -> None:
    for aligned in (True, False):
        text = _ptx(name, "i32", "*fp32", 90, aligned=aligned)
        assert bool(re.search(r"ld\.global\S*\.v4", text)) is aligned
        assert bool(re.search(r"st\.global\S*\.v4", text)) is aligned


def _ptx(name: str, sizes: str, pointer: str, architecture: int, *, aligned: bool) -> str:
    kernel = getattr(kernels, name)
    ones = {size: 1 for size in SIZES if size in kernel.arg_names and sizes == "all one"}
    types = {arg: sizes if arg in SIZES else "*fp32" if "sum" in arg else pointer for arg in kernel.arg_names}
    return ptx(kernel, {**CONSTANTS[name], **ones}, types, architecture, aligned=aligned)
