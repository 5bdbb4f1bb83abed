"""The inner products: how blocks are multiplied, whatever Strassen levels lie outside.

>>> INNERS["bf16"].bits, INNERS["fp16x3"].terms
(8, 2)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_GPU = ("cuda",)
_BOTH = ("cuda", "cpu")


@dataclass(frozen=True)
class Inner:
    """One way to multiply blocks.

    `dtype` is what the operands' buffers hold, `operands` the types of the matrices it takes. `bits` are the
    significant bits of a factor as it is multiplied (TF32 keeps 11 of float32's 24; a split product keeps `terms`
    parts of each factor and makes `products` products of them). `exact_sums`: sums over k are rounded as float32 or
    float64, one addition at a time; a tensor core's truncate, and add up more than one product a step.
    """

    name: str
    label: str
    dtype: str
    operands: tuple[str, ...]
    devices: tuple[str, ...]
    bits: int
    exact_sums: bool
    terms: int = 1
    products: int = 1
    levels: tuple[int, ...] = (0, 1, 2, 3)

    @property
    def itemsize(self) -> int:
        """Bytes of a buffer's element, all terms of it."""
        return self.terms * SIZES[self.dtype]

    @property
    def split(self) -> bool:
        """Whether each factor is cut into several terms."""
        return self.terms > 1


SIZES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1}
"""Bytes of an element, by torch's names."""

_F32 = ("float32",)
_NESTED = (0, 1, 2, 3, 4)
"""Only where products are slow against memory does a fourth level pay, and only there is it offered."""

_LIST = (
    Inner("fp64", "float64", "float64", ("float64",), _BOTH, 53, True, levels=_NESTED),
    Inner("sgemm", "SGEMM (float32)", "float32", _F32, _BOTH, 24, True, levels=_NESTED),
    Inner("ffma", "our float32 kernel", "float32", _F32, _GPU, 24, True, levels=_NESTED),
    Inner("fp16x3", "two float16 terms, 3 products", "float16", _F32, _BOTH, 22, False, 2, 3),
    Inner("tf32x3", "two TF32 terms, 3 products", "float32", _F32, _GPU, 22, False, 2, 3, (0,)),
    Inner("bf16x6", "three bfloat16 terms, 6 products", "bfloat16", _F32, _GPU, 24, False, 3, 6, (0,)),
    Inner("bf16x3", "two bfloat16 terms, 3 products", "bfloat16", _F32, _GPU, 16, False, 2, 3, (0,)),
    Inner("tf32", "TF32", "float32", _F32, _GPU, 11, False),
    Inner("fp16", "float16", "float16", ("float16", "float32"), _BOTH, 11, False),
    Inner("bf16", "bfloat16", "bfloat16", ("bfloat16", "float32"), _BOTH, 8, False),
    Inner("fp8", "float8 (e4m3)", "float8_e4m3fn", _F32, _GPU, 4, False, levels=(0,)),
)  # fmt: skip

INNERS: Mapping[str, Inner] = MappingProxyType({each.name: each for each in _LIST})
"""By name, from the most exact to the least of its kind."""
