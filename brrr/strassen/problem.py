"""A product as it is planned, predicted and run: implementation, sizes and the operands' type as one object.

>>> Problem(IMPLEMENTATIONS["sgemm-strassen-1"], 100, 60, 30).block
(50, 16, 32)

Importing this loads no torch.
"""

from dataclasses import dataclass

from brrr.strassen.algebra.blocks import aligned_size as aligned_size
from brrr.strassen.algebra.blocks import block_shape
from brrr.strassen.implementations import IMPLEMENTATIONS as IMPLEMENTATIONS
from brrr.strassen.implementations import Implementation

Sizes = tuple[int, int, int]
"""m, n, k."""


@dataclass(frozen=True)
class Problem:
    """An (m, k) by (k, n) product of operands of a type, by an implementation.

    whole: odd sizes are rounded up, as in a chain of layers; otherwise what they leave over may be split off.
    aligned: a classical product's operands may be copied to rows that start at 16 bytes.
    """

    implementation: Implementation
    m: int
    n: int
    k: int
    operand: str = "float32"
    whole: bool = False
    aligned: bool = True

    @property
    def sizes(self) -> Sizes:
        """m, n and k."""
        return self.m, self.n, self.k

    @property
    def block(self) -> Sizes:
        """Rows, depth and columns of a block product.

        >>> Problem(IMPLEMENTATIONS["sgemm"], 100, 60, 30).block
        (100, 30, 60)
        """
        level = self.implementation.level
        if not level:
            return self.m, self.k, self.n
        return *block_shape(self.m, self.k, level), block_shape(1, self.n, level)[1]

    @property
    def product_dtype(self) -> str:
        """The type of the block products: float32, or the factors' own where they are the result as they are.

        >>> Problem(IMPLEMENTATIONS["bf16-strassen-1"], 8, 8, 8, "bfloat16").product_dtype
        'bfloat16'

        With levels, those of bfloat16 matrices stay short: float32 would be twice the bytes, and in short types a level
        gains hardly more than its passes cost.
        """
        inner = self.implementation.kind
        short = inner.dtype in ("float16", "bfloat16") and not inner.split
        if short and (not self.implementation.level or self.operand != "float32"):
            return inner.dtype
        return "float64" if self.operand == "float64" else "float32"
