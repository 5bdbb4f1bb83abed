"""How much memory a way needs besides its operands and its result, the bytes of its passes, and its launches.

>>> round(workspace_bytes(Problem(IMPLEMENTATIONS["sgemm-strassen-2"], 4096, 4096, 4096)) / 4096**2 / 4, 2)
9.19

All 7^L products are made at once: with blocks of m', k', n' and s bytes an element,

    7^L (m' k' s + k' n' s + m' n' s)

and with split products a copy of the right operand, which is turned if it does not lie along k. That is for sizes
rounded up to whole blocks; where what is left over is split off (`odd_sizes.py`), it is somewhat less. A classical
product needs memory where operands are copied into another type, or to rows that start at 16 bytes.

Importing this loads no torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from brrr.counting.cost import ITEMSIZE
from brrr.strassen.odd_sizes import copied, core_of, thin_parts
from brrr.strassen.problem import IMPLEMENTATIONS as IMPLEMENTATIONS
from brrr.strassen.problem import Problem, aligned_size

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

    >>> [Buffers.of(Problem(IMPLEMENTATIONS[name], 64, 64, 64)).left for name in ("sgemm", "bf16")]
    [0, 8192]

    A classical product of operands that are in its own type already needs none; of other operands it makes copies.
    `turned` is what the right side has for a copy of an operand that does not lie along k.
    """

    left: int = 0
    right: int = 0
    products: int = 0
    turned: int = 0

    @classmethod
    def of(cls, problem: Problem) -> Buffers:
        """Of one product, all of it through the levels."""
        how, operand, (m, n, k) = problem.implementation, problem.operand, problem.sizes
        inner, made, copies = how.kind, problem.product_dtype, copied(problem)
        if copies.any:
            deep, columns, size = aligned_size(k), aligned_size(n), inner.itemsize
            return cls(
                copies.left * m * deep * size, deep * columns * size, copies.result * m * columns * ITEMSIZE[made]
            )
        if not how.level and not inner.split and inner.dtype == operand:
            return cls()
        (rows, deep, columns), count = problem.block, how.products
        products = count * rows * columns * ITEMSIZE[made] if how.level or made != operand else 0
        if not inner.split:
            return cls(count * rows * deep * inner.itemsize, count * deep * columns * inner.itemsize, products)
        wide = deep if how.level else aligned_size(deep)  # rows of terms start at multiples of 16 bytes
        left, right = (
            rounded(count * each * wide * inner.itemsize) + rounded(EXPONENT * each) for each in (rows, columns)
        )
        turned = rounded(ITEMSIZE[operand] * n * k) if how.level else 0  # the right operand, along k
        return cls(left, right + turned, products, turned)

    @property
    def total(self) -> int:
        """Left, right and products."""
        return sum(map(rounded, (self.left, self.right, self.products)))


def workspace_bytes(problem: Problem) -> int:
    """What a way takes; a prepared right side is not in it."""
    needed = Buffers.of(problem)
    return replace(needed, right=0).total if problem.implementation.prepared else needed.total


# ---------------------------------------------------------------------------------------------------------------------
# The bytes that a way's passes over memory read and write.


@dataclass(frozen=True)
class Traffic:
    """Bytes read and written by each pass of a way, and the bytes of the buffers that its products touch.

    >>> Traffic.of(Problem(IMPLEMENTATIONS["sgemm-strassen-1"], 1024, 1024, 1024)).left
    (4194304, 7340032)
    """

    left: tuple[int, int]
    right: tuple[int, int]
    post_add: tuple[int, int]
    touched: int

    @classmethod
    def of(cls, problem: Problem) -> Traffic:
        """Of one product, all of it in whole blocks; the right side's are 0 where it is prepared."""
        how, (m, n, k) = problem.implementation, problem.sizes
        size, needed = ITEMSIZE[problem.operand], Buffers.of(problem)
        more = int(how.kind.split and how.level > 0)  # once for the exponents; the right side is turned first
        left = ((1 + more) * size * m * k, needed.left) if needed.left else (0, 0)
        right = ((1 + 2 * more) * size * k * n, needed.right) if needed.right and not how.prepared else (0, 0)
        post_add = (needed.products, size * m * n) if needed.products else (0, 0)
        return cls(left, right, post_add, needed.total)

    @classmethod
    def by_blocks(cls, problem: Problem) -> Traffic:
        """The same where torch makes the sums, level by level: a pass over two blocks for each that is added.

        >>> Traffic.by_blocks(Problem(IMPLEMENTATIONS["sgemm-strassen-1"], 1024, 1024, 1024)).left
        (17825792, 12582912)
        """
        whole, how = cls.of(problem), problem.implementation
        if not how.level:
            return whole
        before, behind = blocks_added(str(how.form))
        parts = [7**outer * 4 ** (how.level - 1 - outer) for outer in range(how.level)]  # of a block product's size

        def passes(blocks: int, first: int, each: int) -> tuple[int, int]:
            """The first block is copied, the others added to what is there."""
            return sum(parts) * (2 * blocks - first) * each, sum(parts) * blocks * each

        left, right = (passes(before, 7, side[1] // how.products) for side in (whole.left, whole.right))
        return cls(left, right, passes(behind, 4, whole.post_add[1] // 4**how.level), whole.touched)


@lru_cache(maxsize=2)
def blocks_added(form: str) -> tuple[int, int]:
    """Blocks that a level adds up: before the products on each side, the mean of the two, and behind them."""
    from brrr.strassen.algebra.forms import FORMS  # and with it numpy

    known = FORMS[form]
    left, right, result = (int((side != 0).sum()) for side in (known.left, known.right, known.result))
    return (left + right) // 2, result


# ---------------------------------------------------------------------------------------------------------------------
# How many launches a way is, which the host issues where no CUDA Graph does it.


def launches(problem: Problem) -> int:
    """Launches of a way for one product, those of thin products and of copies with it.

    >>> [launches(Problem(IMPLEMENTATIONS[name], 4096, 4096, 4096)) for name in ("sgemm", "sgemm-strassen-1")]
    [1, 4]
    """
    how, thin = problem.implementation, len(thin_parts(core_of(problem), problem.sizes))
    if how.level:
        return thin + (7 if how.kind.split else 4) - (3 if how.kind.split else 1) * how.prepared
    if how.kind.split:
        return 2
    return 4 if how.dtype != problem.operand else 1 + sum(copied(problem))
