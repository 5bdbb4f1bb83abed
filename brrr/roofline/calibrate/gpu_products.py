"""The sweep of products of matrices: some hundred shapes a data type, skinny and odd ones, in both layouts, batched."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from brrr.gpu.precision import precision_of
from brrr.roofline.calibrate import part as checks
from brrr.roofline.calibrate.gpu_sweep import Row, measure_sweep, pool, taken
from brrr.roofline.calibrate.matrix import LIMITS
from brrr.roofline.calibrate.part import Findings
from brrr.roofline.calibrate.sweep_shapes import COUNTS, MOST_BYTES, Product, products
from brrr.roofline.peaks.peak import Sweep
from brrr.roofline.peaks.peaks import short

COLUMNS = ("dtype", "m", "n", "k", "batch", "layout")
SHARE_S = 9.0
QUICK_SHARE, QUICK_S = 0.02, 0.3
POOL_BYTES = int(MOST_BYTES * 1.1)
MEMORY_SHARE = 16
"""A sixteenth of the free memory at most is one product, since its check takes float64 copies."""


def sweep_products(found: Findings) -> None:
    """`sweeps["products"]`: times of products with random operands, hot, as torch.matmul runs them."""
    free, _ = torch.cuda.mem_get_info()
    share_s = QUICK_S if found.quick else min(SHARE_S, found.left_s / 2)
    drawn = [each for each in products(QUICK_SHARE if found.quick else 1.0) if each.nbytes <= free // MEMORY_SHARE]
    parts = []
    for dtype in COUNTS:
        calls = [each for each in drawn if each.dtype == dtype]
        _one_type(dtype, calls, share_s * len(calls) / max(1, len(drawn)), found)
        parts.append(found.sweeps.pop(dtype, None))
    _join(found, [each for each in parts if each is not None])
    torch.cuda.empty_cache()


def _one_type(dtype: str, drawn: list[Product], share_s: float, found: Findings) -> None:
    """The products of one data type, in a sweep of its name."""
    most = max((each.nbytes for each in drawn), default=0)
    if not most:
        return
    kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
    values = pool(min(POOL_BYTES, most + 4096), kind)
    with precision_of(short(dtype)), torch.no_grad():
        measure_sweep(dtype, COLUMNS, [partial(_made, each, values) for each in drawn], share_s, found, "torch.matmul")


def _join(found: Findings, parts: list[Sweep]) -> None:
    """One sweep of all data types."""
    if parts:
        rows = tuple(row for part in parts for row in part.rows)
        seconds = tuple(time_s for part in parts for time_s in part.seconds)
        found.sweeps["products"] = Sweep(COLUMNS, rows, seconds, parts[0].conditions)


def _made(each: Product, values: torch.Tensor) -> tuple[Row, Callable[[], torch.Tensor]]:
    several = (each.batch,) if each.batch > 1 else ()
    x = taken(values, (*several, each.m, each.k))
    if each.layout == "nn":
        y = taken(values, (*several, each.k, each.n), end=True)
    else:
        y = taken(values, (*several, each.n, each.k), end=True).mT
    check(x @ y, x, y, LIMITS[short(each.dtype)], str(each))
    return (each.dtype, each.m, each.n, each.k, each.batch, each.layout), lambda: x @ y


def check(product: torch.Tensor, x: torch.Tensor, y: torch.Tensor, limit: float, what: str) -> None:
    """Freivalds' check: the product times a random vector of signs is x times (y times it), in float64.

    The error is relative to the product's Frobenius norm, which is the expected norm of its product with the signs.

    R. Freivalds, Probabilistic machines can use less running time, IFIP Congress 1977.
    """
    signs = torch.randint(0, 2, (y.shape[-1],), device=y.device).double() * 2 - 1
    expected = (x.double() @ (y.double() @ signs).unsqueeze(-1)).squeeze(-1)
    found = product.double()
    error = (found @ signs - expected).norm() / found.norm().clamp(min=1e-300)
    checks.require(bool(error <= 2 * limit), f"{what} (relative error {float(error):.2g})")
