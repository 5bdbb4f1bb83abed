"""What this course expects of its own ways to run the textbook network; and the source's third experiment.

`strassen-one` is the source's: one level in every layer, whatever it brings. `strassen` chooses level and form by
prediction, without tensor cores; `strassen-accurate` may take any product that is as accurate as float32's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr_course.experiments.judging import maximum, minimum
from brrr_course.experiments.mlp import claims
from brrr_course.experiments.mlp.claims import MOST_LAYERS, Key, geometric, place, speedups, times
from brrr_course.nouns.claim import Judge, Verdict, not_above, not_below
from brrr_course.nouns.source import Evidence

FEWEST_TUNED = 40
"""A sentence on all points of 8 layers, with max-autotune among the rivals, needs so many."""

FEW_ROWS = (2, 4, 8, 16, 32, 64)
RIVALS = ("module", "graph", "max autotune")
"""What PyTorch itself offers: eager, as a CUDA Graph, compiled."""

MEGAKERNELS = ("megakernel", "megakernel graph")
CHOSEN = ("strassen", "strassen accurate")
WITHOUT_LEVELS = ("graph", "max autotune", "pycuda graph", "triton graph", "megakernel", "megakernel graph")
"""Ways that multiply as they are told to: `best` and StrassenMLP may choose levels."""

REGION_BATCH, REGION_HIDDEN = (64, 128), (1024, 2048, 4096)
"""Where the source saw a gain: batch of 64 and more, hidden size of 1024 and more, of its grid."""

FEWEST_ROWS, WIDE, FEWEST_WIDE = (2, 4, 8, 16), (2048, 4096), 4
LARGE = ((2048, 2048), (2048, 4096), (4096, 2048), (4096, 4096))
"""Batch and hidden of the points beyond the source's grid."""


def fastest(evidence: Evidence, lines: Sequence[str], needed: Sequence[str]) -> dict[Key, tuple[Estimate, str]]:
    """At each point where the needed lines were measured, the fastest of all lines and its name."""
    every = {line: times(evidence, line) for line in lines}
    there = sorted(set.intersection(*(set(every[line]) for line in needed)))
    return {key: min((found[key], line) for line, found in every.items() if key in found) for key in there}


def _least(found: dict[Key, Estimate], at_least: float, what: str = "", against: Mapping[Key, str] = {}) -> Verdict:
    """Whether the least of the ratios reaches a threshold; another point's interval may reach lower than its own."""
    where, least = claims.smallest(found)[0], minimum(found.values())
    text = f"{what}at least {least:x}, at {place(where)}{f', against {against[where]}' if against else ''}; "
    text += f"{units.ratio(geometric(found.values()).median)} on average of {len(found)} points"
    return Verdict(not_below(least, at_least), text)


def _never_slower(found: Sequence[tuple[Estimate, str]]) -> Verdict:
    """PyTorch's fastest way over another, each with where that is: at least 0.98x at every point."""
    least, where = min(found)
    slower = sum(ratio.median < 0.98 for ratio, _ in found)
    text = f"the least gain is {least:x} {where}; slower than 0.98x at {slower} of {len(found)} points"
    return Verdict(not_below(minimum(ratio for ratio, _ in found), 0.98), text)


# ---- one kernel, and best() ----


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
    return _least(_faster_of(evidence, spans, "graph span", hidden), at_least, "graph over one kernel: ")


def _over_graph_small(evidence: Evidence) -> Verdict:
    return _over_graph(evidence, (128, 256), 4.0)


def _over_graph_middle(evidence: Evidence) -> Verdict:
    return _over_graph(evidence, (512,), 3.0)


def _over_autotune(evidence: Evidence) -> Verdict:
    spans = [f"{line} span" for line in MEGAKERNELS]
    found = _faster_of(evidence, spans, "max autotune span", (128, 256))
    return _least(found, 2.0, "max-autotune over one kernel: ")


def _for_one_caller(evidence: Evidence) -> Verdict:
    latencies = [f"{line} latency" for line in MEGAKERNELS]
    return _least(_faster_of(evidence, latencies, "graph latency", (128, 256)), 2.5, "graph over one kernel: ")


def _over_eager(evidence: Evidence) -> Verdict:
    found = _faster_of(evidence, MEGAKERNELS, "module", (128, 256))
    return _least(found, 8.0, "nn.Sequential over one kernel: ")


def best_gains(evidence: Evidence, tuned: bool | None = None, field: str = "") -> dict[Key, tuple[Estimate, str]]:
    """PyTorch's fastest way over `best`, wherever both were measured, and that way's name.

    tuned: only the points of 8 layers at which max-autotune was measured too; False: only those of fewer layers.
    field: "latency" for a single caller. NotRecordedError for less than a quarter of the grid.
    """
    lines = RIVALS if field else ("compile", *RIVALS)
    best, *named = (f"{line} {field}".strip() for line in ("best", *lines))
    mine = times(evidence, best)
    rivals = fastest(evidence, named, named[-len(RIVALS) :] if tuned else named[-len(RIVALS) : -1])
    found = {
        key: (slow / mine[key], rival.removesuffix(f" {field}"))
        for key, (slow, rival) in rivals.items()
        if key in mine and tuned in (None, key[0] == MOST_LAYERS)
    }
    if len(found) < (FEWEST_TUNED if tuned else claims.WHOLE_GRID):
        raise NotRecordedError(f"best and PyTorch's own ways were measured together at {len(found)} points only")
    return found


