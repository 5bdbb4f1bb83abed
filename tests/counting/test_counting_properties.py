"""What holds for every chain of operators, whichever it is."""

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from brrr.counting.cost import Cost
from brrr.counting.description import array
from brrr.counting.tracing import cost

Step = Callable[[torch.Tensor], torch.Tensor]

# Each takes a matrix and gives a matrix.
STEPS: dict[str, Step] = {
    "sin": torch.sin,
    "gelu": torch.nn.functional.gelu,
    "scale in place of a copy": lambda x: x.clone().mul_(2),
    "transpose": lambda x: x.t(),
    "rows but one": lambda x: x[1:] if x.shape[0] > 1 else x,
    "every second column": lambda x: x[:, ::2],
    "minus its mean": lambda x: x - x.mean(1, keepdim=True),
    "softmax": lambda x: x.softmax(1),
    "layer norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]),
    "gram": lambda x: x @ x.t(),
    "twice beside itself": lambda x: torch.cat([x, x], 1),
    "sum of halves": lambda x: sum(x.chunk(2, 0)) if x.shape[0] % 2 == 0 else x,
    "broadcast": lambda x: x[:1].expand_as(x) + x,
    "cast and back": lambda x: x.double().float(),
    "masked": lambda x: x.masked_fill(x > 0, 0.0),
    "scan": lambda x: x.cumsum(0),
    "gathered": lambda x: x.index_select(0, torch.zeros(2, dtype=torch.int64)),
    "sorted": lambda x: x.sort().values,
}

chains = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5)
shapes = st.tuples(st.integers(1, 12), st.integers(1, 12))


def composed(names: Sequence[str]) -> Step:
    def run(x: torch.Tensor) -> torch.Tensor:
        for name in names:
            x = STEPS[name](x)
        return x

    return run


def figures(found: Cost) -> tuple[object, ...]:
    products = [(*sorted((each.m, each.n)), each.k, each.batch, each.dtype) for each in found.matmuls]
    return found.flop, found.bytes, found.eager_bytes, found.unknown, products  # (m, n) may stand the other way round


@settings(max_examples=60, deadline=None)
@given(chains, shapes)
def test_compulsory_bytes_are_never_more_than_eager_ones(names: list[str], shape: tuple[int, int]) -> None:
    found = cost(composed(names), array(shape))
    assert 0 <= found.bytes <= found.eager_bytes
    assert found.eager_bytes == sum(each.bytes for each in found.operators)
    assert found.flop == sum(each.flop or 0 for each in found.operators)


@settings(max_examples=60, deadline=None)
@given(chains, chains, shapes)
def test_one_after_the_other_adds_up(first: list[str], second: list[str], shape: tuple[int, int]) -> None:
    x = torch.empty(shape)
    whole, head = cost(composed(first + second), x), cost(composed(first), x)
    tail = cost(composed(second), composed(first)(torch.randn(shape)))
    assert whole.eager_bytes == head.eager_bytes + tail.eager_bytes
    assert whole.flop == head.flop + tail.flop
    assert whole.bytes <= head.bytes + tail.bytes


@settings(max_examples=60, deadline=None)
@given(chains, shapes)
def test_a_real_run_counts_as_the_fake_one(names: list[str], shape: tuple[int, int]) -> None:
    x = torch.randn(shape)
    described, given_, ran = (cost(composed(names), *rest) for rest in ((array(shape),), (x,), (x,)))
    real = cost(composed(names), x, run=True)
    assert figures(described) == figures(given_) == figures(ran) == figures(real)
    assert [each.name for each in described.operators] == [each.name for each in real.operators]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(sorted(set(STEPS) - {"sorted"})), min_size=1, max_size=4), shapes)
def test_backward_counts_alike_real_and_fake(names: list[str], shape: tuple[int, int]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return composed(names)(x * 1.5)

    forward = cost(fn, array(shape))
    fake = cost(fn, array(shape, requires_grad=True), backward=True)
    real = cost(fn, torch.randn(shape, requires_grad=True), backward=True, run=True)
    assert figures(fake) == figures(real)
    assert fake.flop > forward.flop and fake.bytes <= fake.eager_bytes


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "layer norm": (lambda: nn.LayerNorm(64), (32, 64)),
    "group norm": (lambda: nn.GroupNorm(2, 8), (4, 8, 16)),
    "convolution, batch norm": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)), (4, 3, 16, 16)),
    "tied linears": (lambda: tied(), (32, 64)),
}


def tied() -> nn.Module:
    """Two layers with one weight."""
    first, second = nn.Linear(64, 64), nn.Linear(64, 64)
    second.weight = first.weight
    return nn.Sequential(first, nn.GELU(), second)


@pytest.mark.parametrize("name", LAYERS)
def test_a_parameter_that_the_backward_reads_too_is_one_input(name: str) -> None:
    make, shape = LAYERS[name]
    layer = make()
    fake = cost(layer, array(shape, requires_grad=True), backward=True)
    real = cost(layer, torch.randn(shape, requires_grad=True), backward=True, run=True)
    assert figures(fake) == figures(real)


@settings(max_examples=60, deadline=None)
@given(shapes, st.sampled_from(["float64", "float32", "bfloat16", "float16"]))
def test_bytes_follow_the_type_and_flop_do_not(shape: tuple[int, int], dtype: str) -> None:
    found, double = cost(torch.sin, array(shape, dtype)), cost(torch.sin, array(shape, "float64"))
    assert found.flop == double.flop
    assert found.bytes * 8 == double.bytes * torch.empty(0, dtype=getattr(torch, dtype)).element_size()
