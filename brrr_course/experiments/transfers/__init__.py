"""Copies between the CPU's memory and the GPU's: how long the way is, by size, direction and kind of memory.

`period_s` (a loop of copies) and `busy_s` (the copy engine alone) are true of the bandwidth; `latency_s` is true of a
single copy, whose floor is what any copy costs, however small.
"""

from __future__ import annotations

from brrr.core import units
from brrr.core.errors import NotRecordedError
from brrr.core.measurement import Point
from brrr.counting.cost import Cost
from brrr.gpu import is_queue
from brrr.gpu.datasheet import Hardware
from brrr_course.experiments.judging import at, curve, datasheet, largest, minimum, queue_named
from brrr_course.nouns.claim import Judge, Verdict, band_verdict, not_below
from brrr_course.nouns.experiment import Axis, Experiment, Guide, Line, Rate, Variant, stand_in
from brrr_course.nouns.source import Evidence

# ---- what is claimed of copies: pinned against pageable, the floor, the link's share, both directions, the wait ----


LARGE, SMALL, SIXTEEN = 2**24, 2**10, 2**14
"""Bytes: from LARGE on a copy's start weighs little; SMALL and 16 times as much are judged for the floor."""

PINNED_GAIN, BOTH_GAIN, DEVICE_GAIN, LINK_SHARE = 1.2, 1.6, 10.0, 0.8
FLOOR, GROWN = 1.25, 2.0
RETURNS_EARLY, WAITS = 0.1, 0.5


@queue_named
def _pinned_beats_pageable(evidence: Evidence) -> Verdict:
    """Pageable over pinned at the largest size, the worse of the two directions where both were measured."""
    found = []
    for way in ("up", "down"):
        try:
            lines = {kind: curve(evidence, f"{way} {kind}", "nbytes") for kind in ("pageable", "pinned")}
        except NotRecordedError:
            continue
        size = largest(lines, LARGE)
        found.append((lines["pageable"][size] / lines["pinned"][size], way, size))
    if not found:
        raise NotRecordedError("neither direction was measured with both kinds of memory")
    text = "; ".join(f"{way}: {ratio:x} at {units.nbytes(size)}" for ratio, way, size in found)
    return Verdict(not_below(minimum(ratio for ratio, *_ in found), PINNED_GAIN), f"pageable takes longer, {text}")


@queue_named
def _floor(evidence: Evidence) -> Verdict:
    """A copy of 16 KB against one of 1 KB, and the size at which a copy has become twice as long."""
    small, more = at(evidence, "up pinned once", nbytes=SMALL), at(evidence, "up pinned once", nbytes=SIXTEEN)
    ratio = more / small
    times = curve(evidence, "up pinned once", "nbytes")
    grown = min((size for size in times if times[size].median >= GROWN * small.median), default=None)
    until = f"twice as long only from {units.nbytes(grown)} on" if grown else "at no size measured twice as long"
    text = f"{units.seconds(small.median)} for 1 KB, 16 times the bytes take {ratio:x}; {until}"
    return band_verdict(ratio, 0.0, FLOOR, text)


def _link_share(evidence: Evidence) -> Verdict:
    """Bytes a second to and from the GPU, pinned, over the datasheet's limit; over 100 % the account is wrong."""
    link = datasheet(evidence).host_link
    if link is None:
        raise NotRecordedError("this device has no link in its datasheet")
    shares = []
    for way in ("up", "down"):
        times = curve(evidence, f"{way} pinned", "nbytes")
        size = largest({way: times}, LARGE)
        shares.append(size / times[size] / link.bytes_per_s)
    slower, faster = sorted(shares)
    text = f"up {shares[0]:%}, down {shares[1]:%} of {units.rate(link.bytes_per_s, 'B/s')}"
    if faster.low > 1:
        return Verdict("fails", f"{text}: more than the link carries, so the account is wrong")
    return Verdict(not_below(slower, LINK_SHARE), text)


def _both_directions(evidence: Evidence) -> Verdict:
    """Bytes a second both ways at once over one way alone, at the largest size: the slower way is the yardstick."""
    lines = {name: curve(evidence, name, "nbytes") for name in ("up pinned", "down pinned", "both pinned")}
    size = largest(lines, LARGE)
    up, down, both = (lines[name][size] for name in ("up pinned", "down pinned", "both pinned"))
    slower = up if up.median >= down.median else down
    gain = 2 * (slower / both)
    text = f"{gain:x} the bytes of one way, at {units.nbytes(size)} each way"
    return Verdict(not_below(gain, BOTH_GAIN), text)


@queue_named
def _pageable_waits(evidence: Evidence) -> Verdict:
    """How much of a large copy has passed when the call returns: most of it pageable, nearly nothing pinned."""
    shares, size = {}, 0
    for kind in ("pageable", "pinned"):
        lines = {what: curve(evidence, f"up {kind} {what}", "nbytes") for what in ("issued", "once")}
        size = largest(lines, LARGE)
        shares[kind] = lines["issued"][size] / lines["once"][size]
    text = "; ".join(f"{kind}: the call returns after {each:%} of the copy" for kind, each in shares.items())
    waits, early = shares["pageable"], shares["pinned"]
    if waits.low >= WAITS and early.high <= RETURNS_EARLY:
        return Verdict("holds", f"{text}, at {units.nbytes(size)}")
    wrong = waits.high < WAITS or early.low > RETURNS_EARLY
    return Verdict("fails" if wrong else "undecided", f"{text}, at {units.nbytes(size)}")


