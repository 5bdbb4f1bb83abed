"""What a call takes of energy: a second of a loop, by the driver's count of joules."""

from __future__ import annotations

import time
from collections.abc import Callable

from brrr.core.errors import UnavailableError
from brrr.core.measurement import Estimate, Measurement
from brrr.gpu import GPU
from brrr.gpu.probe import energy_j
from brrr_course.experiments.lazily import torch

SETTLE_S, LOOP_S, AHEAD = 0.3, 1.0, 16
"""A loop's energy is counted for so long, after so long; so many calls are launched at once."""


def energy_launched(run: Callable[[], object]) -> Measurement:
    """The time and the power of a call long enough that the host launches the next meanwhile.

    UnavailableError where no joules are counted.
    """
    _loop(run, SETTLE_S)
    joules = energy_j()
    calls, passed = _loop(run, LOOP_S)
    after = energy_j()
    if joules is None or after is None or after <= joules:
        raise UnavailableError("the driver counts no joules here")
    period = passed / (AHEAD * calls)
    power_w = (after - joules) / passed
    return Measurement(period_s=Estimate(period, period, period, 1), power_w=power_w, device=GPU)


def _loop(run: Callable[[], object], seconds: float) -> tuple[int, float]:
    """How often AHEAD calls were made in so many seconds and a little more, and in how many."""
    began, rounds = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(AHEAD):
            run()
        rounds += 1
        if rounds % 4 == 0:
            torch.cuda.synchronize()  # so that the loop ends in time
    torch.cuda.synchronize()
    return rounds, time.perf_counter() - began
