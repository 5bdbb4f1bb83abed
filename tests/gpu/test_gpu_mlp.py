"""The textbook network on a real GPU: every way is right, the exercises mark; speed is printed."""

from typing import Any

import pytest
import torch

from brrr_course.experiments import experiment
from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises.lesson_06 import careless
from tests.gpu.measuring import judged

MLP = experiment("mlp")
SLOW = ("compile", "max-autotune")
GPU = [v.name for v in MLP.variants if v.device == "cuda"]
OFTEN = [name for name in GPU if name not in SLOW]
REQUIRED = ("module", "functional", "inference", "script", "graph", "epilogue", "triton", "triton-graph", "best")
"""What a GPU machine has for certain; PyCUDA, nvmath and a cooperative launch may be missing, and then say so."""


@pytest.mark.parametrize("sizes", [(8, 16, 256), (1, 2, 128), (8, 128, 512), (2, 64, 2048)], ids=str)
def test_every_way_on_the_grid_is_right(sizes: tuple[int, int, int]) -> None:
    judged(MLP, OFTEN, dict(zip(("layers", "batch", "hidden"), sizes, strict=True)), REQUIRED, "period_s")


# ---- the exercises ----


def mended(x: torch.Tensor, layers: Any) -> torch.Tensor:
    for w, b in layers:
        x = torch.relu(x @ w.t() + b)
        x = x / x.square().mean().sqrt().clamp(min=1)
    return x


def test_what_breaks_a_real_capture_is_told_and_torch_goes_on() -> None:
    mark = check("06-capture", network=careless)
    assert mark.status == "wrong" and "cannot become a CUDA Graph" in mark.text and "clamp" in mark.hint, mark
    mark = check("06-capture", network=lambda x, layers: mended(x, layers) * torch.tensor([1.0], device="cuda"))
    assert mark.status == "wrong", mark
    assert check("06-capture", network=mended).right
