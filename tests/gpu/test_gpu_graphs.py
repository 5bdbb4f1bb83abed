"""CUDA Graph capture on a real GPU: right results, clear refusals, and torch usable afterwards."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from brrr.core.errors import ArgumentError, CaptureError
from brrr.running.graphs import capture


def _still_fine() -> None:
    x = torch.randn(33, 17, device="cuda")
    captured = capture(lambda t: torch.relu(t) + 1, x)
    new = torch.randn_like(x)
    assert torch.equal(captured(new), torch.relu(new) + 1)
    torch.cuda.empty_cache()


def test_a_replay_computes_on_new_inputs() -> None:
    w = torch.randn(65, 65, device="cuda")
    captured = capture(lambda x: torch.relu(x @ w), torch.randn(7, 65, device="cuda"))
    for _ in range(3):
        x = torch.randn(7, 65, device="cuda")
        torch.testing.assert_close(captured(x), torch.relu(x @ w))
    with pytest.raises(ArgumentError, match=r"\(8, 65\).*expected \(7, 65\)"):
        captured(torch.randn(8, 65, device="cuda"))
    with pytest.raises(ArgumentError, match="0 tensors"):
        captured()


def test_forward_and_backward_are_one_graph() -> None:
    w = torch.randn(31, 31, device="cuda", requires_grad=True)
    x = torch.randn(5, 31, device="cuda", requires_grad=True)
    g = torch.randn(5, 31, device="cuda")

    def step(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(x @ w, (x, w), g)

    captured = capture(step, x)
    new = torch.randn(5, 31, device="cuda")
    dx, dw = captured(new)
    torch.testing.assert_close(dx, g @ w.detach().T)
    torch.testing.assert_close(dw, new.T @ g)


def test_random_numbers_differ_from_replay_to_replay() -> None:
    x = torch.ones(1000, device="cuda")
    captured = capture(lambda t: torch.nn.functional.dropout(t, 0.5), x)
    first = captured(x).clone()
    assert not torch.equal(first, captured(x))


REFUSED: list[tuple[str, Callable[[torch.Tensor], Any], str]] = [
    ("item", lambda x: x * x.sum().item(), "waits for the GPU"),
    ("cpu", lambda x: (x + 1).cpu(), "waits for the GPU"),
    ("nonzero", lambda x: x[x > 0], "waits for the GPU"),
    ("synchronize", lambda x: (x + 1, torch.cuda.synchronize()), "waits for the GPU"),
    ("stream synchronize", lambda x: (x + 1, torch.cuda.current_stream().synchronize()), "waits for the GPU"),
    ("nothing", lambda x: 1, "launched nothing"),
]


@pytest.mark.parametrize(("what", "fn", "why"), REFUSED, ids=[what for what, *_ in REFUSED])
def test_what_cannot_be_captured_is_named_and_breaks_nothing(
    what: str, fn: Callable[[torch.Tensor], Any], why: str
) -> None:
    with pytest.raises(CaptureError, match=why):
        capture(fn, torch.randn(64, device="cuda"))
    _still_fine()


def test_an_error_of_the_function_itself_passes_through() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        capture(lambda x: x @ torch.zeros(3, 3, device="cuda"), torch.randn(4, 4, device="cuda"))
    _still_fine()


def test_inputs_on_the_cpu_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"inputs\[0\].*a tensor on cpu"):
        capture(torch.relu, torch.randn(3))
