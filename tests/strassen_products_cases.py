"""Runs the kernel of `sgemm_triton.py` in Triton's interpreter and prints its errors, for `test_strassen_products.py`.

A process of its own, for the interpreter must be chosen before Triton is loaded.
"""

from __future__ import annotations

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from brrr.strassen.gemm.sgemm_triton import TILINGS, Tiling, launch, multiply

SHAPES = ((1, 1, 1, 1), (3, 5, 7, 3), (2, 33, 65, 70), (7, 40, 24, 16), (1, 130, 70, 33))
"""Products, m, n, k."""


def operands(products: int, m: int, n: int, k: int, transposed: bool) -> tuple[torch.Tensor, torch.Tensor]:
    right = (products, n, k) if transposed else (products, k, n)
    return torch.randn(products, m, k), torch.randn(right)


def error(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, transposed: bool) -> float:
    """||out - wanted|| / ||wanted|| in float64."""
    wanted = left.double() @ (right.double().mT if transposed else right.double())
    return float(torch.linalg.norm(out.double() - wanted) / torch.linalg.norm(wanted))


def shapes() -> float:
    worst = 0.0
    for shape in SHAPES:
        for transposed in (False, True):
            left, right = operands(*shape, transposed)
            out = torch.full(shape[:3], float("nan"))
            multiply(left, right, out, right_transposed=transposed)
            worst = max(worst, error(left, right, out, transposed))
    return worst


def tilings() -> float:
    worst = 0.0
    for tiling in (*TILINGS, Tiling(16, 16, 16, 4, 2, group=2)):
        left, right = operands(2, 70, 90, 20, True)
        out = torch.full((2, 70, 90), float("nan"))
        launch(left, right, out, tiling, True)()
        worst = max(worst, error(left, right, out, True))
    return worst


def special_cases() -> dict[str, bool]:
    left, right = operands(2, 5, 6, 9, True)
    left[1, 3, 4] = float("nan")
    spoilt = multiply(left, right, torch.zeros(2, 5, 6), right_transposed=True).isnan()
    nothing = multiply(torch.ones(2, 5, 0), torch.ones(2, 0, 6), torch.ones(2, 5, 6), right_transposed=False)
    empty = multiply(torch.ones(0, 5, 3), torch.ones(0, 3, 6), torch.ones(0, 5, 6), right_transposed=False)
    return {
        "a NaN spoils its row": bool(spoilt[1, 3].all()) and int(spoilt.sum()) == 6,
        "an empty sum is zero": bool((nothing == 0).all()),
        "no products": empty.numel() == 0,
    }


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]))
    print(json.dumps({"shapes": shapes(), "tilings": tilings(), "special": special_cases()}))
