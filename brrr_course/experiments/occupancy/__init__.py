"""More and more blocks, and more and more loads on their way in each thread: when is the memory's latency hidden?

Little's law: the bytes in flight are the bandwidth times the latency. A GPU with few blocks, or whose threads wait for
each load before the next, asks for too few bytes at once: it is latency-bound, far below its bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Estimate, Point
from brrr.counting.cost import Cost, OperatorCost
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.judging import datasheet
from brrr_course.experiments.predicted import BANDWIDTH, ONE_KERNEL, alone
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_below, weakest
from brrr_course.nouns.experiment import Axis, Experiment, Guide, PredictedRun, Rate, Variant
from brrr_course.nouns.source import Evidence

THREADS, NUMBERS, ITEMSIZE = 256, 256, 4
"""As in `occupancy.cu`: threads of a block, and numbers that each of them reads."""

RESIDENT = 8
"""Blocks that a multiprocessor holds at once: 2048 threads."""

NAMED = {1: "one load", 2: "two loads", 4: "four loads", 8: "eight loads"}
"""The lines, by the loads that each thread has in flight."""

BLOCKS = (
    1, 2, 4, 8, 16, 33, 66, 132, 198, 264, 396, 528, 660, 792, 924, 1056, 1057, 1188, 1320, 1584, 2112, 2113, 4224,
    8448,
)  # fmt: skip
"""Up to eight times what the 132 multiprocessors of an H100 or H200 hold at once, and one block more than one wave."""

WAVE, SEVERAL, ENOUGH = 1056, 8448, 4224
"""A full wave on an H200, eight of them, and the loads in flight (by a block's threads) that fill its memory."""

LATENCY_S = 370e-9
"""For the predicted lines: what a load takes on an H200, the time of one block over its loads in its recording."""


def block_bytes() -> int:
    """What a block reads.

    >>> block_bytes()
    262144
    """
    return THREADS * NUMBERS * ITEMSIZE


def in_flight(blocks: int, loads: int, multiprocessors: int) -> int:
    """The bytes that are on their way at once.

    >>> in_flight(1, 1, 132), in_flight(5000, 8, 132)
    (1024, 8650752)
    """
    return min(blocks, RESIDENT * multiprocessors) * THREADS * loads * ITEMSIZE


def cost(variant: Variant, point: Point) -> Cost:
    """Every number read once."""
    return Cost(0.0, float(int(point["blocks"]) * block_bytes()))


def predicted(variant: Variant, point: Point) -> PredictedRun | None:
    """One kernel that reads its bytes; None where too few are in flight, which the roofline ignores."""
    blocks, loads = int(point["blocks"]), int(variant.way)
    if min(blocks, WAVE) * loads < ENOUGH:
        return None
    nbytes = float(blocks * block_bytes())
    return alone(OperatorCost("read", 0.0, nbytes, 0.0, "float32", (), ONE_KERNEL))


def by_littles_law(loads: int, hardware: Hardware | None, point: Point) -> float | None:
    """Bytes in flight over the assumed latency, at most the datasheet's bandwidth."""
    if hardware is None or not hardware.sm_count:
        return None
    asked = in_flight(int(point["blocks"]), loads, hardware.sm_count)
    return min(asked / LATENCY_S, hardware.memory_bytes_per_s)


def _time(evidence: Evidence, blocks: int, loads: int) -> Estimate:
    return evidence.get(NAMED[loads], blocks=blocks)


def _rate(evidence: Evidence, blocks: int, loads: int) -> Estimate:
    return blocks * block_bytes() / _time(evidence, blocks, loads)


def _wave(evidence: Evidence) -> int:
    """Blocks that the GPU holds at once; NotRecordedError where that number of blocks is not on the axis."""
    held = RESIDENT * (datasheet(evidence).sm_count or 0)
    if held not in BLOCKS:
        raise NotRecordedError(f"this GPU holds {held} blocks at once, which were not measured")
    return held


def _under_filled(evidence: Evidence) -> Verdict:
    """A block a multiprocessor over one block alone, in time: at most 1.15x."""
    many = _wave(evidence) // RESIDENT
    ratio = _time(evidence, many, 1) / _time(evidence, 1, 1)
    return band_verdict(ratio, 0.0, 1.15, f"{many} blocks take {ratio:x} the time of one")


def _more_warps(evidence: Evidence) -> Verdict:
    """Eight blocks a multiprocessor over one, in bytes a second, with one load in flight: at least 6x."""
    full = _wave(evidence)
    ratio = _rate(evidence, full, 1) / _rate(evidence, full // RESIDENT, 1)
    return Verdict(not_below(ratio, 6.0), f"eight blocks a multiprocessor read {ratio:x} the bytes a second of one")


def _more_loads(evidence: Evidence) -> Verdict:
    """Eight loads in flight a thread over one, at the most blocks: at least 2x."""
    ratio = _rate(evidence, SEVERAL, 8) / _rate(evidence, SEVERAL, 1)
    return Verdict(not_below(ratio, 2.0), f"eight loads in flight read {ratio:x} the bytes a second of one")


def _full_is_not_enough(evidence: Evidence) -> Verdict:
    """Every warp in place and one load each, at the most blocks, over the datasheet's bandwidth: at most a half."""
    share = _rate(evidence, SEVERAL, 1) / datasheet(evidence).memory_bytes_per_s
    return band_verdict(share, 0.0, 0.5, f"at full occupancy with one load a thread, {share:%} of the bandwidth")


def _littles_law(evidence: Evidence) -> Verdict:
    """Measured over predicted bytes a second: 0.8 to 1.25 wherever the law asks for less than half the bandwidth.

    The latency is the time of one block with one load in flight over its loads.
    """
    sheet, found = datasheet(evidence), list[Verdict]()
    latency = _time(evidence, 1, 1) / NUMBERS
    for blocks in (each for each in BLOCKS if each <= _wave(evidence)):
        for loads in NAMED:
            asked = in_flight(blocks, loads, sheet.sm_count or 0)
            if asked / latency.median > sheet.memory_bytes_per_s / 2:
                continue
            ratio = _rate(evidence, blocks, loads) * latency / asked
            found.append(band_verdict(ratio, 0.8, 1.25, f"{ratio:x} with {blocks} blocks and {loads} loads"))
    worst = [each for each in found if each.status != "holds"] or found
    text = f"a load takes {units.seconds(latency.median)}; measured over predicted at {len(found)} points"
    outside = f", outside at {len(worst)}: {worst[0].measured}" if worst is not found else ": all within"
    return Verdict(weakest(each.status for each in found), text + outside)


def _one_block_more(evidence: Evidence) -> Verdict:
    """One block more than the GPU holds at once over as many as it holds, one load in flight: 1.5x to 2.2x."""
    full = _wave(evidence)
    ratio = _time(evidence, full + 1, 1) / _time(evidence, full, 1)
    return band_verdict(ratio, 1.5, 2.2, f"{full + 1} blocks take {ratio:x} the time of {full}")


JUDGES: Mapping[str, Judge] = {
    "under-filled": _under_filled,
    "more-warps": _more_warps,
    "more-loads": _more_loads,
    "full-is-not-enough": _full_is_not_enough,
    "littles-law": _littles_law,
    "one-block-more": _one_block_more,
}

EXPERIMENT = Experiment(
    name="occupancy",
    title="Blocks, and loads in flight",
    question="How many bytes must be on their way for the memory to be busy?",
    axes=(
        Axis("blocks", BLOCKS, label="blocks of 256 threads", quick=(1, 132, 1056, 8448)),
    ),
    variants=tuple(
        Variant(f"loads-{n}", f"{name} in flight", "cuda", cache="cold", way=str(n), line=name)
        for n, name in NAMED.items()
    ),
    field="busy_s",
    package=__name__,
    cost=cost,
    predicts=predicted,
    predict_by_default=False,
    judges=JUDGES,
    anchors=({"blocks": 132}, {"blocks": 8448}),
    rate=Rate("bytes", "B/s", "bytes read a second"),
    guides=(
        BANDWIDTH,
        *(
            Guide(f"little {n}", f"Little's law, {name}", "PREDICTED", "rate", partial(by_littles_law, n), (name,))
            for n, name in NAMED.items() if n in (1, 8)
        ),
    ),
)  # fmt: skip
