"""Counting on a real GPU: descriptions land there, and a traced function counts as the one that ran."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from brrr.counting.description import array
from brrr.counting.tracing import cost
from brrr.roofline.predicting import predict


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


LAYERS: dict[
    str, tuple[Callable[..., nn.RNNBase], dict[str, Any], int, int, int]
] = {  # gates; FLOP of a unit, and back
    "tanh": (nn.RNN, {"num_layers": 2}, 1, 2, 4),
    "relu": (nn.RNN, {"nonlinearity": "relu", "bias": False}, 1, 2, 3),
    "GRU": (nn.GRU, {"bidirectional": True, "batch_first": True}, 3, 16, 17),
    "LSTM": (nn.LSTM, {"num_layers": 2, "dropout": 0.5}, 4, 22, 23),
    "LSTM, projected": (nn.LSTM, {"proj_size": 32}, 4, 22, 23),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", LAYERS)
def test_cudnn_layers_count_as_the_formula_says(name: str, dtype: torch.dtype) -> None:
    """16 steps of 8 sequences: each product once forward, twice back; as a run, and predicted."""
    make, options, gates, ahead, back = LAYERS[name]
    layer = make(64, 128, device="cuda", dtype=dtype, **options)
    shape, rows, deep = (8, 16, 64) if layer.batch_first else (16, 8, 64), 16 * 8, 1 + layer.bidirectional
    out = layer.proj_size or 128
    first, later = (gates * 128 * (width + out) + 128 * layer.proj_size for width in (64, out * deep))
    products = 2 * rows * deep * (first + later * (layer.num_layers - 1))
    units = deep * layer.num_layers * 128
    cells = [rows * units * (each + 2 * gates * layer.bias) for each in (ahead, back)]
    for given, run in ((array(shape, str(dtype)[6:], requires_grad=True), False),
                       (torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True), True)):  # fmt: skip
        found = cost(lambda x: layer(x)[0], given, backward=True, run=run)
        layers = [each for each in found.operators if each.kind == "recurrent"]
        assert [each.name for each in layers] == ["aten._cudnn_rnn", "aten._cudnn_rnn_backward"], found.details()
        assert [each.flop for each in layers] == [products + cells[0], 2 * products + cells[1]]
        assert not found.unknown
        print(name, dtype, "ran" if run else "counted", [(each.read_bytes, each.written_bytes) for each in layers])
    assert predict(layer, array(shape, str(dtype)[6:]), backward=True).period_s > 0
    assert not any(type(each) is not nn.Parameter or each.grad is not None for each in layer.parameters())


def test_a_description_takes_no_gpu_memory() -> None:
    cost(torch.sin, array(16))  # whatever a first use allocates
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    assert cost(lambda x: (x * 2).sum(), array(2**33)).bytes == 4 * 2**33 + 4
    assert torch.cuda.max_memory_allocated() == before
