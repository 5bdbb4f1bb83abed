"""What "GPU Overheads and Fused Strassen" and its readers said of the textbook network, and what holds.

Speed-ups point by point, their means, the divide; then the claims on its first two experiments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import astuple
from itertools import pairwise
from math import exp, log
from statistics import mean

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate
from brrr_course.experiments.judging import at, closed, from_on, minimum
from brrr_course.experiments.published import mlp_speedups
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_below, weakest
from brrr_course.nouns.source import Evidence

WHOLE_GRID = 42
"""A sentence on all cases needs a quarter of the grid."""

Key = tuple[int, int, int]
"""Layers, batch, hidden."""

MOST_LAYERS, BELOW, ABOVE = 8, (128, 256, 512), (2048, 4096)
"""The source's two sides of its divide at 1024."""

FEWEST = 6
"""So many points a sentence on a part of the grid needs."""


def times(evidence: Evidence, line: str) -> dict[Key, Estimate]:
    """A line at every point of the grid that was measured."""
    return {(int(n), int(b), int(h)): found for (n, b, h), found in evidence.everywhere(line).items()}


def speedups(
    evidence: Evidence, line: str, base: str, *, layers: Collection[int] = (), hidden: Collection[int] = (),
    batch: Collection[int] = (), fewest: int = FEWEST,
) -> dict[Key, Estimate]:  # fmt: skip
    """The time of `base` over that of `line` wherever both were measured, on a part of the grid.

    NotRecordedError for fewer points than `fewest`.
    """
    slow, fast = times(evidence, base), times(evidence, line)
    parts = (layers, batch, hidden)
    here = [key for key in slow if key in fast and all(not p or k in p for k, p in zip(key, parts, strict=True))]
    if len(here) < fewest:
        raise NotRecordedError(f"{line} and {base} were measured together at {len(here)} points; {fewest} are needed")
    return {key: slow[key] / fast[key] for key in sorted(here)}


def average(found: Iterable[Estimate]) -> Estimate:
    """The arithmetic mean, as the source has it, with the means of the intervals' ends.

    >>> average([Estimate(1.0, 0.5, 1.5, 9), Estimate(3.0, 2.5, 3.5, 9)])
    Estimate(median=2.0, low=1.5, high=2.5, n=9)
    """
    middle, low, high, n = zip(*map(astuple, found), strict=True)
    return Estimate(mean(middle), mean(low), mean(high), min(n))


def geometric(found: Iterable[Estimate]) -> Estimate:
    """The geometric mean, of the ratios and of both ends of their intervals.

    >>> geometric([Estimate(1.0, 1.0, 1.0, 9), Estimate(4.0, 4.0, 4.0, 9)])
    Estimate(median=2.0, low=2.0, high=2.0, n=9)
    """
    middle, low, high, n = zip(*map(astuple, found), strict=True)
    ends = [exp(mean(map(log, each))) for each in (middle, low, high)]
    return Estimate(ends[0], ends[1], ends[2], min(n))


def largest(found: Mapping[Key, Estimate]) -> tuple[Key, Estimate]:
    """The point that gains most."""
    return max(found.items(), key=lambda each: each[1].median)


def smallest(found: Mapping[Key, Estimate]) -> tuple[Key, Estimate]:
    """The point that gains least."""
    return min(found.items(), key=lambda each: each[1].median)


def place(key: Key) -> str:
    """A point as a reader takes it in.

    >>> place((8, 2, 128)), place((1, 64, 256))
    ('8 layers, batch 2, hidden 128', '1 layer, batch 64, hidden 256')
    """
    layers, batch, hidden = key
    return f"{layers} layer{'s' if layers > 1 else ''}, batch {batch}, hidden {hidden}"


def as_told(ratio: Estimate, told: float, text: str) -> Verdict:
    """Whether a speed-up is the source's: what it gains beyond 1 within 20 % of the source's gain, or within 0.05.

    >>> as_told(Estimate(1.7, 1.69, 1.71, 9), 1.73, "").status, as_told(Estimate(1.4, 1.39, 1.41, 9), 1.73, "").status
    ('holds', 'fails')
    """
    room = max(0.05, (told - 1) / 5)
    return band_verdict(ratio, told - room, told + room, text)


def divide(gains: Mapping[int, float]) -> int | None:
    """The smallest hidden size from which on every speed-up gains less than half of what the best one gains beyond 1.

    >>> divide({128: 1.8, 256: 1.8, 512: 1.7, 1024: 1.3, 2048: 1.1})
    1024
    >>> divide({128: 1.8, 256: 1.8}) is None, divide({128: 1.01, 256: 1.0}) is None
    (True, True)

    None where no size is beyond it, and where nothing gains 5 %.
    """
    most = max(gains.values()) - 1
    return from_on(gains, lambda hidden: gains[hidden] - 1 < most / 2) if most >= 0.05 else None


