"""The Triton kernels in Triton's interpreter, at odd and prime sizes; compiled without a GPU; and what they refuse."""

import re
from itertools import product
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton has no build for this system")

from interpreter import interpreted_cases, ptx

from brrr.core.errors import UnavailableError
from brrr.kernels import fused, linear_relu, pseudo_linear  # before a lesson's cell may ask for the interpreter
from brrr_course.experiments.pseudo_linear import pseudo_error
from brrr_course.experiments.repeat import TOLERANCE
from tests.refusals import refused

ALLOWED = {
    # errors of each type; how many cases of float32, and of each other; how many special ones
    "pseudo_linear": ({"float32": 1e-6, "bfloat16": 1e-2, "float16": 1e-3}, (10, 5), 8),
    "fused": ({"float32": 1e-6, "bfloat16": 1.5e-2, "float16": 2e-3}, (13, 10), 7),
    "linear_relu": ({"float32": 1e-6, "bfloat16": 1e-2, "float16": 1e-3}, (8, 7), 5),
    # the interpreter cuts a float32 off where a GPU rounds it to the nearest bfloat16: twice the error
    "repeat": ({**TOLERANCE, "bfloat16": 2**-7}, (72, 72), 4),
}


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    """What the kernels gave on fresh random input, in a process that runs them in the interpreter."""
    return interpreted_cases()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("cases", ALLOWED)
def test_every_kernel_at_every_size(interpreted: dict[str, Any], cases: str, dtype: str) -> None:
    allowed, counts, _ = ALLOWED[cases]
    mine = {case: each for case, each in interpreted[cases]["errors"].items() if case.endswith(f" {dtype}")}
    assert len(mine) == counts[dtype != "float32"]
    for case, errors in mine.items():
        for which, error in errors.items():
            assert error <= allowed[dtype], f"{case} {which}: {error}"


@pytest.mark.parametrize("cases", ALLOWED)
def test_the_special_cases(interpreted: dict[str, Any], cases: str) -> None:
    special = interpreted[cases]["special"]
    assert len(special) == ALLOWED[cases][2] and [name for name, fine in special.items() if not fine] == []


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


# --- what they refuse -------------------------------------------------------------------------------------------------


def pseudo(**changed: Any) -> Any:
    given: dict[str, Any] = {"x": torch.randn(3, 4), "w": torch.randn(4), "b": torch.randn(4), **changed}
    return pseudo_linear.pseudo_linear(**given)


def layer(half: bool = False, **changed: Any) -> Any:
    tensors = {"x": torch.ones(2, 3), "w": torch.ones(4, 3), "b": torch.ones(4), "out": torch.ones(2, 4)}
    given = {name: tensor.bfloat16() if half else tensor for name, tensor in tensors.items()}
    return linear_relu.prepared(**{**given, **changed})


@pytest.mark.parametrize(("call", "argument", "value"), [
    (lambda: pseudo(x=torch.randn(3, 4, dtype=torch.float64)), "x", torch.float64),
    (lambda: pseudo(w=[1.0] * 4), "w", "list"), (lambda: pseudo(w=torch.randn(5)), "w", (5,)),
    (lambda: pseudo(b=torch.randn(4, 1)), "b", (4, 1)), (lambda: pseudo(x=torch.tensor(1.0)), "w", (4,)),
    (lambda: pseudo(b=torch.randn(4, device="meta")), "b", "meta"),
    (lambda: fused.softmax([1.0]), "x", "list"),  # type: ignore[arg-type]
    (lambda: fused.softmax(torch.ones(3, dtype=torch.float64)), "x", torch.float64),
    (lambda: fused.softmax(torch.ones(3, 4).t()), "x", "strides (1, 4)"),
    (lambda: layer(x=[1.0]), "x", "list"), (lambda: layer(w=torch.ones(4, 5)), "w", (4, 5)),
    (lambda: layer(b=torch.ones(5)), "w", (4, 3)), (lambda: layer(x=torch.ones(3, 2).t()), "x", "strides (1, 2)"),
    (lambda: layer(w=torch.ones(4, 3, dtype=torch.bfloat16)), "w", torch.bfloat16),
    (lambda: layer(True, tf32=True), "tf32", True),
])  # fmt: skip
def test_what_does_not_fit_is_refused(call: Any, argument: str, value: Any) -> None:
    with refused(argument, value):
        call()


@pytest.mark.parametrize("call", [pseudo, layer, lambda: fused.softmax(torch.randn(3, 4))])
def test_on_the_cpu_they_say_what_is_missing(call: Any) -> None:
    with pytest.raises(UnavailableError, match="needs an NVIDIA GPU"):
        call()


# --- how they cut their work ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 15, 16, 64, 100, 1023, 1024, 1025, 24576, 2**20])
def test_tiles_cover_the_width_and_stay_small(width: int) -> None:
    for rows, columns in (pseudo_linear.tile_of(width), pseudo_linear.backward_tile_of(width)):
        assert 0 < rows * columns <= pseudo_linear.TILE
        assert columns & (columns - 1) == 0
        assert columns >= min(width, 256)
        assert rows * width < 2**31


