"""What the driver calls utilisation, beside what the GPU does: matmuls in a loop, from tiny to large.

NVML's utilisation is the share of time in which at least one kernel was running, whatever part of the GPU it used.
Launched one by one, small ones leave gaps; in a CUDA Graph there are hardly any. All three lines are seconds of each
second, which `show={"y": "share"}` tells in percent.
"""

from brrr.core.measurement import Point, Value
from brrr.counting.cost import Cost
from brrr_course.nouns.experiment import Axis, Experiment, Variant

SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
EAGER, GRAPH = "one by one", "as a CUDA Graph"
TINY: dict[str, Value] = {"how": EAGER, "size": 256}


def cost(variant: Variant, point: Point) -> Cost:
    """One product of bfloat16 matrices."""
    n = float(int(point["size"]))
    return Cost(2 * n**3, 6 * n**2)


EXPERIMENT = Experiment(
    title="The driver's utilisation",
    question="A GPU is 100 % utilised. Does it work?",
    axes=(
        Axis("how", (EAGER, GRAPH), label="matmuls", scale="category"),
        Axis("size", SIZES, label="matrix size n", quick=(256, 2048)),
    ),
    variants=(
        Variant("driver", "utilisation, as nvidia-smi reports it", "cuda", timer="own"),
        Variant("busy", "a kernel is running", "cuda", timer="own"),
        Variant("peak", "FLOP done, of the datasheet's peak", "cuda", timer="own"),
    ),
    field="busy_s",
    package=__name__,
    anchors=(TINY,),
)
