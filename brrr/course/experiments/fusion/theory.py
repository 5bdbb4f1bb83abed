"""FLOP and bytes of each piece of work in `fusion`, operator by operator and fused: the ratio that fusion can give.

With N elements in n rows of width W, in units of an element; the tests hold each line against `brrr.cost`.

| work | eager | fused |
| --- | --- | --- |
| bias: relu(x + b) | 4N + W | 2N + W |
| pseudo: x * w + b | 4N + 2W | 2N + 2W |
| chain: relu(x * s + r) | 7N | 3N |
| norm: layer norm in seven operators and two small ones | 12N + 8n + 2W | 2N + 2W |
| softmax in five operators | 8N + 4n | 2N |
| kept: h = cos(x), cos(h), both needed | 4N | 3N |
| linear: relu(x V + b) | 4N + W² + W | 2N + W² + W |
"""

from __future__ import annotations

from brrr.core.values import Point
from brrr.counting.cost import Cost
from brrr.course.nouns.experiment import Variant
from brrr.gpu.datasheet import Hardware

ITEMSIZE = {"float32": 4, "bfloat16": 2}
WIDTH = 1024
KINDS = {
    "bias": "bias and ReLU", "pseudo": "scale and bias", "chain": "scale, add and ReLU", "norm": "layer norm",
    "softmax": "softmax", "kept": "two cosines, both needed", "linear": "linear layer and ReLU",
}  # fmt: skip
MEMORY_BOUND = ("bias", "pseudo", "chain", "norm", "softmax", "kept")
"""All but the linear layer, whose matrix product is limited by arithmetic."""


def kind_of(variant: str) -> str:
    """The work that a variant does.

    >>> kind_of("cpu-norm-eager")
    'norm'
    """
    return variant.removeprefix("cpu-").split("-")[0]


def moved(kind: str, elements: int) -> tuple[int, int]:
    """Elements moved by the operators one by one, and by one fused kernel.

    >>> moved("chain", 1024)
    (7168, 3072)
    """
    n, w = elements, WIDTH
    rows = n // w
    return {
        "bias": (4 * n + w, 2 * n + w),
        "pseudo": (4 * n + 2 * w, 2 * n + 2 * w),
        "chain": (7 * n, 3 * n),
        "norm": (12 * n + 8 * rows + 2 * w, 2 * n + 2 * w),
        "softmax": (8 * n + 4 * rows, 2 * n),
        "kept": (4 * n, 3 * n),
        "linear": (4 * n + w * w + w, 2 * n + w * w + w),
    }[kind]


def flop(kind: str, elements: int) -> int:
    """FLOP of the work, the same in every form."""
    n, rows = elements, elements // WIDTH
    counts = {"bias": 2 * n, "pseudo": 2 * n, "chain": 3 * n, "norm": 7 * n + 2 * rows, "softmax": 5 * n - 2 * rows,
              "kept": 2 * n, "linear": 2 * n * WIDTH + 2 * n}  # fmt: skip
    return counts[kind]


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP, compulsory bytes, and eager bytes: those of all operators, or of the one kernel that a fused variant is."""
    kind, elements, size = kind_of(variant.name), int(point["elements"]), ITEMSIZE[str(point["dtype"])]
    eager, fused = (float(size * each) for each in moved(kind, elements))
    return Cost(float(flop(kind, elements)), fused, eager_bytes=eager if variant.name.endswith("eager") else fused)


def bytes_ratio(kind: str, elements: int) -> float:
    """Bytes of the operators one by one over those of one kernel: the most that fusion gains by moving less.

    >>> round(bytes_ratio("chain", 2**26), 2)
    2.33
    """
    eager, fused = moved(kind, elements)
    return eager / fused


def predicted_ratio(hardware: Hardware | None, kind: str, elements: int) -> float | None:
    """The same from the roofline, in float32: a matrix product takes its time whether its neighbours are fused or not.

    None where the work has a matrix product and there is no datasheet.
    """
    if kind != "linear":
        return bytes_ratio(kind, elements)
    if hardware is None:
        return None
    eager, fused = (ITEMSIZE["float32"] * each / hardware.memory_bytes_per_s for each in moved(kind, elements))
    after = 2 * ITEMSIZE["float32"] * elements / hardware.memory_bytes_per_s
    product = max(flop(kind, elements) / hardware.peak("fp32"), eager - after)
    return (product + after) / max(flop(kind, elements) / hardware.peak("fp32"), fused)


def bandwidth(hardware: Hardware | None, point: Point) -> float | None:
    """The memory's bandwidth by the datasheet, in B/s."""
    return hardware.memory_bytes_per_s if hardware else None
