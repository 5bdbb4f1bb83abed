"""Four programs as written, under torch.compile in its modes, and in a CUDA Graph: what is removed, when does it pay?

A small program waits for the host, a large one for memory or arithmetic. torch.compile fuses what goes from operator to
operator; `reduce-overhead` puts what is left into a CUDA Graph as well. The first call pays for it.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import ITEMSIZE, Cost
from brrr_course.nouns.experiment import Axis, Experiment, Rate, Variant

CHAIN, NORM, MLP, BLOCK = PROGRAMS = ("pointwise chain", "normalisation", "MLP", "transformer block")
SMALL, LARGE = SIZES = ("small", "large")
SHAPES = {(CHAIN, SMALL): (16, 1024), (CHAIN, LARGE): (65536, 1024), (NORM, SMALL): (16, 1024),
          (NORM, LARGE): (65536, 1024), (MLP, SMALL): (16, 256), (MLP, LARGE): (4096, 4096),
          (BLOCK, SMALL): (64, 256), (BLOCK, LARGE): (4096, 2048)}  # fmt: skip
"""Rows (samples, or tokens) and width."""
CPU_SHRINK = 16
"""On a CPU the large programs have so much fewer rows, and those of matrices a width as much smaller."""
LINKS, LAYERS, HEAD = 8, 4, 64
"""Operators of the chain, layers of the MLP, the width of a head."""
TUNED = ((MLP, SMALL), (MLP, LARGE))
FIRST_CALLS = ((CHAIN, SMALL), (CHAIN, LARGE), (MLP, SMALL), (MLP, LARGE), (BLOCK, SMALL), (BLOCK, LARGE))
COLD = "first call, empty cache"
COMPILE_S, TUNE_S = 3.0, 20.0


def shape_of(variant: Variant, point: Point) -> tuple[int, int]:
    """Rows and width.

    >>> shape_of(EXPERIMENT.variant("cpu-eager"), {"program": "MLP", "size": "large"})
    (256, 256)
    """
    key = (str(point["program"]), str(point["size"]))
    rows, width = SHAPES[key]
    if variant.on_gpu or key[1] == SMALL:
        return rows, width
    return rows // CPU_SHRINK, width if key[0] in (CHAIN, NORM) else width // CPU_SHRINK


def dtype_of(variant: Variant) -> str:
    """The type that is usual there."""
    return "bfloat16" if variant.on_gpu else "float32"


def supports(variant: Variant, point: Point) -> bool:
    """The search for the best kernels at two points, a first call at six."""
    at = str(point["program"]), str(point["size"])
    return at in {"max-autotune": TUNED, COLD: FIRST_CALLS}.get(variant.way, (at,))


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP, and the bytes that must move: input, weights and result once."""
    rows, width = shape_of(variant, point)
    numbers, itemsize = float(rows * width), ITEMSIZE[dtype_of(variant)]
    flop, weights = {
        CHAIN: (LINKS * numbers, 0.0),
        NORM: (9 * numbers, 2.0 * width),
        MLP: (LAYERS * (2.0 * width + 1) * numbers, LAYERS * width * (width + 1.0)),
        BLOCK: ((24.0 * width + 4.0 * rows) * numbers, 12.0 * width**2),
    }[str(point["program"])]
    return Cost(flop, itemsize * (2 * numbers + weights))


EXPERIMENT = Experiment(
    title="Four programs, compiled",
    question="What does torch.compile remove, and after how many calls has it paid?",
    axes=(
        Axis("program", PROGRAMS, label="program", scale="category"),
        Axis("size", SIZES, label="size", scale="category"),
    ),
    variants=(
        Variant("eager", "as written", "cuda"),
        Variant("compile", "torch.compile", "cuda", prepare_s=COMPILE_S),
        Variant("reduce-overhead", "mode reduce-overhead", "cuda", prepare_s=COMPILE_S),
        Variant("max-autotune", "mode max-autotune", "cuda", prepare_s=TUNE_S, apart=True),
        Variant("graph", "as written, in a CUDA Graph", "cuda", prepare_s=0.5),
        Variant("first-cold", COLD, "cuda", timer="own", field="latency_s", way=COLD, prepare_s=2 * COMPILE_S,
                shown=False),
        Variant("cpu-eager", "CPU, as written", "cpu", way="eager", stands_in_for="eager"),
        Variant("cpu-compile", "CPU, torch.compile", "cpu", way="compile", stands_in_for="compile"),
    ),
    field="period_s",
    package=__name__,
    resident=True,
    anchors=({"program": CHAIN, "size": LARGE}, {"program": BLOCK, "size": SMALL}),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    other_rates=(Rate("flop", "FLOP/s", "throughput"),),
)  # fmt: skip
