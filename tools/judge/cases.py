"""A measured call, told by its name alone: `relu 64x64 float32`, `layer_norm 57x313 float32 backward`.

Which calls there are, the recordings say: `prediction.csv` has streams, products and chains, `operators*.csv` operators
and whole blocks. None of them was used to calibrate a device, and no constant was fitted to them.
"""

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

Changed = Literal["bytes", "flop"]
SPLIT = 4
"""A product's twin in bytes is so many products, each with an operand of its own."""
TWINNED = ("norm", "softmax", "image", "movement", "dropout", "stream")
"""Families that compute in float32 whatever the data type: the other type moves other bytes for the same FLOP."""
OTHER = {"float32": "bfloat16", "bfloat16": "float32"}
NAME = re.compile(r"(?:chain of (\d+) )?(\w+) (?:(\d+) of )?([\dx]+) (\w+)(?: (nn|nt|backward))?")


@cache
def data() -> dict[str, Any]:
    """What `cases.toml` says: families, the half that is reported, and what is wanted of each group."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Case:
    """One call: its family, its operator, the operator's sizes and the data type.

    `way` is a product's layout ("nn", "nt"), or "backward" where gradients are computed too; `length` counts a chain's
    operators. A product's sizes begin with its batch.
    """

    family: str
    what: str
    sizes: tuple[int, ...]
    dtype: str
    way: str = ""
    length: int = 1

    @property
    def backward(self) -> bool:
        """Whether gradients are computed, too."""
        return self.way == "backward"


@cache
def read(experiment: str, name: str) -> Case:
    """The case of that name in the recording of an experiment.

    >>> read("prediction", "matmul 8x4096x11008 bfloat16 nt")
    Case(family='product', what='matmul', sizes=(1, 8, 4096, 11008), dtype='bfloat16', way='nt', length=1)
    >>> read("operators_drawn", "layer_norm 57x313 float32 backward").family
    'norm'
    """
    found = NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is no case; expected one as 'relu 64x64 float32'")
    length, what, batch, sizes, dtype, way = found.groups()
    size = tuple(map(int, sizes.split("x")))
    if experiment == "prediction":
        family = "chain" if length else "product" if what == "matmul" else "stream"
        size = (int(batch or 1), *size) if family == "product" else size
    else:
        family = next(name for name, whats in data()["families"].items() if what in whats.split())
    return Case(family, what, size, dtype, way or "", int(length or 1))


def twin(case: Case, changed: Changed) -> Case | None:
    """The case with only its bytes changed, or its FLOP and hardly its bytes; None where there is no clean one.

    >>> twin(read("prediction", "relu 64x64 float32"), "bytes").dtype
    'bfloat16'
    >>> twin(read("prediction", "matmul 4096x4096x4096 bfloat16 nt"), "bytes").sizes
    (4, 1024, 4096, 4096)

    Bytes: what computes in float32 in any case, in the other data type; a product cut along its longest side into SPLIT
    products, each with another operand of its own. FLOP: a product whose shortest side is halved, or doubled if it is
    1. An operator that computes more on the same bytes is another kernel, so only products have a twin in FLOP;
    products inside a chain have none of either kind.
    """
    if case.family == "product" and case.way in ("nn", "nt"):
        return _product_twin(case, changed)
    alone = case.family in TWINNED or (case.family == "chain" and case.what not in ("mlp", "products"))
    if changed == "flop" or not alone or case.what == "cast":
        return None
    return replace(case, dtype=OTHER[case.dtype])


def _product_twin(case: Case, changed: Changed) -> Case | None:
    batch, m, n, k = case.sizes
    if changed == "flop":
        sizes = [m, n, k]
        shortest = sizes.index(min(sizes))
        sizes[shortest] = sizes[shortest] // 2 or 2
        return replace(case, sizes=(batch, *sizes))
    if max(m, n) < 64 * SPLIT:
        return None  # what is left of it would be another kind of product
    cut = (m // SPLIT, n, k) if m >= n else (m, n // SPLIT, k)
    return replace(case, sizes=(batch * SPLIT, *cut))