def _best_never_slower(evidence: Evidence) -> Verdict:
    """PyTorch's fastest way over `best`: at least 0.98x at every point."""
    gains = best_gains(evidence).items()
    return _never_slower([(gain, f"at {place(key)}, against {rival}") for key, (gain, rival) in gains])


def _best_on_average(evidence: Evidence, tuned: bool, at_least: float, field: str = "") -> Verdict:
    found = {key: gain for key, (gain, _) in best_gains(evidence, tuned, field).items()}
    gain, (where, least) = geometric(found.values()), claims.smallest(found)
    text = f"{gain:x} in the geometric mean of {len(found)} points; {least:x} at least, at {place(where)}"
    return Verdict(not_below(gain, at_least), text)


def _half_again(evidence: Evidence) -> Verdict:
    return _best_on_average(evidence, True, 1.5)


def _twice(evidence: Evidence) -> Verdict:
    return _best_on_average(evidence, False, 2.0)


def _best_for_one_caller(evidence: Evidence) -> Verdict:
    """For a single caller, who waits for each result."""
    return _best_on_average(evidence, True, 1.5, "latency")


def _layer_s(evidence: Evidence, line: str) -> Estimate:
    """The host's time of one more layer: of 8 layers less 1 layer, over 7; batch 2, hidden 128."""
    one, eight = (evidence.get(line, layers=layers, batch=2, hidden=128) for layers in (1, MOST_LAYERS))
    return (eight - one) / (MOST_LAYERS - 1)


def _host_layer(evidence: Evidence) -> Verdict:
    """Host time of a PyCUDA layer (three kernels, then two) over that of Linear and ReLU: three at most 0.75x."""
    eager = _layer_s(evidence, "module host")
    parts, ratios = [], []
    for line in ("pycuda", "pycuda fused"):
        layer = _layer_s(evidence, f"{line} host")
        if eager.low <= 0 or layer.low <= 0:
            return Verdict("undecided", f"a layer of {line} is lost in the noise")
        ratios.append(layer / eager)
        parts.append(f"{line} {units.seconds(layer.median)}, {ratios[-1]:x}")
    text = f"Linear and ReLU {units.seconds(eager.median)}, {'; '.join(parts)}"
    return Verdict(not_above(ratios[0], 0.75), text)


# ---- one level in every layer, and StrassenMLP ----


def over_fusion(evidence: Evidence) -> dict[Key, Estimate]:
    """The source's fused network over its fused Strassen one on the device, 8 layers: launches judge no algorithm."""
    return speedups(evidence, "strassen one span", "pycuda fused span", layers=(MOST_LAYERS,))


def _in_a_loop(evidence: Evidence) -> dict[Key, Estimate]:
    """The same with all that the host adds."""
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
    where, most = claims.largest(_region(evidence))
    loop = _in_a_loop(evidence)[where]
    return claims.as_told(most, 1.53, f"{most:x} at {place(where)} on the device, {units.ratio(loop.median)} in a loop")


def _on_average(evidence: Evidence) -> Verdict:
    """1.3x on average where batch >= 64 and hidden >= 1024."""
    found = _region(evidence)
    gain = claims.average(found.values())
    loop = claims.average(ratio for key, ratio in _in_a_loop(evidence).items() if key in found)
    text = f"{gain:x} on average over {len(found)} points on the device, {units.ratio(loop.median)} in a loop"
    return claims.as_told(gain, 1.3, text)


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
    lines = [f"{line} span" for line in WITHOUT_LEVELS]
    found = fastest(evidence, lines, ("graph span",))
    others = set().union(*(times(evidence, line) for line in lines[1:]))
    return {
        key: (time, line.removesuffix(" span"))
        for key, (time, line) in found.items()
        if key[0] == MOST_LAYERS and key[1] in FEWEST_ROWS and key[2] in WIDE and key in others
    }


def _few_rows(evidence: Evidence) -> Verdict:
    """With few rows and wide layers one level takes longer than no level: 7/4 of the weights are read."""
    rivals, mine = without_levels(evidence), times(evidence, "strassen one span")
    found = {key: rivals[key][0] / mine[key] for key in rivals if key in mine}
    if len(found) < FEWEST_WIDE:
        raise NotRecordedError(f"a level and ways without were measured at {len(found)} points with few rows, wide")
    where, most = claims.largest(found)
    text = f"the fastest way without levels takes {most:x} of its time at most, at {place(where)}, as "
    text += f"{rivals[where][1]}; {units.ratio(geometric(found.values()).median)} on average of {len(found)} points"
    return Verdict(not_above(maximum(found.values()), 1.0), text)


