"""The sweep of products of matrices: some hundred shapes a data type, skinny and odd ones, in both layouts, batched."""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import torch

from brrr.counting.cost import ITEMSIZE, Matmul, OperatorCost
from brrr.gpu import CUDA, free_bytes
from brrr.gpu.precision import float32_products
from brrr.roofline.calibrate.gpu_times import measure_sweep, pool
from brrr.roofline.calibrate.part import Findings
from brrr.roofline.calibrate.reference_calls import MEMORY_SHARE, PRODUCT_COLUMNS, product_again
from brrr.roofline.corrections import ADDED
from brrr.roofline.gemm_families import operator_of

# ---------------------------------------------------------------------------------------------------------------------
# Which products are swept over: drawn from a fixed seed, the same on every machine. Sizes are drawn on a log scale, for
# costs span decades; round ones, powers of two and odd ones all occur, because kernels are chosen by them.

Layout = Literal["nn", "nt", "tn"]
PRODUCTS_SEED, ROUNDS = 1973, 3
COUNTS = {"bfloat16": 760, "float32": 560, "tf32": 420, "float64": 160, "float16": 120}
"""Products by data type; float16 runs on the kernels of bfloat16 but where rows are no multiple of 16 bytes."""
ADDED_EVERY = 4
"""Of so many products one comes with a row added, too."""
LAYERS = {"bfloat16": 320, "float32": 640, "tf32": 160}
"""Layers of networks beside them, by data type: forward with a bias or without, and the gradients of input and weight.

How often each layout, with a row added or without, stands in `IMPLEMENTATIONS`.
"""
IMPLEMENTATIONS: Mapping[tuple[Layout, bool], int] = {
    ("nt", True): 4,
    ("nt", False): 2,
    ("nn", False): 1,
    ("tn", False): 1,
}
MOST_FLOP = {"bfloat16": 2e12, "float16": 2e12, "tf32": 1e12, "float32": 2e11, "float64": 2e11}
MOST_BYTES = 1e9
KINDS = {"power": 3, "round": 3, "even": 3, "odd": 4, "square": 3, "skinny": 4, "vector": 2}


class SweptProduct(NamedTuple):
    """An (m, k) by (k, n) product, `batch` of them; in the layout, "t" is an operand that lies column by column.

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
    def counted(self) -> OperatorCost:
        """As an operator."""
        transposed = self.layout[0] == "t", self.layout[1] == "t"
        made = operator_of(Matmul(self.m, self.n, self.k, self.batch, self.dtype, transposed))
        return replace(made, name=ADDED[0]) if self.added else made

    @property
    def nbytes(self) -> int:
        """Bytes of both operands and the result."""
        elements = self.m * self.k + self.k * self.n + self.m * self.n
        return ITEMSIZE.get(self.dtype, 4) * self.batch * elements  # TF32 is kept as float32


def products(share: float = 1.0, again: int = 0) -> list[SweptProduct]:
    """The products of a sweep, mixed, so that the first of them are like all of them; of each data type a share.

    Others each time that they are drawn `again`.

    >>> len(products()), len(products(0.1))
    (3607, 363)
    """
    draw = random.Random(PRODUCTS_SEED + again)
    found = [_drawn(draw, dtype) for dtype, count in COUNTS.items() for _ in range(round(count * share))]
    found += [each._replace(layout="nt", added=True) for each in found[::ADDED_EVERY] if each.batch == 1]
    found += [_layer(draw, dtype) for dtype, count in LAYERS.items() for _ in range(round(count * share))]
    draw.shuffle(found)
    return found


def _layer(draw: random.Random, dtype: str) -> SweptProduct:
    """A linear layer's product: widths as networks have them, half of the time odd ones; a weight's gradient sums over
    the rows."""
    odd = log_uniform(draw, 16, 4096), log_uniform(draw, 16, 4096)
    widths = (draw.choice((*odd, 2 ** draw.randint(4, 12), 64 * draw.randint(1, 64))) for _ in "nk")
    n, k = widths
    rows = min(log_uniform(draw, 1, 16384), int(MOST_FLOP[dtype] / (2 * n * k)))
    layout, added = draw.choices(list(IMPLEMENTATIONS), list(IMPLEMENTATIONS.values()))[0]
    m, n, k = (n, k, rows) if layout == "tn" else (rows, n, k)
    return SweptProduct(dtype, m, n, k, 1, layout, added)


def _drawn(draw: random.Random, dtype: str) -> SweptProduct:
    while True:
        m, n, k = _sizes(draw, draw.choices(list(KINDS), list(KINDS.values()))[0])
        batch = log_uniform(draw, 2, 64) if draw.random() < 0.1 else 1
        made = SweptProduct(dtype, m, n, k, batch, draw.choice(("nn", "nn", "nt", "tn")))
        if dtype == "float16" and n % 8 == k % 8 == 0:
            continue
        if made.nbytes <= MOST_BYTES and made.flop <= MOST_FLOP[dtype]:
            return made


def _sizes(draw: random.Random, kind: str) -> tuple[int, int, int]:
    if kind == "square":
        side = log_uniform(draw, 16, 12000)
        m = n = k = draw.choice((side, 8 * math.ceil(side / 8), 128 * math.ceil(side / 128)))
        return m, n, k
    sizes = [ONE_SIZE.get(kind, _thick)(draw) for _ in range(3)]
    if kind in ("skinny", "vector"):
        thin = draw.randrange(3 if kind == "skinny" else 2)
        sizes[thin] = log_uniform(draw, 1, 64) if kind == "skinny" else 1
    m, n, k = sizes
    return m, n, k


def log_uniform(draw: random.Random, low: float, high: float) -> int:
    return round(math.exp(draw.uniform(math.log(low), math.log(high))))


def _thick(draw: random.Random) -> int:
    return 8 * log_uniform(draw, 8, 2048)


ONE_SIZE: Mapping[str, Callable[[random.Random], int]] = {
    "power": lambda draw: 2 ** draw.randint(4, 14),
    "round": lambda draw: 64 * log_uniform(draw, 1, 256),
    "even": lambda draw: 8 * log_uniform(draw, 1, 2048),
    "odd": lambda draw: log_uniform(draw, 8, 16384),
}


POOL_BYTES = int(MOST_BYTES * 1.1)


def sweep_every_product(found: Findings, share: float = 1.0) -> None:
    """`sweeps["products"]`: times of products with random operands, hot, in a third of the time that is left."""
    drawn = [each for again in range(ROUNDS) for each in products(share, again)]
    most, share_s = min(POOL_BYTES, free_bytes(CUDA) // MEMORY_SHARE), found.left_s / 3
    for dtype in COUNTS:
        those = [each for each in drawn if each.dtype == dtype and each.nbytes < most]
        values = pool(int(most) + 4096, torch.float32 if dtype == "tf32" else getattr(torch, dtype))
        calls = {str(place): [partial(product_again, each.counted, values)] for place, each in enumerate(those)}
        with float32_products(dtype == "tf32"), torch.no_grad():
            part_s = share_s * len(those) / len(drawn)
            measure_sweep("products", PRODUCT_COLUMNS, calls, part_s, found, "torch.matmul")
