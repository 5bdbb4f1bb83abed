"""What is claimed of copies: pinned against pageable, the floor, the link's share, both directions, the wait."""

from __future__ import annotations

from brrr import units
from brrr.claim import Claim, Evidence, Verdict, band_verdict, three_way
from brrr.errors import NotRecordedError
from brrr.experiments.judging import at, curve, datasheet, largest, over, share, shown, toy_named

HERE = "this course, on the way that the data take in 'GPU Performance: Parallel Processing vs Overhead' (2024)"
SOURCE = "GPU Performance: Parallel Processing vs Overhead (2024), section 'Nested sine operation'"

LARGE, SMALL, SIXTEEN = 2**24, 2**10, 2**14
"""Bytes: from LARGE on a copy's start weighs little; SMALL and 16 times as much are judged for the floor."""

PINNED_GAIN, BOTH_GAIN, DEVICE_GAIN, LINK_SHARE = 1.2, 1.6, 10.0, 0.8
FLOOR, GROWN = 1.25, 2.0
RETURNS_EARLY, WAITS = 0.1, 0.5


@toy_named
def _pinned_beats_pageable(evidence: Evidence) -> Verdict:
    """Pageable over pinned at the largest size, the worse of the two directions where both were measured."""
    found = []
    for way in ("up", "down"):
        try:
            lines = {kind: curve(evidence, f"{way} {kind}", "nbytes") for kind in ("pageable", "pinned")}
        except NotRecordedError:
            continue
        size = largest(lines, LARGE)
        found.append((over(lines["pageable"][size], lines["pinned"][size]), way, size))
    if not found:
        raise NotRecordedError("neither direction was measured with both kinds of memory")
    text = "; ".join(f"{way}: {shown(ratio)} at {units.nbytes(size)}" for ratio, way, size in found)
    low, high = min(ratio[1] for ratio, *_ in found), min(ratio[2] for ratio, *_ in found)
    return Verdict(three_way(low, high, PINNED_GAIN), f"pageable takes longer, {text}")


@toy_named
def _floor(evidence: Evidence) -> Verdict:
    """A copy of 16 KB against one of 1 KB, and the size at which a copy has become twice as long."""
    small, more = at(evidence, "up pinned once", nbytes=SMALL), at(evidence, "up pinned once", nbytes=SIXTEEN)
    ratio = over(more, small)
    times = curve(evidence, "up pinned once", "nbytes")
    grown = min((size for size in times if times[size].median >= GROWN * small.median), default=None)
    until = f"twice as long only from {units.nbytes(grown)} on" if grown else "at no size measured twice as long"
    text = f"{units.seconds(small.median)} for 1 KB, 16 times the bytes take {shown(ratio)}; {until}"
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
        time = times[size]
        shares.append(tuple(size / each / link.bytes_per_s for each in (time.median, time.high, time.low)))
    slower, faster = sorted(shares)
    text = f"up {share(_three(shares[0]))}, down {share(_three(shares[1]))} of {units.rate(link.bytes_per_s, 'B/s')}"
    if faster[1] > 1:
        return Verdict("fails", f"{text}: more than the link carries, so the account is wrong")
    return Verdict(three_way(slower[1], slower[2], LINK_SHARE), text)


def _three(values: tuple[float, ...]) -> tuple[float, float, float]:
    middle, low, high = values
    return middle, low, high


def _both_directions(evidence: Evidence) -> Verdict:
    """Bytes a second both ways at once over one way alone, at the largest size: the slower way is the yardstick."""
    lines = {name: curve(evidence, name, "nbytes") for name in ("up pinned", "down pinned", "both pinned")}
    size = largest(lines, LARGE)
    up, down, both = (lines[name][size] for name in ("up pinned", "down pinned", "both pinned"))
    slower = up if up.median >= down.median else down
    gain = tuple(2 * each for each in over(slower, both))
    text = f"{shown(_three(gain))} the bytes of one way, at {units.nbytes(size)} each way"
    return Verdict(three_way(gain[1], gain[2], BOTH_GAIN), text)


@toy_named
def _pageable_waits(evidence: Evidence) -> Verdict:
    """How much of a large copy has passed when the call returns: most of it pageable, nearly nothing pinned."""
    shares, size = {}, 0
    for kind in ("pageable", "pinned"):
        lines = {what: curve(evidence, f"up {kind} {what}", "nbytes") for what in ("issued", "once")}
        size = largest(lines, LARGE)
        shares[kind] = over(lines["issued"][size], lines["once"][size])
    text = "; ".join(f"{kind}: the call returns after {share(each)} of the copy" for kind, each in shares.items())
    waits, early = shares["pageable"], shares["pinned"]
    if waits[1] >= WAITS and early[2] <= RETURNS_EARLY:
        return Verdict("holds", f"{text}, at {units.nbytes(size)}")
    wrong = waits[2] < WAITS or early[1] > RETURNS_EARLY
    return Verdict("fails" if wrong else "undecided", f"{text}, at {units.nbytes(size)}")


def _device_memory_is_faster(evidence: Evidence) -> Verdict:
    """Bytes a second within the GPU's memory (read and written) over those to the GPU, pinned, at the largest size."""
    lines = {name: curve(evidence, name, "nbytes") for name in ("up pinned", "device")}
    size = largest(lines, LARGE)
    gain = tuple(2 * each for each in over(lines["up pinned"][size], lines["device"][size]))
    text = f"{shown(_three(gain))} the bytes a second of the link, at {units.nbytes(size)}"
    return Verdict(three_way(gain[1], gain[2], DEVICE_GAIN), text)


CLAIMS = (
    Claim("pinned-beats-pageable", "Large copies are faster from and to pinned memory than pageable memory.", HERE,
          "period_s of pageable over pinned at the largest size of 16 MB or more; at least 1.2x in each direction",
          _pinned_beats_pageable),
    Claim("latency-floor", "A small copy costs the same however small it is: the fixed cost of any copy.", HERE,
          "latency_s of 16 KB over 1 KB, pinned, to the GPU, hot; at most 1.25x", _floor),
    Claim("link-share", "Copies of pinned memory come close to what the link's datasheet promises.", HERE,
          "bytes over period_s at the largest size, each direction alone; 80 % to 100 % of the datasheet", _link_share),
    Claim("both-directions", "Data can go both ways at once: the link has a lane for each direction.", HERE,
          "bytes a second of both at once over the slower one alone, period_s, pinned; at least 1.6x",
          _both_directions),
    Claim("pageable-waits", "A copy of pageable memory makes the caller wait; one of pinned memory does not.", HERE,
          "host_s over latency_s to the GPU at the largest size: pageable at least 50 %, pinned at most 10 %",
          _pageable_waits),
    Claim("link-is-the-narrow-place", "The way to the GPU is far slower than the GPU's own memory.", SOURCE,
          "bytes a second within the GPU's memory over those to the GPU, pinned, period_s; at least 10x",
          _device_memory_is_faster),
)  # fmt: skip
