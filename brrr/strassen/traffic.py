"""The bytes that a way's passes over memory read and write.

>>> Traffic.of(WAYS["bf16-strassen-1"], 1024, 1024, 1024).left  # from float32 to factors of bfloat16
(4194304, 3670016)

Importing this loads neither numpy nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from brrr.strassen.inners import SIZES
from brrr.strassen.ways import WAYS as WAYS
from brrr.strassen.ways import Way
from brrr.strassen.workspace import Buffers


@dataclass(frozen=True)
class Traffic:
    """Bytes read and written by each pass of a way, and the bytes of the buffers that its products touch.

    >>> Traffic.of(WAYS["sgemm-strassen-1"], 1024, 1024, 1024).left
    (4194304, 7340032)
    """

    left: tuple[int, int]
    right: tuple[int, int]
    suffix: tuple[int, int]
    touched: int

    @classmethod
    def of(cls, way: Way, m: int, n: int, k: int, operand: str = "float32", *, aligned: bool = True) -> Traffic:
        """Of one (m, k) by (k, n) product, all of it in whole blocks; the right side's are 0 where it is prepared.

        aligned: whether a classical product's operands are copied to aligned rows where that pays.
        """
        size, needed = SIZES[operand], Buffers.of(way, m, n, k, operand, aligned=aligned)
        more = int(way.kind.split and way.level > 0)  # once for the exponents; the right side is turned first
        left = ((1 + more) * size * m * k, needed.left) if needed.left else (0, 0)
        right = ((1 + 2 * more) * size * k * n, needed.right) if needed.right and not way.prepared else (0, 0)
        suffix = (needed.products, size * m * n) if needed.products else (0, 0)
        return cls(left, right, suffix, needed.total)

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
        block = whole.suffix[1] // 4**way.level
        return cls(left, right, ((2 * behind - 4**way.level) * block, behind * block), whole.touched)


@lru_cache(maxsize=32)
def blocks_added(form: str, level: int = 1) -> tuple[int, int]:
    """How many blocks are added up: before the products on each side, the mean of the two, and behind them."""
    from brrr.strassen.forms import form_of  # and with it numpy

    known = form_of(form)
    left, right, result = (int((side != 0).sum()) for side in (known.left, known.right, known.result))
    return (left**level + right**level) // 2, int(result**level)
