"""The cases of the `prediction` experiment: streams, products of matrices and chains, by readable names.

They are drawn once from fixed seeds, over wide ranges and with odd and prime sizes among them, and no figure of any
peak was fitted to them. A case is a description; `calls` makes the call of it.

Twins of a case differ from it in bytes only, or nearly only in FLOP, so that what limits it can be found out by an
intervention: see `twin`.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

Kind = Literal["stream", "product", "chain"]
KINDS: tuple[Kind, ...] = ("stream", "product", "chain")
ITEMSIZE = {"float64": 8, "float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2}

POINTWISE = ("copy", "relu", "exp", "gelu", "silu", "tanh", "scale", "add", "add_row", "where", "cast", "transpose")
REDUCTIONS = ("sum", "norm", "sum_rows", "mean_rows", "max_rows", "var_rows", "sum_columns")
NORMS = ("layer_norm", "rms_norm", "batch_norm")
SOFTMAXES = ("softmax", "log_softmax", "softmax_columns")
STREAMS = (*POINTWISE, *REDUCTIONS, *NORMS, *SOFTMAXES)
ARRAYS = {"add": 3, "where": 3, **dict.fromkeys(REDUCTIONS, 1)}
"""How many arrays of the full size an operator moves; two where nothing is said."""

LEAST_BYTES, MOST_BYTES = 1e3, 1e9
STRATA = 8
"""Sizes are drawn one from each of so many equal parts of the range, on a log scale."""

PRODUCTS = 528
SPLIT = 4
"""A product's twin in bytes is so many products, each with an operand of its own."""

MIXES = ("pointwise", "in_place", "norms", "mlp", "products", "views")
LENGTHS = (2, 3, 5, 8, 13, 24, 60, 110, 200)
COMPILED_MOST = 80
"""Longer chains are not compiled: it takes long, and shows nothing new."""


@dataclass(frozen=True, slots=True)
class Case:
    """One piece of work: `what` is the operator of a stream, the layout of a product, or the mix of a chain.

    `sizes` are rows and columns, of a product batch, m, n and k; `length` counts a chain's operators.
    """

    kind: Kind
    what: str
    sizes: tuple[int, ...]
    dtype: str
    length: int = 1

    @property
    def name(self) -> str:
        """As the axis and the table show it.

        >>> Case("product", "nt", (1, 8, 4096, 11008), "bfloat16").name
        'matmul 8x4096x11008 bfloat16 nt'
        """
        size = "x".join(map(str, self.sizes[-3:]))
        if self.kind == "product":
            several = f"{self.sizes[0]} of " if self.sizes[0] > 1 else ""
            return f"matmul {several}{size} {self.dtype} {self.what}"
        chain = f"chain of {self.length} " if self.kind == "chain" else ""
        return f"{chain}{self.what} {size} {self.dtype}"

    @property
    def nbytes(self) -> float:
        """Bytes of a stream's or a chain's operators one by one, about; of a product exactly."""
        size = ITEMSIZE[self.dtype]
        if self.kind == "product":
            batch, m, n, k = self.sizes
            return float(size * batch * (m * k + k * n + m * n))
        arrays = ARRAYS.get(self.what, 2) if self.kind == "stream" else 2 * self.length
        return float(size * math.prod(self.sizes) * arrays)

    @property
    def flop(self) -> float:
        """FLOP, about; of a product exactly."""
        if self.kind == "product":
            return 2.0 * math.prod(self.sizes)
        rows, columns = self.sizes
        heavy = self.kind == "chain" and self.what in ("mlp", "products")
        return float(rows * columns * self.length) * (2.0 * columns / 3 if heavy else 1.0)


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """All cases, streams first, then products, then chains; no name twice.

    >>> len(cases()) > 700, cases()[0].kind, cases()[-1].kind
    (True, 'stream', 'chain')
    """
    return tuple(dict.fromkeys((*_streams(), *_products(), *_chains())))


@lru_cache(maxsize=1)
def by_name() -> dict[str, Case]:
    """From each name to its case."""
    return {case.name: case for case in cases()}