def by_hidden(found: Mapping[Key, Estimate]) -> dict[int, float]:
    """The mean speed-up at each hidden size, over the batches."""
    return {h: mean(ratio.median for key, ratio in found.items() if key[2] == h) for h in sorted({k[2] for k in found})}


# ---- the claims ----


def _eight(evidence: Evidence, line: str, base: str, hidden: tuple[int, ...] = ()) -> dict[Key, Estimate]:
    """Speed-ups with 8 layers."""
    return speedups(evidence, line, base, layers=(MOST_LAYERS,), hidden=hidden)


def _in_all_cases(evidence: Evidence) -> Verdict:
    """The least speed-up of the rewrite over nn.Sequential: at least 1."""
    found = speedups(evidence, "pycuda", "module", fewest=WHOLE_GRID)
    where, least = smallest(found)
    faster = sum(ratio.median > 1 for ratio in found.values())
    text = f"faster at {faster} of {len(found)} points; the least gain is {least:x} at {place(where)}"
    return Verdict(not_below(minimum(found.values()), 1.0), text)


def _at_best(evidence: Evidence) -> Verdict:
    """The largest speed-up of the rewrite: 1.8x."""
    where, most = largest(speedups(evidence, "pycuda", "module", fewest=WHOLE_GRID))
    return as_told(most, 1.8, f"{most:x} at {place(where)}")


def _mean_gain(evidence: Evidence, line: str, base: str, hidden: tuple[int, ...], told: float) -> Verdict:
    found = _eight(evidence, line, base, hidden)
    gain = average(found.values())
    names = ", ".join(map(str, hidden))
    return as_told(gain, told, f"{gain:x} on average over {len(found)} points with hidden {names}")


def _below(evidence: Evidence) -> Verdict:
    return _mean_gain(evidence, "pycuda", "module", BELOW, 1.73)


def _above(evidence: Evidence) -> Verdict:
    return _mean_gain(evidence, "pycuda", "module", ABOVE, 1.05)


def published_divide() -> int:
    """Where the source's own figures have the divide, with 8 layers: the first hidden size beyond it."""
    rows = [row for row in mlp_speedups() if row.variant == "overhead" and row.layers == MOST_LAYERS]
    found = divide({h: mean(row.speedup for row in rows if row.hidden == h) for h in {row.hidden for row in rows}})
    assert found is not None
    return found


def _divide(evidence: Evidence) -> Verdict:
    """The divide of the rewrite's speed-up is where the source's figures have it."""
    here, text = _divide_here(evidence)
    return Verdict("holds" if here == published_divide() else "fails", text)


def _divide_moved(evidence: Evidence) -> Verdict:
    """The divide lies at a larger hidden size than in the source's figures."""
    here, text = _divide_here(evidence)
    return Verdict("holds" if here is not None and here > published_divide() else "fails", text)


def _divide_here(evidence: Evidence) -> tuple[int | None, str]:
    gains = by_hidden(_eight(evidence, "pycuda", "module"))
    here = divide(gains)
    listed = ", ".join(f"{units.ratio(gain)} at {hidden}" for hidden, gain in gains.items())
    found = "no divide" if here is None else f"less than half of the best gain from hidden {here} on"
    return here, f"{found}, on the GTX 1070 from {published_divide()} on; mean speed-up {listed}"


def _fusion_at_best(evidence: Evidence) -> Verdict:
    """What fusing bias and ReLU adds at best: 1.14x with one layer, 1.24x with eight."""
    parts, found = [], []
    for layers, told in ((1, 1.14), (MOST_LAYERS, 1.24)):
        where, most = largest(speedups(evidence, "pycuda fused", "pycuda", layers=(layers,)))
        parts.append(f"{most:x} at {place(where)}")
        found.append(as_told(most, told, "").status)
    return Verdict(weakest(found), "; ".join(parts))


def _fusion_below(evidence: Evidence) -> Verdict:
    return _mean_gain(evidence, "pycuda fused", "pycuda", BELOW, 1.22)


def _fusion_above(evidence: Evidence) -> Verdict:
    return _mean_gain(evidence, "pycuda fused", "pycuda", ABOVE, 1.01)


