"""What one operator costs the host: a ReLU called in ever barer ways, from nn.Module down to a launch by hand.

The question and the claims follow the remarks on overhead in "GPU Overheads and Fused Strassen" (2021) and the section
"Overhead" of "Making Deep Learning Go Brrrr From First Principles". A call applies the operator once, or 16 times in
a row: what a whole chain is told at once (TorchScript, torch.compile, a CUDA Graph) can only pay there.
"""

from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant

ELEMENTS = (1024, 65536, 2**20, 2**24)
SMALL = 1024
"""So small that even on a CPU, where the call does the work itself, it is little beside the host's cost."""
CHAINS = (1, 16)
MOST_ON_CPU = 2**20
ITEMSIZE = 4


RUNGS = {
    "module": "nn.Module", "module-grad": "nn.Module, recorded for autograd", "functional": "functional (F.relu)",
    "relu": "torch.relu", "out": "into an existing array (out=)", "script": "TorchScript, no fusion",
    "graph": "CUDA Graph replay", "pycuda": "launched by PyCUDA (prepared call)",
}  # fmt: skip
"""The ways of calling the operator."""
ON_GPU_ALONE = ("graph", "pycuda")
LOOPED = ("module", "module-grad", "graph", "pycuda")


def supports(variant: Variant, point: Point) -> bool:
    """The CPU stops early, for there a large operator hides nothing."""
    elements = int(point["elements"])
    return variant.on_gpu or elements <= MOST_ON_CPU


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a call: each operator reads its input and writes its output."""
    elements, times = int(point["elements"]), int(point["operators"])
    return Cost(float(elements * times), 2.0 * ITEMSIZE * elements * times)


EXPERIMENT = Experiment(
    title="One operator's cost on the host",
    question="What does the host do before the GPU may begin?",
    axes=(
        Axis("elements", ELEMENTS, label="elements of the ReLU (float32)", quick=(SMALL,)),
        Axis("operators", CHAINS, label="operators in a row", quick=CHAINS),
    ),
    variants=(
        *(Variant(way, label, "cuda", line=way) for way, label in RUNGS.items()),
        *(Variant(f"cpu-{way}", f"{label}, on the CPU", "cpu", way=way, stands_in_for=way)
          for way, label in RUNGS.items() if way not in ON_GPU_ALONE),
    ),
    field="host_s",
    lines=tuple(Line(f"{way} in a loop", way, "period_s", f"{RUNGS[way]}: a loop", shown=False) for way in LOOPED),
    package=__name__,
    anchors=({"elements": SMALL, "operators": 1},),
)  # fmt: skip
