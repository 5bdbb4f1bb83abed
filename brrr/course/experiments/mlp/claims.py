"""What "GPU Overheads and Fused Strassen" and its readers said of the textbook network, and what holds."""

from __future__ import annotations

from statistics import mean

from brrr.core import units
from brrr.core.measurement import Estimate
from brrr.course.experiments.judging import at, minimum
from brrr.course.experiments.mlp.ratios import (
    ABOVE,
    BELOW,
    MOST_LAYERS,
    Key,
    as_told,
    average,
    by_hidden,
    divide,
    largest,
    place,
    smallest,
    speedups,
)
from brrr.course.experiments.mlp.targets import TARGETS
from brrr.course.experiments.published import mlp_speedups
from brrr.course.nouns.claim import Claim, Verdict, not_below, weakest
from brrr.course.nouns.evidence import Evidence

SOURCE = "GPU Overheads and Fused Strassen (2021), measured on a GTX 1070"
FOLLOWUP = "GPU Overheads and Fused Strassen (2021), on what its first readers found"
HERE = "this course"
WHOLE_GRID = 42
"""A sentence on all cases needs a quarter of the grid."""


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
    return here, f"{found}: mean speed-up {listed}; on the GTX 1070 from {published_divide()} on"


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


def closed(slow: Estimate, way: Estimate, fast: Estimate) -> Estimate:
    """The share of the gap from `slow` to `fast` that `way` closes, with the widest interval that theirs allow.

    >>> e = lambda t: Estimate(t, t, t, 9)
    >>> closed(e(10.0), e(7.0), e(4.0))
    Estimate(median=0.5, low=0.5, high=0.5, n=9)

    Nothing is closed where `fast` is not the faster one.
    """
    if fast.high >= slow.low:
        return Estimate(0.0, 0.0, 0.0, way.n)
    middle = (slow.median - way.median) / (slow.median - fast.median)
    low = (slow.low - way.high) / (slow.high - fast.low)
    high = (slow.high - way.low) / (slow.low - fast.high)
    return Estimate(middle, min(low, middle), max(middle, high), way.n)


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
    """Functions in place of modules close a third of the gap in host time."""
    return _gap(evidence, "functional", "host", 1 / 3)


def _script_closes(evidence: Evidence) -> Verdict:
    """TorchScript closes half of the gap in a loop."""
    return _gap(evidence, "script", "", 0.5)


NEAR = "what it gains beyond 1 within a third, or 0.05"
CLAIMS = (
    Claim("faster-in-all-cases", "Rewritten in PyCUDA, the network is faster in all cases.", SOURCE,
          "period_s of nn.Sequential over PyCUDA with three kernels a layer, whole grid, hot: at least 1x",
          _in_all_cases),
    Claim("best-case", "It is 1.8x faster in the best case.", SOURCE,
          f"the same, largest ratio; {NEAR}", _at_best),
    Claim("below-the-divide", "With 8 layers, below a hidden size of 1024 the average speed-up is 1.73x.", SOURCE,
          f"the same, mean over hidden 128 to 512; {NEAR}", _below),
    Claim("above-the-divide", "Above 1024 the average speed-up is 1.05x.", SOURCE,
          f"the same, mean over hidden 2048 and 4096; {NEAR}", _above),
    Claim("divide", "With 8 layers there is a divide at a hidden size of 1024.", SOURCE,
          "the same, mean over batches: from this hidden size on less than half of the best gain beyond 1", _divide),
    Claim("divide-moved", "On a faster GPU the divide lies at wider layers.", HERE,
          "the same; the divide's hidden size is larger than in the source's own figures", _divide_moved),
    Claim("fusion-at-best", "Fusing bias and ReLU adds up to 1.14x with one layer and up to 1.24x with eight.", SOURCE,
          f"period_s of three kernels a layer over two, PyCUDA, hot, largest ratio; {NEAR}", _fusion_at_best),
    Claim("fusion-below", "With 8 layers, below 1024 fusion adds 1.22x on average.", SOURCE,
          f"the same, mean over hidden 128 to 512; {NEAR}", _fusion_below),
    Claim("fusion-above", "Above 1024 fusion adds only 1.01x.", SOURCE,
          f"the same, mean over hidden 2048 and 4096; {NEAR}", _fusion_above),
    Claim("both-together", "Together they give well over 2x on average below 1024, with 8 layers.", SOURCE,
          "period_s of nn.Sequential over PyCUDA with two kernels a layer, mean, hot: at least 2x", _both),
    Claim("module-to-blame", "nn.Module is to blame for much of the overhead.", FOLLOWUP,
          "host_s, 8 layers, batch 2, hidden 128, hot: functions without modules close at least a third of the gap to "
          "PyCUDA", _module_to_blame),
    Claim("script-closes", "TorchScript closes a lot of the gap.", FOLLOWUP,
          "period_s, 8 layers, batch 2, hidden 128, hot: at least half of the gap from nn.Sequential to PyCUDA",
          _script_closes),
    *TARGETS,
)  # fmt: skip
