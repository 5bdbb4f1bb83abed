"""A product of matrices, column by column: what does one more column cost?

W (M, K) times x (K, N) with M = K, as a layer's weights times a mini-batch of N columns. The questions and most claims
follow "Investigating performance of GPU BLAS Libraries" (2016), which used cuBLAS's single precision of that time.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import ITEMSIZE, Cost, Matmul, matmul_cost
from brrr_course.experiments.predicted import alone, product
from brrr_course.nouns.experiment import Axis, Experiment, PredictedRun, Rate, Variant

DTYPES = ("float32", "tf32", "bfloat16", "float16")
SWEPT = 2048
"""At this size every number of columns is measured up to MOST, in float32 and bfloat16."""
MOST = 1100
SIZES = (512, 1024, 2048, 4096, 8192)
HELD_OUT = (1760, 2560, 3000)
"""No constant of the predictor was fitted to these sizes."""
STEPPED = tuple(range(1024, 2561, 128))
FEW = (1, 2, 4, 8, 16)
EVEN = tuple(range(32, 1025, 32))
ODD = tuple(n + 1 for n in EVEN)
EIGHTS = tuple(range(40, 1025, 64))
"""Multiples of 8 that are none of 16."""
WIDE = (1536, 1537, 2048, 2049, 3072, 3073, 4095, 4096)
SOME = frozenset((*FEW, *EVEN, *ODD, *EIGHTS, *WIDE))
BATCHES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096)
"""In every type and layout, at every one of SIZES: what the lesson's sliders reach."""
STEPS = frozenset((1, 16, 32, 33, 64, 65, 96, 128, 192, 256))
"""The source's mini-batches and two odd neighbours."""
APART = frozenset((1, 2, 8, 32, 33, 64, 96, 128, 129, 256, 257, 320, 512, 513, 768, 800, 1024, 1025, 2048, 4096))
DATA = frozenset((32, 512, 1024, 4096))
"""Where zeros are multiplied, too."""
ON_CPU = frozenset((1, 2, 4, 8, 16, 31, 32, 33, 64, 65, 96, 128, 129, 256, 257))
CPU_SIZES = (512, 1024, 2048)


def supports(variant: Variant, point: Point) -> bool:
    """Which way is measured at which point."""
    size, n, dtype = int(point["size"]), int(point["columns"]), point["dtype"]
    if not variant.on_gpu:
        return dtype == "float32" and size in CPU_SIZES and n in ON_CPU
    plain = dtype in ("float32", "bfloat16")
    if variant.way in ("nn", "nt", "tn") and size in SIZES and n in BATCHES:
        return True
    match variant.way:
        case "nn":
            return _plain(size, n, plain)
        case "nt" | "tn":
            return plain and ((size == SWEPT and n in SOME) or (size in STEPPED and n in STEPS))
        case "linear":
            return plain and size == SWEPT and n in SOME
        case "zeros":
            return size in (SWEPT, 4096, 8192) and n in DATA
        case _:
            return size == SWEPT and dtype in ("bfloat16", "float16") and n in (*ODD, *EVEN, *EIGHTS, *FEW, *WIDE)


def _plain(size: int, n: int, plain: bool) -> bool:
    """W x as both lie in memory, row by row."""
    if size == SWEPT:
        return n in SOME or (plain and n <= MOST)
    if not plain:
        return size in (4096, 8192) and n in DATA
    return n in SOME if size in SIZES else n in APART if size in HELD_OUT else size in STEPPED and n in STEPS


def settle_s(point: Point) -> float:
    """How long a way runs unmeasured where its power is of interest: until clock and power have settled."""
    return 1.0 if int(point["size"]) == 8192 and int(point["columns"]) == 4096 else 0.0


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of the product, the same for every way."""
    size = int(point["size"])
    return matmul_cost(size, size, int(point["columns"]), ITEMSIZE.get(str(point["dtype"]), 4))


def matmul_of(variant: str, point: Point) -> Matmul:
    """The product that a way computes: a Linear's has the mini-batch as its rows.

    >>> matmul_of("linear", {"size": 64, "columns": 7, "dtype": "bfloat16"}).m
    7
    """
    size, n = int(point["size"]), int(point["columns"])
    dtype = "float32" if point["dtype"] == "tf32" else str(point["dtype"])
    if variant == "linear":
        return Matmul(n, size, size, dtype=dtype, transposed=(False, True))
    return Matmul(size, n, size, dtype=dtype, transposed=(variant == "tn", variant == "nt"))


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The product alone; nothing for padding, which adds a copy."""
    if variant.way == "padded":
        return None
    each = matmul_of(variant.way, point)
    dtype = "tf32" if point["dtype"] == "tf32" else each.dtype
    return alone(product("mm", each.m, each.n, each.k, ITEMSIZE[each.dtype], dtype, transposed=each.transposed))


EXPERIMENT = Experiment(
    title="Products of matrices",
    question="What does one more column cost?",
    axes=(
        Axis("columns", tuple(sorted({*range(1, MOST + 1), *SOME, *APART})), label="columns N (the mini-batch)",
             quick=(1, 32, 33, 128)),
        Axis("size", tuple(sorted({*SIZES, *HELD_OUT, *STEPPED})), label="size M = K", quick=(512,)),
        Axis("dtype", DTYPES, label="type", scale="category", quick=("float32",)),
    ),
    variants=(
        Variant("nn", "W x, both row by row (NN)", "cuda"),
        Variant("nt", "x stored transposed (NT)", "cuda", shown=False),
        Variant("tn", "W stored transposed (TN)", "cuda", shown=False),
        Variant("linear", "a Linear layer: one row per sample", "cuda", shown=False),
        Variant("zeros", "W x of zeros", "cuda", shown=False),
        Variant("padded", "x padded to whole 16 bytes", "cuda", shown=False),
        Variant("cpu", "W x on the CPU", "cpu", stands_in_for="nn"),
    ),
    field="span_s",
    package=__name__,
    anchors=({"columns": 1024, "size": SWEPT, "dtype": "float32"},
             {"columns": 1024, "size": SWEPT, "dtype": "bfloat16"}),
    rate=Rate("flop", "FLOP/s", "throughput"),
    names_kernels=True,
)  # fmt: skip
