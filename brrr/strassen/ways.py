"""Every way of multiplying two matrices: an inner product, and the Strassen levels outside it.

>>> WAYS["sgemm-strassen-2"].level, WAYS["bf16"].level, WAYS["fp16x3-winograd-1-prepared"].prepared
(2, 0, True)
>>> len(WAYS["ffma-strassen-3"].name)
15

Importing this loads no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from brrr.errors import ArgumentError
from brrr.strassen.inners import INNERS, Inner
from brrr.strassen.shapes import MAX_LEVEL

FORM_NAMES = ("strassen", "winograd", "balanced")
GPU_FORMS = ("strassen", "winograd")
"""Those whose sums the GPU's kernels make."""

LEVELS = (0, 1, 2, 3, 4)
"""Up to three in one pass over memory; a fourth lies outside, with a pass of its own (`nested.py`)."""


@dataclass(frozen=True)
class Way:
    """A way of multiplying: its inner product's name, the number of levels, the form of each, and what is prepared.

    >>> Way("sgemm", 2, "winograd").name
    'sgemm-winograd-2'

    level 0 is the classical product, of no form. prepared: the right operand's sums (or its terms) were made before,
    as a network's weights are.
    """

    inner: str
    level: int = 0
    form: str | None = None
    prepared: bool = False

    def __post_init__(self) -> None:
        if self.inner not in INNERS:
            raise ArgumentError("Way", "inner", self.inner, f"one of {', '.join(INNERS)}")
        if isinstance(self.level, bool) or self.level not in LEVELS:
            raise ArgumentError("Way", "level", self.level, f"one of {LEVELS}")
        if self.level not in self.kind.levels:
            raise ArgumentError("Way", "level", self.level, f"{self.kind.levels} with {self.inner}")
        if self.level and self.form not in FORM_NAMES:
            raise ArgumentError("Way", "form", self.form, f"one of {', '.join(FORM_NAMES)}")
        if not self.level:
            object.__setattr__(self, "form", None)

    @property
    def kind(self) -> Inner:
        """Its inner product."""
        return INNERS[self.inner]

    @property
    def name(self) -> str:
        """Its name in `WAYS`."""
        parts = [self.inner, *([str(self.form), str(self.level)] if self.level else [])]
        return "-".join([*parts, *(["prepared"] if self.prepared else [])])

    @property
    def label(self) -> str:
        """For figures.

        >>> Way("bf16", 1, "strassen").label
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
        """How many block products it makes.

        >>> Way("sgemm", 2, "strassen").products
        49
        """
        return int(7**self.level)

    @property
    def nested(self) -> bool:
        """Whether its outermost level has a pass of its own: it has more than one pass takes.

        >>> Way("sgemm", 4, "strassen").nested, Way("sgemm", 3, "strassen").nested
        (True, False)
        """
        return self.level > MAX_LEVEL

    @property
    def within(self) -> Way:
        """The way of the outermost level's products, prepared if this one is.

        >>> Way("sgemm", 4, "strassen", prepared=True).within.name
        'sgemm-strassen-3-prepared'
        """
        return Way(self.inner, self.level - 1, self.form, self.prepared)

    @property
    def outermost(self) -> Way:
        """The outermost level by itself.

        >>> Way("sgemm", 4, "strassen").outermost.name
        'sgemm-strassen-1'
        """
        return Way(self.inner, 1, self.form, self.prepared)

    @property
    def classical(self) -> bool:
        """Whether it is the plain product of a library, with nothing outside."""
        return not self.level

    def here(self, operand: str, device: str) -> bool:
        """Whether it multiplies operands of this type on this kind of device."""
        forms = GPU_FORMS if device == "cuda" else FORM_NAMES
        return operand in self.kind.operands and device in self.kind.devices and (not self.level or self.form in forms)


def all_ways() -> Iterator[Way]:
    """Each inner product with each number of levels and each form; prepared where that saves a pass."""
    for inner in INNERS.values():
        for level in inner.levels:
            for form in FORM_NAMES if level else (None,):
                yield Way(inner.name, level, form)
                if level or inner.split:
                    yield Way(inner.name, level, form, prepared=True)


WAYS: Mapping[str, Way] = MappingProxyType({way.name: way for way in all_ways()})
"""By name."""
