"""`measure` on a real clock, and what it refuses; its logic is tested beside it, on one that is played."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from brrr.core.errors import UnavailableError
from brrr.timing import measure, sampler
from brrr.timing.cpu_queue import CpuQueue
from tests.refusals import refused, values

SLEEP_S = 0.002


@pytest.fixture
def queue() -> Iterator[CpuQueue]:
    with CpuQueue() as made:
        yield made


def sleeper() -> None:
    time.sleep(SLEEP_S)


@pytest.mark.timing
def test_the_seconds_of_the_cpu_pass_and_idle_ones_are_no_more_than_the_clock_s() -> None:
    before = sampler.cpu_seconds()
    time.sleep(0.3)
    passed, idle, others = (now - then for now, then in zip(sampler.cpu_seconds(), before, strict=True))
    assert passed >= 0.3 and -0.05 <= idle <= passed + 0.05 and others >= -0.05


@pytest.mark.timing
def test_the_queue_is_asynchronous_and_measure_sees_it(queue: CpuQueue) -> None:
    m = measure(lambda: queue.submit(sleeper), device=queue, budget_s=0.2)
    assert m.host_s is not None and m.latency_s is not None and m.period_s is not None
    assert m.host_s.median < SLEEP_S / 4 < SLEEP_S <= m.latency_s.median
    assert m.period_s.median >= SLEEP_S
    assert m.kernel_s is not None and m.kernels == 1
    assert m.kernel_s.median >= SLEEP_S and m.kernel_s.low <= m.latency_s.high  # medians of two rounds may cross
    assert m.device.startswith("CPU queue on ")


@pytest.mark.parametrize(("argument", "value"), values({
    "fn": [3, lambda x: x], "budget_s": [0, -1, math.inf, math.nan, "fast", True], "cache": ["warm", "cold"],
    "device": ["tpu"],
}))  # fmt: skip
def test_arguments_that_cannot_be_used(argument: str, value: Any) -> None:
    call: dict[str, Any] = {"fn": sleeper, "device": "cpu", "budget_s": 0.01, argument: value}
    with refused(argument):
        measure(call.pop("fn"), **call)


def test_a_gpu_that_is_not_there_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from brrr.gpu import device

    monkeypatch.setattr(device, "cuda_problem", lambda: "the driver is on holiday")
    with pytest.raises(UnavailableError, match=r"^measure: device is 'cuda', .*the driver is on holiday"):
        measure(sleeper, device="cuda")


def test_what_the_function_raises_passes_through_and_nothing_hangs(queue: CpuQueue) -> None:
    def broken() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        measure(broken, device="cpu", budget_s=0.01)
    with pytest.raises(KeyError, match="mine"):
        measure(lambda: queue.submit(broken), device=queue, budget_s=0.01)
    assert measure(lambda: queue.submit(sleeper), device=queue, budget_s=0.02).latency_s is not None


@pytest.mark.parametrize("bad", [lambda: float("nan"), lambda: np.array([1.0, np.nan])])
def test_nan_is_flagged(bad: Callable[[], Any]) -> None:
    assert "nan" in measure(bad, device="cpu", budget_s=0.01).flags
    assert "nan" not in measure(lambda: np.ones(3), device="cpu", budget_s=0.01).flags
