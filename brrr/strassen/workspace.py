"""How much memory a way needs besides its operands and its result, in bytes, for each order of its products.

>>> breadth, deep = (workspace_bytes(WAYS["sgemm-strassen-2"], 4096, 4096, 4096, depth=depth) for depth in (0, 2))
>>> round(breadth / 4096**2 / 4, 2), deep / 4096**2 / 4
(9.19, 0.9375)

Breadth first (depth 0) all 7^L products are made at once: with blocks of m', k', n' and s bytes an element,

    7^L (m' k' s + k' n' s + m' n' s)

and with split products a copy of the right operand, which is turned if it does not lie along k.

That is for sizes rounded up to whole blocks; where what is left over is peeled off (`peeling.py`), it is somewhat less.
A classical product needs memory where operands are copied into another type, or to rows that start at 16 bytes.

More than three levels are never all breadth first: the outermost has buffers for its own seven products, and those are
made one after another, in the same buffers of three levels.

Depth first, the outer `depth` levels make one product after another, and each level needs one factor of each side and
one product, of half its sizes; inside them is a product of fewer levels, breadth first:

    W(d; m, k, n) = (m/2 k/2 + k/2 n/2 + m/2 n/2) s + W(d - 1; m/2, k/2, n/2)

For squares that is 3/4 n^2 + 3/16 n^2 + ...: never more than one more matrix, whatever the level. Importing this loads
no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from brrr.counting.cost import ITEMSIZE
from brrr.strassen.peeling import NOTHING, aligned_size, block_sizes, copied, core_of, halves, thin_parts
from brrr.strassen.ways import WAYS as WAYS
from brrr.strassen.ways import Way

ALIGNED = 256
"""Each buffer starts at a multiple of this many bytes, as those of the CUDA allocator do."""

EXPONENT = 4
"""Bytes of the exponent that a split product keeps for each row of a block of factors."""


def rounded(nbytes: int) -> int:
    """What a buffer of so many bytes takes.

    >>> rounded(1), rounded(512)
    (256, 512)
    """
    return -(-nbytes // ALIGNED) * ALIGNED


@dataclass(frozen=True)
class Buffers:
    """Bytes of a way's left and right factors and of its products; 0 for what it does not need.

    >>> Buffers.of(WAYS["sgemm"], 64, 64, 64).total, Buffers.of(WAYS["bf16"], 64, 64, 64).left
    (0, 8192)

    A classical product of operands that are in its own type already needs none; of other operands it makes copies.
    `turned` is what the right side has for a copy of an operand that does not lie along k.
    """

    left: int = 0
    right: int = 0
    products: int = 0
    turned: int = 0

    @classmethod
    def of(cls, way: Way, m: int, n: int, k: int, operand: str = "float32", *, aligned: bool = True) -> Buffers:
        """Of one (m, k) by (k, n) product, breadth first; a nested way's outermost level and one product of it.

        aligned: whether a classical product's operands are copied to aligned rows where that pays.
        """
        if way.nested:
            around, within = cls.of(way.outermost, m, n, k, operand), cls.of(way.within, *halves(m, n, k), operand)
            return around.and_also(within)
        inner, made = way.kind, product_dtype(way, operand)
        copies = copied(way, m, n, k, operand) if aligned else NOTHING
        if copies.any:
            deep, columns, size = aligned_size(k), aligned_size(n), inner.itemsize
            return cls(
                copies.left * m * deep * size, deep * columns * size, copies.result * m * columns * ITEMSIZE[made]
            )
        if not way.level and not inner.split and inner.dtype == operand:
            return cls()
        rows, deep, columns = block_sizes(way, m, n, k)
        count = way.products
        products = count * rows * columns * ITEMSIZE[made] if way.level or made != operand else 0
        if not inner.split:
            return cls(count * rows * deep * inner.itemsize, count * deep * columns * inner.itemsize, products)
        wide = deep if way.level else -(-deep // 8) * 8  # rows of terms start at multiples of 16 bytes
        left, right = (
            rounded(count * each * wide * inner.itemsize) + rounded(EXPONENT * each) for each in (rows, columns)
        )
        turned = rounded(ITEMSIZE[operand] * n * k) if way.level else 0  # the right operand, along k
        return cls(left, right + turned, products, turned)

    def and_also(self, other: Buffers) -> Buffers:
        """Both at a time."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Buffers(*(rounded(one) + rounded(two) for one, two in pairs))

    @property
    def total(self) -> int:
        """Left, right and products."""
        return sum(map(rounded, (self.left, self.right, self.products)))


def product_dtype(way: Way, operand: str) -> str:
    """The type of a way's products: float32, or the factors' own where they are the result as they are.

    >>> product_dtype(WAYS["bf16-strassen-1"], "bfloat16"), product_dtype(WAYS["fp16-strassen-1"], "float16")
    ('bfloat16', 'float32')

    With levels, those of bfloat16 matrices stay short: float32 would be twice the bytes, and in short types a level
    gains hardly more than its passes cost. float16 might overflow.
    """
    inner = way.kind
    if way.level and inner.dtype == operand == "bfloat16":
        return operand
    if inner.dtype in ("float16", "bfloat16") and not inner.split and not way.level:
        return inner.dtype
    return "float64" if operand == "float64" else "float32"


