"""The split's Triton kernels: in the interpreter against the reference, and compiled for sm_90 without a GPU."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton has no build for this system")

from interpreter import interpreted_cases

from brrr.core.errors import UnavailableError
from brrr.strassen.split import triton as kernels
from brrr.strassen.split.splitting import split, split_product

TOLERANCE = 5e-7
"""Of each entry, relative to the lengths of its row and column: about eight roundings of float32."""


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    return interpreted_cases("strassen_split_cases.py")


def test_products_of_any_shape_and_scale(interpreted: dict[str, Any]) -> None:
    assert len(interpreted["errors"]) == 7
    for shape, found in interpreted["errors"].items():
        assert found["pointers"] <= TOLERANCE, f"{shape}: {found}"
        assert found["maps"] <= TOLERANCE, f"{shape}: {found}"


def test_splits_are_the_reference_s_bit_by_bit(interpreted: dict[str, Any]) -> None:
    for shape, found in interpreted["errors"].items():
        assert not found["rows differ"] and not found["columns differ"], shape


def test_the_special_cases(interpreted: dict[str, Any]) -> None:
    assert len(interpreted["special"]) == 14
    assert [name for name, fine in interpreted["special"].items() if not fine] == []


def test_on_the_cpu_it_says_what_is_missing() -> None:
    with pytest.raises(UnavailableError, match="needs an NVIDIA GPU"):
        split(torch.randn(3, 4), how="triton")
    terms = split(torch.randn(3, 4))
    with pytest.raises(UnavailableError, match="needs an NVIDIA GPU"):
        split_product(terms, terms, how="triton")


@pytest.mark.slow
@pytest.mark.parametrize("maps", [False, True])
def test_the_product_runs_on_the_tensor_cores_and_keeps_its_sums_in_registers(maps: bool) -> None:
    made = compiled(kernels.Tiling(maps=maps))
    text = made.asm["ptx"]
    assert len(re.findall(r"wgmma\.mma_async", text)) == 12, "three products of four steps of 16"
    assert bool(re.search(r"cp\.async\.bulk\.tensor", text)) is maps
    assert made.metadata.shared <= 232448
    assert " st.local" not in text and " ld.local" not in text


def compiled(tiling: kernels.Tiling) -> Any:
    """The product's kernel for sm_90."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel: Any = kernels._product
    constants: dict[str, Any] = {"ROWS": tiling.rows, "COLUMNS": tiling.columns, "DEPTH": tiling.depth, "STEPS": -1}
    constants |= {"GROUP": tiling.group, "EVEN": True, "MAPS": tiling.maps}
    sides = {"left": tiling.rows, "right": tiling.columns}
    types = dict.fromkeys(kernel.arg_names, "i32") | dict.fromkeys(constants, "constexpr") | {"out": "*fp32"}
    for side, high in sides.items():
        term = f"tensordesc<fp16[{high}, {tiling.depth}]>" if tiling.maps else "*fp16"
        types |= {f"{side}_hi": term, f"{side}_lo": term, f"{side}_exponents": "*i32"}
    places = {name: (kernel.arg_names.index(name),) for name in kernel.arg_names}
    whole = [name for name in places if types[name] in ("i32", "*fp16", "*fp32", "*i32") and name not in ("m", "steps")]
    attributes = {places[name]: [["tt.divisibility", 16]] for name in whole}
    source = ASTSource(kernel, types, {places[name]: value for name, value in constants.items()}, attributes)
    options = {"num_warps": tiling.warps, "num_stages": tiling.stages}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
