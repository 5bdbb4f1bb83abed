"""A GPU timed through the seam, as if torch knew no more of it than of any accelerator, beside CUDA's own way."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import brrr
from brrr import gpu, timing
from brrr.core.measurement import Estimate, Measurement
from brrr.timing import sampler

PAIRS = 20
Step = Callable[[], Any]


def small() -> Step:
    x = torch.randn(64, 1024, device="cuda")
    return lambda: torch.relu(x)


def twenty() -> Step:
    x = torch.randn(64, 1024, device="cuda")
    return lambda: [torch.relu(x) for _ in range(20)]


def matmul() -> Step:
    a, b = (torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return lambda: a @ b


def copy() -> Step:
    x = torch.randn(2**26, device="cuda")
    y = torch.empty_like(x)
    return lambda: y.copy_(x)


def model() -> Step:
    layers = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024, device="cuda") for _ in range(8)))
    x = torch.randn(128, 1024, device="cuda")
    return lambda: layers(x)


def through_the_seam(fn: Step, budget_s: float, monkeypatch: pytest.MonkeyPatch) -> Measurement:
    with monkeypatch.context() as only:
        for each in (gpu, timing, sampler):
            only.setattr(each, "is_cuda", lambda _: False)
        return brrr.measure(fn, device="cuda", budget_s=budget_s)


@pytest.mark.timing
@pytest.mark.parametrize("make", [small, twenty, matmul, copy, model])
def test_the_seam_agrees_with_cuda(make: Callable[[], Step], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs in turns: the interval of each ratio meets 0.95 to 1.05."""
    fn, ratios = make(), dict[str, list[float]]()
    for _ in range(PAIRS):
        seam, cuda = through_the_seam(fn, 0.1, monkeypatch), brrr.measure(fn, device="cuda", budget_s=0.1)
        assert seam.span_s is None and any("slope" in each for each in seam.notes)
        for name in ("host_s", "period_s", "latency_s", "kernel_s", "busy_s"):
            ours, theirs = seam.get(name), cuda.get(name)
            assert ours is not None, name
            if theirs is not None:  # a busy time that contradicts the span is left out
                ratios.setdefault(name, []).append(ours.median / theirs.median)
    found = {name: Estimate.of(values, power=0) for name, values in ratios.items()}
    print(make.__name__, *(f"{name} {each:x}" for name, each in found.items()), sep="; ")
    assert all(each.low <= 1.05 and each.high >= 0.95 for each in found.values()), found
