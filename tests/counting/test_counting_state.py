"""A count leaves a program as it was: what its Python kept meanwhile is put back, or the count says that it is not."""

import contextvars
import functools
import gc
import queue
import random
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from brrr.core.errors import TraceError
from brrr.counting.description import array
from brrr.counting.state import put_back, reached
from brrr.counting.tracing import cost
from brrr.roofline.predicting import predict

TABLE: dict[str, Any] = {}
LATEST = None


@functools.lru_cache
def frequencies(n: int) -> torch.Tensor:
    return torch.arange(n).float()


@functools.cache
def both(n: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return torch.ones(n), [torch.ones(n)]


@functools.cache
def size(n: int) -> int:
    return n + 1


@dataclass(slots=True)
class Layer:
    keys: Any = None
    length: int = 0


@dataclass
class Cache:
    """What a decode keeps, and where else a program may keep something."""

    layers: list[Layer] = field(default_factory=lambda: [Layer()])
    seen: set[Any] = field(default_factory=set)
    recent: deque[Any] = field(default_factory=lambda: deque([1], 2))
    waiting: queue.Queue[Any] = field(default_factory=queue.Queue)
    local: threading.local = field(default_factory=threading.local)
    order: OrderedDict[str, Any] = field(default_factory=lambda: OrderedDict(a=1, b=2))


class Model(nn.Module):
    """It keeps what it computes in every way that was thought of."""

    of_all: ClassVar[dict[str, Any]] = {}
    latest: ClassVar[Any] = None

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.cache, self.table = nn.Linear(4, 4), Cache(), None
        self.ema = self.linear.weight.detach().clone()
        self.register_buffer("mean", torch.zeros(4))
        self.note, self.noted = noting()

    @functools.cached_property
    def ones(self) -> torch.Tensor:
        return torch.ones(4)

    def forward(self, x: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
        global LATEST
        cache = self.cache if cache is None else cache
        self.table = x.cos() if self.table is None else self.table
        self.ema, self.mean = 0.9 * self.ema + self.linear.weight, self.mean + x.sum(0)
        self.register_buffer("new", x * 2)
        cache.layers[0].keys, cache.layers[0].length = x * 2, cache.layers[0].length + 1
        cache.layers.append(Layer(x * 3))
        cache.seen.add(x * 2), cache.recent.append(x * 2), cache.waiting.put(x * 2)
        cache.local.x, cache.order["c"] = x * 2, x * 2
        cache.order.move_to_end("a")
        Model.of_all["x"] = Model.latest = TABLE["x"] = LATEST = self.note(x * 2)
        self.linear.weight.extra, self.linear.weight.grad = x * 2, torch.zeros_like(self.linear.weight)
        self.linear.bias.requires_grad_(False)
        self.eval(), random.random(), np.random.rand(), torch.manual_seed(1)
        return self.linear(x) + frequencies(4) + self.ones + both(4)[0] * size(4)


def noting() -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    kept = None

    def note(x: Any) -> Any:
        nonlocal kept
        kept = x
        return x

    return note, lambda: kept


def state(model: Model) -> Any:
    """All that a program could see of it, tensors by their identity."""
    cache = model.cache
    drawn = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    return (
        {name: id(value) for each in model.modules() for name, value in vars(each).items()}, list(model._buffers),
        {name: (id(value), value.requires_grad, value.grad, vars(value)) for name, value in model.named_parameters()},
        [(each.keys, each.length) for each in cache.layers], cache.seen, list(cache.recent), cache.waiting.qsize(),
        vars(cache.local), list(cache.order), Model.of_all, Model.latest, TABLE, LATEST, model.noted(), model.training,
        frequencies.cache_info().currsize, both.cache_info().currsize, drawn,
    )  # fmt: skip


def fakes() -> int:
    gc.collect()
    return sum(type(each) is FakeTensor for each in gc.get_objects())


@pytest.mark.parametrize("given", [False, True])
def test_what_the_callable_keeps_is_put_back(given: bool) -> None:
    model, x, before = Model(), array((4, 4)), fakes()
    args: Any = (x, model.cache) if given else (x,)
    was = repr(state(model))
    first = cost(model, *args)
    assert repr(state(model)) == was
    assert (
        predict(lambda x: model(x), x, device="h200").cost.operators == cost(model, *args).operators == first.operators
    )
    assert repr(state(model)) == was and fakes() == before and size.cache_info().currsize == 1


CONTEXT: contextvars.ContextVar[Any] = contextvars.ContextVar("context", default=None)


def new_parameter(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    layer.weight, layer.first = nn.Parameter(layer.weight * 1), nn.Linear(4, 4)
    return layer(layer.first(x))


KEEPING: dict[str, Callable[[nn.Linear, torch.Tensor], Any]] = {
    "a parameter made anew": new_parameter,
    "the data of one": lambda layer, x: setattr(layer.weight, "data", torch.ones(4, 4)),
    "another type": lambda layer, x: layer.half()(x.half()),
    "a mode": lambda layer, x: layer.eval().requires_grad_(False)(x),
    "a hook's list": lambda layer, x: layer.register_forward_hook(lambda *seen: TABLE.update(seen=seen)) and layer(x),
    "a context's variable": lambda layer, x: CONTEXT.set(x * 2),
    "torch's own": lambda layer, x: (torch.set_default_dtype(torch.float64), torch.set_grad_enabled(False)),
}


@pytest.mark.parametrize("name", KEEPING)
def test_whatever_a_callable_does_to_a_layer_is_undone(name: str) -> None:
    def seen() -> list[Any]:
        values = [(id(each), each.clone(), each.requires_grad, each.grad) for each in layer.parameters()]
        modes = torch.get_default_dtype(), torch.is_grad_enabled(), layer.training
        return [*values, *layer._modules, *layer._forward_hooks, CONTEXT.get(), *modes, *TABLE]

    layer = nn.Linear(4, 4)
    fn, before, of_others = functools.partial(KEEPING[name], layer), repr(seen()), fakes()
    assert cost(fn, array((2, 4))) == cost(fn, torch.ones(2, 4)) and repr(seen()) == before and fakes() == of_others


def test_what_was_kept_before_an_error_is_put_back_too() -> None:
    def fails(x: torch.Tensor) -> None:
        TABLE["x"] = x * 2
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cost(fails, array(4))
    assert not TABLE


def test_autocasts_casts_are_not_kept() -> None:
    layer, x = nn.Linear(16, 16), torch.randn(8, 16)
    with torch.autocast("cpu", torch.bfloat16):
        first, second = cost(layer, x), cost(layer, x)
        assert type(layer(x)) is torch.Tensor
        assert cost(layer, x) == second == first and not first.unknown


def test_a_whole_step_leaves_parameters_gradients_and_optimizer() -> None:
    layer = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(layer.parameters())

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        layer(x).sum().backward()
        optimizer.step()

    cost(step, array((3, 4)))
    assert not optimizer.state and layer.weight.grad is None
    step(torch.randn(3, 4))
    kept, grad = layer.weight.detach().clone(), layer.weight.grad
    first = cost(step, array((3, 4)))
    assert cost(step, array((3, 4))) == first and first.unknown == ()
    assert layer.weight.grad is grad and torch.equal(layer.weight, kept)
    assert float(optimizer.state[layer.weight]["step"]) == 1 and optimizer.param_groups[0]["params"][0] is layer.weight


def test_a_moving_average_asks_whether_it_is_the_first() -> None:
    layer = nn.Linear(4, 4)
    average = torch.optim.swa_utils.AveragedModel(layer, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))

    def held() -> str:
        return repr([(id(each), each) for each in (*average.parameters(), *average.buffers())])

    for first in (True, False):
        before = held()
        found = cost(lambda x: (layer(x), average.update_parameters(layer)), array((2, 4)))
        assert held() == before and found.unknown == () and (found.flop > 2 * 2 * 4 * 4 + 8) == (not first)
        average.update_parameters(layer)


def test_what_cannot_be_taken_back_is_told() -> None:
    kept = np.array([None])  # an array is not looked into

    def keeps(x: torch.Tensor) -> None:
        kept[0] = x * 2

    with pytest.raises(TraceError, match="keeps keeps descriptions of tensors where they cannot be taken back"):
        cost(keeps, array(4))


def test_a_generator_that_runs_is_looked_into() -> None:
    def generator() -> Iterator[None]:
        kept = []
        while True:
            kept.append((yield))

    keeper, before = generator(), fakes()
    next(keeper)
    cost(lambda x: keeper.send(x * 2), array(4))
    assert fakes() == before


def test_a_module_that_is_imported_meanwhile_stays() -> None:
    def imports(x: torch.Tensor) -> torch.Tensor:
        import xml.sax.saxutils

        assert xml.sax.saxutils
        return x * 2

    cost(imports, array(4))
    import xml.sax

    assert xml.sax.saxutils


def test_the_nearest_is_found_first_and_libraries_are_not_entered() -> None:
    found = list(reached([nn.Sequential(nn.Linear(2, 2))]))
    assert len(found) < 400 and isinstance(found[0], nn.Sequential)


def test_what_cannot_be_put_back_is_told_and_all_else_is_put_back() -> None:
    undone: list[int] = []

    def fails() -> None:
        raise RuntimeError("a lock that nobody has\nand more")

    with pytest.warns(UserWarning, match="cost: not all is as it was: a lock that nobody has$"):
        put_back([lambda: undone.append(1), fails, fails, lambda: undone.append(2)], "cost")
    assert undone == [1, 2]


def test_a_walk_over_very_many_objects_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brrr.counting.state.MOST", 100)
    layer = nn.Linear(2, 2)
    with pytest.warns(UserWarning, match="over 100 objects"):
        found = list(reached([layer, [(i, [i]) for i in range(1000)]]))
    assert len(found) == 100 and found[0] is layer
