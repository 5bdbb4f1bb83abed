"""Which products and which operators a calibration sweeps over: drawn once from fixed seeds, the same on every machine.

Sizes are drawn on a log scale, for costs span decades; round ones, powers of two and odd ones all occur, because
kernels are chosen by them.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Literal

PRODUCTS_SEED, OPERATORS_SEED = 1973, 2026
COUNTS = {"bfloat16": 760, "float32": 560, "tf32": 420, "float64": 160, "float16": 120}
"""Products by data type; float16 runs on the kernels of bfloat16 but where rows are no multiple of 16 bytes."""
MOST_FLOP = {"bfloat16": 2e12, "float16": 2e12, "tf32": 1e12, "float32": 2e11, "float64": 2e11}
MOST_BYTES = 1e9
ITEMSIZE = {"bfloat16": 2, "float16": 2, "float32": 4, "tf32": 4, "float64": 8}
KINDS = {"power": 3, "round": 3, "even": 3, "odd": 4, "square": 3, "skinny": 4, "vector": 2}

Layout = Literal["nn", "nt"]


@dataclass(frozen=True)
class Product:
    """An (m, k) by (k, n) product, `batch` of them; with layout "nt" the second operand lies column by column."""

    dtype: str
    m: int
    n: int
    k: int
    batch: int
    layout: Layout

    @property
    def flop(self) -> float:
        """2mnk for each of the batch."""
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def nbytes(self) -> int:
        """Bytes of both operands and the result."""
        elements = self.m * self.k + self.k * self.n + self.m * self.n
        return ITEMSIZE[self.dtype] * self.batch * elements


def products(share: float = 1.0) -> list[Product]:
    """The products of a sweep, mixed, so that the first of them are like all of them; of each data type a share.

    >>> len(products()), len(products(0.1))
    (2020, 202)
    """
    draw = random.Random(PRODUCTS_SEED)
    found = [_drawn(draw, dtype) for dtype, count in COUNTS.items() for _ in range(round(count * share))]
    draw.shuffle(found)
    return found


def _drawn(draw: random.Random, dtype: str) -> Product:
    while True:
        m, n, k = _sizes(draw, draw.choices(list(KINDS), list(KINDS.values()))[0])
        batch = _log_uniform(draw, 2, 64) if draw.random() < 0.1 else 1
        made = Product(dtype, m, n, k, batch, draw.choice(("nn", "nn", "nt")))
        if dtype == "float16" and n % 8 == k % 8 == 0:
            continue
        if made.nbytes <= MOST_BYTES and made.flop <= MOST_FLOP[dtype]:
            return made


def _sizes(draw: random.Random, kind: str) -> tuple[int, int, int]:
    if kind == "power":
        sizes = [2 ** draw.randint(4, 14) for _ in range(3)]
    elif kind == "round":
        sizes = [64 * _log_uniform(draw, 1, 256) for _ in range(3)]
    elif kind == "even":
        sizes = [8 * _log_uniform(draw, 1, 2048) for _ in range(3)]
    elif kind == "odd":
        sizes = [_log_uniform(draw, 8, 16384) for _ in range(3)]
    elif kind == "square":
        side = _log_uniform(draw, 16, 12000)
        sizes = [draw.choice((side, 8 * math.ceil(side / 8), 128 * math.ceil(side / 128)))] * 3
    else:
        sizes = [8 * _log_uniform(draw, 8, 2048) for _ in range(3)]
        thin = draw.randrange(3 if kind == "skinny" else 2)
        sizes[thin] = _log_uniform(draw, 1, 64) if kind == "skinny" else 1
    return sizes[0], sizes[1], sizes[2]


def _log_uniform(draw: random.Random, low: float, high: float) -> int:
    return round(math.exp(draw.uniform(math.log(low), math.log(high))))


def matrices(count: int, most_bytes: float, itemsize: int, seed: str) -> list[tuple[int, int]]:
    """Rows and columns of tensors from 1 KB to `most_bytes`, one from each of so many equal parts of that range.

    >>> [rows * columns * 4 <= 1.1e6 for rows, columns in matrices(3, 1e6, 4, "sum")]
    [True, True, True]
    """
    draw, found = random.Random(f"{OPERATORS_SEED} {seed}"), []
    decades = math.log(most_bytes / 1e3)
    for place in range(count):
        elements = 1e3 * math.exp(decades * (place + draw.random()) / count) / itemsize
        columns = draw.choice((_log_uniform(draw, 8, 16384), 2 ** draw.randint(4, 13), 64 * draw.randint(1, 64)))
        columns = max(2, min(columns, int(elements / 2)))
        found.append((max(2, int(elements / columns)), columns))
    return found