def _device_memory_is_faster(evidence: Evidence) -> Verdict:
    """Bytes a second within the GPU's memory (read and written) over those to the GPU, pinned, at the largest size."""
    lines = {name: curve(evidence, name, "nbytes") for name in ("up pinned", "device")}
    size = largest(lines, LARGE)
    gain = 2 * (lines["up pinned"][size] / lines["device"][size])
    text = f"{gain:x} the bytes a second of the link, at {units.nbytes(size)}"
    return Verdict(not_below(gain, DEVICE_GAIN), text)


JUDGES: dict[str, Judge] = {
    "pinned-beats-pageable": _pinned_beats_pageable,
    "latency-floor": _floor,
    "link-share": _link_share,
    "both-directions": _both_directions,
    "pageable-waits": _pageable_waits,
    "link-is-the-narrow-place": _device_memory_is_faster,
}


SIZES = tuple(2**k for k in range(10, 31))
ODD_SIZES = (1000, 1_000_003, 100_000_007)
QUEUE_MAX = 2**28
"""The CPU queue stops here: a laptop has other uses for its memory."""

THROUGH_ONE_MEMORY = ("device", "cpu")
"""These stay in one memory, which both reads and writes each byte; a link carries it once."""


def supports(variant: Variant, point: Point) -> bool:
    """Everything exists everywhere, but the CPU queue ends at QUEUE_MAX."""
    return not is_queue(variant.device) or int(point["nbytes"]) <= QUEUE_MAX


def cost(variant: Variant, point: Point) -> Cost:
    """The bytes that cross: the link's once, both directions together; within one memory read once and written once."""
    twice = variant.way in (*THROUGH_ONE_MEMORY, "both")
    return Cost(flop=0.0, bytes=float(point["nbytes"]) * (2 if twice else 1))


def link_bytes_per_s(hardware: Hardware | None, point: Point) -> float | None:
    """The datasheet's limit of the link in one direction, in B/s; None for a device without a link."""
    return hardware.host_link.bytes_per_s if hardware is not None and hardware.host_link is not None else None


def both_bytes_per_s(hardware: Hardware | None, point: Point) -> float | None:
    """The datasheet's limit of the link with both directions together."""
    one = link_bytes_per_s(hardware, point)
    return None if one is None else 2 * one


LINK_LINES = ("up pageable", "up pinned", "down pageable", "down pinned")

EXPERIMENT = Experiment(
    name="transfers",
    title="Transfers",
    question="What does it cost to send data to the GPU and back?",
    axes=(
        Axis(
            "nbytes",
            tuple(sorted(SIZES + ODD_SIZES)),
            label="bytes to copy (2^20 is about 1 MB, 2^30 about 1 GB)",
            quick=(2**10, 2**16, 2**22),
        ),
    ),
    variants=(
        Variant("h2d-pageable", "to the GPU, pageable", "cuda", way="h2d", kind="pageable", line="up pageable"),
        Variant("h2d-pinned", "to the GPU, pinned", "cuda", way="h2d", kind="pinned", line="up pinned"),
        Variant("d2h-pageable", "from the GPU, pageable", "cuda", way="d2h", kind="pageable", line="down pageable"),
        Variant("d2h-pinned", "from the GPU, pinned", "cuda", way="d2h", kind="pinned", line="down pinned"),
        Variant("both-pinned", "both ways at once, pinned", "cuda", way="both", kind="pinned"),
        Variant("device", "within the GPU's memory (read and written)", "cuda"),
        Variant("cpu", "within the CPU's memory (read and written)", "cpu"),
        Variant("queue-pageable", "to the CPU queue, through a staging buffer", "cpu-queue",
                way="queue", kind="pageable", stands_in_for="up pageable"),
        Variant("queue-pinned", "to the CPU queue, direct", "cpu-queue",
                way="queue", kind="pinned", stands_in_for="up pinned"),
    ),
    field="period_s",
    lines=(
        Line("up pageable once", "h2d-pageable", "latency_s", "to the GPU, pageable, a single copy", shown=False),
        Line("up pinned once", "h2d-pinned", "latency_s", "to the GPU, pinned, a single copy", shown=False),
        Line("down pinned once", "d2h-pinned", "latency_s", "from the GPU, pinned, a single copy", shown=False),
        Line("up pageable issued", "h2d-pageable", "host_s", "to the GPU, pageable: until the call returns", False),
        Line("up pinned issued", "h2d-pinned", "host_s", "to the GPU, pinned: until the call returns", False),
        stand_in("up pageable once", "queue-pageable", "latency_s", "to the queue, staging buffer, one copy", False),
        stand_in("up pinned once", "queue-pinned", "latency_s", "to the queue, direct, one copy", False),
        stand_in("up pageable issued", "queue-pageable", "host_s", "to the queue, staging buffer: until return", False),
        stand_in("up pinned issued", "queue-pinned", "host_s", "to the queue, direct: until return", False),
    ),
    package=__name__,
    supports=supports,
    judges=JUDGES,
    anchors=({"nbytes": 2**20}, {"nbytes": 2**28}),
    cost=cost,
    rate=Rate("bytes", "B/s", "bandwidth"),
    guides=(
        Guide("link", "the link's limit, one direction", "DATASHEET", "rate", link_bytes_per_s, LINK_LINES),
        Guide("link-both", "the link's limit, both directions", "DATASHEET", "rate", both_bytes_per_s,
              ("both pinned",)),
    ),
)  # fmt: skip
