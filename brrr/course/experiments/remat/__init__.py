"""Activations saved for the backward pass, or computed again: time and memory.

A chain of activations, forward and backward. The claim follows "Making Deep Learning Go Brrrr From First
Principles": to compute again can lower memory and time at once, for what is not saved need not be moved. One
activation is cheap: hardswish, a few FLOP. The other is dear: an accurate cosine, whose arithmetic a second time may
take longer than the bytes that it spares. Both need their input going back.

With N elements and d activations, arrays of N moved: eager 5dN for a hardswish (2N, its gradient 3N) and 9dN for a
cosine (2N; its gradient -sin(x) g in three operators, 7N). Fused with all d inputs saved: forward (d + 1)N, backward
(d + 2)N. Fused and computed again: forward 2N, backward 3N. Between forward and backward memory holds x, y and g, and
what was saved: d - 1 arrays or none.
"""

from __future__ import annotations

from math import isqrt

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr.core.values import Point, Value
from brrr.counting.cost import Cost
from brrr.course.experiments.fused_ratios import counted
from brrr.course.experiments.judging import over, shown
from brrr.course.nouns.claim import Claim, Verdict, three_way
from brrr.course.nouns.evidence import Evidence
from brrr.course.nouns.experiment import Axis, Experiment, Guide, Line, Rate, Variant
from brrr.gpu.datasheet import Hardware

SOURCE = "Making Deep Learning Go Brrrr From First Principles, section 'Bandwidth'"
HERE = "this course"
ITEMSIZE = 4
ACTIVATIONS = ("hardswish", "cos")
LABELS = {"hardswish": "hardswishes", "cos": "cosines"}
DEPTHS = (2, 4, 8, 16)
ELEMENTS = (2**16, 2**21, 2**26)
LARGE, CPU_LARGE, CPU_MAX = 2**24, 2**20, 2**22

FLOP = {"hardswish": 12, "cos": 4}
"""Of one activation with its gradient, as `brrr.cost` counts them."""
EAGER_ARRAYS = {"hardswish": 5, "cos": 9}
"""Arrays that one activation and its gradient move, operator by operator."""


def segment(depth: int) -> int:
    """Activations of a checkpointed segment: as many as there are segments, so that the memory is least.

    >>> [segment(depth) for depth in (2, 8, 16)]
    [1, 2, 4]
    """
    return isqrt(depth)


def way(variant: Variant) -> str:
    """eager, checkpoint, compile-saved or compile."""
    return variant.name.removeprefix("cpu-")


