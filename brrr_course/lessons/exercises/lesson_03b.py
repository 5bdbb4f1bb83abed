"""Exercise 03b-mend: mend a benchmark that times three things too many.

The student's function is called as `benchmark(randn, weight, bias, relu, synchronize, clock)`. What it is given only
keeps account: every operation is an order to an imaginary device with a clock of its own, and a tensor is the formula
that made it. So the mark depends on no machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from brrr.core.units import seconds
from brrr_course.lessons.checking import Exercise, Mark, ask, not_above_zero

ORDER_S, OPERATION_S, DATA_S = 0.5e-6, 10e-6, 500e-6
TRUE_S = 2 * OPERATION_S
"""One product and one sum a call."""

CLOSE = 0.1
Formula = Any
X, WEIGHT, BIAS = "x", "weight", "bias"
LAYER: Formula = ("+", frozenset({("*", frozenset({X, WEIGHT})), BIAS}))


@dataclass
class Device:
    """An asynchronous device that only keeps account: the host's clock, when the queue is empty, what was ordered."""

    now_s: float = 0.0
    idle_at_s: float = 0.0
    done: list[Formula] = field(default_factory=list)
    readings: list[tuple[bool, int]] = field(default_factory=list)

    def order(self, formula: Formula, takes_s: float) -> Tensor:
        """Issue one operation; its result is known by its formula."""
        self.now_s += ORDER_S
        self.idle_at_s = max(self.idle_at_s, self.now_s) + takes_s
        self.done.append(formula)
        return Tensor(self, formula)

    def randn(self, *_: int) -> Tensor:
        """Fresh random data."""
        return self.order(X, DATA_S)

    def relu(self, of: Tensor) -> Tensor:
        """ReLU."""
        return self.order(("relu", of.formula), OPERATION_S)

    def synchronize(self) -> None:
        """Wait until the queue is empty."""
        self.now_s = max(self.now_s, self.idle_at_s)

    def clock(self) -> float:
        """The host's clock; it is noted whether the queue was empty, and how much had been ordered."""
        self.readings.append((self.idle_at_s <= self.now_s, len(self.done)))
        return self.now_s

    @property
    def timed(self) -> list[Formula]:
        """What was ordered between the first and the last reading of the clock."""
        return self.done[self.readings[0][1] : self.readings[-1][1]] if self.readings else []


@dataclass(frozen=True)
class Tensor:
    """A tensor on the imaginary device: the formula that made it."""

    device: Device
    formula: Formula

    def __mul__(self, other: Tensor) -> Tensor:
        return self._with("*", other)

    def __add__(self, other: Tensor) -> Tensor:
        return self._with("+", other)

    def _with(self, operation: str, other: Tensor) -> Tensor:
        if not isinstance(other, Tensor):
            return NotImplemented
        return self.device.order((operation, frozenset({self.formula, other.formula})), OPERATION_S)


def grade_benchmark(benchmark: Any) -> Mark:
    """Run the benchmark on the imaginary device and say what it still times too much, if anything."""
    if not callable(benchmark):
        return Mark(
            "wrong", f"{benchmark!r} is not a function.", 'Pass it itself: check("03b-mend", benchmark=benchmark).'
        )
    device = Device()
    device.order("earlier work", OPERATION_S)
    weight, bias = Tensor(device, WEIGHT), Tensor(device, BIAS)
    said = ask(benchmark, device.randn, weight, bias, device.relu, device.synchronize, device.clock)
    if isinstance(said, bool) or not isinstance(said, int | float) or not math.isfinite(said):
        return Mark("wrong", f"your benchmark returned {said!r}.", "It should return one number: seconds a call.")
    mistake = _mistake(device, float(said))
    truth = f"Your benchmark says {seconds(float(said))} a call; by construction the layer takes {seconds(TRUE_S)}"
    if mistake is None:
        return Mark("right", f"{truth}. It times the layer and nothing else.")
    return Mark("wrong", f"{mistake[0]} {truth}.", mistake[1])


BENCHMARK_EXERCISE = Exercise("03b-mend", grade_benchmark)


def _mistake(device: Device, said: float) -> tuple[str, str] | None:
    """The first mistake in the order in which they spoil the time, as (what, hint)."""
    if len(device.readings) < 2 or not device.timed:
        return "your benchmark times nothing.", "Read the `clock()` before and after the calls."
    right = math.isclose(said, TRUE_S, rel_tol=CLOSE)
    timed = device.timed
    if X in timed and not right:
        return "the random data is made inside what is timed.", "Make it once, before the clock starts."
    if any(_adds(formula, X) for formula in timed):
        return "what is timed adds `x` once more.", "The layer is `x * weight + bias`."
    if any(formula[0] == "relu" for formula in timed) and not right:
        return "a ReLU is still timed.", "It costs the same with any layer, and hides how two layers differ."
    if LAYER not in timed:
        return "the layer itself is not computed.", "Keep `x * weight + bias`: it is what should be timed."
    return None if right else _wrong_number(device)


def _adds(formula: Formula, what: str) -> bool:
    """Whether a formula is a sum with `what` as one of its terms."""
    return formula[0] == "+" and what in formula[1]


def _wrong_number(device: Device) -> tuple[str, str]:
    if not device.readings[-1][0]:
        return "the clock stops while the work is still running.", "Keep the `synchronize()` behind the calls."
    if not device.readings[0][0]:
        return "the clock starts while earlier work is still in the queue.", "Wait before you read it first."
    return "the number is not the time of one call.", "Divide the time by the number of calls."


# ---------------------------------------------------------------------------------------------------------------------
# Exercise 03b-ridge: from which width on is Linear compute-bound, and what does the roofline then promise?

RIDGE, ITEMSIZE, WIDE = 13.9, 4, 8192
"""FLOP/B, and the width of the second question."""
KNEE = RIDGE * 2 * ITEMSIZE / 2
"""Where 2 width^2 FLOP over 2 x 4 x width bytes is the ridge point."""
NEAR = 0.03


def grade_ridge(width: Any, speedup: Any) -> Mark:
    """The width at which a row's FLOP over its bytes is the ridge point, and WIDE over it."""
    if mark := not_above_zero(width=width, speedup=speedup):
        return mark
    if not math.isclose(width, KNEE, rel_tol=NEAR):
        once = math.isclose(width, KNEE / 2, rel_tol=NEAR)
        twice = math.isclose(width, 2 * KNEE, rel_tol=NEAR)
        hint = "A row is read, and a row is written." if once else "An FMA is two FLOP." if twice else INTENSITY
        return Mark("wrong", f"`width` is {width:g}.", hint)
    if not math.isclose(speedup, WIDE / KNEE, rel_tol=2 * NEAR):
        hint = "`Linear` takes as many times its bytes' time as its width is above that of the ridge point."
        return Mark("wrong", f"`speedup` is {speedup:g}.", hint)
    return Mark(
        "right", f"from width {KNEE:.0f} on, and {WIDE / KNEE:.0f}x, where counting operations promises {WIDE}x."
    )


INTENSITY = "FLOP a row over bytes a row, set equal to the ridge point."
RIDGE_EXERCISE = Exercise("03b-ridge", grade_ridge)
