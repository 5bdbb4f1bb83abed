"""What one operator costs the host: a ReLU called in ever barer ways, from nn.Module down to a launch by hand.

The question and the claims follow the remarks on overhead in "GPU Overheads and Fused Strassen" (2021) and the section
"Overhead" of "Making Deep Learning Go Brrrr From First Principles". A call applies the operator once, or 16 times in
a row: what a whole chain is told at once (TorchScript, torch.compile, a CUDA Graph) can only pay there.
"""

from __future__ import annotations

from dataclasses import dataclass

from brrr.core.measurement import DeviceKind, Point
from brrr.counting.cost import Cost
from brrr.gpu import is_cpu, is_gpu
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant, stand_in

ELEMENTS = (1024, 65536, 2**20, 2**24)
SMALL = 1024
"""So small that even on a CPU, where the call does the work itself, it is little beside the host's cost."""
CHAINS = (1, 16)
MOST_ON_CPU = 2**20
COMPILED_AT = (SMALL, 2**20)
"""Compiling takes seconds a size."""
ITEMSIZE = 4


@dataclass(frozen=True)
class Rung:
    """One way of calling the operator: its name, its label, and whether a CPU has it too."""

    name: str
    label: str
    on_cpu: bool = True


RUNGS = (
    Rung("module-grad", "nn.Module, recorded for autograd"),
    Rung("functional-grad", "functional, recorded for autograd"),
    Rung("module", "nn.Module"),
    Rung("functional", "functional (F.relu)"),
    Rung("relu", "torch.relu"),
    Rung("aten", "torch.ops.aten.relu"),
    Rung("out", "into memory that is there (out=)"),
    Rung("inference", "torch.relu inside inference_mode"),
    Rung("script", "TorchScript, no fusion"),
    Rung("compile", "torch.compile, fuses a chain"),
    Rung("graph", "CUDA Graph replay", on_cpu=False),
    Rung("bindings", "launched by cuda-bindings", on_cpu=False),
    Rung("pycuda", "launched by PyCUDA (prepared call)", on_cpu=False),
)


def _variants() -> tuple[Variant, ...]:
    on: dict[DeviceKind, str] = {"cuda": "", "cpu": "cpu-"}
    return tuple(
        Variant(f"{prefix}{rung.name}", rung.label + (", on the CPU" if is_cpu(device) else ""), device, way=rung.name)
        for device, prefix in on.items()
        for rung in RUNGS
        if rung.on_cpu or is_gpu(device)
    )


def _lines() -> tuple[Line, ...]:
    """For each rung what issuing costs, and (`NAME in a loop`) what a loop takes.

    A line called `queue NAME` stands in for `NAME` where there is no GPU: here it is the same rung on the CPU.
    """
    found = []
    for rung in RUNGS:
        found.append(Line(rung.name, rung.name, "host_s", rung.label))
        if rung.on_cpu:
            found.append(stand_in(rung.name, f"cpu-{rung.name}", "host_s", f"{rung.label}, on the CPU"))
    for rung in RUNGS:
        loop = f"{rung.name} in a loop"
        found.append(Line(loop, rung.name, "period_s", f"{rung.label}: a loop", shown=False))
        if rung.on_cpu:
            label = f"{rung.label}, on the CPU: a loop"
            found.append(stand_in(loop, f"cpu-{rung.name}", "period_s", label, shown=False))
    return tuple(found)


def supports(variant: Variant, point: Point) -> bool:
    """The CPU stops early, for there a large operator hides nothing; compiled is at two sizes only."""
    elements = int(point["elements"])
    if is_cpu(variant.device) and elements > MOST_ON_CPU:
        return False
    return variant.way != "compile" or elements in COMPILED_AT


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a call: each operator reads its input and writes its output."""
    elements, times = int(point["elements"]), int(point["operators"])
    return Cost(float(elements * times), 2.0 * ITEMSIZE * elements * times)


EXPERIMENT = Experiment(
    name="host_cost",
    title="One operator's cost on the host",
    question="What does the host do before the GPU may begin?",
    axes=(
        Axis("elements", ELEMENTS, label="elements of the ReLU (float32)", quick=(SMALL,)),
        Axis("operators", CHAINS, label="operators in a row", quick=CHAINS),
    ),
    variants=_variants(),
    lines=_lines(),
    package=__name__,
    supports=supports,
    cost=cost,
    anchors=({"elements": SMALL, "operators": 1},),
)
