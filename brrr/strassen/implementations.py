"""Every way of multiplying two matrices: an inner product, and the Strassen levels outside it; with sizes, a problem.

>>> [IMPLEMENTATIONS[name].level for name in ("sgemm-strassen-2", "bf16", "fp16x3-winograd-1-prepared")]
[2, 0, 1]
>>> Problem(IMPLEMENTATIONS["sgemm-strassen-1"], 100, 60, 30).block
(50, 16, 32)

Importing this loads no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from brrr.core.errors import ArgumentError
from brrr.counting.cost import ITEMSIZE
from brrr.gpu import CUDA
from brrr.strassen.algebra.blocks import block_shape

FORM_NAMES = ("strassen", "winograd")
LEVELS = (0, 1, 2, 3)
"""All of them in one pass over memory."""


@dataclass(frozen=True)
class Inner:
    """One way to multiply blocks.

    `dtype` is what the operands' buffers hold, `operands` the types of the matrices it takes. `bits` are the
    significant bits of a factor as it is multiplied (TF32 keeps 11 of float32's 24; a split product keeps `terms`
    parts of each factor and makes `products` products of them). `exact_sums`: sums over k are rounded as float32 or
    float64, one addition at a time; a tensor core's truncate, and add up more than one product a step. `levels`: how
    many may lie outside it.
    """

    name: str
    label: str
    dtype: str
    bits: int
    exact_sums: bool
    operands: tuple[str, ...] = ("float32",)
    devices: tuple[str, ...] = (CUDA, "cpu")
    terms: int = 1
    products: int = 1
    levels: tuple[int, ...] = LEVELS

    @property
    def itemsize(self) -> int:
        """Bytes of a buffer's element, all terms of it."""
        return self.terms * ITEMSIZE[self.dtype]

    @property
    def split(self) -> bool:
        """Whether each factor is cut into several terms."""
        return self.terms > 1


_LIST = (
    Inner("fp64", "float64", "float64", 53, True, ("float64",)),
    Inner("sgemm", "SGEMM (float32)", "float32", 24, True),
    Inner("fp16x3", "two float16 terms, 3 products", "float16", 22, False, terms=2, products=3),
    Inner("tf32", "TF32", "float32", 11, False, devices=(CUDA,), levels=(0,)),
    Inner("fp16", "float16", "float16", 11, False, ("float16", "float32"), levels=(0,)),
    Inner("bf16", "bfloat16", "bfloat16", 8, False, ("bfloat16", "float32")),
)
"""Over TF32 and float16 levels hardly gain, so they are taken as the library makes them."""

INNERS: Mapping[str, Inner] = MappingProxyType({each.name: each for each in _LIST})
"""By name, from the most exact to the least of its kind."""


@dataclass(frozen=True)
class Implementation:
    """An implementation of a product: its inner matmul, and the number and form of the Strassen levels around it.

    >>> Implementation("sgemm", 2, "winograd").name
    'sgemm-winograd-2'

    level 0 is the classical product, without a form. prepared: the right operand's sums (or terms) are computed
    beforehand, as a network does with its weights.
    """

    inner: str
    level: int = 0
    form: str | None = None
    prepared: bool = False

    def __post_init__(self) -> None:
        if self.inner not in INNERS:
            raise ArgumentError("Implementation", "inner", self.inner, f"one of {', '.join(INNERS)}")
        if isinstance(self.level, bool) or self.level not in self.kind.levels:
            raise ArgumentError("Implementation", "level", self.level, f"one of {self.kind.levels} with {self.inner}")
        if self.level and self.form not in FORM_NAMES:
            raise ArgumentError("Implementation", "form", self.form, f"one of {', '.join(FORM_NAMES)}")
        if not self.level:
            object.__setattr__(self, "form", None)

    @property
    def kind(self) -> Inner:
        """Its inner matmul."""
        return INNERS[self.inner]

    @property
    def name(self) -> str:
        """Its name in `IMPLEMENTATIONS`."""
        parts = [self.inner, *([str(self.form), str(self.level)] if self.level else [])]
        return "-".join([*parts, *(["prepared"] if self.prepared else [])])

    @property
    def label(self) -> str:
        """For figures.

        >>> Implementation("bf16", 1, "strassen").label
        'bfloat16, Strassen, 1 level'
        """
        made = f", {str(self.form).capitalize()}, {self.level} level{'s' * (self.level > 1)}" if self.level else ""
        return f"{self.kind.label}{made}{', prepared' * self.prepared}"

    @property
    def dtype(self) -> str:
        """What its buffers hold."""
        return self.kind.dtype

    @property
    def products(self) -> int:
        """The number of block products.

        >>> Implementation("sgemm", 2, "strassen").products
        49
        """
        return int(7**self.level)

    @property
    def classical(self) -> bool:
        """Whether it has no levels: one call of a library's matmul."""
        return not self.level

    def here(self, operand: str, device: str) -> bool:
        """Whether it supports a type of operands on a kind of device."""
        return operand in self.kind.operands and device in self.kind.devices


_ALL = (
    Implementation(inner.name, level, form, prepared)
    for inner in INNERS.values()
    for level in inner.levels
    for form in (FORM_NAMES if level else (None,))
    for prepared in ((False, True) if level or inner.split else (False,))
)
IMPLEMENTATIONS: Mapping[str, Implementation] = MappingProxyType({how.name: how for how in _ALL})
"""All implementations of a product by name, such as "sgemm-strassen-2": a library's matmul, and the levels around it.

Each inner matmul is there with each number of levels in each form; prepared, too, where that saves a pass.
"""


# ---------------------------------------------------------------------------------------------------------------------
# An implementation with the sizes and the type that it is planned, predicted and run for.

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
