"""One Linear layer in types of fewer bits: the whole product, or its weights alone.

With few tokens the weights' bytes set the pace: half the bits, half the time. With many the arithmetic does: fewer bits
pay there only where the tensor cores multiply them as they are. Weights alone in int8 or int4 are widened to bfloat16
in each call, and activations of an fp8 product must first be scaled and cast: converting is work.
"""

from typing import NamedTuple

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu.datasheet import Hardware
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Variant

TOKENS = tuple(2**power for power in range(15))
WIDTHS = (1024, 4096, 8192)
WIDEST, MIDDLE, FEW = 8192, 4096, (1, 16, 256, 4096, 16384)
"""The width at which all powers of two of tokens are measured, the others at powers of four; where a compiler runs."""

ORDINARY, OUTLIERS = INPUTS = ("ordinary", "outlier channels")
OUTLIER_TOKENS = (256, 4096)
GROUP = 128
"""So many int4 weights share a scale and a zero, of two bytes each."""

COMPILE_S = 4.0
MOST_OUTPUTS, MOST_ON_CPU = 2**34, 2**30
"""Multiply-adds up to which torch's int8 kernel, a thread for each result, and a CPU are asked."""


class Stored(NamedTuple):
    """Bytes that move for each weight, for each number of an activation, and for each of a result; the peak's type."""

    weight: float
    activation: float
    result: float
    peak: str


BF16 = Stored(2, 2, 2, "bf16")
FP8 = Stored(1, 1, 2, "fp8")
WAYS = {
    "float32": Stored(4, 4, 4, "fp32"), "tf32": Stored(4, 4, 4, "tf32"), "bf16": BF16,
    "fp8": FP8, "fp8-rows": FP8,
    "fp8-cast": FP8._replace(activation=2 + 4 + 3 + 1),  # the largest, the scaling, the cast, the product
    "fp8-rows-cast": FP8._replace(activation=2 + 6 + 5 + 1),  # scaled in float32
    "fp8-rows-compiled": FP8._replace(activation=2 + 1 + 1),
    "int8": BF16._replace(weight=1), "int8-fused": BF16._replace(weight=1),
    "int8-widened": BF16._replace(weight=1 + 2 + 2),
    "int8-both": Stored(1, 1, 4 + 4 + 2, "int8"),
    "int4": BF16._replace(weight=0.5 + 4 / GROUP),
}  # fmt: skip
"""What each way stores, and what its conversions move beside."""

CPU_WAYS = ("float32", "bf16", "fp8", "int8", "int8-widened", "int4")


def sizes(point: Point) -> tuple[int, int]:
    """Tokens, and the layer's width."""
    return int(point["tokens"]), int(point["width"])


def supports(variant: Variant, point: Point) -> bool:
    """All tokens at the largest width, every second power at others; some ways at a few points."""
    (tokens, width), way = sizes(point), variant.way
    if point["inputs"] == OUTLIERS and (width != MIDDLE or tokens not in OUTLIER_TOKENS):
        return False
    if not variant.on_gpu:
        return tokens * width * width <= MOST_ON_CPU and tokens in TOKENS[::2]
    if way == "int8-fused":
        return tokens == 1
    if way == "fp8-rows-compiled":
        return tokens in FEW and width == MIDDLE and point["inputs"] == ORDINARY
    if way == "int8-both" and tokens <= 16:
        return False  # torch's int8 product takes 17 rows and more
    if way == "int8" and tokens * width * width > MOST_OUTPUTS:
        return False
    return width == WIDEST or tokens in TOKENS[::2]


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP of the product, and the bytes of what is stored and converted.

    >>> at = {"tokens": 1, "width": 8192, "inputs": "ordinary"}
    >>> [round(cost(EXPERIMENT.variant(way), at).bytes / 1e6) for way in ("float32", "bf16", "fp8", "int4")]
    [269, 134, 67, 36]
    """
    tokens, width = sizes(point)
    stored = WAYS[variant.way]
    ends = tokens * width * (stored.activation + stored.result)
    return Cost(2.0 * tokens * width * width, width * width * stored.weight + ends)


PREDICTED = {"float32": "float32", "bf16": "bfloat16"}


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """The roofline of its bytes and FLOP; nothing of kernels that are far from it, nor of a conversion."""
    dtype = PREDICTED.get(variant.way)
    return PredictedRun(cost(variant, point), dtype=dtype) if dtype else None


def _roof(way: str) -> Guide:
    def at(hardware: Hardware | None, point: Point) -> float | None:
        made, peak = cost(EXPERIMENT.variant(way), point), WAYS[way].peak
        if hardware is None or peak not in {name for name, _ in hardware.peaks}:
            return None
        return max(made.bytes / hardware.memory_bytes_per_s, made.flop / hardware.peak(peak))

    return Guide(way, f"{way}: the roofline", "DATASHEET", "time", at, (way,))


LABELS = {
    "float32": "float32", "tf32": "TF32", "bf16": "bf16", "fp8": "fp8",
    "fp8-cast": "fp8, with the cast",
    "fp8-rows": "fp8 by rows", "fp8-rows-cast": "fp8 by rows, with the cast",
    "fp8-rows-compiled": "fp8 by rows, with the cast compiled", "int8": "int8 weights",
    "int8-fused": "int8 weights, compiled", "int8-widened": "int8 weights, widened first",
    "int8-both": "int8 weights and activations", "int4": "int4 weights",
}  # fmt: skip
SHOWN = ("float32", "tf32", "bf16", "fp8", "fp8-cast", "int4")

EXPERIMENT = Experiment(
    title="A Linear layer in fewer bits",
    question="When do fewer bits help?",
    axes=(
        Axis("tokens", TOKENS, label="tokens", quick=(1, 16)),
        Axis("width", WIDTHS, label="width", quick=(1024,)),
        Axis("inputs", INPUTS, label="inputs", scale="category", quick=(ORDINARY,)),
    ),
    variants=(
        *(
            Variant(way, label, "cuda", prepare_s=COMPILE_S if way.endswith(("compiled", "fused")) else 0.0,
                    shown=way in SHOWN)
            for way, label in LABELS.items()
        ),
        *(
            Variant(f"cpu-{way}", f"CPU, {LABELS[way]}", "cpu", way=way, shown=way in SHOWN,
                    stands_in_for=way.replace("-", " "))
            for way in CPU_WAYS
        ),
    ),
    field="period_s",
    package=__name__,
    resident=True,
    anchors=tuple({"tokens": n, "width": WIDEST, "inputs": ORDINARY} for n in (1, 16384)),
    rate=Rate("flop", "FLOP/s", "throughput"),
    other_rates=(Rate("bytes", "B/s", "bandwidth"),),
    guides=(_roof("bf16"), _roof("fp8"), _roof("int4")),
)  # fmt: skip