def moved_arrays(how: str, depth: int, activation: str = "hardswish") -> int:
    """Arrays that forward and backward move, as the head of this module counts them.

    >>> moved_arrays("eager", 8), moved_arrays("compile-saved", 8), moved_arrays("compile", 8)
    (40, 19, 5)
    """
    each = EAGER_ARRAYS[activation]
    return {
        "eager": each * depth,
        "checkpoint": (each + 2) * depth,  # each activation once more
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
    """FLOP as `brrr.cost` counts them, those computed again not among them; compulsory bytes (x, g, y, dx once)."""
    elements, depth, activation = float(point["elements"]), int(point["depth"]), str(point["activation"])
    nbytes = ITEMSIZE * elements
    moved = moved_arrays(way(variant), depth, activation) * nbytes
    return Cost(FLOP[activation] * depth * elements, 4 * nbytes, eager_bytes=moved)


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


def together(evidence: Evidence, activation: str, depth: int, *names: str) -> tuple[dict[str, Value], list[Estimate]]:
    """The point of most elements at which all lines were measured, and their times; else those of the CPU."""
    for prefix, smallest in (("", LARGE), ("cpu ", CPU_LARGE)):
        for elements in sorted((each for each in ELEMENTS if each >= smallest), reverse=True):
            point: dict[str, Value] = {"activation": activation, "depth": depth, "elements": elements}
            try:
                return point, [evidence.get(prefix + name, **point) for name in names]
            except (NotRecordedError, ValueError):
                continue
    raise NotRecordedError(
        f"{', '.join(names)} were not measured together on large arrays, {depth} {LABELS[activation]}"
    )


def memory(evidence: Evidence, line: str, point: Point) -> int:
    """The peak of one call's memory in bytes, where `line` or the CPU's was measured; NotRecordedError without it."""
    for name in (line, f"cpu {line}"):
        if any(each.name == name for each in evidence.experiment.lines):
            variant = evidence.experiment.line(name).variant
            found = evidence.source.known(evidence.experiment, variant).get(tuple(point.values()))
            if found is not None and found.peak_bytes:
                return found.peak_bytes
    raise NotRecordedError(f"the memory of {line} was not measured at {dict(point)}")


def _peaks(evidence: Evidence, point: Point, *names: str) -> tuple[float, str]:
    """How many times the memory of the second line the first one takes, and both in words."""
    one, other = (memory(evidence, name, point) for name in names)
    return one / other, f"{units.quantity(one, 'B')} of memory against {units.quantity(other, 'B')}"


def _predicted(
    depth: int, activation: str = "hardswish", ways: tuple[str, str] = ("compile-saved", "compile")
) -> float:
    one, other = (moved_arrays(each, depth, activation) for each in ways)
    return one / other


def _lowers_both(evidence: Evidence) -> Verdict:
    """Fused with all saved over fused and computed again, 8 hardswishes: time and memory above 1."""
    point, (saved, again) = together(evidence, "hardswish", 8, "compile saved", "compile")
    ratio = over(saved, again)
    more, words = _peaks(evidence, point, "compile saved", "compile")
    text = f"to save takes {shown(ratio)} the time, predicted {units.ratio(_predicted(8))} by bytes, and {words}"
    status = three_way(ratio[1], ratio[2], 1.0)
    return Verdict(status if more > 1 else "fails", f"{text}, at {counted(int(point['elements']))}")


def _as_the_bytes_say(evidence: Evidence) -> Verdict:
    """The same at depths 4, 8 and 16: each at least 80 % of the predicted ratio."""
    parts, shares = [], []
    for depth in (4, 8, 16):
        _, (saved, again) = together(evidence, "hardswish", depth, "compile saved", "compile")
        predicted, ratio = _predicted(depth), over(saved, again)
        shares.append((ratio[1] / predicted, ratio[2] / predicted))
        parts.append(f"{units.ratio(ratio[0])} at {depth} (predicted {units.ratio(predicted)})")
    low, high = min(each[0] for each in shares), min(each[1] for each in shares)
    return Verdict(three_way(low, high, 0.8), "; ".join(parts))


def _dear_arithmetic(evidence: Evidence) -> Verdict:
    """Fused and computed again over all saved, 16 cosines: more than the time, less than the memory."""
    point, (saved, again) = together(evidence, "cos", 16, "compile saved", "compile")
    ratio = over(again, saved)
    more, words = _peaks(evidence, point, "compile saved", "compile")
    text = f"to compute again takes {shown(ratio)} the time of saving; to save takes {words}"
    status = three_way(ratio[1], ratio[2], 1.0)
    return Verdict(status if more > 1 else "fails", f"{text}, at {counted(int(point['elements']))}")


def _checkpoint_costs(evidence: Evidence) -> Verdict:
    """torch.utils.checkpoint over eager, operator by operator, 16 hardswishes: at least 1.1x, with less memory."""
    point, (checkpointed, eager) = together(evidence, "hardswish", 16, "checkpoint", "eager")
    ratio = over(checkpointed, eager)
    more, words = _peaks(evidence, point, "eager", "checkpoint")
    predicted = units.ratio(_predicted(16, ways=("checkpoint", "eager")))
    text = (
        f"{shown(ratio)} the time, predicted {predicted}; to save takes {words}, at {counted(int(point['elements']))}"
    )
    return Verdict(three_way(ratio[1], ratio[2], 1.1) if more > 1 else "fails", text)


CLAIMS = (
    Claim("lowers-both", "To compute activations again can lower memory and run time at once.", SOURCE,
          "period_s forward and backward, and the peak of memory; torch.compile: all saved over computed again, 8 "
          "hardswishes, most elements, hot; both above 1x", _lowers_both),
    Claim("as-the-bytes-say", "It gains what is not moved: the ratio is that of the bytes.", HERE,
          "period_s, the same at 4, 8 and 16 hardswishes; each at least 80 % of the predicted ratio",
          _as_the_bytes_say),
    Claim("dear-arithmetic", "Where the arithmetic is dear, to compute again lowers memory, but not time.", HERE,
          "period_s and the peak of memory, torch.compile: computed again over all saved, 16 cosines, most elements, "
          "hot; time above 1x with less memory", _dear_arithmetic),
    Claim("checkpoint-costs-time", "Without fusion, to compute again saves memory and costs time.", HERE,
          "period_s forward and backward, and the peak of memory; torch.utils.checkpoint over eager, 16 hardswishes, "
          "most elements, hot; time at least 1.1x with less memory", _checkpoint_costs),
)  # fmt: skip


def _guide(name: str, label: str, function: str) -> Guide:
    return Guide(name, label, "PREDICTED", "time", f"brrr.course.experiments.remat:{function}")


EXPERIMENT = Experiment(
    name="remat",
    title="Saved, or computed again",
    question="Is it faster to save activations for the backward pass, or to compute them again?",
    axes=(
        Axis("activation", ACTIVATIONS, label="activation", scale="category"),
        Axis("depth", DEPTHS, label="activations in the chain", quick=(2, 16)),
        Axis("elements", ELEMENTS, label="elements", quick=(2**16, 2**21)),
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
    build="brrr.course.experiments.remat.work:workload",
    supports="brrr.course.experiments.remat:supports",
    cost="brrr.course.experiments.remat:cost",
    predicts="brrr.course.experiments.fused_predicted:remat",
    claims=CLAIMS,
    anchors=(
        {"activation": "hardswish", "depth": 8, "elements": 2**26},
        {"activation": "cos", "depth": 8, "elements": 2**26},
    ),
    rate=Rate("bytes", "B/s", "bytes that must move, a second"),
    guides=(
        _guide("all-saved", "fused, all saved, at the memory's bandwidth", "saved_time"),
        _guide("again", "fused, computed again, at the memory's bandwidth", "again_time"),
    ),
)  # fmt: skip
