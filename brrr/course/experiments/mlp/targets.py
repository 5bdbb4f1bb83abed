"""What this course expects of its own ways to run the textbook network."""

from __future__ import annotations

from collections.abc import Sequence

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr.course.experiments.judging import minimum
from brrr.course.experiments.mlp.ratios import MOST_LAYERS, Key, geometric, place, smallest, speedups, times
from brrr.course.nouns.claim import Claim, Verdict, not_above, not_below
from brrr.course.nouns.evidence import Evidence

HERE = "this course"
FEW_ROWS = (2, 4, 8, 16, 32, 64)
RIVALS = ("module", "compile", "max autotune", "graph")
"""What PyTorch itself offers: eager, compiled, as a CUDA Graph."""

MEGAKERNELS = ("megakernel", "megakernel graph")


def _least(found: dict[Key, Estimate], at_least: float, what: str) -> Verdict:
    """Whether the least of the ratios, with its interval, reaches a threshold."""
    where, least = smallest(found)
    text = f"{what}: at least {least:x}, at {place(where)}; {units.ratio(geometric(found.values()).median)} on average"
    return Verdict(not_below(minimum(found.values()), at_least), f"{text} of {len(found)} points")


def _faster_of(evidence: Evidence, lines: Sequence[str], base: str, hidden: tuple[int, ...]) -> dict[Key, Estimate]:
    """At each point the larger speed-up of the lines, 8 layers and few rows."""
    every: dict[Key, Estimate] = {}
    missing = ""
    for line in lines:
        try:
            found = speedups(evidence, line, base, layers=(MOST_LAYERS,), batch=FEW_ROWS, hidden=hidden, fewest=1)
        except NotRecordedError as error:
            missing = str(error)
            continue
        for key, ratio in found.items():
            every[key] = max(every.get(key, ratio), ratio)
    if len({key[2] for key in every}) < len(hidden):
        raise NotRecordedError(missing or f"{lines[0]} was not measured at hidden {', '.join(map(str, hidden))}")
    return every


def _over_graph(evidence: Evidence, hidden: tuple[int, ...], at_least: float) -> Verdict:
    spans = [f"{line} span" for line in MEGAKERNELS]
    return _least(_faster_of(evidence, spans, "graph span", hidden), at_least, "graph over one kernel")


def _over_graph_small(evidence: Evidence) -> Verdict:
    return _over_graph(evidence, (128, 256), 4.0)


def _over_graph_middle(evidence: Evidence) -> Verdict:
    return _over_graph(evidence, (512,), 3.0)


def _over_eager(evidence: Evidence) -> Verdict:
    found = _faster_of(evidence, MEGAKERNELS, "module", (128, 256))
    return _least(found, 8.0, "nn.Sequential over one kernel")


def rivals(evidence: Evidence) -> dict[Key, tuple[Estimate, str]]:
    """At each point where nn.Sequential and its graph were measured, PyTorch's fastest way and its name."""
    every = {line: times(evidence, line) for line in RIVALS}
    both = set(every["module"]) & set(every["graph"])
    found: dict[Key, tuple[Estimate, str]] = {}
    for key in sorted(both):
        there = [(line_times[key], line) for line, line_times in every.items() if key in line_times]
        found[key] = min(there, key=lambda each: each[0].median)
    return found


def best_gains(evidence: Evidence) -> dict[Key, Estimate]:
    """PyTorch's fastest way over `best`, wherever both were measured.

    NotRecordedError for less than a quarter of the grid.
    """
    mine, other = times(evidence, "best"), rivals(evidence)
    found = {key: slow / mine[key] for key, (slow, _) in other.items() if key in mine}
    if len(found) < 42:
        raise NotRecordedError(f"best and PyTorch's own ways were measured together at {len(found)} points only")
    return found


def _never_slower(evidence: Evidence) -> Verdict:
    """PyTorch's fastest way over `best`: at least 0.98x at every point."""
    found = best_gains(evidence)
    where, least = smallest(found)
    slower = sum(ratio.median < 0.98 for ratio in found.values())
    text = f"the least gain is {least:x} at {place(where)}, against {rivals(evidence)[where][1]}; "
    text += f"slower than 0.98x at {slower} of {len(found)} points"
    return Verdict(not_below(minimum(found.values()), 0.98), text)


def _on_average(evidence: Evidence, at_least: float) -> Verdict:
    found = best_gains(evidence)
    gain = geometric(found.values())
    text = f"{gain:x} in the geometric mean of {len(found)} points"
    return Verdict(not_below(gain, at_least), text)


def _half_again(evidence: Evidence) -> Verdict:
    return _on_average(evidence, 1.5)


def _twice(evidence: Evidence) -> Verdict:
    return _on_average(evidence, 2.0)


def _layer_s(evidence: Evidence, line: str) -> Estimate:
    """The host's time of one more layer: of 8 layers less 1 layer, over 7; batch 2, hidden 128."""
    one, eight = (evidence.get(line, layers=layers, batch=2, hidden=128) for layers in (1, MOST_LAYERS))
    return (eight - one) / (MOST_LAYERS - 1)


def _host_layer(evidence: Evidence) -> Verdict:
    """Host time of a PyCUDA layer (three kernels, then two) over that of Linear and ReLU: three at most 0.75x."""
    eager = _layer_s(evidence, "module host")
    parts = [f"Linear and ReLU {units.seconds(eager.median)}"]
    ratios = []
    for line in ("pycuda", "pycuda fused"):
        layer = _layer_s(evidence, f"{line} host")
        if eager.low <= 0 or layer.low <= 0:
            return Verdict("undecided", f"a layer of {line} is lost in the noise")
        ratios.append(layer / eager)
        parts.append(f"{line} {units.seconds(layer.median)}, {ratios[-1]:x}")
    return Verdict(not_above(ratios[0], 0.75), "; ".join(parts))


TARGETS = (
    Claim("one-kernel-small", "One kernel for 8 layers is 4x as fast as a CUDA Graph of them, hidden 128 and 256.",
          HERE, "span_s of the graph over that of the megakernel (alone or in a graph), 8 layers, batch up to 64, hot, "
          "every point: at least 4x", _over_graph_small),
    Claim("one-kernel-middle", "At hidden 512 it is 3x as fast.", HERE,
          "the same, hidden 512: at least 3x", _over_graph_middle),
    Claim("one-kernel-eager", "It is 8x as fast as eager PyTorch, hidden up to 256.", HERE,
          "period_s of nn.Sequential over the megakernel's (alone or in a graph), 8 layers, batch up to 64, hot, every "
          "point: at least 8x", _over_eager),
    Claim("best-never-slower", "best() is never slower than PyTorch's fastest way.", HERE,
          "period_s of the fastest of eager, compile, max-autotune (where measured) and graph over best, every point, "
          "hot: at least 0.98x", _never_slower),
    Claim("best-half-again", "On average best() is half again as fast as PyTorch's fastest way.", HERE,
          "the same, geometric mean: at least 1.5x", _half_again),
    Claim("best-twice", "On average best() is twice as fast.", HERE, "the same, geometric mean: at least 2x", _twice),
    Claim("host-cost-of-a-layer", "A layer costs the host a quarter less through PyCUDA than through eager PyTorch.",
          HERE, "host_s of 8 layers less 1, over 7, batch 2, hidden 128, hot: PyCUDA with three kernels at most 0.75x "
          "of nn.Sequential", _host_layer),
)  # fmt: skip
