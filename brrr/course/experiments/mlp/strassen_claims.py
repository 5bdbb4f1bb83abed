"""What "GPU Overheads and Fused Strassen" said of its third experiment, and what this course expects of its own form.

`strassen-one` is the source's: one level in every layer, whatever it brings. `strassen` chooses level and form by
prediction, without tensor cores; `strassen-accurate` may take any product that is as accurate as float32's.
"""

from __future__ import annotations

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr.course.experiments.judging import maximum, minimum
from brrr.course.experiments.mlp.ratios import (
    MOST_LAYERS,
    Key,
    as_told,
    average,
    geometric,
    largest,
    place,
    smallest,
    speedups,
    times,
)
from brrr.course.nouns.claim import Claim, Verdict, not_above, not_below
from brrr.course.nouns.evidence import Evidence

SOURCE = "GPU Overheads and Fused Strassen (2021), measured on a GTX 1070"
HERE = "this course"

REGION_BATCH, REGION_HIDDEN = (64, 128), (1024, 2048, 4096)
"""Where the source saw a gain: batch of 64 and more, hidden size of 1024 and more, of its grid."""

FEW_ROWS, WIDE, FEWEST_WIDE = (2, 4, 8, 16), (2048, 4096), 4
WITHOUT_LEVELS = ("graph", "max autotune", "pycuda graph", "triton graph", "megakernel", "megakernel graph")
"""Ways that multiply as they are told to: `best` and StrassenMLP may choose levels."""

LARGE = ((2048, 2048), (2048, 4096), (4096, 2048), (4096, 4096))
"""Batch and hidden of the points beyond the source's grid."""

RIVALS = ("module", "graph", "max autotune")
CHOSEN = ("strassen", "strassen accurate")
WHOLE_GRID = 42


def over_fusion(evidence: Evidence) -> dict[Key, Estimate]:
    """The source's fused network over its fused Strassen one, 8 layers."""
    return speedups(evidence, "strassen one", "pycuda fused", layers=(MOST_LAYERS,))


def inside(key: Key) -> bool:
    """Whether a point lies where the source saw a gain."""
    return key[1] in REGION_BATCH and key[2] in REGION_HIDDEN


def _region(evidence: Evidence) -> dict[Key, Estimate]:
    found = {key: ratio for key, ratio in over_fusion(evidence).items() if inside(key)}
    if len(found) < len(REGION_BATCH) * len(REGION_HIDDEN):
        raise NotRecordedError(f"of batch 64 and 128 with hidden 1024 to 4096 only {len(found)} points were measured")
    return found


def _at_best(evidence: Evidence) -> Verdict:
    """Up to 1.53x over fusion."""
    where, most = largest(_region(evidence))
    return as_told(most, 1.53, f"{most:x} at {place(where)}")


def _on_average(evidence: Evidence) -> Verdict:
    """1.3x on average where batch >= 64 and hidden >= 1024."""
    found = _region(evidence)
    gain = average(found.values())
    return as_told(gain, 1.3, f"{gain:x} on average over {len(found)} points")


def _only_there(evidence: Evidence) -> Verdict:
    """Faster than fusion at no point outside of that region, and inside at every one."""
    found = over_fusion(evidence)
    outside = {key: ratio for key, ratio in found.items() if not inside(key) and ratio.low > 1}
    within = {key: ratio for key, ratio in _region(evidence).items() if ratio.low > 1}
    count = sum(map(inside, found))
    text = f"faster than fusion at {len(within)} of {count} points of batch >= 64 and hidden >= 1024, and at "
    text += f"{len(outside)} of the {len(found) - count} others"
    return Verdict("holds" if not outside and len(within) == count else "fails", text)


def without_levels(evidence: Evidence) -> dict[Key, tuple[Estimate, str]]:
    """At each point with few rows and wide layers, the fastest way without levels on the device, and its name.

    NotRecordedError where there is no more than the graph of nn.Sequential: its library may take a slow kernel, and a
    way that is faster than a slow kernel says nothing of bytes.
    """
    every = {line: times(evidence, f"{line} span") for line in WITHOUT_LEVELS}
    found: dict[Key, tuple[Estimate, str]] = {}
    for key in sorted(every["graph"]):
        there = [(line_times[key], line) for line, line_times in every.items() if key in line_times]
        if key[0] == MOST_LAYERS and key[1] in FEW_ROWS and key[2] in WIDE and len(there) > 1:
            found[key] = min(there, key=lambda each: each[0].median)
    return found


def _few_rows(evidence: Evidence) -> Verdict:
    """With few rows and wide layers one level takes longer than no level: 7/4 of the weights are read."""
    rivals, mine = without_levels(evidence), times(evidence, "strassen one span")
    found = {key: rivals[key][0] / mine[key] for key in rivals if key in mine}
    if len(found) < FEWEST_WIDE:
        raise NotRecordedError(f"a level and ways without were measured at {len(found)} points with few rows, wide")
    where, most = largest(found)
    text = f"the fastest way without levels takes {most:x} of its time at most, at {place(where)}, as "
    text += f"{rivals[where][1]}; {units.ratio(geometric(found.values()).median)} on average of {len(found)} points"
    return Verdict(not_above(maximum(found.values()), 1.0), text)


# ---- the course's own ----


