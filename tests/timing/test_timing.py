"""`measure` on a real clock, and what it refuses; its logic is tested beside it, on one that is played."""

import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

from brrr.core.errors import UnavailableError
from brrr.timing import measure
from brrr.timing.cpu_queue import CpuQueue
from tests.refusals import refused, values

SLEEP_S = 0.002


@pytest.fixture
def queue() -> Iterator[CpuQueue]:
    with CpuQueue() as made:
        yield made


def sleeper() -> None:
    time.sleep(SLEEP_S)


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