def workspace_bytes(
    way: Way, m: int, n: int, k: int, operand: str = "float32", depth: int = 0, *, aligned: bool = True
) -> int:
    """What a way takes with its outer `depth` levels depth first; a prepared right side is not in it."""
    if not depth:
        needed = Buffers.of(way, m, n, k, operand, aligned=aligned)
        return replace(needed, right=0).total if way.prepared else needed.total
    rows, columns, deep = halves(m, n, k)
    size = ITEMSIZE[operand]
    own = sum(rounded(size * each) for each in (rows * deep, deep * columns, rows * columns))
    return own + workspace_bytes(way.within, rows, columns, deep, operand, depth - 1)


def fits_aligned(way: Way, m: int, n: int, k: int, operand: str, limit_bytes: int | None) -> bool:
    """Whether a limit leaves room for the copies of a classical product's operands to aligned rows.

    >>> fits_aligned(WAYS["bf16"], 4097, 4097, 4097, "bfloat16", 2**20)
    False
    """
    return limit_bytes is None or way.level > 0 or workspace_bytes(way, m, n, k, operand) <= limit_bytes


def least_depth(
    way: Way, m: int, n: int, k: int, operand: str, limit_bytes: int | None, *, aligned: bool = True
) -> int | None:
    """The fewest levels that must go depth first for a way to stay within a limit; None where it cannot.

    >>> least_depth(WAYS["sgemm-strassen-2"], 4096, 4096, 4096, "float32", 3 * 4 * 4096**2)
    1
    """
    if limit_bytes is None:
        return 0
    deepest = 0 if way.prepared else way.level
    for depth in range(deepest + 1):
        if workspace_bytes(way, m, n, k, operand, depth, aligned=aligned) <= limit_bytes:
            return depth
    return None


# ---------------------------------------------------------------------------------------------------------------------
# The bytes that a way's passes over memory read and write.


@dataclass(frozen=True)
class Traffic:
    """Bytes read and written by each pass of a way, and the bytes of the buffers that its products touch.

    >>> Traffic.of(WAYS["sgemm-strassen-1"], 1024, 1024, 1024).left
    (4194304, 7340032)
    """

    left: tuple[int, int]
    right: tuple[int, int]
    post_add: tuple[int, int]
    touched: int

    @classmethod
    def of(cls, way: Way, m: int, n: int, k: int, operand: str = "float32", *, aligned: bool = True) -> Traffic:
        """Of one (m, k) by (k, n) product, all of it in whole blocks; the right side's are 0 where it is prepared.

        aligned: whether a classical product's operands are copied to aligned rows where that pays.
        """
        size, needed = ITEMSIZE[operand], Buffers.of(way, m, n, k, operand, aligned=aligned)
        more = int(way.kind.split and way.level > 0)  # once for the exponents; the right side is turned first
        left = ((1 + more) * size * m * k, needed.left) if needed.left else (0, 0)
        right = ((1 + 2 * more) * size * k * n, needed.right) if needed.right and not way.prepared else (0, 0)
        post_add = (needed.products, size * m * n) if needed.products else (0, 0)
        return cls(left, right, post_add, needed.total)

    @classmethod
    def by_blocks(cls, way: Way, m: int, n: int, k: int, operand: str = "float32", *, aligned: bool = True) -> Traffic:
        """The same where torch makes the sums, a pass over two blocks for each that is added.

        >>> Traffic.by_blocks(WAYS["sgemm-strassen-1"], 1024, 1024, 1024).left
        (17825792, 12582912)
        """
        whole = cls.of(way, m, n, k, operand, aligned=aligned)
        if not way.level:
            return whole
        before, behind, count = *blocks_added(str(way.form), way.level), way.products

        def passes(written: int, blocks: int) -> tuple[int, int]:
            """The first block is copied, the others added to what is there."""
            each = written // count
            return (2 * blocks - count) * each, blocks * each

        left, right = (passes(side[1], before) if side[1] else (0, 0) for side in (whole.left, whole.right))
        block = whole.post_add[1] // 4**way.level
        return cls(left, right, ((2 * behind - 4**way.level) * block, behind * block), whole.touched)


@lru_cache(maxsize=32)
def blocks_added(form: str, level: int = 1) -> tuple[int, int]:
    """How many blocks are added up: before the products on each side, the mean of the two, and behind them."""
    from brrr.strassen.algebra.forms import ALL_FORMS  # and with it numpy

    known = ALL_FORMS[form]
    left, right, result = (int((side != 0).sum()) for side in (known.left, known.right, known.result))
    return (left**level + right**level) // 2, int(result**level)


# ---------------------------------------------------------------------------------------------------------------------
# How many launches a way is, which the host issues where no CUDA Graph does it.


def launches(way: Way, m: int, n: int, k: int, operand: str = "float32", *, whole: bool = False) -> int:
    """Launches of a way for one product, those of thin products and of copies with it.

    >>> launches(WAYS["sgemm"], 4096, 4096, 4096), launches(WAYS["sgemm-strassen-1"], 4096, 4096, 4096)
    (1, 4)
    """
    thin = 0 if whole else len(thin_parts(core_of(way, m, n, k, operand), m, n, k))
    return thin + _launches(way, m, n, k, operand)


def _launches(way: Way, m: int, n: int, k: int, operand: str) -> int:
    if way.nested:
        return 7 * _launches(way.within, m, n, k, operand) + 3 - way.prepared
    if way.level:
        return (7 if way.kind.split else 4) - (3 if way.kind.split else 1) * way.prepared
    if way.kind.split:
        return 2
    return 4 if way.dtype != operand else 1 + sum(copied(way, m, n, k, operand))
