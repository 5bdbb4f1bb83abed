"""A recurrent layer on a GPU: every way of the experiment is right and has its times; TF32 only where asked for."""

import pytest
import torch

from brrr.core.measurement import Point
from brrr_course.experiments import experiment
from brrr_course.experiments.rnn import TOLERANCES
from tests.gpu.measuring import timed

RNN = experiment("rnn")
IMPLEMENTATIONS = [each.name for each in RNN.variants if each.on_gpu]


def at(cell: str, dtype: str, batch: int = 3, hidden: int = 64, steps: int = 64) -> Point:
    return {"batch": batch, "hidden": hidden, "steps": steps, "cell": cell, "dtype": dtype}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("cell", ["rnn_tanh", "lstm"])
def test_every_way_is_right_and_measured(cell: str, dtype: str) -> None:
    for name, each in timed(RNN, at(cell, dtype), IMPLEMENTATIONS, budget_s=0.01).items():
        time = each.measurement.span_s or each.measurement.period_s
        assert time is not None and 0 < time.median < 1, name
        assert name.startswith("train") is (each.measurement.peak_bytes is not None)


@pytest.mark.parametrize("cell", ["rnn_tanh", "lstm"])
def test_tf32_is_not_used(cell: str) -> None:
    exact = RNN.workload("cudnn", at(cell, "float32", batch=32, hidden=512))
    for before in (False, True):  # whatever the user has set
        torch.backends.cudnn.allow_tf32 = before
        assert exact.check() <= TOLERANCES["float32"]
        assert torch.backends.cudnn.allow_tf32 is before
