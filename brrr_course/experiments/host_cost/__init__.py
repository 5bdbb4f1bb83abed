"""What one operator costs the host: a ReLU called in ever barer ways, from nn.Module down to a launch by hand.

The question and the claims follow the remarks on overhead in "GPU Overheads and Fused Strassen" (2021) and the section
"Overhead" of "Making Deep Learning Go Brrrr From First Principles". A call applies the operator once, or 16 times in
a row: what a whole chain is told at once (TorchScript, torch.compile, a CUDA Graph) can only pay there.
"""

from __future__ import annotations

from dataclasses import dataclass

from brrr.core import units
from brrr.core.measurement import Estimate, Point
from brrr.counting.cost import Cost
from brrr_course.experiments.judging import at, closed
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_above, not_below, ratio_verdict
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant
from brrr_course.nouns.source import Evidence

ELEMENTS = (1024, 65536, 2**20, 2**24)
SMALL = 1024
"""So small that even on a CPU, where the call does the work itself, it is little beside the host's cost."""
CHAINS = (1, 16)
MOST_ON_CPU = 2**20
ITEMSIZE = 4


@dataclass(frozen=True)
class Rung:
    """One way of calling the operator: its name, its label, and whether a CPU has it too."""

    name: str
    label: str
    on_cpu: bool = True


RUNGS = (
    Rung("module", "nn.Module"),
    Rung("module-grad", "nn.Module, recorded for autograd"),
    Rung("functional", "functional (F.relu)"),
    Rung("relu", "torch.relu"),
    Rung("out", "into memory that is there (out=)"),
    Rung("script", "TorchScript, no fusion"),
    Rung("graph", "CUDA Graph replay", on_cpu=False),
    Rung("pycuda", "launched by PyCUDA (prepared call)", on_cpu=False),
)
LOOPED = ("module", "module-grad", "graph", "pycuda")


def supports(variant: Variant, point: Point) -> bool:
    """The CPU stops early, for there a large operator hides nothing."""
    elements = int(point["elements"])
    return variant.on_gpu or elements <= MOST_ON_CPU


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP and bytes of a call: each operator reads its input and writes its output."""
    elements, times = int(point["elements"]), int(point["operators"])
    return Cost(float(elements * times), 2.0 * ITEMSIZE * elements * times)


def _module_to_blame(evidence: Evidence) -> Verdict:
    """How much of nn.Module's host time is gone when the bare operator is called instead."""
    module, bare = (at(evidence, line, elements=SMALL, operators=1) for line in ("module", "relu"))
    times = f"{units.seconds(module.median)} through nn.Module, {units.seconds(bare.median)} without it: "
    text = f"{times}{units.percent(1 - bare.median / module.median, 2)} of it is nn.Module's"
    return Verdict(not_below(1 - bare / module, 0.5), text)


def _script_closes(evidence: Evidence) -> Verdict:
    """The share of the way from nn.Module down to PyCUDA's prepared call that TorchScript goes, a chain of 16."""
    top, script, floor = (
        evidence.get(line, elements=SMALL, operators=CHAINS[-1]) for line in ("module", "script", "pycuda")
    )
    share = closed(top, script, floor)
    times = f"nn.Module {_s(top)}, TorchScript {_s(script)}, PyCUDA {_s(floor)}"
    return Verdict(not_below(share, 0.5), f"{times}: TorchScript closes {share:%} of the gap")


def _s(time: Estimate) -> str:
    return units.seconds(time.median)


def _buffers(evidence: Evidence) -> Verdict:
    """Eager torch into memory that is there, beside PyCUDA, which writes into such memory too."""
    reused, floor = (evidence.get(line, elements=SMALL, operators=CHAINS[-1]) for line in ("out", "pycuda"))
    fresh = evidence.get("relu", elements=SMALL, operators=CHAINS[-1])
    text = f"torch.relu {_s(fresh)}, with out= {_s(reused)}, PyCUDA {_s(floor)} for {CHAINS[-1]} operators"
    return Verdict(not_above(reused / floor, 1.1), text)


