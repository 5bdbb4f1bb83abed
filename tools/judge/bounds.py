"""What limits a case, found out by interventions rather than by a formula.

First a CUDA Graph: if replaying it gains GRAPH_GAIN or more, overhead was the limit. Else the twins: t is taken as
what bytes take, what FLOP take, and a rest. A twin whose bytes and FLOP differ by the shares b and f from the case's
takes longer by `moving * b + computing * f`; two twins give both. Where they make up less than WORK_SHARE of the time,
overhead is the limit; else the larger, and balanced within RIDGE. Times near one of these thresholds tell nothing,
nor do twins that are hardly different, nor those that run on another kernel, which shows in a share below nothing or
above all of the time: such a case has no truth here, rather than a guessed one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from brrr.roofline.prediction import GRAPH_GAIN, RIDGE, WORK_SHARE

NEAR = 0.05
"""A graph's gain within so much of the threshold does not decide."""
UNSURE = 0.1
"""Shares of the time, and their ratio, are known no better."""
DIFFERENT = 0.25
"""A twin must differ by so much to tell anything."""
UNDECIDED = frozenset[str]()


@dataclass(frozen=True)
class Amount:
    """A case or a twin: the device's seconds, its bytes and its FLOP."""

    busy_s: float
    nbytes: float
    flop: float


def truth(kind: str, period_s: float, graph_s: float, case: Amount, twins: Mapping[str, Amount]) -> frozenset[str]:
    """The bounds that a case may have, none where the interventions do not decide.

    `twins` may hold one with other bytes ("bytes") and one with other FLOP ("flop").

    >>> truth("stream", 8e-6, 4e-6, Amount(2e-6, 1e6, 1e5), {})
    frozenset({'overhead'})
    >>> half = Amount(52e-6, 1e8, 1e7)
    >>> truth("stream", 103e-6, 102e-6, Amount(100e-6, 2e8, 1e7), {"bytes": half})
    frozenset({'memory'})
    """
    gain = period_s / graph_s
    if abs(gain / GRAPH_GAIN - 1) < NEAR:
        return UNDECIDED
    if gain > GRAPH_GAIN:
        return frozenset({"overhead"})
    changes = {name: _change(case, twin, period_s) for name, twin in twins.items()}
    if kind == "product":
        return _of_product(changes)
    if "bytes" not in changes or abs(changes["bytes"].nbytes) < DIFFERENT:
        return UNDECIDED
    return _by_share(changes["bytes"].seconds / changes["bytes"].nbytes, "memory", {"overhead", "compute"})


def _by_share(share: float, limit: str, others: set[str]) -> frozenset[str]:
    """What limits it if it is the bytes, or the FLOP, that take a share of the time."""
    if not _possible(share) or abs(share - WORK_SHARE) <= UNSURE:
        return UNDECIDED
    return frozenset({limit} if share > WORK_SHARE else others)


def _possible(*shares: float) -> bool:
    """Whether each and all of them can be shares of a time; if not, the twin runs on another kernel."""
    return all(share >= -UNSURE for share in shares) and sum(shares) <= 1 + UNSURE


@dataclass(frozen=True)
class Change:
    """How a twin differs, each as a share: of the case's period, of its bytes, of its FLOP."""

    seconds: float
    nbytes: float
    flop: float


def _change(case: Amount, twin: Amount, period_s: float) -> Change:
    flop = twin.flop / case.flop - 1 if case.flop else 0.0
    return Change((twin.busy_s - case.busy_s) / period_s, twin.nbytes / case.nbytes - 1, flop)


def _of_product(changes: Mapping[str, Change]) -> frozenset[str]:
    bytes_twin, flop_twin = changes.get("bytes"), changes.get("flop")
    if flop_twin is None:
        return UNDECIDED
    if bytes_twin is None or abs(bytes_twin.nbytes) < DIFFERENT:
        if abs(flop_twin.nbytes) >= UNSURE or abs(flop_twin.flop) < DIFFERENT:
            return UNDECIDED
        return _by_share(flop_twin.seconds / flop_twin.flop, "compute", {"memory", "overhead"})
    known = bytes_twin.nbytes * flop_twin.flop - flop_twin.nbytes * bytes_twin.flop
    if abs(known) < DIFFERENT / 2:
        return UNDECIDED
    moving = (bytes_twin.seconds * flop_twin.flop - flop_twin.seconds * bytes_twin.flop) / known
    computing = (bytes_twin.nbytes * flop_twin.seconds - flop_twin.nbytes * bytes_twin.seconds) / known
    return _of_shares(max(0.0, moving), max(0.0, computing)) if _possible(moving, computing) else UNDECIDED


def _of_shares(moving: float, computing: float) -> frozenset[str]:
    if abs(moving + computing - WORK_SHARE) < UNSURE:
        return UNDECIDED
    if moving + computing < WORK_SHARE:
        return frozenset({"overhead"})
    larger = "memory" if moving > computing else "compute"
    ratio = max(moving, computing) / max(min(moving, computing), 1e-9)
    if ratio < RIDGE * (1 + UNSURE):
        return frozenset({"balanced", larger} if ratio > RIDGE * (1 - UNSURE) else {"balanced"})
    return frozenset({larger})