def case(name: object) -> Case:
    """The case of that name; KeyError for any other."""
    return by_name()[str(name)]


# ---- what is drawn ----


def _log_uniform(draw: random.Random, low: float, high: float) -> int:
    return round(math.exp(draw.uniform(math.log(low), math.log(high))))


def _prime_from(number: int) -> int:
    """The next prime.

    >>> _prime_from(90)
    97
    """
    number = max(2, number)
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


def _streams() -> Iterator[Case]:
    """Every operator at STRATA sizes over the whole range, in the two types that matter most."""
    draw = random.Random("streams of brrr's prediction experiment")
    ratio = (MOST_BYTES / LEAST_BYTES) ** (1 / STRATA)
    for place, operator in enumerate(STREAMS):
        for stratum in range(STRATA):
            dtype = ("float32", "bfloat16")[(place + stratum) % 2]
            low = LEAST_BYTES * ratio**stratum
            numbers = _log_uniform(draw, low, low * ratio) / ITEMSIZE[dtype] / ARRAYS.get(operator, 2)
            yield Case("stream", operator, _rows_and_columns(draw, numbers), dtype)


def _rows_and_columns(draw: random.Random, numbers: float) -> tuple[int, int]:
    """So many numbers, or nearly, as a matrix: its columns any number, a prime, a power of two, or a usual width."""
    most = max(2, int(numbers / 2))
    free = _log_uniform(draw, 2, min(most, 20000))
    columns = draw.choice([free, free, _prime_from(free), 2 ** draw.randint(4, 14), draw.choice((768, 1000, 4096))])
    columns = max(2, min(columns, most))
    return max(2, round(numbers / columns)), columns


def _products() -> Iterator[Case]:
    draw = random.Random("products of brrr's prediction experiment")
    found: set[str] = set()
    while len(found) < PRODUCTS:
        dtype = draw.choices(("bfloat16", "float16", "float32", "tf32", "float64"), (10, 3, 3, 3, 1))[0]
        batch = 1 if draw.random() < 0.88 else _log_uniform(draw, 2, 100)
        made = Case("product", draw.choice(("nn", "nt")), (batch, *_mnk(draw)), dtype)
        if made.name not in found and _in_bounds(made):
            found.add(made.name)
            yield made


def _in_bounds(made: Case) -> bool:
    most_flop = 1e11 if made.dtype in ("float32", "float64") else 1.5e12
    return 2e3 <= made.nbytes <= 1e9 and made.flop <= most_flop


WIDTHS = ((512, 2048), (768, 3072), (1024, 4096), (2048, 5632), (4096, 11008), (5120, 13824), (8192, 28672))
"""A network's width and that of its inner layers."""


def _mnk(draw: random.Random) -> tuple[int, ...]:
    """Sizes of a product: powers of two, multiples, any, odd, square, skinny, of a network's layer, with a vector."""
    kind = draw.choices(("powers", "multiples", "any", "odd", "square", "skinny", "layer", "vector"),
                        (3, 3, 3, 3, 2, 4, 4, 2))[0]  # fmt: skip
    if kind == "powers":
        return tuple(2 ** draw.randint(4, 14) for _ in range(3))
    if kind == "multiples":
        step = draw.choice((8, 64))
        return tuple(step * _log_uniform(draw, 1, 12000 / step) for _ in range(3))
    if kind in ("any", "odd"):
        sizes = [_log_uniform(draw, 16, 10000) for _ in range(3)]
        return tuple(size | 1 for size in sizes) if kind == "odd" else tuple(sizes)
    if kind == "square":
        size = _log_uniform(draw, 16, 9000)
        return (draw.choice((size, _prime_from(size), 64 * math.ceil(size / 64))),) * 3
    if kind == "layer":
        width, inner = draw.choice(WIDTHS)
        n, k = draw.choice(((width, width), (inner, width), (width, inner), (3 * width, width)))
        return draw.choice((_log_uniform(draw, 1, 8192), 2 ** draw.randint(0, 13))), n, k
    sizes = [8 * _log_uniform(draw, 8, 2500) for _ in range(3)]
    if kind == "skinny":
        sizes[draw.randrange(3)] = _log_uniform(draw, 2, 64)
    else:
        sizes[draw.randrange(2)] = 1
    return tuple(sizes)


