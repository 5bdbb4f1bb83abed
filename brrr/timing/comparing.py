"""`compare_calls`: which of several calls is faster, by the rounds in which they took turns, or that it cannot be told.

>>> found = compare_calls({"short": lambda: sum(range(99)), "long": lambda: sum(range(9999))}, device="cpu")
>>> found.ratios["long"] > 1
True
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from brrr.core import units
from brrr.core.cards import Card, Carded
from brrr.core.errors import ArgumentError
from brrr.core.measurement import CONFIDENCE, FIELDS, Cache, Estimate, Field, Measurement
from brrr.gpu import gpu_here, is_gpu
from brrr.timing import measured
from brrr.timing.cpu_queue import Place

GROUPS = 12
"""Rounds in a row make one pair, so that there are hardly more than so many: what holds up one round often holds up the
next, and an interval wants pairs that know nothing of each other. An even number of rounds goes there and back alike.
Of each call the shortest of them counts, for other programs only ever lengthen a round."""

WIDER = 2
"""The interval of pairs is so many times as wide, as a factor, for pairs of one process still know of each other: on
two threads that others crowd out, one of twenty equal calls was told to be slower without this."""

FEWEST = 2 * GROUPS
"""So many rounds are taken even if the budget is spent, as far as ten budgets go."""

ALIKE = {False: 0.03, True: 0.01}
"""On a CPU, and on a GPU: calls that do the same differ by so much, for their data lie at other addresses, which no
number of rounds in one process tells. A smaller difference is no verdict."""


@dataclass(frozen=True, repr=False)
class CallComparison(Carded):
    """Several calls side by side: the time of each, its ratio to one of them, and whether it is faster or slower.

    >>> short, long = Estimate(1e-6, 0.99e-6, 1.01e-6, 40), Estimate(3e-6, 2.9e-6, 3.1e-6, 40)
    >>> print(judged({"f": Measurement(period_s=short), "g": Measurement(period_s=long)}, "period_s"))
    Side by side: period_s, a call in a loop.
    call  time                       over f               verdict
    f     1 µs (0.99 to 1.01 µs, n=40)
    g     3 µs (2.9 to 3.1 µs, n=40)   3x (2.87x to 3.13x)  g is 3.00x slower (2.87x to 3.13x)
    period_s was not measured in pairs: drift between the calls is in their ratios

    `compare_calls` returns it.

    Attributes
    ----------
    calls : mapping of str to Measurement
        What was measured of each call.
    ratios : mapping of str to Estimate
        The time of each other call over that of `against`.
    verdicts : mapping of str to str
        What that says: "clamp is 1.05x slower (1.04x to 1.06x)", or "cannot tell: 0.98x to 1.03x".
    against : str
        The call that the others are compared with.
    field : str
        The time that is compared, such as "period_s".
    notes : tuple of str
        What the intervals hold for.
    """

    calls: Mapping[str, Measurement]
    ratios: Mapping[str, Estimate]
    verdicts: Mapping[str, str]
    against: str
    field: Field
    notes: tuple[str, ...] = ()

    def _card(self) -> Card:
        rows = [("call", "time", f"over {self.against}", "verdict")]
        for name, m in self.calls.items():
            ratio = f"{self.ratios[name]:x}" if name in self.ratios else ""
            rows.append((name, str(m.get(self.field)), ratio, self.verdicts.get(name, "")))
        flagged = dict.fromkeys(flag for m in self.calls.values() for flag in m.flags)
        flags = (f"{flag}: {', '.join(name for name, m in self.calls.items() if flag in m.flags)}" for flag in flagged)
        title = f"Side by side: {self.field}, {FIELDS[self.field]}."
        return Card(title, [rows, *flags, *self.notes], caption=self.calls[self.against].device)


def compare_calls(
    *calls: Mapping[str, Callable[[], Any]] | Callable[[], Any], against: str | None = None,
    field: Field = "period_s", device: Place | None = None, cache: Cache = "hot", budget_s: float = 0.2,
) -> CallComparison:  # fmt: skip
    """Tell which of several calls is faster, and by how much, or that it cannot be told.

    >>> found = compare_calls({"short": lambda: sum(range(99)), "long": lambda: sum(range(9999))}, device="cpu")
    >>> found.against, "cannot tell" in found.verdicts["long"] or "slower" in found.verdicts["long"]
    ('short', True)

    The calls take turns in many short rounds, there and back, and are compared round by round.

    Parameters
    ----------
    *calls : dict of str to callable, or callables
        Two calls or more, without arguments: by name, or one by one, and then named as they are.
    against : str, optional
        The name of the call that the others are compared with, or "fastest". By default the first.
    field : str
        The time that is compared: "period_s" is what a loop really takes; `Measurement` has the others. On a GPU
        "kernel_s", "busy_s" and "span_s" have no rounds, so their ratios are not of pairs, as `notes` then say.
    device : str or CpuQueue, optional
        As for `measure`.
    cache : {"hot", "cold"}
        As for `measure`.
    budget_s : float
        About how many seconds to measure each call. All of it is used, and up to ten times as much by slow calls.

    Returns
    -------
    CallComparison
        It prints as a table: times, ratios with intervals, and a verdict each.

    Raises
    ------
    ArgumentError, DeviceMemoryError, UnavailableError
        As for `measure`.

    Notes
    -----
    A verdict needs an interval that lies wholly above or below 1, and on a CPU 3 % beyond it, elsewhere 1 %: by so much
    equal calls may differ, as their data lie at other addresses. The interval is of the median ratio of a dozen pairs
    or more, each of some rounds in a row, of which each call's shortest counts; it is taken twice as wide, since pairs
    of one process know of each other. With several ratios each interval is wider still, so that all of them together
    hold at 95 % (Bonferroni; "fastest" counts every pair of calls). docs/timer_details.md tells how often it was wrong.
    """
    named = _named(calls)
    if len(named) < 2:
        raise ArgumentError("compare_calls", "calls", calls, "a dict of two callables or more, or two or more of them")
    if against not in (None, "fastest", *named):
        raise ArgumentError("compare_calls", "against", against, f"'fastest' or one of {', '.join(map(repr, named))}")
    if field not in FIELDS:
        raise ArgumentError("compare_calls", "field", field, f"one of {', '.join(map(repr, FIELDS))}")
    how = {"paired": True, "fewest": FEWEST, "on_device": field in ("kernel_s", "busy_s", "span_s")}
    found = measured(compare_calls, [*named.values()], how=how, device=device, cache=cache, budget_s=budget_s)
    alike = ALIKE[is_gpu(gpu_here() if device is None else device)]
    return judged(dict(zip(named, found, strict=True)), field, against, named, alike)


def judged(
    found: Mapping[str, Measurement], field: Field, against: str | None = None,
    calls: Mapping[str, Any] | None = None, alike: float = 0.0,
) -> CallComparison:  # fmt: skip
    """What measurements by name say of each other; `calls` are what was measured, `alike` is no difference yet."""
    times = {name: time for name, m in found.items() if (time := m.get(field)) is not None}
    if times.keys() != found.keys():
        raise ArgumentError("compare_calls", "field", field, "a time that was measured of each call")
    first = min(times, key=times.__getitem__) if against == "fastest" else against or next(iter(times))
    count = (len(times) - 1) * (len(times) / 2 if against == "fastest" else 1)
    alpha = (1 - CONFIDENCE) / count
    ratios = {name: ratio(time, times[first], alpha) for name, time in times.items() if name != first}
    same = {name for name in ratios if calls and calls[name] is calls[first]}
    verdicts = {name: verdict(name, each, alike, name in same) for name, each in ratios.items()}
    unpaired = f"{field} was not measured in pairs: drift between the calls is in their ratios"
    level = f"{count:g} comparisons: each interval is one of {units.percent(1 - alpha)}, all together hold at 95 %"
    less = f"equal calls differ by {units.percent(alike)} too, so less is no verdict"
    paired = all(_pairs(times[name], times[first]) for name in ratios)
    notes = [unpaired] * (not paired) + [level] * (count > 1) + [less] * (alike > 0)
    return CallComparison(found, ratios, verdicts, first, field, tuple(notes))


def verdict(name: str, ratio: Estimate, alike: float = 0.0, same: bool = False) -> str:
    """A ratio in words; `same` tells that it is one object twice.

    >>> verdict("clamp", Estimate(1.05, 1.04, 1.06, 12, 0)), verdict("clamp", Estimate(0.5, 0.4, 0.6, 12, 0))
    ('clamp is 1.05x slower (1.04x to 1.06x)', 'clamp is 2.00x faster (1.67x to 2.50x)')
    >>> verdict("clamp", Estimate(1.01, 0.98, 1.03, 12, 0)), verdict("relu", Estimate(1.0, 0.9, 1.1, 12, 0), same=True)
    ('cannot tell: 0.98x to 1.03x', 'relu is measured against itself: 1.00x')
    """
    if same:
        return f"{name} is measured against itself: {_times(ratio.median)}"
    if not ratio.has_interval:
        return f"cannot tell: too few samples for an interval (n={ratio.n})"
    if ratio.low <= 1 + alike and ratio.high * (1 + alike) >= 1:
        return f"cannot tell: {_times(ratio.low)} to {_times(ratio.high)}"
    word, more = ("slower", ratio) if ratio.low > 1 else ("faster", 1 / ratio)
    return f"{name} is {_times(more.median)} {word} ({_times(more.low)} to {_times(more.high)})"


def ratio(one: Estimate, by: Estimate, alpha: float) -> Estimate:
    """The ratio of two times, whose interval misses with probability alpha at most; by pairs where there are any."""
    if rounds := _pairs(one, by):
        size = len(rounds) // GROUPS // 2 * 2 or 1
        groups = [[*zip(*rounds[at : at + size], strict=True)] for at in range(0, len(rounds) - size + 1, size)]
        quotients = [min(mine) / min(theirs) for mine, theirs in groups if min(theirs)]
        found = Estimate.of(quotients or [math.nan], power=0, level=1 - alpha)
        wider = math.sqrt(found.high / found.low) ** (WIDER - 1) if found.low > 0 else math.inf
        found = Estimate(found.median, found.low / wider, found.high * wider, found.n, 0)
    else:  # wider as a normal distribution's would be
        by_itself, z = one / by, NormalDist().inv_cdf(1 - alpha / 2) / NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
        low, high = (by_itself.median + z * (end - by_itself.median) for end in (by_itself.low, by_itself.high))
        found = Estimate(by_itself.median, low, high, by_itself.n, 0)
    few = 2.0 ** (1 - found.n) > alpha  # the extremes of so few do not reach it
    return Estimate(found.median, -math.inf, math.inf, found.n, 0) if few else found


def _pairs(one: Estimate, by: Estimate) -> list[tuple[float, float]]:
    """The rounds that two times share; none where they did not take turns."""
    if not (one.rounds and by.rounds and one.rounds.together is by.rounds.together):
        return []
    return [*zip(one.rounds.values, by.rounds.values, strict=False)]  # one may have ended first


def _times(ratio: float) -> str:
    return f"{ratio:.2f}x" if 0.1 <= ratio < 10 else units.ratio(ratio)


def _named(calls: tuple[Any, ...]) -> dict[str, Any]:
    """The calls by name; where they give none, or one twice, with their number."""
    if len(calls) == 1:
        return dict(calls[0]) if isinstance(calls[0], Mapping) else {}
    names = [getattr(each, "__name__", type(each).__name__).strip("<>") for each in calls]
    numbered = (name if names.count(name) == 1 else f"{name} {at}" for at, name in enumerate(names, 1))
    return dict(zip(numbered, calls, strict=True))
