"""Activations saved for the backward pass, or computed again: time and memory.

A chain of cosines, forward and backward. The claim follows "Making Deep Learning Go Brrrr From First Principles": to
compute again can lower memory and time at once, for what is not saved need not be moved.

With N elements and d cosines, arrays of N moved: eager 9dN (each cosine 2N; its gradient -sin(x) g in three operators,
7N). Fused with all d inputs saved: forward (d + 1)N, backward (d + 2)N. Fused and computed again: forward 2N, backward
3N. Between forward and backward memory holds x, y and g, and what was saved: d - 1 arrays or none.
"""

from __future__ import annotations

from math import isqrt

from brrr import units
from brrr.claim import Claim, Evidence, Verdict, three_way
from brrr.counting.cost import Cost
from brrr.errors import NotRecordedError
from brrr.experiment import Axis, Experiment, Guide, Line, Point, Rate, Value, Variant
from brrr.experiments.judging import over, shown
from brrr.machines.datasheet import Hardware
from brrr.measurement import Estimate

SOURCE = "Making Deep Learning Go Brrrr From First Principles, section 'Bandwidth'"
HERE = "this course"
ITEMSIZE = 4
DEPTHS = (2, 4, 8, 16, 32)
ELEMENTS = (2**16, 2**20, 2**22, 2**24, 2**26)
LARGE, CPU_LARGE, CPU_MAX = 2**24, 2**20, 2**22


def segment(depth: int) -> int:
    """Cosines of a checkpointed segment: as many as there are segments, so that the memory is least.

    >>> [segment(depth) for depth in (2, 8, 16)]
    [1, 2, 4]
    """
    return isqrt(depth)


def way(variant: Variant) -> str:
    """eager, checkpoint, compile-saved or compile."""
    return variant.name.removeprefix("cpu-")


def moved_arrays(how: str, depth: int) -> int:
    """Arrays that forward and backward move, as the head of this module counts them.

    >>> moved_arrays("eager", 8), moved_arrays("compile-saved", 8), moved_arrays("compile", 8)
    (72, 19, 5)
    """
    return {
        "eager": 9 * depth,
        "checkpoint": 11 * depth,  # each cosine once more
        "compile-saved": 2 * depth + 3,
        "compile": 5,
    }[how]