def _few_rows_graph(evidence: Evidence) -> Verdict:
    """The same against the CUDA Graph of nn.Sequential alone, as it was claimed first: below 1x at every point."""
    found = speedups(
        evidence, "strassen one span", "graph span",
        layers=(MOST_LAYERS,), batch=FEWEST_ROWS, hidden=WIDE, fewest=FEWEST_WIDE,
    )  # fmt: skip
    where, most = claims.largest(found)
    text = f"the graph of nn.Sequential takes {most:x} of its time at most, at {place(where)}"
    return Verdict(not_above(maximum(found.values()), 1.0), text)


def _large(evidence: Evidence, line: str, at_least: float) -> Verdict:
    """The least gain over PyTorch's fastest way at the large points, by their own times on the device."""
    spans = [f"{rival} span" for rival in RIVALS]
    mine = {
        (MOST_LAYERS, batch, hidden): evidence.get(f"{line} span", layers=MOST_LAYERS, batch=batch, hidden=hidden)
        for batch, hidden in LARGE
    }
    rivals = fastest(evidence, spans, spans[:2])
    if missing := mine.keys() - rivals.keys():
        raise NotRecordedError(f"PyTorch's own ways were not measured at {place(min(missing))}")
    found = {key: rivals[key][0] / time for key, time in mine.items()}
    return _least(found, at_least, against={key: rivals[key][1].removesuffix(" span") for key in found})


def _without_tensor_cores(evidence: Evidence) -> Verdict:
    return _large(evidence, "strassen", 1.12)


def _accurate(evidence: Evidence) -> Verdict:
    return _large(evidence, "strassen accurate", 2.5)


def _strassen_never_slower(evidence: Evidence) -> Verdict:
    """PyTorch's fastest way over both choices, on the source's whole grid: at least 0.98x at every point."""
    rivals = {key: slow for key, slow in fastest(evidence, RIVALS, RIVALS[:2]).items() if key[1:] not in LARGE}
    found = [
        (rivals[key][0] / mine, f"with {line} at {place(key)}, against {rivals[key][1]}")
        for line in CHOSEN
        for key, mine in times(evidence, line).items()
        if key in rivals
    ]
    if len(found) < len(CHOSEN) * claims.WHOLE_GRID:
        raise NotRecordedError(f"the choices and PyTorch's ways were measured together at {len(found)} points only")
    return _never_slower(found)


def _kernels(evidence: Evidence) -> Verdict:
    """Kernels of a call with a level in every layer: two a layer and one more, nine for four layers."""
    known = evidence.source.known(evidence.experiment, "strassen-one")
    found = {(int(layers), each.kernels) for (layers, *_), each in known.items() if each.kernels is not None}
    if not found:
        raise NotRecordedError("no kernels of the way with a level in every layer were counted")
    text = ", ".join(f"{kernels} with {layers} layers" for layers, kernels in sorted(found))
    return Verdict("holds" if all(kernels == 2 * layers + 1 for layers, kernels in found) else "fails", text)


def _mostly_faster(evidence: Evidence) -> Verdict:
    """A level in every layer takes less of the device's time than nn.Sequential at more than half of the points."""
    found = speedups(evidence, "strassen one span", "module span")
    loops = speedups(evidence, "strassen one", "module")
    faster, in_a_loop = (sum(ratio.low > 1 for ratio in each.values()) for each in (found, loops))
    text = f"faster at {faster} of {len(found)} points on the device, at {in_a_loop} of {len(loops)} in a loop"
    return Verdict("holds" if 2 * faster > len(found) else "fails", text)


def _small_is_overhead(evidence: Evidence) -> Verdict:
    """Outside of that region, wherever a level beats nn.Sequential in a loop, fusion alone is as fast or faster."""
    over_module, fused = speedups(evidence, "strassen one", "module"), _in_a_loop(evidence)
    gained = [key for key in over_module if key in fused and not inside(key) and over_module[key].low > 1]
    if not gained:
        raise NotRecordedError("a level gains over nn.Sequential at no smaller size here")
    own = [key for key in gained if fused[key].low > 1]
    text = f"faster than nn.Sequential at {len(gained)} smaller sizes, at {len(own)} of them faster than fusion too"
    return Verdict("fails" if own else "holds", text)


JUDGES: dict[str, Judge] = {
    "strassen-kernels": _kernels,
    "strassen-mostly-faster": _mostly_faster,
    "strassen-small-is-overhead": _small_is_overhead,
    "one-kernel-small": _over_graph_small,
    "one-kernel-middle": _over_graph_middle,
    "one-kernel-eager": _over_eager,
    "one-kernel-over-autotune": _over_autotune,
    "one-kernel-one-caller": _for_one_caller,
    "best-never-slower": _best_never_slower,
    "best-half-again": _half_again,
    "best-twice": _twice,
    "best-for-one-caller": _best_for_one_caller,
    "host-cost-of-a-layer": _host_layer,
    "strassen-at-best": _at_best,
    "strassen-average": _on_average,
    "strassen-only-there": _only_there,
    "strassen-few-rows": _few_rows,
    "strassen-few-rows-graph": _few_rows_graph,
    "strassen-network": _without_tensor_cores,
    "strassen-network-accurate": _accurate,
    "strassen-never-slower": _strassen_never_slower,
}
