"""Runs the split's Triton kernels in the interpreter and prints what they gave, for `test_strassen_split_triton.py`.

A process of its own, for the interpreter must be chosen before Triton is loaded.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import torch

from brrr.strassen.split import triton as kernels
from brrr.strassen.split.splits import Terms
from brrr.strassen.split.splitting import prepared_product, split, split_product

SHAPES = (
    (1, 1, 1, 1),
    (1, 3, 5, 7),
    (2, 33, 31, 65),
    (1, 64, 64, 64),
    (3, 17, 40, 130),
    (1, 130, 70, 24),
    (2, 1, 9, 200),
)
SMALL = kernels.Tiling(rows=32, columns=32, depth=32, warps=4, stages=2, group=2)
MAPS = kernels.Tiling(rows=16, columns=32, depth=32, warps=4, stages=2, maps=True)


def same(one: Terms, other: Terms) -> bool:
    pairs = ((one.hi, other.hi), (one.lo, other.lo), (one.exponents, other.exponents))
    return all(
        torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) and torch.equal(a.isnan(), b.isnan()) for a, b in pairs
    )


def inputs(batch: int, rows: int, k: int) -> torch.Tensor:
    """Normal numbers, rows of very different size."""
    return torch.randn(batch, rows, k) * torch.exp2(torch.randint(-60, 60, (batch, rows, 1)).float())


def errors(batch: int, m: int, n: int, k: int) -> dict[str, float]:
    """The relative error of each row of the product, at worst, and what the splits differ by from the reference."""
    a, w = inputs(batch, m, k), inputs(batch, n, k)
    left, right = split(a, how="triton"), split(w, how="triton")
    by_columns = split(w.transpose(1, 2).contiguous(), how="triton", transposed=True)
    expected = a.double() @ w.double().transpose(1, 2)
    sizes = a.double().norm(dim=2)[:, :, None] * w.double().norm(dim=2)[:, None, :]
    found = {
        name: float((((split_product(left, right, how="triton", tiling=tiling) - expected) / sizes).abs()).max())
        for name, tiling in (("pointers", SMALL), ("maps", MAPS))
    }
    found["rows differ"] = float(not same(left, split(a, how="torch")))
    found["columns differ"] = float(not same(by_columns, split(w, how="torch")))
    return found


def special() -> dict[str, bool]:
    """Infinity, NaN, zeros, subnormal and huge numbers; given exponents; room behind the end; strides."""
    hard = torch.randn(9, 40)
    hard[0, 3], hard[1, 5], hard[2, 7] = float("inf"), float("nan"), -float("inf")
    hard[3] = 0
    hard[4] *= 2.0**-140
    hard[5] *= 2.0**118
    hard[6, ::2] *= 2.0**-30
    checks: dict[str, bool] = {}
    for scale in ("row", "matrix", "none"):
        checks[f"hard rows, {scale}"] = same(
            split(hard, how="triton", scale=scale), split(hard, how="torch", scale=scale)
        )
        columns = split(hard.T.contiguous(), how="triton", scale=scale, transposed=True)
        checks[f"hard columns, {scale}"] = same(columns, split(hard, how="torch", scale=scale))
    good = torch.randn(6, 40)
    product = split_product(split(hard, how="triton"), split(good, how="triton"), how="triton", tiling=SMALL)
    checks["rows with inf or NaN are not finite"] = not product[:3].isfinite().any()
    checks["a row of zeros"] = bool((product[3] == 0).all())
    checks["other rows are finite"] = bool(product[3:].isfinite().all())
    room = torch.full((6 * 6 + 50,), float("nan"))
    out = room[:36].view(6, 6)
    split_product(split(good, how="triton"), split(good, how="triton"), out, how="triton", tiling=SMALL)
    checks["nothing is written behind the end"] = bool(room[36:].isnan().all() and out.isfinite().all())
    wide = torch.full((6, 10), float("nan"))
    split_product(split(good, how="triton"), split(good, how="triton"), wide[:, 2:8], how="triton", tiling=SMALL)
    checks["a result with gaps"] = torch.equal(wide[:, 2:8], out) and bool(wide[:, :2].isnan().all())
    strided = torch.randn(40, 3, 5).permute(1, 2, 0)[:, :, ::2]
    checks["any strides"] = same(split(strided, how="triton"), split(strided.contiguous(), how="torch"))
    checks["exponents of stride 0, read at each launch"] = shared_exponents(good)
    kernels.WIDEST = 64
    long = torch.randn(3, 200)
    long[1, 190] = 1e6
    checks["rows longer than a program holds"] = same(split(long, how="triton"), split(long, how="torch"))
    return checks


def shared_exponents(x: torch.Tensor) -> bool:
    """One exponent a row for a whole batch, as sums of blocks have it; changed after the launch was made ready."""
    hi, lo = (each.expand(2, -1, -1).contiguous() for each in (split(x).hi, split(x).lo))
    terms = Terms(hi, lo, torch.zeros(len(x), dtype=torch.int32).expand(2, -1), x.shape[1], False)
    out = torch.empty(2, len(x), len(x))
    launch = prepared_product(terms, terms, out, how="triton", tiling=SMALL)
    terms.exponents[0].copy_(split(x).exponents[0])
    launch()
    return torch.allclose(out, (x @ x.T).expand(2, -1, -1), atol=1e-4)


def main() -> None:
    """All cases as JSON."""
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    found: dict[str, Any] = {"errors": {"x".join(map(str, shape)): errors(*shape) for shape in SHAPES}}
    json.dump({**found, "special": special()}, sys.stdout)


if __name__ == "__main__":
    main()
