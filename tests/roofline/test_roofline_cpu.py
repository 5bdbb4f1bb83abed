"""Predictions on this machine's CPU against its own measurements: printed, never judged, for machines are shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import pytest
import torch

import brrr
from brrr.roofline.predicting import predict


def _cases() -> dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]:
    small, middle, large = (torch.rand(size) + 0.5 for size in (2**10, 2**17, 2**23))
    matrix, rows, weights = torch.randn(384, 384), torch.randn(4, 1024), torch.randn(1024, 1024)
    table = torch.randn(512, 1024)
    return {
        "small x * 2": (lambda x: x * 2, (small,)),
        "middle x * 2": (lambda x: x * 2, (middle,)),
        "large x * 2": (lambda x: x * 2, (large,)),
        "large x + y": (lambda x, y: x + y, (large, large.clone())),
        "large sum": (lambda x: x.sum(), (large,)),
        "softmax": (lambda x: torch.softmax(x, -1), (table,)),
        "layer norm": (lambda x: torch.nn.functional.layer_norm(x, (1024,)), (table,)),
        "product": (lambda a, b: a @ b, (matrix, matrix.clone())),
        "skinny product": (lambda a, b: a @ b, (rows, weights)),
        "chain of 20": (_chain, (small,)),
    }


def _chain(x: torch.Tensor) -> torch.Tensor:
    for _ in range(10):
        x = torch.relu(x) + 1.0
    return x


@pytest.fixture
def one_thread() -> Iterator[None]:
    """torch on one thread: on a shared machine, two that wait for each other measure the neighbours."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_errors_on_this_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    peaks = brrr.calibrate("cpu", quick=True)
    lines, errors = [], []
    with torch.no_grad():
        for name, (call, given) in _cases().items():
            predicted = predict(call, *given, device=peaks)
            assert predicted.kinds == ("measured",) and predicted.bound != "" and predicted.period_s > 0
            measured = brrr.measure(partial(call, *given), device="cpu", budget_s=0.15).period_s
            assert measured is not None
            errors.append(abs(predicted.period_s / measured.median - 1))
            times = f"predicted {predicted.period_s * 1e6:10.2f} µs, measured {measured.median * 1e6:10.2f} µs"
            lines.append(f"{name:>15}: {times}, off by {errors[-1]:6.1%}, {predicted.bound}")
    with capsys.disabled():
        print("\n" + "\n".join([*lines, f"median error {median(errors):.1%}, largest {max(errors):.1%}"]))
