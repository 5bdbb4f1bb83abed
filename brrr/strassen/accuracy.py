"""How wrong a product will be: relative error (Frobenius, against float64) of each way, before it runs.

>>> [f"{predicted_error(IMPLEMENTATIONS[name], 8192):.1e}" for name in ("sgemm", "sgemm-strassen-1")]
['1.6e-06', '2.3e-06']

Growth a level by `amplification`: random, independent errors; matrices whose entries are independent, of
mean 0 and alike in size. To them come:

- what tensor cores lose: their sums truncate, so that the error grows with the depth, not with its root (`split_error`
  tells what is left of that when a product's sums leave them early);
- what is cut off the factors: by TF32 and by split products in the product, by bfloat16 where the sums before the
  products are stored. A factor that is a copy of a block loses nothing there. bfloat16's products are stored too.

Badly scaled matrices are worse with levels than this says: sums mix large blocks with small ones. On an H200 the model
gives what was measured: SGEMM's 1.6e-6 at 8192, and a growth of 1.42 a level (Strassen's form) and 1.87 (Winograd's).
"""

import math
from functools import lru_cache

from brrr.core.errors import ArgumentError
from brrr.strassen.algebra.forms import FORMS
from brrr.strassen.implementations import IMPLEMENTATIONS, Implementation, Inner, Problem

BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
"""Significant bits of a type."""

NAMED = {"fp64": "fp64", "fp32": "sgemm", "tf32": "tf32", "bf16": "bf16", "fp16": "fp16"}
"""Accuracies that have a name: as good as the classical product of that type."""

ACCURACIES = ", ".join([*NAMED, "fp8"])
FP8_BITS = 4
"""Of float8 (e4m3), whose accuracy may be asked for: nothing here multiplies in it, so a better way is taken."""

PLAIN = {"float64": "fp64", "float32": "sgemm", "float16": "fp16", "bfloat16": "bf16"}
"""The library's product of each type, whose accuracy is asked for where nothing else is."""

CLOSE = 1.05
"""Two errors this near are taken as equal: measured ones scatter by as much."""

TENSOR_CORE = 1.85e-8
"""Relative error of a tensor core's sum for each of its steps: 9.1e-6 to 9.7e-6 after 512 on an H200, twice that after
1024."""


def predicted_error(how: Implementation, k: int, operand: str = "float32") -> float:
    """The relative error to expect of a way at depth k, of operands and a result of this type.

    >>> strassen, plain = IMPLEMENTATIONS["bf16-strassen-1"], IMPLEMENTATIONS["bf16"]
    >>> predicted_error(strassen, 4096) > 2 * predicted_error(plain, 4096, "bfloat16")
    True
    """
    if k <= 0:
        return 0.0
    each = product_error(how.kind, max(1.0, k / 2**how.level))
    amplified = amplification(str(how.form)) if how.level else 1.0
    stored = _rounded(BITS[operand]) if BITS[operand] < 24 else 0.0
    return math.sqrt((each * amplified**how.level) ** 2 + _cut_factors(how, operand) ** 2 + stored**2)


def product_error(inner: Inner, depth: float) -> float:
    """The relative error of an inner product by itself, on factors of its own buffers' type."""
    bits = 53 if inner.dtype == "float64" else 24
    if inner.exact_sums:
        return _rounded(bits) * math.sqrt(depth / 2)
    if inner.name == "fp16x3":
        return split_error(max(1, math.ceil(depth)))
    cut = math.sqrt(2) * _rounded(inner.bits) if inner.name == "tf32" else 0.0
    deep = 8 if inner.name == "tf32" else 16  # a step of the tensor core, in numbers of 4 bytes or of 2
    return math.hypot(cut, TENSOR_CORE * depth / deep)


CHUNK = 64
"""How deep a sum grows on the tensor core, by `split_product.cu`, if nothing is asked for."""

TRUNCATION = 1.95e-8
"""Relative error of a sum on the tensor core for each of its steps 16 deep: 9.7e-6 after 512, measured on an H200."""

BEGINNING = 2
"""Steps by which the two small products at a sum's beginning count, fitted to errors measured on an H200."""

