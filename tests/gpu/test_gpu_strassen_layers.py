"""StrassenMLP's classical layers on a real GPU: torch's one call and product with kernel, eager and captured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from brrr.core.errors import UnavailableError
from brrr.gpu.launching import shared_stream
from brrr.kernels.bias_relu import by_bindings
from brrr.running.graphs import capture
from brrr.strassen import StrassenMLP, fastest_layer
from brrr.strassen.fastest_layer import Times, product_and_kernel
from brrr.strassen.layers import Layer

LIMITS = {"float32": 1e-5, "tf32": 1e-2, "bfloat16": 5e-2, "float16": 1e-2}
INNER = {torch.float32: "sgemm", torch.bfloat16: "bf16", torch.float16: "fp16"}
SIZES = [(1, 1, 1), (16, 256, 64), (64, 1024, 1024), (127, 509, 257)]
"""Rows, k, n: odd ones, prime ones, and as the network has them."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    fastest_layer.forget()
    yield
    fastest_layer.forget()
    torch.cuda.empty_cache()


def pretend(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """The times say that one of the ways is the faster: both are made and run, and the result is that way's."""
    times = Times(1.0, 0.5) if way == "product" else Times(0.5, 1.0)
    measured = fastest_layer._measured

    def said(*given: Any) -> Times:
        found = measured(*given)
        assert 0 < found.one_call < 1 and found.product > 0
        return times

    monkeypatch.setattr(fastest_layer, "_measured", said)


def made(sizes: tuple[int, ...], dtype: torch.dtype = torch.float32, **options: Any) -> StrassenMLP:
    weights = [torch.randn(n, k, device="cuda", dtype=dtype) / k**0.5 for k, n in pairwise(sizes)]
    biases = [torch.randn(n, device="cuda", dtype=dtype) for n in sizes[1:]]
    return StrassenMLP.of(weights, biases, **{"level": 0, "inner": INNER[dtype], **options}).requires_grad_(False)


def error(found: torch.Tensor, model: nn.Module, x: torch.Tensor) -> float:
    """Against the same layers in float64, over the result or over ones where that is smaller."""
    y = x.double()
    for module in model:  # type: ignore[attr-defined]
        y = torch.relu(y) if isinstance(module, nn.ReLU) else _linear(y, module)
    return float((found.double() - y).norm() / max(float(y.norm()), y.numel() ** 0.5))


def _linear(y: torch.Tensor, module: Any) -> torch.Tensor:
    bias = None if module.bias is None else module.bias.double()
    return nn.functional.linear(y, module.weight.double(), bias)


def streams() -> list[Any]:
    """The default stream, PyCUDA's where it is here, and one that PyCUDA does not take."""
    found: list[Any] = [None, torch.cuda.Stream()]
    try:
        return [*found, shared_stream(0).torch]
    except UnavailableError:
        return found


@pytest.mark.parametrize("way", ["one call", "product"])
@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_both_ways_are_the_network(
    size: tuple[int, int, int], kind: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, way)
    rows, k, n = size
    dtype = torch.float32 if kind == "tf32" else getattr(torch, kind)
    model = made((k, n, n, k), dtype, graphs=True, **({"inner": "tf32"} if kind == "tf32" else {}))
    for stream in streams():
        if stream is not None:
            stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                x = torch.randn(rows, k, device="cuda", dtype=dtype)
                found, other = model(x), model(x)
                assert found.data_ptr() != other.data_ptr()
                assert max(error(found, model, x), error(other, model, x)) <= LIMITS[kind]
            torch.cuda.current_stream().synchronize()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_with_and_without_bias_and_relu(bias: bool, relu: bool, dtype: torch.dtype) -> None:
    for rows, n, k in ((1, 1, 8), (13, 67, 64), (16, 128, 128)):
        b = torch.randn(n, device="cuda", dtype=dtype) if bias else None
        layer = Layer(torch.randn(n, k, device="cuda", dtype=dtype), b, relu)
        x, out = torch.randn(rows, k, device="cuda", dtype=dtype), torch.empty(rows, n, device="cuda", dtype=dtype)
        exact = Layer(layer.weight.double(), None if b is None else b.double(), relu).plain(x.double())
        out.fill_(math.nan)
        product_and_kernel(x, layer, out, False, [layer])()
        limit = 1e-5 if dtype == torch.float32 else 2e-2
        assert float((out.double() - exact).norm()) <= limit * max(float(exact.norm()), 1.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (17, 101), (16, 256), (3, 4096)])
