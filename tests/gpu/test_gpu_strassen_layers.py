"""StrassenMLP's classical layers on a real GPU, eager, captured and compiled."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from brrr.core.errors import UnavailableError
from brrr.gpu.launching import shared_stream
from brrr.running.graphs import capture
from brrr.strassen import StrassenMLP, fuse, matmul

LIMITS = {"float32": 1e-5, "tf32": 1e-2, "bfloat16": 5e-2, "float16": 1e-2}
INNER = {torch.float32: "sgemm", torch.bfloat16: "bf16", torch.float16: "fp16"}
SIZES = [(1, 1, 1), (16, 256, 64), (64, 1024, 1024), (127, 509, 257)]
"""Rows, k, n: odd ones, prime ones, and as the network has them."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    torch.cuda.empty_cache()


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


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_classical_layers_are_the_network(size: tuple[int, int, int], kind: str) -> None:
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


@pytest.mark.parametrize("shared", [True, False])
def test_a_capture(shared: bool) -> None:
    model, x = made((256, 256, 256), graphs=True), torch.randn(17, 256, device="cuda")
    held = capture(lambda given: model(given), x, warmup=1, stream=streams()[-1] if shared else None)
    for _ in range(3):
        given = torch.randn_like(x)
        assert error(held(given).clone(), model, given) <= LIMITS["float32"]
    model[0].weight.mul_(-1.0)  # type: ignore[operator]
    assert error(held(given), model, given) <= LIMITS["float32"], "weights changed in place are in the graph"


@pytest.mark.parametrize("options", [{}, {"accuracy": "fp32"}, {"level": 1, "form": "strassen"}], ids=str)
def test_compiled_networks_and_products(options: dict[str, Any]) -> None:
    plain = nn.Sequential(nn.Linear(1500, 1500), nn.ReLU(), nn.Linear(1500, 1500)).cuda()
    compiled = torch.compile(fuse(plain, **options), backend="aot_eager", fullgraph=True)
    for rows in (1500, 1501):
        x = torch.randn(rows, 1500, device="cuda")
        assert error(compiled(x), plain, x) <= 1e-4
        compiled(x).sum().backward()
    multiply = torch.compile(lambda a, b: matmul(a, b, **options), backend="aot_eager", fullgraph=True)
    wanted = x.double() @ plain[0].weight.t().double()
    assert float((multiply(x, plain[0].weight.t()).double() - wanted).norm() / wanted.norm()) <= 1e-4


def test_after_weights_were_replaced() -> None:
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
