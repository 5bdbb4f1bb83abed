"""torch's kernels for products of 8 and 4 bits: what each takes, by constants of its own that were fitted.

fp8 and int8 products have tiles as others do, with another start and, with scales by rows, a longer way through k.
Weights alone in int8 or int4 are unpacked where they are multiplied, again for every few rows of the activations: plain
instructions limit that, not the tensor cores, so that its rate is a share of float32's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

from brrr.core.files import read_toml
from brrr.counting.cost import OperatorCost

PLAIN = "arithmetic.fp32.fma"
"""The rate of which unpacking reaches a share: it goes with multiprocessors and clock."""


@dataclass(frozen=True, slots=True)
class OwnKernel:
    """Kernels of one operator.

    start_s: start and end of all of them; memory: the share of its rate at which operands come; rate: the share of the
    tiles' rate or, where it unpacks, of PLAIN; cycles: of a multiprocessor, for each number of k, which a result takes
    one after the other; overlap: the power p in (a^p + b^p + c^p)^(1/p) of the three times.
    """

    name: str
    start_s: float
    memory: float
    rate: float
    overlap: float
    cycles: float = 0.0
    unpacks: bool = False


@cache
def _known() -> Mapping[str, OwnKernel]:
    return {each["name"]: OwnKernel(**each) for each in read_toml("product_kernels.toml")["kernel"]}


def own_kernel(each: OperatorCost) -> OwnKernel | None:
    """The kernel of an operator, None where it has none of its own.

    >>> shapes = (64, 32), (32, 16), (64, 1), (1, 16)
    >>> own_kernel(OperatorCost("aten._scaled_mm", 0.0, 0.0, 0.0, "float8_e4m3fn", shapes, "matmul")).name
    'aten._scaled_mm, rows'
    """
    name = each.name.removesuffix("_v2").removesuffix("_for_cpu")
    rows = name == "aten._scaled_mm" and any(prod(scales) > 1 for scales in each.shapes[2:4])
    return _known().get(f"{name}, rows" if rows else name)
