"""The fused Triton kernels in Triton's interpreter: odd sizes, three types, and what they refuse."""

from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton has no build for this system")

from interpreter import interpreted_cases, ptx

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.kernels import fused

ALLOWED = {"float32": 1e-6, "bfloat16": 1.5e-2, "float16": 2e-3}


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    """What the kernels gave on fresh random input, in a process that runs them in the interpreter."""
    return interpreted_cases("triton_fused_cases.py")


@pytest.mark.parametrize("dtype", ALLOWED)
def test_every_kernel_at_every_size(interpreted: dict[str, Any], dtype: str) -> None:
    mine = {case: errors for case, errors in interpreted["errors"].items() if case.endswith(f" {dtype}")}
    assert len(mine) == (13 if dtype == "float32" else 10)
    for case, errors in mine.items():
        for which, error in errors.items():
            assert error <= ALLOWED[dtype], f"{case} {which}: {error}"


def test_the_special_cases(interpreted: dict[str, Any]) -> None:
    assert len(interpreted["special"]) == 7
    assert [name for name, fine in interpreted["special"].items() if not fine] == []


def test_on_the_cpu_it_says_what_is_missing() -> None:
    with pytest.raises(UnavailableError, match="needs an NVIDIA GPU"):
        fused.cos_cos(torch.randn(3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fused.cos_cos([1.0]), "x is 'list'"),  # type: ignore[arg-type]
        (lambda: fused.cos_cos(torch.ones(3, dtype=torch.float64)), "float32, float16 or bfloat16"),
        (lambda: fused.cos_cos(torch.ones(3, 4).t()), "contiguous"),
        (lambda: fused.softmax(torch.ones(3, device="meta")), "x is 'meta'|rows, width|needs an NVIDIA"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, message: str) -> None:
    with pytest.raises((ArgumentError, UnavailableError), match=message):
        call()


@pytest.mark.parametrize("width", [1, 5, 64, 1000, 1024, 4097, fused.WIDEST])
def test_a_program_holds_whole_rows(width: int) -> None:
    rows, columns = fused.tile_of(width)
    assert columns >= width and columns & (columns - 1) == 0
    assert rows & (rows - 1) == 0 and rows * columns <= max(fused.TILE, columns)


CONSTANTS: dict[str, dict[str, Any]] = {
    **{name: {"BLOCK": 1024} for name in ("_cos_cos", "_chain", "_kept")},
    **{name: {"ROWS": 4, "COLUMNS": 1024} for name in ("_bias_relu", "_layer_norm", "_softmax")},
}


@pytest.mark.parametrize("architecture", [75, 90])
@pytest.mark.parametrize("pointer", ["*fp32", "*bf16"])
@pytest.mark.parametrize("name", CONSTANTS)
def test_each_kernel_compiles_without_a_gpu(name: str, pointer: str, architecture: int) -> None:
    kernel = getattr(fused, name)
    known = {"count": "i32", "rows": "i32", "width": "i32", "scale": "fp32", "eps": "fp32"}
    types = {arg: known.get(arg, pointer) for arg in kernel.arg_names}
    text = ptx(kernel, CONSTANTS[name], types, architecture, aligned=True)
    assert f".target sm_{architecture}" in text and "ld.global" in text