def _best_rival(evidence: Evidence, batch: int, hidden: int) -> tuple[Estimate, str]:
    """PyTorch's fastest way at a point, by its own time on the device; eager and graph must be there."""
    found = []
    for line in RIVALS:
        try:
            found.append((evidence.get(f"{line} span", layers=MOST_LAYERS, batch=batch, hidden=hidden), line))
        except NotRecordedError:
            if line != "max autotune":  # an old compiler may not have it
                raise
    return min(found, key=lambda each: each[0].median)


def _large(evidence: Evidence, line: str, at_least: float) -> Verdict:
    """The least gain over PyTorch's fastest way at the large points."""
    found: dict[Key, Estimate] = {}
    named: dict[Key, str] = {}
    for batch, hidden in LARGE:
        key = (MOST_LAYERS, batch, hidden)
        mine = evidence.get(f"{line} span", layers=MOST_LAYERS, batch=batch, hidden=hidden)
        slow, named[key] = _best_rival(evidence, batch, hidden)
        found[key] = slow / mine
    where, least = smallest(found)
    text = f"at least {least:x}, at {place(where)}, against {named[where]}; "
    text += f"{units.ratio(geometric(found.values()).median)} on average of {len(found)} points"
    return Verdict(not_below(minimum(found.values()), at_least), text)


def _without_tensor_cores(evidence: Evidence) -> Verdict:
    return _large(evidence, "strassen", 1.12)


def _accurate(evidence: Evidence) -> Verdict:
    return _large(evidence, "strassen accurate", 2.5)


def _never_slower(evidence: Evidence) -> Verdict:
    """PyTorch's fastest way over both choices, on the source's whole grid: at least 0.98x at every point."""
    found: dict[tuple[str, Key], tuple[Estimate, str]] = {}
    for line in CHOSEN:
        mine = times(evidence, line)
        for key, (slow, rival) in _rivals(evidence).items():
            if key in mine:
                found[line, key] = slow / mine[key], rival
    if len(found) < len(CHOSEN) * WHOLE_GRID:
        raise NotRecordedError(f"the choices and PyTorch's ways were measured together at {len(found)} points only")
    (line, key), (least, rival) = min(found.items(), key=lambda each: each[1][0].median)
    slower = sum(ratio.median < 0.98 for ratio, _ in found.values())
    text = f"the least gain is {least:x} with {line} at {place(key)}, against {rival}; "
    text += f"slower than 0.98x at {slower} of {len(found)} points"
    return Verdict(not_below(minimum(ratio for ratio, _ in found.values()), 0.98), text)


def _rivals(evidence: Evidence) -> dict[Key, tuple[Estimate, str]]:
    """At each point of the source's grid with eager and graph, the fastest of PyTorch's ways in a loop."""
    every = {line: times(evidence, line) for line in RIVALS}
    both = set(every["module"]) & set(every["graph"])
    found: dict[Key, tuple[Estimate, str]] = {}
    for key in sorted(key for key in both if key[1:] not in LARGE):
        there = [(line_times[key], line) for line, line_times in every.items() if key in line_times]
        found[key] = min(there, key=lambda each: each[0].median)
    return found


REGION = "8 layers, batch 64 and 128, hidden 1024 to 4096, hot"
CLAIMS = (
    Claim("strassen-at-best", "One level of fused Strassen is up to 1.53x as fast as pointwise fusion.", SOURCE,
          f"period_s of PyCUDA with two kernels a layer over one level in every layer, {REGION}, largest ratio; "
          "what it gains beyond 1 within a third, or 0.05", _at_best),
    Claim("strassen-average", "For batch >= 64 and hidden >= 1024 it is 1.3x as fast on average, with 8 layers.",
          SOURCE, "the same, mean", _on_average),
    Claim("strassen-only-there", "It is an improvement over fusion only for batch >= 64 and hidden >= 1024.", SOURCE,
          "the same, 8 layers, whole grid: above 1x, with its interval, at every point there and at no other",
          _only_there),
    Claim("strassen-few-rows", "With few rows a level loses: the weights are most of the bytes, and it reads 7/4 of "
          "them.", HERE, "span_s of the fastest way without levels (CUDA Graph of nn.Sequential, max-autotune, PyCUDA "
          "or Triton in a graph, one kernel) over one level in every layer, 8 layers, batch 2 to 16, hidden 2048 and "
          "4096, hot: below 1x at every point", _few_rows),
    Claim("strassen-network", "Without tensor cores a large network is 1.12x as fast as PyTorch's fastest way.", HERE,
          "span_s of the fastest of eager, graph and max-autotune over StrassenMLP of float32 products, 8 layers, "
          "batch and hidden 2048 and 4096, hot: at least 1.12x at every point", _without_tensor_cores),
    Claim("strassen-network-accurate", "In float32's accuracy through the tensor cores it is 2.5x as fast.", HERE,
          "the same, StrassenMLP of any products that are as accurate as float32's: at least 2.5x", _accurate),
    Claim("strassen-never-slower", "On the source's whole grid StrassenMLP is never slower than PyTorch's fastest way.",
          HERE, "period_s of the fastest of eager, graph and max-autotune (where measured) over StrassenMLP, with "
          "float32 products and with any as accurate, every point, hot: at least 0.98x", _never_slower),
)  # fmt: skip
