"""The sweep of products of matrices: some hundred shapes a data type, skinny and odd ones, in both layouts, batched."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch

from brrr.gpu.precision import float32_products
from brrr.roofline.calibrate import part as checks
from brrr.roofline.calibrate.gpu_times import Row, measure_sweep, pool, taken
from brrr.roofline.calibrate.part import LIMITS, Findings
from brrr.roofline.peak import Sweep
from brrr.roofline.peaks import short

# ---------------------------------------------------------------------------------------------------------------------
# Which products are swept over: drawn from a fixed seed, the same on every machine. Sizes are drawn on a log scale, for
# costs span decades; round ones, powers of two and odd ones all occur, because kernels are chosen by them.

PRODUCTS_SEED = 1973
COUNTS = {"bfloat16": 760, "float32": 560, "tf32": 420, "float64": 160, "float16": 120}
"""Products by data type; float16 runs on the kernels of bfloat16 but where rows are no multiple of 16 bytes."""
ADDED_EVERY = 4
"""Of so many products one comes with a row added, too."""
LAYERS = {"bfloat16": 320, "float32": 640, "tf32": 160}
"""Layers of networks beside them, by data type: products of few rows, with a bias."""
MOST_FLOP = {"bfloat16": 2e12, "float16": 2e12, "tf32": 1e12, "float32": 2e11, "float64": 2e11}
MOST_BYTES = 1e9
ITEMSIZE = {"bfloat16": 2, "float16": 2, "float32": 4, "tf32": 4, "float64": 8}
KINDS = {"power": 3, "round": 3, "even": 3, "odd": 4, "square": 3, "skinny": 4, "vector": 2}

Layout = Literal["nn", "nt"]


@dataclass(frozen=True)
class SweptProduct:
    """An (m, k) by (k, n) product, `batch` of them; with layout "nt" the second operand lies column by column.

    `added`: a row is added to it in the same call (`addmm`, as a linear layer with a bias does).
    """

    dtype: str
    m: int
    n: int
    k: int
    batch: int
    layout: Layout
    added: bool = False

    @property
    def flop(self) -> float:
        """2mnk for each of the batch."""
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def nbytes(self) -> int:
        """Bytes of both operands and the result."""
        elements = self.m * self.k + self.k * self.n + self.m * self.n
        return ITEMSIZE[self.dtype] * self.batch * elements


def products(share: float = 1.0) -> list[SweptProduct]:
    """The products of a sweep, mixed, so that the first of them are like all of them; of each data type a share.

    >>> len(products()), len(products(0.1))
    (3165, 317)
    """
    draw = random.Random(PRODUCTS_SEED)
    found = [_drawn(draw, dtype) for dtype, count in COUNTS.items() for _ in range(round(count * share))]
    found += [replace(each, layout="nt", added=True) for each in found[::ADDED_EVERY] if each.batch == 1]
    found += [_layer(draw, dtype) for dtype, count in LAYERS.items() for _ in range(round(count * share))]
    draw.shuffle(found)
    return found


def _layer(draw: random.Random, dtype: str) -> SweptProduct:
    """A linear layer's product: few rows, and widths as networks have them, half of the time odd ones."""
    odd = log_uniform(draw, 16, 4096), log_uniform(draw, 16, 4096)
    widths = (draw.choice((*odd, 2 ** draw.randint(4, 12), 64 * draw.randint(1, 64))) for _ in "nk")
    n, k = widths
    return SweptProduct(dtype, log_uniform(draw, 1, 1024), n, k, 1, "nt", added=True)


def _drawn(draw: random.Random, dtype: str) -> SweptProduct:
    while True:
        m, n, k = _sizes(draw, draw.choices(list(KINDS), list(KINDS.values()))[0])
        batch = log_uniform(draw, 2, 64) if draw.random() < 0.1 else 1
        made = SweptProduct(dtype, m, n, k, batch, draw.choice(("nn", "nn", "nt")))
        if dtype == "float16" and n % 8 == k % 8 == 0:
            continue
        if made.nbytes <= MOST_BYTES and made.flop <= MOST_FLOP[dtype]:
            return made


def _sizes(draw: random.Random, kind: str) -> tuple[int, int, int]:
    if kind == "power":
        sizes = [2 ** draw.randint(4, 14) for _ in range(3)]
    elif kind == "round":
        sizes = [64 * log_uniform(draw, 1, 256) for _ in range(3)]
    elif kind == "even":
        sizes = [8 * log_uniform(draw, 1, 2048) for _ in range(3)]
    elif kind == "odd":
        sizes = [log_uniform(draw, 8, 16384) for _ in range(3)]
    elif kind == "square":
        side = log_uniform(draw, 16, 12000)
        sizes = [draw.choice((side, 8 * math.ceil(side / 8), 128 * math.ceil(side / 128)))] * 3
    else:
        sizes = [8 * log_uniform(draw, 8, 2048) for _ in range(3)]
        thin = draw.randrange(3 if kind == "skinny" else 2)
        sizes[thin] = log_uniform(draw, 1, 64) if kind == "skinny" else 1
    return sizes[0], sizes[1], sizes[2]


def log_uniform(draw: random.Random, low: float, high: float) -> int:
    return round(math.exp(draw.uniform(math.log(low), math.log(high))))


COLUMNS = ("dtype", "m", "n", "k", "batch", "layout", "added")
SHARE_S = 45.0
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


def _one_type(dtype: str, drawn: list[SweptProduct], share_s: float, found: Findings) -> None:
    """The products of one data type, in a sweep of its name."""
    most = max((each.nbytes for each in drawn), default=0)
    if not most:
        return
    kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
    values = pool(min(POOL_BYTES, most + 4096), kind)
    with float32_products(dtype == "tf32"), torch.no_grad():
        measure_sweep(dtype, COLUMNS, [partial(_made, each, values) for each in drawn], share_s, found, "torch.matmul")


def _join(found: Findings, parts: list[Sweep]) -> None:
    """One sweep of all data types."""
    if parts:
        rows = tuple(row for part in parts for row in part.rows)
        seconds = tuple(time_s for part in parts for time_s in part.seconds)
        found.sweeps["products"] = Sweep(COLUMNS, rows, seconds, parts[0].conditions)


def _made(each: SweptProduct, values: torch.Tensor) -> tuple[Row, Callable[[], torch.Tensor]]:
    several = (each.batch,) if each.batch > 1 else ()
    x = taken(values, (*several, each.m, each.k))
    if each.layout == "nn":
        y = taken(values, (*several, each.k, each.n), end=True)
    else:
        y = taken(values, (*several, each.n, each.k), end=True).mT
    row: Row = (each.dtype, each.m, each.n, each.k, each.batch, each.layout, int(each.added))
    above = taken(values, (each.n,))
    call = partial(torch.addmm, above, x, y) if each.added else partial(torch.matmul, x, y)
    check(call() - above if each.added else call(), x, y, LIMITS[short(each.dtype)], str(each))
    return row, call


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
