"""How good are predictions? Hundreds of cases, measured; what `brrr.predict` says of them is held against the times.

The recording holds what was measured, and what torch's own estimator said on that machine. The predictions are
computed when the claims are judged, from descriptions of the same calls and the machine's measured peaks: see `rows`.
"""

from functools import lru_cache

from brrr.core.measurement import DeviceKind, Point
from brrr_course.nouns.experiment import Axis, Experiment, Line, Variant
from tools.prediction.cases import Case, case, cases, intervened, to_compile, twin

CPU_BYTES, CPU_FLOP = 2**25, 4e9
CPU_DTYPES = ("float32", "bfloat16", "float64")
"""What a CPU can do in a few milliseconds."""
CPU_STEPS = {"stream": 2, "product": 7, "chain": 1}
"""Every so many of them are measured there."""
CPU_COMPILED = ("chain of 5 pointwise 1x2048 float32", "chain of 8 in_place 1x1000 float32")
"""Compiling C++ takes longer still."""

TWINS = {"other-bytes": "bytes", "other-flop": "flop"}


def role(variant: Variant) -> str:
    """eager, reference, graph, compiled, twin or torch."""
    name = variant.name.removeprefix("cpu-")
    return "twin" if name in TWINS else name


def run_case(variant: Variant, point: Point) -> Case | None:
    """The case that a variant runs at a point: the point's own, or its twin; None where there is none."""
    here = case(point["case"])
    changed = TWINS.get(variant.name)
    if changed is None:
        return here
    return twin(here, "bytes" if changed == "bytes" else "flop") if here.name in intervened() else None


def supports(variant: Variant, point: Point) -> bool:
    """Graphs and twins where a bound is found out; chains compiled in part; a CPU takes some of what is small."""
    made = run_case(variant, point)
    if made is None:
        return False
    if variant.device == "cpu":
        return made.name in _of_a_cpu() and (role(variant) == "eager" or made.name in CPU_COMPILED)
    if role(variant) == "graph":
        return made.name in intervened()
    if role(variant) == "compiled":
        return made.name in to_compile()
    return not (role(variant) == "torch" and made.dtype == "float64")  # which it asserts not to be


@lru_cache(maxsize=1)
def _of_a_cpu() -> tuple[str, ...]:
    """What a CPU runs: of each class, some of the cases that it can do; about 130."""
    small = [c for c in cases() if c.nbytes <= CPU_BYTES and c.flop <= CPU_FLOP and c.dtype in CPU_DTYPES]
    return tuple(c.name for kind, step in CPU_STEPS.items() for c in [c for c in small if c.kind == kind][::step])


QUICK = _of_a_cpu()[::4]
"""A small grid with every class, for a trial."""


def _variant(name: str, label: str, device: DeviceKind = "cuda") -> Variant:
    return Variant(name, label, device, timer="own" if device == "cuda" else "measure")


EXPERIMENT = Experiment(
    name="prediction",
    title="Predicted and measured",
    question="How far from the measured time is a time that was predicted before anything ran?",
    axes=(Axis("case", tuple(each.name for each in cases()), label="case", scale="category", quick=QUICK),),
    variants=(
        _variant("eager", "operator by operator"),
        _variant("reference", "a relu of 8 x 8 beside it, for the host's speed"),
        _variant("graph", "as a CUDA Graph"),
        _variant("compiled", "torch.compile"),
        _variant("other-bytes", "its twin with other bytes"),
        _variant("other-flop", "its twin with other FLOP"),
        _variant("torch", "estimated by torch, not measured"),
        _variant("cpu-eager", "CPU, operator by operator", "cpu"),
        _variant("cpu-compiled", "CPU, torch.compile", "cpu"),
    ),
    lines=(
        Line("eager", "eager", "period_s", "operator by operator, in a loop"),
        Line("reference", "reference", "host_s", "a relu of 8 x 8 beside it, the host's part", shown=False),
        Line("eager busy", "eager", "busy_s", "operator by operator, on the device"),
        Line("graph", "graph", "period_s", "as a CUDA Graph, in a loop"),
        Line("compiled", "compiled", "period_s", "torch.compile, in a loop"),
        Line("bytes busy", "other-bytes", "busy_s", "its twin with other bytes, on the device", shown=False),
        Line("flop busy", "other-flop", "busy_s", "its twin with other FLOP, on the device", shown=False),
        Line("cpu eager", "cpu-eager", "period_s", "CPU, operator by operator, in a loop"),
        Line("cpu compiled", "cpu-compiled", "period_s", "CPU, torch.compile, in a loop"),
    ),
    package="tools.prediction",
    supports=supports,
    anchors=({"case": next(each.name for each in cases() if each.nbytes > 1e8)},),
)