def _both(evidence: Evidence) -> Verdict:
    """Rewrite and fusion together, 8 layers, hidden below 1024: 2x and more on average."""
    found = _eight(evidence, "pycuda fused", "module", BELOW)
    gain = average(found.values())
    return Verdict(not_below(gain, 2.0), f"{gain:x} on average over {len(found)} points")


SMALL = {"layers": MOST_LAYERS, "batch": 2, "hidden": 128}


def _gap(evidence: Evidence, way: str, suffix: str, enough: float) -> Verdict:
    """The share of the gap between nn.Sequential and PyCUDA that a way closes, on the smallest network of 8 layers."""
    names = [f"{each} {suffix}".strip() for each in ("module", way, "pycuda")]
    slow, here, fast = (at(evidence, name, **SMALL) for name in names)
    part = closed(slow, here, fast)
    text = ", ".join(f"{name} {units.seconds(t.median)}" for name, t in zip(names, (slow, here, fast), strict=True))
    gap = "there is no gap to PyCUDA" if fast.high >= slow.low else f"it closes {part:%} of the gap to PyCUDA"
    return Verdict(not_below(part, enough), f"{text}: {gap}")


def _module_to_blame(evidence: Evidence) -> Verdict:
    """Functions in place of modules close half of the gap in host time."""
    return _gap(evidence, "functional", "host", 0.5)


def _script_closes(evidence: Evidence) -> Verdict:
    """TorchScript closes half of the gap in a loop."""
    return _gap(evidence, "script", "", 0.5)


def _cpu_gain(evidence: Evidence) -> tuple[Estimate, str]:
    """nn.Sequential over the fastest other way on the CPU, for the smallest network of 8 layers; and that way."""
    found = {}
    for way in ("functional", "inference", "script", "numpy", "compile"):
        with suppress(NotRecordedError):
            found[f"cpu {way}"] = evidence.get(f"cpu {way}", **SMALL)
    if not found:
        raise NotRecordedError("no way on the CPU was measured beside nn.Sequential")
    name = min(found, key=lambda each: found[each].median)
    return evidence.get("cpu module", **SMALL) / found[name], name


def _cpu_gains_hugely(evidence: Evidence) -> Verdict:
    """Less overhead makes a small network on the CPU twice as fast and more."""
    gain, way = _cpu_gain(evidence)
    return Verdict(not_below(gain, 2.0), f"{way} gains {gain:x} at {place((8, 2, 128))}")


def _bigger_on_a_gpu(evidence: Evidence) -> Verdict:
    """What less overhead gains on the GPU over what it gains on the CPU beside it, for the same small network."""
    (cpu, way), gpu = _cpu_gain(evidence), evidence.get("module", **SMALL) / evidence.get("pycuda", **SMALL)
    return Verdict(not_below(gpu / cpu, 1.0), f"PyCUDA gains {gpu:x} on the GPU, {way} {cpu:x} on the CPU")


def _rewrite_gains_most(evidence: Evidence) -> Verdict:
    """The mean gain of the rewrite is larger than that of fusion, and than that of a level, with 8 layers."""
    ways = ("module", "pycuda", "pycuda fused", "strassen one")
    gains = [average(_eight(evidence, fast, slow).values()) for slow, fast in pairwise(ways)]
    text = ", ".join(f"{name} {gain:x}" for name, gain in zip(("the rewrite", "fusion", "a level"), gains, strict=True))
    return Verdict(not_below(gains[0] / max(gains[1:]), 1.0), f"on average: {text}")


def _fusion_divide(evidence: Evidence) -> Verdict:
    """From which hidden size on fusion gains less than half of its best gain: 1024."""
    gains = by_hidden(_eight(evidence, "pycuda fused", "pycuda"))
    here = divide(gains)
    text = ", ".join(f"{units.ratio(gain)} at {hidden}" for hidden, gain in gains.items())
    return Verdict("holds" if here == 1024 else "fails", f"less than half of the best from hidden {here} on; {text}")


JUDGES: dict[str, Judge] = {
    "cpu-small-gains": _cpu_gains_hugely,
    "bigger-on-a-gpu": _bigger_on_a_gpu,
    "rewrite-gains-most": _rewrite_gains_most,
    "fusion-divide": _fusion_divide,
    "faster-in-all-cases": _in_all_cases,
    "best-case": _at_best,
    "below-the-divide": _below,
    "above-the-divide": _above,
    "divide": _divide,
    "divide-moved": _divide_moved,
    "fusion-at-best": _fusion_at_best,
    "fusion-below": _fusion_below,
    "fusion-above": _fusion_above,
    "both-together": _both,
    "module-to-blame": _module_to_blame,
    "script-closes": _script_closes,
}