def saved_arrays(how: str, depth: int) -> int:
    """Arrays that wait for the backward pass, x, y and g not counted.

    >>> saved_arrays("eager", 8), saved_arrays("checkpoint", 8), saved_arrays("compile", 8)
    (7, 3, 0)
    """
    segments = -(-depth // segment(depth))
    return {"eager": depth - 1, "checkpoint": segments - 1, "compile-saved": depth - 1, "compile": 0}[how]


def cost(variant: Variant, point: Point) -> Cost:
    """FLOP as `brrr.cost` counts them (4 a cosine with its gradient), compulsory bytes (x, g, y and dx once)."""
    elements, depth = float(point["elements"]), int(point["depth"])
    nbytes = ITEMSIZE * elements
    return Cost(4 * depth * elements, 4 * nbytes, eager_bytes=moved_arrays(way(variant), depth) * nbytes)


def supports(variant: Variant, point: Point) -> bool:
    """The CPU stops at CPU_MAX elements."""
    return variant.device == "cuda" or int(point["elements"]) <= CPU_MAX


def _time(how: str, hardware: Hardware | None, point: Point) -> float | None:
    if hardware is None:
        return None
    nbytes = ITEMSIZE * float(point["elements"]) * moved_arrays(how, int(point["depth"]))
    return nbytes / hardware.memory_bytes_per_s


def saved_time(hardware: Hardware | None, point: Point) -> float | None:
    """The bytes of the fused pass that saves all, at the datasheet's bandwidth, in seconds."""
    return _time("compile-saved", hardware, point)


def again_time(hardware: Hardware | None, point: Point) -> float | None:
    """The bytes of the fused pass that computes again, at the datasheet's bandwidth, in seconds."""
    return _time("compile", hardware, point)


def together(evidence: Evidence, depth: int, *names: str) -> tuple[int, list[Estimate]]:
    """The most elements at which all lines were measured at a depth, and the times; else those of the CPU."""
    for prefix, least in (("", LARGE), ("cpu ", CPU_LARGE)):
        for elements in sorted((each for each in ELEMENTS if each >= least), reverse=True):
            point: dict[str, Value] = {"elements": elements, "depth": depth}
            try:
                return elements, [evidence.get(prefix + name, **point) for name in names]
            except (NotRecordedError, ValueError):
                continue
    raise NotRecordedError(f"{', '.join(names)} were not measured together at depth {depth} on large arrays")


def _lowers_time(evidence: Evidence) -> Verdict:
    """Fused with all saved over fused and computed again, at depth 8: above 1."""
    elements, (saved, again) = together(evidence, 8, "compile saved", "compile")
    ratio = over(saved, again)
    predicted = moved_arrays("compile-saved", 8) / moved_arrays("compile", 8)
    kept = f"{saved_arrays('compile-saved', 8)} arrays wait for the backward pass, or {saved_arrays('compile', 8)}"
    text = f"{shown(ratio)} at {elements} elements and 8 cosines, predicted {units.ratio(predicted)} by bytes; {kept}"
    return Verdict(three_way(ratio[1], ratio[2], 1.0), text)


def _as_the_bytes_say(evidence: Evidence) -> Verdict:
    """The same at depths 4, 8 and 16: each at least 80 % of the predicted ratio."""
    parts, worst = [], []
    for depth in (4, 8, 16):
        _, (saved, again) = together(evidence, depth, "compile saved", "compile")
        predicted = moved_arrays("compile-saved", depth) / moved_arrays("compile", depth)
        ratio = over(saved, again)
        worst.append((ratio[1] / predicted, ratio[2] / predicted))
        parts.append(f"{units.ratio(ratio[0])} at {depth} (predicted {units.ratio(predicted)})")
    low, high = min(each[0] for each in worst), min(each[1] for each in worst)
    return Verdict(three_way(low, high, 0.8), "; ".join(parts))


def _checkpoint_costs(evidence: Evidence) -> Verdict:
    """torch.utils.checkpoint over eager, operator by operator, at depth 16: at least 1.1x."""
    elements, (checkpointed, eager) = together(evidence, 16, "checkpoint", "eager")
    ratio = over(checkpointed, eager)
    predicted = moved_arrays("checkpoint", 16) / moved_arrays("eager", 16)
    kept = f"{saved_arrays('checkpoint', 16)} arrays wait instead of {saved_arrays('eager', 16)}"
    text = f"{shown(ratio)} at {elements} elements and 16 cosines, predicted {units.ratio(predicted)}; {kept}"
    return Verdict(three_way(ratio[1], ratio[2], 1.1), text)


CLAIMS = (
    Claim("lowers-time", "To compute activations again can take less time than to save them.", SOURCE,
          "period_s forward and backward, torch.compile: all saved over computed again, 8 cosines, most elements, hot; "
          "above 1x", _lowers_time),
    Claim("as-the-bytes-say", "It gains what is not moved: the ratio is that of the bytes.", HERE,
          "the same at 4, 8 and 16 cosines; each at least 80 % of the predicted ratio", _as_the_bytes_say),
    Claim("checkpoint-costs-time", "Without fusion, to compute again saves memory and costs time.", HERE,
          "period_s forward and backward, torch.utils.checkpoint over eager, 16 cosines, most elements, hot; at least "
          "1.1x", _checkpoint_costs),
)  # fmt: skip


def _guide(name: str, label: str, function: str) -> Guide:
    return Guide(name, label, "PREDICTED", "time", f"brrr.experiments.remat:{function}")


EXPERIMENT = Experiment(
    name="remat",
    title="Saved, or computed again",
    question="Is it faster to save activations for the backward pass, or to compute them again?",
    axes=(
        Axis("depth", DEPTHS, label="cosines in the chain", quick=(2, 8)),
        Axis("elements", ELEMENTS, label="elements", quick=(2**16, 2**20)),
    ),
    variants=(
        Variant("eager", "operator by operator, all saved", "cuda"),
        Variant("checkpoint", "torch.utils.checkpoint", "cuda"),
        Variant("compile-saved", "torch.compile, all saved", "cuda"),
        Variant("compile", "torch.compile, its own choice", "cuda"),
        Variant("cpu-eager", "CPU, all saved", "cpu"),
        Variant("cpu-checkpoint", "CPU, torch.utils.checkpoint", "cpu"),
    ),
    lines=(
        Line("eager", "eager", "period_s", "operator by operator, all saved"),
        Line("checkpoint", "checkpoint", "period_s", "torch.utils.checkpoint"),
        Line("compile saved", "compile-saved", "period_s", "torch.compile, all saved"),
        Line("compile", "compile", "period_s", "torch.compile, its own choice"),
        Line("compile saved busy", "compile-saved", "busy_s", "torch.compile, all saved, on the device", shown=False),
        Line("compile busy", "compile", "busy_s", "torch.compile, its own choice, on the device", shown=False),
        Line("cpu eager", "cpu-eager", "period_s", "CPU, all saved"),
        Line("cpu checkpoint", "cpu-checkpoint", "period_s", "CPU, torch.utils.checkpoint"),
    ),
    build="brrr.experiments.remat_work:workload",
    supports="brrr.experiments.remat:supports",
    cost="brrr.experiments.remat:cost",
    claims=CLAIMS,
    anchors=({"depth": 8, "elements": 2**20}, {"depth": 8, "elements": 2**26}),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(
        _guide("all-saved", "fused, all saved, at the memory's bandwidth", "saved_time"),
        _guide("again", "fused, computed again, at the memory's bandwidth", "again_time"),
    ),
)  # fmt: skip
