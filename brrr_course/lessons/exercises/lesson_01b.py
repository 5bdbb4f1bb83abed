"""Exercises 01b: a kernel that cheats the naive harness, and a harness that no cheat gets past. Both run on paper.

The harness is called as `harness(ours, theirs, lab)`. It returns how many times as fast `ours` is, or None where a
result is wrong. Eight cheats win by the naive one; in four of them both functions are honest, and the lab favours ours.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from brrr.core.units import ratio
from brrr_course.experiments.cheats import Later
from brrr_course.lessons.marks import Wrong, ask, exercise, is_number

NUMBERS, GLANCE = 1000, 8
"""Numbers that a call squares, and how many of them a glance sees."""
NEAR, ROUNDS = 0.1, 10
WINS = 2.0
CALL, SLOW_UNTIL, LONGER = 1.0, 6000.0, 4.0
"""Microseconds of a call with nothing in it, and until when the clock is low; how much longer a low clock, a first
call, an input that is not in the cache, or somebody else's program make it."""

Numbers = Sequence[float]
Call = Callable[[Numbers], Any]


class Lab:
    """A device on paper: its clock, inputs, and the work, a microsecond a number; `trap` is what favours ours.

    >>> lab = Lab()
    >>> x = lab.fresh()
    >>> lab.right(x, lab.read(lab.square(x))), lab.clock()
    (True, 1002.0)
    """

    def __init__(self, trap: str = "") -> None:
        self._trap, self._now, self._done_at, self._calls, self._cached = trap, 0.0, 0.0, 0, False
        self._x = [0.0] * NUMBERS

    def clock(self) -> float:
        """Microseconds on the host's clock; to read it takes one."""
        self._now += CALL
        return self._now

    def fresh(self) -> Numbers:
        """Other numbers, in the memory of the last ones."""
        self._x[:] = [random.random() + 1 for _ in self._x]
        self._cached = False
        return self._x

    def square(self, x: Numbers, pace: float = 1.0) -> list[float]:
        """The honest work."""
        self._calls += 1
        longer = {LOW_CLOCK: self._now < SLOW_UNTIL, WARM: not self._cached, FIRST: self._calls == 1,
                  DISTURBANCE: self._calls in range(3, 7)}  # fmt: skip
        self._now += CALL + len(x) * pace * (LONGER if longer.get(self._trap) else 1.0)
        self._cached = True
        return [each * each for each in x]

    def aside(self, x: Numbers) -> list[float]:
        """The same on another stream, which the clock does not wait for."""
        before, found = self._now, self.square(x)
        self._done_at, self._now = max(self._done_at, before) + self._now - before, before + CALL
        return found

    def read(self, y: Any) -> list[float]:
        """Wait for all streams, and look at every number."""
        self._now = max(self._now, self._done_at)
        return list(y[:])

    def glance(self, x: Numbers, y: Any) -> bool:
        """Whether the first numbers are right."""
        return self.right(x[:GLANCE], y[:GLANCE])

    def right(self, x: Numbers, y: Numbers) -> bool:
        """Whether all of them are."""
        return list(y) == [each * each for each in x]


def naive(ours: Call, theirs: Call, lab: Lab) -> float | None:
    """The lesson's harness, which every cheat gets past."""
    x, spent = lab.fresh(), {}
    for call in (theirs, ours):
        start = lab.clock()
        for _ in range(ROUNDS):
            y = call(x)
        spent[call] = lab.clock() - start
    return spent[theirs] / spent[ours] if lab.glance(x, y) else None


