"""The toy graph of exercise 06-capture: what it replays, and what it refuses."""

from typing import Any

import pytest
import torch

from brrr.core.errors import CaptureError
from brrr_course.lessons.exercises.lesson_06 import ToyGraph


def test_a_replay_follows_new_numbers_through_views_and_in_place() -> None:
    w = torch.randn(6, 6)

    def steps(x: torch.Tensor) -> torch.Tensor:
        y = (x @ w.t()).view(2, 3, 2).transpose(0, 1).reshape(3, 4)
        y = y.contiguous().add_(1)
        return torch.cat([part.relu_() for part in y.split(2, dim=1)], dim=1) * 2

    x = torch.randn(2, 6)
    graph = ToyGraph(steps, x)
    for _ in range(3):
        new = torch.randn(2, 6)
        x.copy_(new)
        assert torch.equal(graph.replay(), steps(new))


REFUSED: dict[str, Any] = {
    "item": lambda x: x * x.sum().item(),
    "if": lambda x: x if x.sum() > 0 else -x,
    "mask": lambda x: x[x > 0],
    "unique": lambda x: x.unique(),
    "made of numbers": lambda x: x * torch.tensor([1.0, 2.0]),
    "equal": lambda x: x if torch.equal(x, x + 1) else -x,
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_gpu_would_wait_for_is_refused(what: str) -> None:
    with pytest.raises(CaptureError, match="cannot become a graph, for"):
        ToyGraph(REFUSED[what], torch.randn(2))


def test_a_branch_of_python_is_taken_for_good() -> None:
    turns = iter([1.0, 2.0])
    x = torch.ones(1)
    graph = ToyGraph(lambda x: x * next(turns), x)
    assert graph.replay().item() == graph.replay().item() == 1.0