@pytest.mark.parametrize("width", [1, 5, 64, 1000, 1024, 4097, fused.WIDEST])
def test_a_program_holds_whole_rows(width: int) -> None:
    rows, columns = fused.tile_of(width)
    assert columns >= width and columns & (columns - 1) == 0
    assert rows & (rows - 1) == 0 and rows * columns <= max(fused.TILE, columns)


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize(("batch", "k"), [(1, 1), (2, 128), (16, 100), (17, 4096), (64, 64), (65, 512), (128, 4096)])
def test_tilings_are_what_triton_takes(batch: int, k: int, itemsize: int) -> None:
    found = linear_relu.tilings(batch, k, itemsize)
    assert any(tiling.spread for tiling in found) == (batch <= 16)
    assert not any(tiling.spread for tiling in linear_relu.tilings(batch, k, itemsize, True)), "that is no TF32"
    assert len(set(found)) == len(found) >= 2
    for tiling in found:
        for side in (tiling.rows, tiling.columns, tiling.depth):
            assert side >= (1 if tiling.spread else 16) and side & (side - 1) == 0
        assert not tiling.spread or tiling.rows * tiling.columns * tiling.depth <= 64 * 32 * tiling.warps
        assert linear_relu.stage_bytes(tiling, itemsize) <= 96 * 1024


# --- compiled without a GPU -------------------------------------------------------------------------------------------

PSEUDO: dict[str, dict[str, Any]] = {
    "_forward": {"ROWS": 4, "COLUMNS": 1024},
    "_backward": {"NEED_DX": True, "STEPS": 4, "ROWS": 8, "COLUMNS": 256},
    "_add_parts": {"STEPS": 2, "LINES": 128, "COLUMNS": 16},
}
FUSED: dict[str, dict[str, Any]] = {
    **{name: {"BLOCK": 1024} for name in ("_cos_cos", "_chain")},
    **{name: {"ROWS": 4, "COLUMNS": 1024} for name in ("_bias_relu", "_layer_norm", "_softmax")},
}
SIZES = ("batch", "width", "column_tiles", "parts")
POINTERS = ("*fp32", "*bf16")


def of_pseudo(name: str, sizes: str, pointer: str, architecture: int, aligned: bool = False) -> str:
    """As Triton compiles it at the first call: a size of one is a constant then, and a large batch has 64 bits."""
    kernel = getattr(pseudo_linear, name)
    ones = {size: 1 for size in SIZES if size in kernel.arg_names and sizes == "all one"}
    types = {arg: sizes if arg in SIZES else "*fp32" if "sum" in arg else pointer for arg in kernel.arg_names}
    return ptx(kernel, {**PSEUDO[name], **ones}, types, architecture, aligned=aligned)


def of_fused(name: str, pointer: str, architecture: int) -> str:
    known = {"count": "i32", "rows": "i32", "width": "i32", "scale": "fp32", "eps": "fp32"}
    kernel = getattr(fused, name)
    types = {arg: known.get(arg, pointer) for arg in kernel.arg_names}
    return ptx(kernel, FUSED[name], types, architecture, aligned=True)


def of_layer(pointer: str, precision: str, spread: bool, architecture: int) -> str:
    kernel = linear_relu._linear_relu_spread if spread else linear_relu._linear_relu
    tiling = linear_relu.tilings(16, 256)[-1 if spread else 0]
    known = {
        "ROWS": tiling.rows, "COLUMNS": tiling.columns, "DEPTH": tiling.depth, "STEPS": -1, "EVEN": False,
        **({} if spread else {"PRECISION": precision, "WIDEN": False}),
    }  # fmt: skip
    sizes = dict.fromkeys(("batch", "n", "k", "steps"), "i32")
    types = {arg: sizes.get(arg, pointer) for arg in kernel.arg_names}
    return ptx(kernel, known, types, architecture, num_warps=tiling.warps, num_stages=tiling.stages)


LAYERS = [("*fp32", "ieee", False), ("*fp32", "tf32", False), ("*bf16", "ieee", False), ("*fp32", "ieee", True)]
EACH: list[tuple[Any, tuple[Any, ...]]] = [
    *((of_pseudo, each) for each in product(PSEUDO, ("i32", "i64", "all one"), POINTERS)),
    *((of_fused, each) for each in product(FUSED, POINTERS)), *((of_layer, each) for each in LAYERS),
]  # fmt: skip


@pytest.mark.parametrize("architecture", [75, 90])
@pytest.mark.parametrize(("of", "case"), EACH, ids=lambda each: getattr(each, "__name__", str(each)))
def test_each_kernel_compiles_without_a_gpu(of: Any, case: tuple[Any, ...], architecture: int) -> None:
    text = of(*case, architecture)
    assert f".target sm_{architecture}" in text and "ld.global" in text and "st.global" in text
    if of is of_layer:
        exact = case[:2] == ("*fp32", "ieee")
        assert ("mma.sync" in text or "wgmma" in text) == (not exact and architecture >= 80)


@pytest.mark.parametrize("name", ["_forward", "_backward"])
def test_widths_that_are_multiples_of_sixteen_move_four_numbers_at_a_time(name: str) -> None:
    for aligned in (True, False):
        text = of_pseudo(name, "i32", "*fp32", 90, aligned=aligned)
        assert bool(re.search(r"ld\.global\S*\.v4", text)) is aligned
        assert bool(re.search(r"st\.global\S*\.v4", text)) is aligned
