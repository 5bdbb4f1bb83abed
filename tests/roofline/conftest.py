"""What a GPU's calibration finds without a GPU: its tensors are made on the CPU, and its times are made up."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from brrr.core.measurement import Estimate
from brrr.roofline.calibrate import gpu_times


class OnTheCpu(TorchFunctionMode):
    """Makes tensors that are asked for on the GPU on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if str(given.get("device")) == "cuda":
            given["device"] = "cpu"
        return func(*args, **given)


def timed(calls: Sequence[Callable[[], Any]], warm: int, counted: int, gap_s: float) -> list[Estimate]:
    """Each call is run; its time is made up."""
    for call in calls:
        call()
    return [Estimate(2e-6, 2e-6, 2e-6, counted) for _ in calls]


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU with 32 MB, of which half are free."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**24, 2**25))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(gpu_times, "own_times", timed)
    with OnTheCpu():
        yield
