"""Attention in three steps, with a matrix of all scores in memory, and by flash attention, which never stores it.

Each of N queries looks at N keys: scores = q k^T / sqrt(d), weights = softmax of each row, result = weights v. In
three steps the N x N matrix goes through memory four times: scores written and read, weights written and read. Flash
attention goes through the keys tile by tile, keeps a running maximum and sum for each row, and moves only q, k, v and
the result. The three steps move N / d + 1.5 times as many bytes; both do 4 N^2 d FLOP a head. The backward pass of
flash attention computes the scores again: five matrix multiplications for the four of the stored matrix.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import ITEMSIZE, Cost
from brrr.gpu.datasheet import Hardware
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Variant

LENGTHS = tuple(2**power for power in range(7, 17))
FEW, COMPILED = (128, 512, 2048, 8192, 32768), (2048, 8192)
"""Lengths of all but the plain case; lengths at which the three steps are compiled."""
LONGEST_TRAINED, LONGEST_ON_CPU = 8192, 4096
ALL, CAUSAL, ONE, TRAINING = KINDS = ("all", "causal", "one query", "training")
"""All keys for each query; only those before it; a single query, as in decode; forward and backward."""
WIDTH, CPU_WIDTH = 2048, 256
"""Heads times the width of each: sixteen heads of 128 on a GPU, two on a CPU."""
COMPILE_WAYS, FLASH_WAYS = ("compile", "compile-known"), ("efficient", "flash", "cudnn")
STEPS_WAYS = ("naive", "compile")
"""Those that store the matrix; the compiler replaces `compile-known` by the library's attention."""
COMPILE_S, CUDNN_S = 8.0, 0.3


def sizes(variant: Variant, point: Point) -> tuple[int, int, int, int]:
    """Heads, queries, keys, and the width of a head."""
    keys, head = int(point["length"]), int(point["head"])
    return (WIDTH if variant.on_gpu else CPU_WIDTH) // head, 1 if point["kind"] == ONE else keys, keys, head


SPECIAL = (*((kind, "bfloat16", 128) for kind in (CAUSAL, ONE, TRAINING)), (ALL, "float32", 128), (ALL, "bfloat16", 64))
"""Cases beside the plain one, in which every query sees all keys, in bfloat16, in heads of 128."""


def supports(variant: Variant, point: Point) -> bool:
    """Each way at all lengths in the plain case; a few lengths of the others, and some ways not there."""
    length, kind, dtype, head = int(point["length"]), point["kind"], point["dtype"], point["head"]
    plain = (kind, dtype, head) == (ALL, "bfloat16", 128)
    if not plain and (length not in FEW or (kind, dtype, head) not in SPECIAL):
        return False
    if not variant.on_gpu:
        return length <= LONGEST_ON_CPU
    if variant.way in COMPILE_WAYS:
        return plain and length in COMPILED
    if variant.way == "cudnn" and kind == ONE:
        return False  # torch does not give it a single query
    return kind != TRAINING or length <= LONGEST_TRAINED


def matrix_bytes(variant: Variant, point: Point) -> float:
    """The N x N matrices of all heads."""
    heads, queries, keys, _ = sizes(variant, point)
    return float(heads * queries * keys) * ITEMSIZE[str(point["dtype"])]


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP of the matmuls, and the bytes that the algorithm moves; flash attention skips what a causal mask hides."""
    heads, queries, keys, head = sizes(variant, point)
    kind, row = str(point["kind"]), float(ITEMSIZE[str(point["dtype"])] * heads * head)
    flop, ends = 4.0 * heads * queries * keys * head, 2 * row * (queries + keys)
    if variant.way not in STEPS_WAYS:
        seen = (keys + 1) / (2 * keys) if kind == CAUSAL else 1.0
        again, moved = (3.5, 3 * ends) if kind == TRAINING else (1.0, ends)
        return Cost(flop * seen * again, moved)
    times, passes = {CAUSAL: (1, 6), TRAINING: (3, 11)}.get(kind, (1, 4))
    hidden = float(queries * keys) if kind == CAUSAL else 0.0
    return Cost(flop * times, passes * matrix_bytes(variant, point) + times * (ends + 2 * row * queries) + hidden)


def needed_bytes(variant: Variant, point: Point) -> int:
    """What a call holds at most beside its inputs: of the N x N matrices two, in training three.

    >>> at = {"length": 2**16, "kind": "all", "dtype": "bfloat16", "head": 128}
    >>> [round(needed_bytes(EXPERIMENT.variant(name), at) / 1e9) for name in ("naive", "flash")]
    [277, 2]
    """
    heads, queries, keys, head = sizes(variant, point)
    rows = 8 * heads * (queries + keys) * head
    if variant.way not in STEPS_WAYS:
        return rows
    held = 3 if point["kind"] == TRAINING else 2
    return int(held * matrix_bytes(variant, point)) + rows


def predicted(variant: Variant, point: Point) -> PredictedRun:
    """The roofline of its bytes and its FLOP."""
    return PredictedRun(cost(variant, point), dtype=str(point["dtype"]))


def steps_at_bandwidth(hardware: Hardware | None, point: Point) -> float | None:
    """The three steps' bytes at the datasheet's bandwidth, in seconds."""
    return cost(EXPERIMENT.variant("naive"), point).bytes / hardware.memory_bytes_per_s if hardware else None


def flash_at_peak(hardware: Hardware | None, point: Point) -> float | None:
    """Flash attention's FLOP at the tensor cores' peak, in seconds; of a single query only the bytes count."""
    asked = point["dtype"] == "bfloat16" and point["kind"] != ONE
    if hardware is None or not asked or "bf16" not in {dtype for dtype, _ in hardware.peaks}:
        return None
    return cost(EXPERIMENT.variant("flash"), point).flop / hardware.peak("bf16")


EXPERIMENT = Experiment(
    title="Attention, with and without its matrix",
    question="Which algorithm lets attention be one kernel?",
    axes=(
        Axis("length", LENGTHS, label="tokens N", quick=(128, 512)),
        Axis("kind", KINDS, label="kind of attention", scale="category"),
        Axis("dtype", ("bfloat16", "float32"), label="type", scale="category"),
        Axis("head", (64, 128), label="width of a head", quick=(128,)),
    ),
    variants=(
        Variant("naive", "three steps", "cuda"),
        Variant("compile", "torch.compile of the three steps", "cuda", prepare_s=COMPILE_S, shown=False),
        Variant("compile-known", "torch.compile, spelled as in textbooks", "cuda", prepare_s=COMPILE_S, shown=False),
        Variant("efficient", "SDPA, memory-efficient", "cuda"),
        Variant("flash", "SDPA, flash", "cuda"),
        Variant("cudnn", "SDPA, cuDNN", "cuda", prepare_s=CUDNN_S),
        Variant("cpu-naive", "CPU, three steps", "cpu", way="naive", stands_in_for="naive"),
        Variant("cpu-flash", "CPU, SDPA", "cpu", way="flash", stands_in_for="flash"),
    ),
    field="period_s",
    package=__name__,
    resident=True,
    anchors=tuple({"length": n, "kind": ALL, "dtype": "bfloat16", "head": 128} for n in COMPILED),
    rate=Rate("bytes", "B/s", "bandwidth"),
    other_rates=(Rate("flop", "FLOP/s", "throughput"),),
    guides=(
        Guide("bytes", "three steps: bytes over the bandwidth", "DATASHEET", "time", steps_at_bandwidth, ("naive",)),
        Guide("flop", "flash: FLOP over the peak", "DATASHEET", "time", flash_at_peak, FLASH_WAYS),
    ),
)
