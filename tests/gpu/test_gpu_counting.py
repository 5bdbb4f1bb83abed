"""Counting on a real GPU: descriptions land there, and a traced function counts as the one that ran."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from brrr.counting.description import array
from brrr.counting.tracing import cost


def on_gpu(module: nn.Module) -> nn.Module:
    return module.cuda()


CASES: dict[str, tuple[Callable[[], Any], tuple[int, ...], str]] = {
    "mlp": (lambda: on_gpu(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 8))), (32, 64), "float32"),
    "batch norm": (lambda: on_gpu(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))), (4, 3, 16, 16), "float32"),
    "group norm": (lambda: on_gpu(nn.GroupNorm(2, 8)), (4, 8, 16), "float32"),
    "layer norm": (lambda: on_gpu(nn.LayerNorm(64)), (32, 64), "float32"),
    "rms norm": (lambda: lambda x: F.rms_norm(x, (64,)), (32, 64), "float32"),
    "dropout": (lambda: lambda x: F.dropout(x, 0.5), (32, 64), "float32"),
    "attention": (lambda: lambda x: F.scaled_dot_product_attention(x, x, x), (2, 4, 128, 64), "bfloat16"),
    "scan and softmax": (lambda: lambda x: x.cumsum(0).softmax(1).sum(), (32, 64), "float32"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_trace_counts_as_a_run(name: str) -> None:
    make, shape, dtype = CASES[name]
    fn = make()
    x = torch.randn(shape, device="cuda", dtype=getattr(torch, dtype), requires_grad=True)
    traced = cost(fn, array(shape, dtype, requires_grad=True), backward=True)
    ran = cost(fn, x, backward=True, run=True)
    assert (traced.flop, traced.bytes, traced.eager_bytes) == (ran.flop, ran.bytes, ran.eager_bytes), (
        f"{traced.details()}\n{ran.details()}"
    )
    assert not traced.unknown, traced.details()


def test_cudnn_layers_are_known() -> None:
    layer = nn.LSTM(64, 64).cuda()
    found = cost(lambda x: layer(x)[0], array((16, 4, 64)))
    assert not found.unknown and found.flop > 2 * 16 * 4 * 4 * 64 * 128, found.details()


def test_a_description_takes_no_gpu_memory() -> None:
    cost(torch.sin, array(16))  # whatever a first use allocates
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    assert cost(lambda x: (x * 2).sum(), array(2**33)).bytes == 4 * 2**33 + 4
    assert torch.cuda.max_memory_allocated() == before
