"""Products and layers as torch's operators: opcheck, torch.compile without a break, export, gradients, autocast."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from brrr.strassen import StrassenMLP, fuse, matmul
from brrr.strassen.multiply import packed, product
from brrr.strassen.network import layers_operator

LIMITS = [{}, {"inner": "fp16x3", "level": 0}, {"level": 1, "form": "strassen", "inner": "sgemm"}]
TYPES = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=TYPES[found.dtype], atol=TYPES[found.dtype])


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_torch_s_own_check_of_operators(dtype: torch.dtype, turned: bool, gradients: bool) -> None:
    a, b = torch.randn(7, 13).to(dtype), torch.randn(5, 13).to(dtype).t() if turned else torch.randn(13, 5).to(dtype)
    torch.library.opcheck(product, (a.requires_grad_(gradients), b.requires_grad_(gradients), packed({})))
    weights, biases = [torch.randn(6, 13).to(dtype), torch.randn(3, 6).to(dtype)], [torch.randn(6).to(dtype), None]
    torch.library.opcheck(layers_operator, (a.detach(), weights, biases, "10", packed({}), 0))


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 17), nn.GELU(), nn.Linear(17, 5))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.rest = nn.Linear(20, 20), model()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(torch.tanh(self.first(x)))


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("make", [model, Net])
def test_a_fused_model_compiles_without_a_break(make: Any, limits: dict[str, Any]) -> None:
    plain, x = make(), torch.randn(2, 9, 20)
    torch.manual_seed(1)
    fused = fuse(make(), **limits)
    fused.load_state_dict(plain.state_dict())
    compiled = torch.compile(fused, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        for rows in (9, 4, 31):
            each = torch.randn(2, rows, 20)
            close(compiled(each), plain(each))
    assert torch._dynamo.explain(fused)(x).graph_break_count == 0
    compiled(x).square().sum().backward()
    plain(x).square().sum().backward()
    for (name, mine), theirs in zip(fused.named_parameters(), plain.parameters(), strict=True):
        assert mine.grad is not None, name
        close(mine.grad, theirs.grad)


def test_weights_that_change_are_seen_and_what_is_kept_goes_with_the_model() -> None:
    fused = fuse(model(), level=1, form="strassen", inner="sgemm")
    compiled, x = torch.compile(fused, backend="aot_eager", fullgraph=True), torch.randn(64, 20)
    with torch.no_grad():
        before = compiled(x)
        for each in fused.parameters():
            each.mul_(2.0)
        after = compiled(x)
    assert not torch.allclose(before, after)
    close(after, nn.Sequential(*fused.children())(x).detach())


def test_a_product_compiles_with_any_number_of_rows_and_its_gradients_flow() -> None:
    compiled = torch.compile(lambda a, b: matmul(a, b, level=1, inner="sgemm") * 2, backend="aot_eager", fullgraph=True)
    for rows in (3, 8, 21):
        a, b = torch.randn(rows, 12, requires_grad=True), torch.randn(12, 5, requires_grad=True)
        torch._dynamo.mark_dynamic(a, 0)
        found = compiled(a, b)
        close(found, 2 * a @ b)
        grads = torch.autograd.grad(found.sum(), (a, b))
        for mine, theirs in zip(grads, torch.autograd.grad((2 * a @ b).sum(), (a, b)), strict=True):
            close(mine, theirs)
    out = torch.empty(3, 5)
    torch.compile(lambda a, b, out: matmul(a, b, out=out), backend="aot_eager")(torch.ones(3, 4), torch.ones(4, 5), out)
    assert bool((out == 4).all())


def test_it_is_exported_and_runs() -> None:
    torch.backends.cudnn.allow_tf32 = True  # torch.export reads cuDNN's two settings as one: they must not differ
    plain, x = model(), torch.randn(9, 20)
    fused = fuse(model())
    fused.load_state_dict(plain.state_dict())
    with torch.no_grad():
        program = torch.export.export(fused, (x,))
        close(program.module()(x), plain(x))
    assert "brrr.layers" in str(program.graph)


@pytest.mark.parametrize("compiled", [False, True])
def test_autocast_is_torch_s(compiled: bool) -> None:
    plain, x = model(), torch.randn(9, 20)
    fused: Any = StrassenMLP(*plain)
    run = torch.compile(fused, backend="aot_eager", fullgraph=True) if compiled else fused
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        found, expected = run(x), plain(x)
    assert found.dtype == expected.dtype == torch.bfloat16
    close(found, expected)
