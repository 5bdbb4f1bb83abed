"""The exercises of lessons 06 and 06b, and the toy graph: what is right, and what each usual mistake is told."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from brrr.core.errors import CaptureError
from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises.lesson_06 import ToyGraph, careless

# ---- the toy graph ----


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


# ---- 06-capture ----


def mended(x: torch.Tensor, layers: Any) -> torch.Tensor:
    for w, b in layers:
        x = torch.relu(x @ w.t() + b)
        x = x / x.square().mean().sqrt().clamp(min=1)
    return x


def by_where(x: torch.Tensor, layers: Any) -> torch.Tensor:
    for w, b in layers:
        x = torch.relu(x @ w.t() + b)
        size = x.square().mean().sqrt()
        x = torch.where(size > 1, x / size, x)
    return x


@pytest.mark.parametrize("network", [mended, by_where])
def test_a_mended_network_is_captured(network: Any) -> None:
    mark = check("06-capture", network=network)
    assert mark.right and "one order" in mark.text


def always(x: torch.Tensor, layers: Any) -> torch.Tensor:
    for w, b in layers:
        x = torch.relu(x @ w.t() + b)
        x = x / x.square().mean().sqrt()
    return x


def never(x: torch.Tensor, layers: Any) -> torch.Tensor:
    for w, b in layers:
        x = torch.relu(x @ w.t() + b)
    return x


def guessing(x: torch.Tensor, layers: Any) -> torch.Tensor:
    """Asks through NumPy, which no dispatcher sees, and takes a branch of Python's."""
    for w, b in layers:
        x = torch.relu(x @ w.t() + b)
        if (x.numpy() ** 2).mean() > 1:
            x = x / x.square().mean().sqrt()
    return x


@pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU the real graph refuses in its own words")
@pytest.mark.parametrize(
    ("network", "text", "hint"),
    [
        (careless, "brings a number to Python", "clamp"),
        (always, "is wrong for an input of", "above 1"),
        (never, "input of large numbers", "above 1"),
        (guessing, "replayed on another", "branch"),
        (lambda x, layers: 3, "returned int", "tensor"),
        (lambda x, layers: x[:2], r"(2, 64)", "as large"),
        (lambda x, layers: 1 / 0, "ZeroDivisionError", ""),
        ("network", "not a function", "itself"),
        (lambda x, layers: mended(x, layers) * torch.tensor(1.0), "out of Python's numbers", "as it is"),
    ],
    ids=["careless", "always", "never", "guessing", "int", "shape", "raises", "text", "tensor"],
)
def test_what_breaks_a_capture_is_told(network: Any, text: str, hint: str) -> None:
    mark = check("06-capture", network=network)
    assert mark.status == "wrong" and text in mark.text and hint in mark.hint


def test_not_answered_yet() -> None:
    assert check("06-capture", network=...).status == "not answered"
    assert check("06-divide", hidden=..., quarter=...).status == "not answered"
    assert check("06b-floor", weight_bytes=..., memory_us=..., barriers_us=...).status == "not answered"


# ---- 06-divide ----


@pytest.mark.parametrize(
    ("hidden", "quarter", "hint"),
    [
        (4583, 2291, ""),
        (4600, 2300, ""),
        (21e6, 2291, "hidden x hidden"),
        (9165, 2291, "four bytes"),
        (1024, 2291, "over the bandwidth"),
        (4583, 1146, "square"),
        (-1, 2291, "above 0"),
        (4583, "half", "above 0"),
    ],
)
def test_the_divide_is_calculated(hidden: Any, quarter: Any, hint: str) -> None:
    mark = check("06-divide", hidden=hidden, quarter=quarter)
    assert mark.right == (not hint) and hint in mark.hint


# ---- 06b-floor ----

RIGHT = {"weight_bytes": 8 * 1024 * 1024 * 4, "memory_us": 7.0, "barriers_us": 7}


def test_the_floor_and_the_barriers() -> None:
    assert check("06b-floor", **RIGHT).right
    assert check("06b-floor", **{**RIGHT, "weight_bytes": 8 * (1024 * 1024 + 1024) * 4}).right, "with the biases"


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        ({"weight_bytes": 8 * 1024 * 1024}, "bytes has each"),
        ({"weight_bytes": 4 * 1024 * 1024}, "one layer"),
        ({"weight_bytes": 8 * 1024 * 4}, "each pair"),
        ({"weight_bytes": 1}, "1024 times 1024"),
        ({"memory_us": 7e-6}, "unit"),
        ({"memory_us": 5}, "million"),
        ({"barriers_us": 8}, "between two layers"),
        ({"barriers_us": 1}, "One barrier"),
        ({"barriers_us": float("nan")}, "above 0"),
        ({"memory_us": True}, "above 0"),
    ],
)
def test_what_a_wrong_floor_is_told(changed: dict[str, Any], hint: str) -> None:
    mark = check("06b-floor", **{**RIGHT, **changed})
    assert mark.status == "wrong" and hint in mark.hint


# ---- 06b-waits ----


def own_cluster(block: int, layer: int) -> set[int]:
    return {each for each in range(32) if each // 8 == block // 8 and each != block} if layer else set()


def test_nobody_waits_needlessly() -> None:
    assert check("06b-waits", waits_for=own_cluster).right
    assert check("06b-waits", waits_for=lambda block, layer: own_cluster(block, layer) | {block}).right, (
        "itself is free"
    )


@pytest.mark.parametrize(
    ("waits_for", "said"),
    [
        (lambda block, layer: range(32), "are enough"),
        (lambda block, layer: own_cluster(block, 1), "are enough"),
        (lambda block, layer: [], "does not wait for block"),
        (lambda block, layer: {b for b in own_cluster(block, layer) if b != 3}, "does not wait for block 3"),
        (lambda block, layer: 7, "gave 7"),
        (range(32), "not a function"),
    ],
)
def test_other_waits(waits_for: Any, said: str) -> None:
    mark = check("06b-waits", waits_for=waits_for)
    assert mark.status == "wrong" and said in mark.text