KEPT, SKIPPED, ASIDE, LAZY = "a kept output", "skipped work", "a side stream", "a lazy result"
WARM, FIRST, DISTURBANCE, LOW_CLOCK = "a warm cache", "no warm-up", "a disturbed rival", "a low clock"
HINTS = {
    KEPT: "It returns what it kept for the address of `x`. Give each call other numbers, and ask `lab.right(x, y)`.",
    SKIPPED: "It computes what `lab.glance` looks at. Ask `lab.right(x, y)`.",
    ASIDE: "Its work is still running when the clock stops. `lab.read(y)` waits for all streams.",
    LAZY: "It computes when somebody looks. Call `lab.read(y)` before you stop the clock.",
    WARM: "The second of two calls finds its input in the cache. Give each call other numbers.",
    FIRST: "The first call sets something up. Leave it out, or take the median.",
    DISTURBANCE: "Somebody's program ran during a few calls. Let both take turns, and take the median of many.",
    LOW_CLOCK: "The clock is low at first. Let both take turns, and take the median of many.",
}
"""Each cheat with what catches it."""
REFUSED = (KEPT, SKIPPED, ASIDE, LAZY)
"""Whose kernels cheat, the first two with wrong results; of the others the code is honest, and no cheat."""


def cheating(name: str, lab: Lab) -> Call:
    """What wins; in a lab that favours it, honest work."""
    kept = dict[int, list[float]]()
    of: dict[str, Call] = {
        KEPT: lambda x: kept.get(id(x)) or kept.setdefault(id(x), lab.square(x)),
        SKIPPED: lambda x: lab.square(x[:GLANCE]) + [0.0] * (NUMBERS - GLANCE),
        ASIDE: lab.aside, LAZY: partial(Later, lab.square),
    }  # fmt: skip
    return of.get(name, partial(lab.square))


def said_of(harness: Any, name: str, pace: float = 1.0) -> float | None:
    """What a harness says of a cheat, or of honest code that takes `pace` times as long as its rival."""
    lab = Lab(name)
    ours = cheating(name, lab) if name else partial(lab.square, pace=pace)
    said = ask(harness, ours, partial(lab.square), lab)
    if said is not None and not is_number(said):
        raise Wrong(f"your harness returned {said!r}.", "It should return a number, or None where a result is wrong.")
    return None if said is None else float(said)


@exercise("01b-cheat", values=("gain",))
def cheat(cheat: Any, gain: Any) -> str:
    """Whether the gain is calculated right, and the cheat gets past the naive harness."""
    if not is_number(gain) or abs(gain - ROUNDS) > NEAR:
        hint = "Add up the ten calls of both. How many of yours work?"
        raise Wrong(f"you wrote {gain!r} for `gain`.", hint if gain != NUMBERS else "The first of the ten calls works.")
    lab = Lab()
    said = ask(naive, lambda x: cheat(x, lab), partial(lab.square), lab)
    if said is None:
        raise Wrong(f"one of the first {GLANCE} numbers is wrong: even the naive harness sees that.", "Square these.")
    if said < WINS:
        raise Wrong(f"the naive harness says {ratio(said)} of your cheat.", "It passes the same `x` ten times.")
    return f"the naive harness says that your cheat is {ratio(said)} as fast as honest work"


@exercise("01b-harness")
def harness(harness: Any) -> str:
    """How many of the eight cheats the harness catches; honest code must stay what it is."""
    for pace, long in ((1.0, "as long as"), (0.5, "half as long as")):
        said = said_of(harness, "", pace)
        if said is None or abs(said * pace - 1) > NEAR:
            told = "refuses" if said is None else f"says {ratio(said)} of"
            hint = "Theirs over ours, of all calls."
            raise Wrong(f"your harness {told} honest code that takes {long} its rival.", hint)
    every = {name: said_of(harness, name) for name in HINTS}
    caught = [name for name, said in every.items()
              if (name in REFUSED if said is None else abs(said - 1) <= NEAR and name not in REFUSED[:2])]  # fmt: skip
    missed = [name for name in HINTS if name not in caught]
    score = f"{len(caught)} of {len(HINTS)}"
    if missed:
        raise Wrong(f"your harness catches {score}. Missed: {', '.join(missed)}.", HINTS[missed[0]], score)
    return f"your harness catches {score}, and calls no honest code a cheat"