ROUNDING = math.sqrt(1 / (8 * math.log(2)))
"""Root mean square of a rounding to p bits, in units of 2^-p, relative to the number."""

SPLIT_ERROR = 7.4e-8
"""Relative error by the split alone: a quarter of the numbers lose their last digit, 2^-23 of them, in both operands,
and lo lo is left out, 0.42^2 2^-22."""


def split_error(k: int, chunk: int = CHUNK, depth: int = 64) -> float:
    """The relative error (Frobenius) to expect of `split_product` for independent entries of mean zero, alike in size.

    >>> f"{split_error(8192):.1e}", f"{split_error(8192, chunk=8192):.1e}"
    ('2.5e-07', '3.0e-05')

    Three parts, independent of each other: what the tensor core cuts off, in proportion to its steps of 16 in a chunk
    (of the first step along k, `depth` long, those of hi hi alone count fully: the sum is small before); the rounding
    of the total; the digits that lo has not, with the product of lo and lo.
    """
    chunk = max(min(chunk, k), 1)
    steps = BEGINNING + (3 * chunk - 2 * min(depth, chunk)) / 16
    return math.hypot(TRUNCATION * steps, _rounded(24) * math.sqrt(k / chunk / 2), SPLIT_ERROR)


def accuracy_limit(accuracy: float | str | None, k: int, operand: str = "float32") -> float:
    """The largest relative error that an accuracy allows: a number is one; a name is that of a classical product.

    >>> accuracy_limit(1e-4, 4096), f"{accuracy_limit('fp32', 8192):.1e}"
    (0.0001, '1.7e-06')

    None: as good as the classical product of the operands' own type. ArgumentError for anything else.
    """
    named = PLAIN[operand] if accuracy is None else NAMED.get(str(accuracy))
    if named is not None:
        return CLOSE * predicted_error(IMPLEMENTATIONS[named], k, operand)
    if accuracy == "fp8":
        return CLOSE * math.sqrt(2) * _rounded(FP8_BITS)
    if isinstance(accuracy, bool) or not isinstance(accuracy, int | float) or not 0 < accuracy < math.inf:
        raise ArgumentError("matmul", "accuracy", accuracy, f"a relative error above 0, or one of {ACCURACIES}")
    return float(accuracy)


def _rounded(bits: int) -> float:
    """The root mean square of roundings to so many bits."""
    return ROUNDING * 2.0**-bits


def _cut_factors(how: Implementation, operand: str) -> float:
    """What rounding the factors costs: those that are sums, or all of them where the operands are of a wider type."""
    inner = how.kind
    narrowed = inner.bits < BITS[operand]
    if inner.split or inner.bits >= 24 or inner.name == "tf32":
        return 0.0
    if not how.level:  # the product is rounded in the factors' type too
        return math.sqrt(3) * _rounded(inner.bits) if narrowed else 0.0
    every, summed = _counted(how.form, how.level)
    counted = 2 * every if narrowed else summed
    counted += every if Problem(how, 1, 1, 1, operand).product_dtype == "bfloat16" else 0.0
    return _rounded(inner.bits) * math.sqrt(counted)


@lru_cache(maxsize=64)
def _counted(form: str | None, level: int) -> tuple[float, float]:
    """By how much a factor's squared rounding counts in the result: each side once; both sides, copies left out."""
    known = FORMS[str(form)]
    sides = [side.astype(float) for side in (known.left, known.right, known.result.T)]
    sizes = math.prod((side**2).sum(axis=1) for side in sides) / 8
    every = float(sizes.sum()) ** level
    copies = sum(float(sizes[(side != 0).sum(axis=1) == 1].sum()) ** level for side in sides[:2])
    return every, 2 * every - copies


# ---------------------------------------------------------------------------------------------------------------------
# How rounding errors grow with every level, for random inputs.


def amplification(form: str) -> float:
    """Relative error of the result over that of the products, for inputs of mean 0; 1 would be the classical form's.

    >>> amplification("strassen"), round(amplification("winograd"), 3)
    (2.0, 2.646)
    """
    return math.sqrt(_counted(form, 1)[0])
