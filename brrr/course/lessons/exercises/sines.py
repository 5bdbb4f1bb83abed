"""Exercise 02-sines: with how many sines for each element is the GPU faster, although the data must travel?

The mark comes from measurements: this session's and the recording's; an answer that fits either is right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from brrr.core import units
from brrr.core.errors import BrrrError, NotRecordedError
from brrr.course.experiments import experiment
from brrr.course.experiments.judging import Curve, curve
from brrr.course.experiments.nested_sine import SINES
from brrr.course.lessons.checking import Mark
from brrr.course.nouns.evidence import Evidence
from brrr.course.sources.named import source

LARGE = 2**20
"""Elements: below, fixed costs spoil the sum."""

NEAR = 0.1


@dataclass(frozen=True)
class Rates:
    """At one size: seconds of a sine on the CPU and on the GPU, and of the transfers there and back.

    >>> Rates(2**24, cpu_s=3e-3, gpu_s=1e-3, way_s=30e-3).sines
    15.0
    """

    elements: int
    cpu_s: float
    gpu_s: float
    way_s: float

    @property
    def sines(self) -> float:
        """From so many sines on, `way_s + k gpu_s` is less than `k cpu_s`; infinite where the GPU is no faster."""
        gain = self.cpu_s - self.gpu_s
        return self.way_s / gain if gain > 0 else math.inf

    def fits(self, answer: float) -> bool:
        """Whether an answer is the next whole number, give or take one or a tenth: the times are not known better."""
        wanted = math.ceil(self.sines) if math.isfinite(self.sines) else math.inf
        return abs(answer - wanted) <= max(1.0, NEAR * wanted) if math.isfinite(wanted) else False


def grade(sines: Any) -> Mark:
    """Right is the transfers' time over what a sine costs less on the GPU, at any large size that was measured."""
    if isinstance(sines, bool) or not isinstance(sines, int | float) or not 0 < sines < math.inf:
        return Mark("wrong", f"{sines!r} is no number of sines.", "Write a whole number, as in sines=7.")
    told = measured_rates()
    for where, found in told:
        fitting = next((rates for rates in found if rates.fits(sines)), None)
        if fitting is not None:
            return Mark("right", f"{_why(fitting)} ({where}). Work that reuses what it was sent pays for the way.")
    where, found = told[0]
    return Mark("wrong", f"{sines} sines do not fit ({where}).", _hint(float(sines), found[0]))


def _why(rates: Rates) -> str:
    way, gain = units.seconds(rates.way_s), units.seconds(rates.cpu_s - rates.gpu_s)
    return f"at {rates.elements} elements the way costs {way}, and each sine is {gain} faster on the GPU"


def _hint(answer: float, rates: Rates) -> str:
    if (
        Rates(rates.elements, SINES * rates.cpu_s, SINES * rates.gpu_s, rates.way_s).fits(answer)
        and rates.sines > SINES
    ):
        return "The figure's times are those of four sines. What does one cost?"
    side = "So few do not pay for the way yet." if answer < rates.sines else "Fewer are enough."
    return f"{side} The way costs what is added by the transfers; a sine gains a quarter of CPU less GPU."


def measured_rates() -> list[tuple[str, list[Rates]]]:
    """For this lesson's source and for the recording: the badge, and what each large size says, the largest first.

    Sources that show no crossing are left out; NotRecordedError where none is left.
    """
    described = experiment("nested_sine")
    told: dict[str, list[Rates]] = {}
    for name in (None, "recorded:h200"):
        try:
            found = source(name)
            rates = [each for each in rates_of(Evidence(described, found)) if math.isfinite(each.sines)]
            if rates:
                told.setdefault(str(found.badge(described)), rates)
        except BrrrError:
            continue
    if not told:
        raise NotRecordedError(
            "check('02-sines'): no source here holds the CPU's time and the GPU's with transfers and without; "
            "see `brrr doctor`"
        )
    return list(told.items())


def rates_of(evidence: Evidence) -> list[Rates]:
    """The rates at each large size at which the three lines were measured, the largest first."""
    lines = ("cpu", "with transfers", "without transfers")
    cpu, sent, there = (_large(curve(evidence, line, "elements")) for line in lines)
    sizes = sorted(set(cpu) & set(sent) & set(there), reverse=True)
    return [_rates(size, cpu[size], sent[size], there[size]) for size in sizes]


def _large(times: Curve) -> dict[int, float]:
    return {size: time.median for size, time in times.items() if size >= LARGE}


def _rates(size: int, cpu_s: float, sent_s: float, there_s: float) -> Rates:
    return Rates(size, cpu_s / SINES, there_s / SINES, max(0.0, sent_s - there_s))