def _out_saves(evidence: Evidence) -> Verdict:
    """torch.relu, which asks the allocator each time, over the same kernel with out=."""
    fresh, reused = (at(evidence, line, elements=SMALL, operators=CHAINS[-1]) for line in ("relu", "out"))
    return ratio_verdict(fresh, reused, 1.05, "host_s of torch.relu over that with out=")


def _pycuda_wins(evidence: Evidence) -> Verdict:
    """A chain of small operators in a loop: nn.Module over PyCUDA."""
    module, floor = (
        evidence.get(f"{line} in a loop", elements=SMALL, operators=CHAINS[-1]) for line in ("module", "pycuda")
    )
    return ratio_verdict(module, floor, 1.5, "period_s of nn.Module over PyCUDA's")


def _more_than_a_launch(evidence: Evidence) -> Verdict:
    """One bare torch operator beside one prepared call."""
    bare, floor = (evidence.get(line, elements=SMALL, operators=1) for line in ("relu", "pycuda"))
    return ratio_verdict(bare, floor, 1.1, f"torch.relu {_s(bare)} over PyCUDA's prepared call {_s(floor)}")


def _graph_likes_a_chain(evidence: Evidence) -> Verdict:
    """What a CUDA Graph saves of nn.Module's loop, for one operator and for 16: the second must be clearly more."""
    gains = []
    for operators in CHAINS:
        module, graph = (
            evidence.get(f"{line} in a loop", elements=SMALL, operators=operators) for line in ("module", "graph")
        )
        gains.append(module / graph)
    one, many = gains
    text = (
        f"one operator {units.ratio(one.median)} faster in a graph, {CHAINS[-1]} operators {units.ratio(many.median)}"
    )
    return Verdict(not_below(many / one, 1.25), text)


def _hidden(evidence: Evidence) -> Verdict:
    """One large operator in a loop: the dearest way of calling it must take as long as the cheapest."""
    top, floor = (
        evidence.get(f"{line} in a loop", elements=ELEMENTS[-1], operators=1) for line in ("module-grad", "graph")
    )
    text = f"{_s(top)} through nn.Module with autograd, {_s(floor)} as a CUDA Graph, {ELEMENTS[-1]} elements"
    return band_verdict(top / floor, 0.95, 1.05, text)


JUDGES: dict[str, Judge] = {
    "module-to-blame": _module_to_blame,
    "torchscript-closes": _script_closes,
    "pycuda-wins": _pycuda_wins,
    "buffers-reused": _buffers,
    "out-saves": _out_saves,
    "more-than-a-launch": _more_than_a_launch,
    "graph-likes-a-chain": _graph_likes_a_chain,
    "hidden": _hidden,
}

EXPERIMENT = Experiment(
    name="host_cost",
    title="One operator's cost on the host",
    question="What does the host do before the GPU may begin?",
    axes=(
        Axis("elements", ELEMENTS, label="elements of the ReLU (float32)", quick=(SMALL,)),
        Axis("operators", CHAINS, label="operators in a row", quick=CHAINS),
    ),
    variants=(
        *(Variant(rung.name, rung.label, "cuda", line=rung.name) for rung in RUNGS),
        *(Variant(f"cpu-{rung.name}", f"{rung.label}, on the CPU", "cpu", way=rung.name, stands_in_for=rung.name)
          for rung in RUNGS if rung.on_cpu),
    ),
    field="host_s",
    lines=tuple(Line(f"{rung.name} in a loop", rung.name, "period_s", f"{rung.label}: a loop", shown=False)
                for rung in RUNGS if rung.name in LOOPED),
    package=__name__,
    supports=supports,
    cost=cost,
    judges=JUDGES,
    anchors=({"elements": SMALL, "operators": 1},),
)  # fmt: skip