def _chains() -> Iterator[Case]:
    """Each mix at each length, on small and on large matrices in turn, so that the host limits some of them."""
    draw = random.Random("chains of brrr's prediction experiment")
    for place, mix in enumerate(MIXES):
        for turn, length in enumerate(LENGTHS):
            columns = draw.choice((64, 100, 257, 512, 768, 1000, 1024, 2048))
            large = (place + turn) % 2 == 1
            numbers = _log_uniform(draw, 3e6, 3e7) if large else _log_uniform(draw, 1e3, 1e6)
            most = 1e11 / columns if mix in ("mlp", "products") else 1.5e9
            numbers = min(numbers, int(most / length))  # no call above about 5 ms
            dtype = draw.choice(("float32", "float32", "bfloat16"))
            yield Case("chain", mix, (max(1, numbers // columns), columns), dtype, length)


# ---- interventions ----


@lru_cache(maxsize=1)
def intervened() -> frozenset[str]:
    """The cases whose bound is found out by intervention: all chains, every fourth stream, every sixth product."""
    streams = [each.name for each in cases() if each.kind == "stream"][1::4]
    products = [each.name for each in cases() if each.kind == "product"][::6]
    return frozenset((*streams, *products, *(each.name for each in cases() if each.kind == "chain")))


@lru_cache(maxsize=1)
def to_compile() -> frozenset[str]:
    """Two chains of each mix, of different lengths, up to COMPILED_MOST operators."""
    lengths = {"pointwise": (5, 60), "in_place": (8, 24), "norms": (3, 13), "mlp": (5, 24), "products": (8, 13),
               "views": (13, 24)}  # fmt: skip
    return frozenset(c.name for c in cases() if c.kind == "chain" and c.length in lengths[c.what])


def twin(made: Case, changed: Literal["bytes", "flop"]) -> Case | None:
    """The case with only its bytes changed, or its FLOP and hardly its bytes; None where there is no clean one.

    >>> twin(Case("stream", "relu", (64, 64), "float32"), "bytes").name
    'relu 64x64 bfloat16'
    >>> twin(Case("product", "nt", (1, 4096, 4096, 4096), "bfloat16"), "bytes").name
    'matmul 4 of 1024x4096x4096 bfloat16 nt'
    >>> twin(Case("product", "nt", (1, 64, 4096, 4096), "bfloat16"), "flop").name
    'matmul 32x4096x4096 bfloat16 nt'

    Bytes: a stream, and a chain without products, in the other data type, for both compute in float32; a product cut
    along its longest side into SPLIT products, each with another operand of its own. FLOP: a product whose shortest
    side is halved, or doubled if it is 1. An operator that computes more on the same bytes is another kernel, so
    streams have no twin in FLOP, nor have chains; products inside a chain have none of either kind.
    """
    if made.kind == "product":
        return _product_twin(made, changed)
    if changed == "flop" or made.what in ("mlp", "products", "cast"):
        return None
    return replace(made, dtype="bfloat16" if made.dtype == "float32" else "float32")


def _product_twin(made: Case, changed: str) -> Case | None:
    batch, m, n, k = made.sizes
    if changed == "flop":
        sizes = [m, n, k]
        shortest = sizes.index(min(sizes))
        sizes[shortest] = sizes[shortest] // 2 or 2
        return replace(made, sizes=(batch, *sizes))
    if max(m, n) < 64 * SPLIT:
        return None  # what is left of it would be another kind of product
    if m >= n:
        return replace(made, sizes=(batch * SPLIT, m // SPLIT, n, k))
    return replace(made, sizes=(batch * SPLIT, m, n // SPLIT, k))
