"""Pieces of work operator by operator and fused: does fusion gain what the bytes say?

The question and two claims follow "Making Deep Learning Go Brrrr From First Principles": fusion of element-wise
operators, fusion onto a reduction. Arrays have rows of 1024; each way of a piece of work runs on the same numbers.
"""

from brrr.core.measurement import Point
from brrr.gpu import is_cpu
from brrr_course.experiments.fusion.theory import ITEMSIZE, KINDS, cost, predicted
from brrr_course.experiments.predicted import BANDWIDTH
from brrr_course.nouns.experiment import Axis, Experiment, Line, Rate, Variant

__all__ = ["EXPERIMENT", "cost", "supports"]

ELEMENTS = (2**10, 2**14, 2**18, 2**20, 2**22, 2**24, 2**26)
CPU_MAX = 2**22
COMPILED = {"float32": (2**10, 2**14, 2**18, 2**20, 2**22, 2**24, 2**26), "bfloat16": (2**10, 2**26)}
"""torch.compile makes a new kernel for each size, which takes seconds."""

LABELS = {"eager": "one operator each", "compile": "torch.compile", "triton": "Triton", "cuda": "a line of CUDA C++",
          "blocks": "a block at a time"}  # fmt: skip
WAYS: dict[str, tuple[str, ...]] = {
    "bias": ("eager", "compile", "triton", "cuda"),
    "pseudo": ("eager", "compile", "triton", "cuda"),
    "chain": ("eager", "compile", "triton", "cuda"),
    "norm": ("eager", "compile", "triton"),
    "softmax": ("eager", "compile", "triton"),
    "kept": ("eager", "compile"),
    "linear": ("eager", "compile"),
}
CPU_KINDS = ("bias", "pseudo", "chain", "norm", "softmax")
"""Where a block of rows can go through all operators while it stays in the cache."""


def supports(variant: Variant, point: Point) -> bool:
    """The CPU stops at CPU_MAX elements, torch.compile takes the sizes in COMPILED."""
    elements = int(point["elements"])
    if is_cpu(variant.device):
        return elements <= CPU_MAX
    return variant.way != "compile" or elements in COMPILED[str(point["dtype"])]


def _variant(kind: str, way: str, *, cpu: bool = False) -> Variant:
    """The chain is shown at first, the others on request: all at once would be two dozen lines."""
    name, label = f"{kind}-{way}", f"{KINDS[kind]}, {LABELS[way]}"
    shown = kind == "chain"
    if cpu:
        return Variant(f"cpu-{name}", f"CPU, {label}", "cpu", way=way, kind=kind, shown=shown)
    return Variant(name, label, "cuda", way=way, kind=kind, shown=shown)


ON_CPU = {"eager": "eager", "compile": "blocks"}

EXPERIMENT = Experiment(
    title="Operators one by one, and fused",
    question="Does fusion gain what the bytes say?",
    axes=(
        Axis("elements", ELEMENTS, label="elements, in rows of 1024", quick=(2**10, 2**18, 2**20)),
        Axis("dtype", tuple(ITEMSIZE), label="type of the elements", scale="category", quick=("float32",)),
    ),
    variants=(
        *(_variant(kind, way) for kind, ways in WAYS.items() for way in ways),
        *(_variant(kind, way, cpu=True) for kind in CPU_KINDS for way in ("eager", "blocks")),
    ),
    field="busy_s",
    lines=(
        Line("chain eager period", "chain-eager", "period_s", "scale, add and ReLU, one operator each, in a loop",
             shown=False),
        Line("chain compile period", "chain-compile", "period_s", "scale, add and ReLU, torch.compile, in a loop",
             shown=False),
    ),
    package=__name__,
    cost=cost,
    predicts=predicted,
    on_cpu={f"{kind} {way}": f"cpu {kind} {ON_CPU[way]}" for kind in CPU_KINDS for way in ON_CPU},
    anchors=({"elements": 2**14, "dtype": "float32"}, {"elements": 2**26, "dtype": "float32"}),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(
        BANDWIDTH,
    ),
)  # fmt: skip
