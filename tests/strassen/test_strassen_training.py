"""A training step through Strassen products: gradients against torch's, checked in float64."""

import copy
from itertools import pairwise

import pytest
import torch
from torch import nn

from brrr.strassen import Implementation, fuse, operators
from brrr.strassen.layers import Layer
from brrr.strassen.request import Limits

LIMITS = Limits(level=1, form="strassen", inner="fp64")


@pytest.mark.parametrize("ways", [
    [Implementation("fp64", 1, "strassen")] * 3,
    [Implementation("fp64", 1, "strassen"), Implementation("fp64"), Implementation("fp64", 2, "winograd")],
    [Implementation("fp64"), Implementation("fp64", 1, "winograd"), Implementation("fp64")],
])  # fmt: skip
def test_gradients_are_torchs_whatever_the_ways(ways: list[Implementation], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators.Runners, "chosen", lambda *given, **more: ways)
    sizes = (7, 9, 16, 5)
    x = torch.randn(6, 7, dtype=torch.float64, requires_grad=True)
    linears = [nn.Linear(k, n, dtype=torch.float64) for k, n in pairwise(sizes)]
    chain = tuple(Layer(each.weight, each.bias) for each in linears)
    parameters = [x, *(p for each in linears for p in each.parameters())]

    def gradients(y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(y, parameters, torch.arange(y.numel(), dtype=y.dtype).view_as(y))

    expected = x
    for layer in chain:
        expected = layer.plain(expected)
    y = operators.Runners(LIMITS)(0, chain, x)
    assert torch.allclose(y, expected, atol=1e-11)
    for found, wanted in zip(gradients(y), gradients(expected), strict=True):
        assert torch.allclose(found, wanted, atol=1e-9)


def test_what_wants_no_gradient_gets_none() -> None:
    first, second = (nn.Linear(8, 8, dtype=torch.float64) for _ in range(2))
    first.weight.requires_grad_(False)
    chain = (Layer(first.weight, first.bias), Layer(second.weight, second.bias))
    operators.Runners(LIMITS)(0, chain, torch.randn(4, 8, dtype=torch.float64)).sum().backward()
    assert first.weight.grad is None and first.bias.grad is not None and second.weight.grad is not None
    first.bias.requires_grad_(False).grad = second.weight.grad = None
    operators.Runners(LIMITS)(0, chain, torch.randn(4, 8, dtype=torch.float64)).sum().backward()
    assert first.bias.grad is None and second.weight.grad is not None


def test_a_gradient_of_a_gradient_is_torchs() -> None:
    plain = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    x, found = torch.randn(4, 8, dtype=torch.float64, requires_grad=True), []
    for model in (plain, fuse(copy.deepcopy(plain), level=1, form="strassen")):
        (gradient,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(gradient.square().sum(), [x, *model.parameters()], allow_unused=True))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(torch.zeros(()) if one is None else one, torch.zeros(()) if other is None else other)


def test_half_types_train_too() -> None:
    model = fuse(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8)).bfloat16(), level=1, inner="bf16")
    x = torch.randn(8, 16).bfloat16()
    model(x).float().square().sum().backward()
    for parameter in model.parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()) and parameter.grad.any()