def test_bias_and_relu_by_cuda_bindings(shape: tuple[int, int], dtype: torch.dtype) -> None:
    for stream in streams():
        with torch.cuda.stream(stream):
            y, b = torch.randn(shape, device="cuda", dtype=dtype), torch.randn(shape[1], device="cuda", dtype=dtype)
            wanted = torch.relu(y.float() + b.float()).to(dtype)
            by_bindings("bias_relu", y, b)()
            torch.cuda.current_stream().synchronize()
            assert torch.equal(y, wanted)


@pytest.mark.parametrize("way", ["one call", "product"])
@pytest.mark.parametrize("shared", [True, False])
def test_the_choice_is_made_before_the_capture(way: str, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, way)
    model, x = made((256, 256, 256), graphs=True), torch.randn(17, 256, device="cuda")
    tried: list[bool] = []
    original = fastest_layer._tried

    def noting(*given: Any) -> bool:
        tried.append(torch.cuda.is_current_stream_capturing())
        return original(*given)

    monkeypatch.setattr(fastest_layer, "_tried", noting)
    held = capture(lambda given: model(given), x, warmup=1, stream=streams()[-1] if shared else None)
    assert tried == [False]
    for _ in range(3):
        given = torch.randn_like(x)
        assert error(held(given).clone(), model, given) <= LIMITS["float32"]
    model[0].weight.mul_(-1.0)  # type: ignore[operator]
    assert error(held(given), model, given) <= LIMITS["float32"], "weights changed in place are in the graph"


def test_a_capture_without_a_call_before_it_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "product")
    model, x = made((128, 128), graphs=True), torch.randn(8, 128, device="cuda")
    model.explain(8)
    weight, bias = model.state_dict().values()
    torch._addmm_activation(bias, x, weight.t())
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    assert not fastest_layer.TIMES
    graph.replay()
    torch.cuda.synchronize()
    assert error(y, model, x) <= LIMITS["float32"]


def test_after_weights_were_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "product")
    model, x = made((128, 256, 128), graphs=True), torch.randn(33, 128, device="cuda")
    assert error(model(x), model, x) <= LIMITS["float32"]
    state = {name: torch.randn_like(each) for name, each in model.state_dict().items()}
    model.load_state_dict(state, assign=True)
    torch.cuda.empty_cache()
    assert error(model(x), model, x) <= LIMITS["float32"]
    model[2].weight = nn.Parameter(torch.randn(128, 256, device="cuda"), requires_grad=False)
    assert error(model(x), model, x) <= LIMITS["float32"]
    model.cpu()
    assert error(model(x.cpu()), model, x.cpu()) <= LIMITS["float32"]
    model.cuda()
    assert error(model(x), model, x) <= LIMITS["float32"]


def test_eager_small_layers_are_torchs_and_large_ones_are_tried() -> None:
    small, large = made((256, 256, 256)), made((4096, 4096, 4096))
    for model, width in ((small, 256), (large, 4096)):
        x = torch.randn(16, width, device="cuda")
        assert error(model(x), model, x) <= LIMITS["float32"]
    assert {shape.k for shape in fastest_layer.TIMES} <= {4096}


def test_a_misaligned_or_strided_input() -> None:
    model = made((256, 256, 256), graphs=True)
    whole = torch.randn(16 * 256 + 1, device="cuda")
    for x in (whole[1:].view(16, 256), torch.randn(256, 16, device="cuda").t()):
        assert error(model(x), model, x) <= LIMITS["float32"]


@pytest.mark.parametrize("options", [{"level": 0}, {"level": 1, "form": "strassen"}], ids=str)
def test_a_graph_lives_on_after_other_numbers_of_rows(options: dict[str, Any]) -> None:
    """Buffers that a graph knows by address stay, however many other sizes come between."""
    model = made((256, 256, 256), graphs=True, **options)
    x = torch.randn(64, 256, device="cuda")
    held = capture(lambda given: model(given), x)
    expected = held(x).clone()
    for rows in range(65, 85):
        model(torch.randn(rows, 256, device="cuda"))
    torch.cuda.empty_cache()
    for _ in range(8):
        torch.full((2**20,), math.nan, device="cuda")
    assert torch.equal(held(x), expected) and error(expected, model, x) <= LIMITS["float32"]
