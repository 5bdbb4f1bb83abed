"""FLOP and bytes of each piece of work in `fusion`, operator by operator and fused: what is gained, and predicted.

With N elements in n rows of width W, in units of an element moved; the tests hold each line against `brrr.cost`.

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

from brrr.core.measurement import Point
from brrr.counting.cost import Cost, Form, OperatorCost
from brrr_course.experiments.predicted import (
    alone,
    flop_of,
    how_of,
    kernel,
    own_names,
    pointwise,
    product,
    reduction,
    run,
    view,
)
from brrr_course.nouns.experiment import PredictedRun, Variant

ITEMSIZE = {"float32": 4, "bfloat16": 2}
WIDTH = 1024
KINDS = {
    "bias": "bias and ReLU", "pseudo": "scale and bias", "chain": "scale, add and ReLU", "norm": "layer norm",
    "softmax": "softmax", "kept": "two cosines, both needed", "linear": "linear layer and ReLU",
}  # fmt: skip


def operators(kind: str, elements: int, dtype: str = "float32") -> tuple[OperatorCost, ...]:
    """What torch runs one by one, in order."""
    n, w, rows, size = elements, WIDTH, elements // WIDTH, ITEMSIZE[dtype]

    def each(name: str, reads: int = n, numbers: int = n, form: Form | None = None) -> OperatorCost:
        return pointwise(name, numbers, size, dtype, reads=reads, form=form)

    def broadcast(name: str, smaller: int) -> OperatorCost:
        return each(name, n + smaller, form=Form("broadcast", rows, w))

    def over_rows(name: str, flop: int | None = None) -> OperatorCost:
        return reduction(name, Form("rows", rows, w), size, dtype, flop)

    scaled, small = each("mul", form=Form("scalar", 1, n)), each("add", rows, rows, Form("scalar", 1, rows))
    relu = each("relu")
    return {
        "bias": (broadcast("add", w), relu),
        "pseudo": (broadcast("mul", w), broadcast("add", w)),
        "chain": (scaled, each("add", 2 * n), relu),
        "norm": (over_rows("mean", n), broadcast("sub", rows), each("mul"), over_rows("mean", n), small,
                 each("rsqrt", rows, rows), broadcast("mul", rows), broadcast("mul", w), broadcast("add", w)),
        "softmax": (over_rows("amax"), broadcast("sub", rows), each("exp"), over_rows("sum"), broadcast("div", rows)),
        "kept": (each("cos"), each("cos")),
        "linear": (view("t"), product("addmm", rows, w, w, size, dtype, bias=w, transposed=(False, True)), relu),
    }[kind]  # fmt: skip


def moved(kind: str, elements: int) -> tuple[int, int]:
    """Elements moved by the operators one by one, and by one fused kernel.

    >>> moved("chain", 1024)
    (7168, 3072)
    """
    n, w = elements, WIDTH
    fused = {"bias": 2 * n + w, "pseudo": 2 * n + 2 * w, "chain": 3 * n, "norm": 2 * n + 2 * w, "softmax": 2 * n,
             "kept": 3 * n, "linear": 2 * n + w * w + w}  # fmt: skip
    return int(sum(each.bytes for each in operators(kind, n))) // ITEMSIZE["float32"], fused[kind]


def flop(kind: str, elements: int) -> float:
    """FLOP of the work, the same in every form."""
    return flop_of(operators(kind, elements))


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP, compulsory bytes, and eager bytes: those of all operators, or of the one kernel that a fused variant is."""
    kind, elements, size = variant.kind, int(point["elements"]), ITEMSIZE[str(point["dtype"])]
    eager, fused = (float(size * each) for each in moved(kind, elements))
    return Cost(flop(kind, elements), fused, eager_bytes=eager if variant.way == "eager" else fused)


def bytes_ratio(kind: str, elements: int) -> float:
    """Bytes of the operators one by one over those of one kernel: the most that fusion gains by moving less.

    >>> round(bytes_ratio("chain", 2**26), 2)
    2.33
    """
    eager, fused = moved(kind, elements)
    return eager / fused


# ---- what is predicted ----

RESULTS = {"kept": 2}
"""Arrays that a piece of work writes, where it is not one."""


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The operators one by one, or one kernel with the compulsory bytes.

    A compiler leaves the product of the linear layer as it is, a kernel of its own.
    """
    kind, how = variant.kind, variant.way
    elements, dtype = int(point["elements"]), str(point["dtype"])
    size = ITEMSIZE[dtype]
    once = float(size * moved(kind, elements)[1])
    if how == "eager" or kind == "linear":
        listed = operators(kind, elements, dtype)
        return run(listed, once, once + size * elements * (0 if kind == "kept" else 1), how_of(how))
    written = size * elements * RESULTS.get(kind, 1)
    names = own_names(operators(kind, elements, dtype))
    return alone(kernel(names, flop(kind, elements), once - written, written, dtype), how_of(how))
