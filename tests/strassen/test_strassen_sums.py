"""The sums of blocks without a GPU: by torch, compiled, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hosted import by_nvcc, needs_nvcc

from brrr.core.errors import ArgumentError
from brrr.gpu.nvrtc import source_text
from brrr.strassen import Implementation
from brrr.strassen.algebra.blocks import buffer_shape, products_shape
from brrr.strassen.algebra.forms import FORMS
from brrr.strassen.passes.launch import SOURCE, post_add_step, text_of, tuning_of
from brrr.strassen.passes.sums import Work, assembled_work, factors_work, product
from tests import strassen_sums_calls as calls

SHAPES = [(1, 1), (17, 33), (64, 128), (3, 70)]
BOTH = pytest.mark.parametrize("form", FORMS)
LEVELS = pytest.mark.parametrize("level", range(4))


# --- by torch ---------------------------------------------------------------------------------------------------------


@LEVELS
@BOTH
def test_a_layer_is_sums_products_and_sums(form: str, level: int) -> None:
    for m, n in SHAPES:
        a, w, bias = torch.randn(m, 20), torch.randn(n, 20), torch.randn(n)
        left, right = (calls.pre_add(a, "left", form, level), calls.pre_add(w, "right", form, level, transposed=True))
        y = calls.post_add(left @ right.transpose(1, 2), form, level, (m, n), bias=bias, relu=True)
        torch.testing.assert_close(y, (a @ w.t() + bias).relu(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("level", [1, 3])
def test_a_step_is_post_add_and_pre_add(level: int) -> None:
    for shape in SHAPES:
        products, bias, keep = torch.randn(products_shape(*shape, level)), torch.randn(shape[1]), torch.empty(shape)
        y = calls.post_add(products, "strassen", level, shape, bias=bias, relu=True)
        factors = calls.pre_add(y, "left", "winograd", level)
        options: dict[str, Any] = {"bias": bias, "next_form": "winograd"}
        assert torch.equal(calls.step(products, "strassen", level, shape, keep=keep, **options), factors)
        assert torch.equal(keep, y)
        assert torch.equal(calls.step(products, "strassen", level, shape, **options), factors)


# --- by torch, exactly ------------------------------------------------------------------------------------------------


def whole(*shape: int, most: int = 10**6) -> torch.Tensor:
    """Fresh random int64 numbers: products of these stay far below 2^63."""
    return torch.randint(-most, most + 1, shape)


@BOTH
@LEVELS
@pytest.mark.parametrize(("m", "k", "n"), [
    (1, 1, 1), (1, 9, 1), (5, 1, 7), (2, 3, 4), (17, 33, 65), (64, 64, 64), (0, 3, 2), (3, 0, 2), (3, 2, 0), (99, 8, 3),
])  # fmt: skip
def test_products_of_integers_are_exact(form: str, level: int, m: int, k: int, n: int) -> None:
    a, b = whole(m, k), whole(k, n)
    assert torch.equal(product(a, b, form, level), a @ b)
    turned = calls.pre_add(b.t(), "right", form, level, transposed=True)
    assert torch.equal(turned.transpose(1, 2), calls.pre_add(b, "right", form, level))


@BOTH
def test_operands_of_any_strides(form: str) -> None:
    a, b = whole(26, 22)[::2, 1::2], whole(9, 11).t()
    assert torch.equal(product(a, b, form, 2), a @ b)


@BOTH
def test_narrow_types_are_summed_in_float32_and_rounded_once(form: str) -> None:
    x = torch.randn(40, 48).bfloat16()
    made = calls.pre_add(x, "left", form, 3)
    assert made.dtype == torch.bfloat16 and torch.equal(made, calls.pre_add(x.float(), "left", form, 3).bfloat16())
    products = torch.randn(products_shape(40, 48, 2)).half()
    exact = calls.post_add(products.float(), form, 2, (40, 48))
    assert torch.equal(calls.post_add(products, form, 2, (40, 48)), exact.half())


# --- CUDA C++ ---------------------------------------------------------------------------------------------------------


SHAPE = (120, 160)
"""Rows that end within a block, columns of whole words."""


def works() -> dict[str, Work]:
    """Each tuning's kernels, as they are launched on a matrix that ends within its blocks."""
    found: dict[str, Work] = {}

    def tensors(level: int, dtype: torch.dtype, out: torch.dtype) -> tuple[torch.Tensor, ...]:
        factors = torch.empty(buffer_shape(*SHAPE, "left", level), dtype=out)
        products = torch.empty(products_shape(*SHAPE, level), dtype=dtype)
        return torch.empty(SHAPE, dtype=dtype), torch.empty(SHAPE[1], dtype=dtype), factors, products

    for level in range(4):
        for name in ("float32", "bfloat16", "float16"):
            dtype = getattr(torch, name)
            x, bias, factors, products = tensors(level, dtype, dtype)
            found[f"pre_add-{level}-{name}"] = factors_work(x, "left", "winograd", factors, level=level)
            after = assembled_work(products, "winograd", level, SHAPE, bias, True, None)
            found[f"post_add-{level}-{name}"] = replace(after, matrix=x)
            if level:
                found[f"step-{level}-{name}"] = replace(after, spread="winograd", high=factors)
        x, _, factors, products = tensors(level, torch.float32, torch.bfloat16)
        found[f"narrowed-{level}"] = factors_work(x, "left", "winograd", factors, level=level)
        both = {"low": factors.half(), "exponents": torch.zeros(1, dtype=torch.int32)}
        found[f"split-{level}"] = factors_work(x, "left", "winograd", factors.half(), level=level, **both)
        found[f"widened-{level}"] = assembled_work(products, "winograd", level, SHAPE, None, False, x.bfloat16())
    return found


WORKS = works()


def compiled(work: Work, arch: str, folder: Path) -> str:
    """What the assembler says of registers."""
    source = folder / "work.cu"
    source.write_text(text_of(work, tuning_of(work)) + source_text(SOURCE), encoding="utf-8")
    return by_nvcc(source, folder, f"-arch={arch}", "--Werror", "all-warnings")[1]


TIGHT = [name for name in WORKS if not name.endswith("-float16") and name.split("-")[1] in "23"]
"""Levels with many registers; float16 takes as many as bfloat16."""


@needs_nvcc
@pytest.mark.parametrize("name", [name for name in TIGHT if not name.endswith("float32")])
def test_every_kernel_compiles_for_turing(name: str, tmp_path: Path) -> None:
    assert "registers" in compiled(WORKS[name], "sm_75", tmp_path)


def test_a_pass_that_differs_has_another_text() -> None:
    assert len({text_of(work, tuning_of(work)) for work in WORKS.values()}) == len(WORKS)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_bias_with_gaps_is_refused() -> None:
    with pytest.raises(ArgumentError, match="bias is"):
        post_add_step(
            torch.ones(7, 2, 8), Implementation("sgemm", 1, "strassen"), torch.ones(4, 16), bias=torch.ones(32)[::2]
        )


def test_nothing_in_nothing_out() -> None:
    assert calls.pre_add(torch.ones(0, 16), "left", "strassen", 1).shape == buffer_shape(0, 16, "left", 1)
    assert calls.post_add(torch.ones(7, 0, 8), "strassen", 1, (0, 16)).shape == (0, 16)
    assert not calls.pre_add(torch.ones(3, 0), "left", "winograd", 2).numel()
    made = calls.split_pre_add(torch.ones(3, 0), "left", "winograd", 2)
    assert made.exponents.shape == (49, 1)
