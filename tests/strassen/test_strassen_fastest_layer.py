"""A classical layer by torch's one call or by product and kernel: what is chosen when, played on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from brrr.core.errors import UnavailableError
from brrr.kernels import bias_relu
from brrr.strassen import StrassenMLP, Way, fastest_layer
from brrr.strassen.execution import prepare_right
from brrr.strassen.fastest_layer import HOST_S, LEAST_GAIN, MOST_S, Times, alike, by_libraries, layer_step
from brrr.strassen.layers import Layer
from brrr.strassen.operands import Right
from brrr.strassen.running import ChainRun

PLAIN = Way("sgemm")


class Played:
    """A GPU without one: both ways compute by torch on the CPU, and each takes the seconds that it is said to."""

    def __init__(self, one_call: float = 38e-6, product: float = 17e-6) -> None:
        self.seconds = {"one call": one_call, "product": product}
        self.ran: list[str] = []
        self.timed: list[str] = []
        self.stream, self.capturing, self.missing = 7, False, False

    def one_call(self, x: torch.Tensor, layer: Layer, out: torch.Tensor | None = None, *, tf32: bool) -> torch.Tensor:
        self.ran.append("one call")
        made = layer.plain(x)
        return made if out is None else out.copy_(made)

    def product(self, x: torch.Tensor, layer: Layer, out: torch.Tensor, tf32: bool, turns: Any) -> Callable[[], None]:
        if self.missing:
            raise UnavailableError("PyCUDA is not here")
        assert any(each is layer for each in turns)

        def run() -> None:
            self.ran.append("product")
            out.copy_(layer.plain(x))

        return run

    def seconds_of(self, run: Callable[[], None], index: int) -> float:
        run()
        self.timed.append(self.ran.pop())
        return self.seconds[self.timed[-1]]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    played = Played()
    monkeypatch.setattr(fastest_layer, "_worth_trying", lambda x, layer, eager: True)
    monkeypatch.setattr(fastest_layer, "_stream", lambda x: played.stream)
    monkeypatch.setattr(fastest_layer, "_lies_well", torch.Tensor.is_contiguous)
    monkeypatch.setattr(fastest_layer, "_shape", partial(shape_of, fastest_layer._shape))
    monkeypatch.setattr(fastest_layer, "capturing", lambda: played.capturing)
    monkeypatch.setattr("brrr.strassen.running.capturing", lambda: played.capturing)
    monkeypatch.setattr(fastest_layer, "linear", played.one_call)
    monkeypatch.setattr(fastest_layer, "product_and_kernel", played.product)
    monkeypatch.setattr(fastest_layer, "seconds_of", played.seconds_of)
    fastest_layer.forget()
    yield played
    fastest_layer.forget()


def shape_of(original: Any, x: torch.Tensor, *rest: Any) -> Any:
    """As if x lay on the first GPU."""
    return original(SimpleNamespace(device=SimpleNamespace(index=0), shape=x.shape, dtype=x.dtype), *rest)


def layers(count: int = 3, size: int = 8) -> tuple[Layer, ...]:
    return tuple(Layer(torch.randn(size, size), torch.randn(size)) for _ in range(count))


def run(chain: tuple[Layer, ...], rows: int = 4, *, eager: bool = False) -> None:
    """One call of all layers, whose result is looked at."""
    x = torch.randn(rows, chain[0].k)
    y, wanted = by_libraries(chain, x, [PLAIN] * len(chain), eager=eager), x
    for layer in chain:
        wanted = layer.plain(wanted)
    assert torch.equal(y, wanted)


@pytest.mark.parametrize(("one_call", "product", "eager", "wanted"), [
    (38e-6, 17e-6, False, "product"),
    (4.6e-6, 6.1e-6, False, "one call"),
    (38e-6, 37e-6, False, "one call"),
    (100e-6, 51e-6, True, "product"),
    (38e-6, 17e-6, True, "one call"),
    (38e-6, math.nan, False, "one call"),
    (math.nan, 38e-6, False, "one call"),
])  # fmt: skip
def test_the_faster_way_is_taken_by_enough(
    gpu: Played, one_call: float, product: float, eager: bool, wanted: str
) -> None:
    gpu.seconds = {"one call": one_call, "product": product}
    run(layers(), eager=eager)
    assert gpu.ran == [wanted] * 3 and gpu.timed == ["one call", "product"]


def test_each_shape_is_tried_once(gpu: Played) -> None:
    chain = layers()
    for _ in range(3):
        run(chain)
    run(layers())
    assert len(gpu.timed) == 2, "other weights of the same shape are no other shape"
    for other in (layers(2), layers(size=9), (Layer(torch.randn(8, 8)),), (Layer(torch.randn(8, 8), relu=False),)):
        before = len(gpu.timed)
        run(other)
        assert len(gpu.timed) == before + 2
    run(chain, rows=5)
    assert len(gpu.timed) == 12


def test_tf32_is_another_choice(gpu: Played) -> None:
    (layer,), x, out = layers(1), torch.randn(4, 8), torch.empty(4, 8)
    layer_step(x, layer, out, eager=False)()
    gpu.seconds["product"] = 1.0
    layer_step(x, layer, out, tf32=True, eager=False)()
    assert gpu.ran == ["product", "one call"] and {shape.tf32 for shape in fastest_layer.TIMES} == {False, True}


def test_layers_of_a_shape_take_turns_while_they_are_tried(gpu: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = layers(3)
    seen: list[int] = []

    def seconds_of(call: Callable[[], None], index: int) -> float:
        for _ in range(4):
            call()
        return 1e-5

    def one_call(x: torch.Tensor, layer: Layer, out: torch.Tensor, *, tf32: bool) -> torch.Tensor:
        seen.append(next(place for place, each in enumerate(chain) if each is layer))
        return Played().one_call(x, layer, out, tf32=tf32)

    monkeypatch.setattr(fastest_layer, "seconds_of", seconds_of)
    monkeypatch.setattr(fastest_layer, "linear", one_call)
    run(chain)
    assert seen == [0, 1, 2, 0, 0, 1, 2], "four while it is timed, then the three of the call"


def test_who_takes_turns() -> None:
    one, narrow, last = Layer(torch.ones(8, 8), torch.ones(8)), Layer(torch.ones(4, 8)), Layer(torch.ones(8, 8))
    lying = Layer(torch.ones(8, 8).t().as_strided((8, 8), (1, 8)), torch.ones(8))
    again = Layer(torch.empty(64 + 64)[: 8 * 8].view(8, 8), torch.ones(8))
    wide = [each for each in (one, again) if each.weight.data_ptr() % 256 == 0]
    assert list(alike(one, (one, narrow, last, lying, again))) == (wide if one in wide else [one])
    assert alike(narrow, (one,)) == (narrow,)


def test_what_takes_long_is_not_tried_further(gpu: Played) -> None:
    gpu.seconds["one call"] = 2 * MOST_S
    run(layers())
    assert gpu.timed == ["one call"] and gpu.ran == ["one call"] * 3
    assert [times.product for times in fastest_layer.TIMES.values()] == [math.inf]


def test_nothing_is_tried_inside_a_capture(gpu: Played) -> None:
    chain = layers()
    gpu.capturing = True
    run(chain)
    assert not gpu.timed and gpu.ran == ["one call"] * 3
    gpu.capturing = False
    run(chain)
    assert gpu.ran[3:] == ["product"] * 3 and len(gpu.timed) == 2, "the first call outside tries"
    gpu.capturing = True
    run(chain)
    assert gpu.ran[6:] == ["product"] * 3 and len(gpu.timed) == 2, "and then a capture has it"
    gpu.stream = 8
    run(chain)
    assert gpu.ran[9:] == ["one call"] * 3, "but not on a stream on which nothing was made ready"
    gpu.capturing = False
    run(chain)
    assert gpu.ran[12:] == ["product"] * 3 and len(gpu.timed) == 2, "a choice is one for all streams"


def test_without_the_libraries_it_is_torchs_silently(gpu: Played) -> None:
    gpu.missing = True
    for _ in range(2):
        run(layers())
    assert gpu.ran == ["one call"] * 6 and gpu.timed == ["one call"], "and it is asked once"
    gpu.missing, gpu.stream = False, 8
    run(layers())
    assert gpu.ran[6:] == ["product"] * 3, "another stream may be one that they take"


def test_no_room_for_a_workspace(gpu: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("none left")

    monkeypatch.setattr(fastest_layer, "product_and_kernel", full)
    run(layers())
    assert gpu.ran == ["one call"] * 3


@pytest.mark.parametrize("what", ["strided x", "strided weights", "strided bias", "float64", "nothing to sum"])
def test_what_the_libraries_do_not_take(gpu: Played, what: str) -> None:
    x, layer = torch.randn(4, 8), Layer(torch.randn(8, 8), torch.randn(8))
    if what == "strided x":
        x = torch.randn(8, 4).t()
    if what == "strided weights":
        layer = Layer(torch.randn(8, 8).t(), layer.bias)
    if what == "strided bias":
        layer = Layer(layer.weight, torch.randn(16)[::2])
    if what == "float64":
        x, layer = x.double(), Layer(layer.weight.double(), None)
    if what == "nothing to sum":
        x, layer = x[:, :0].contiguous(), Layer(layer.weight[:, :0].contiguous(), layer.bias)
    out = x.new_empty(4, 8)
    layer_step(x, layer, out, eager=False)()
    assert gpu.ran == ["one call"] and not gpu.timed
    assert torch.equal(out, layer.plain(x))


def doubled(model: Any) -> None:
    model[0].weight.mul_(2.0)


def another_weight(model: Any) -> None:
    model[2].weight = nn.Parameter(torch.randn(8, 8))


def another_bias(model: Any) -> None:
    model[2].bias = nn.Parameter(torch.randn(8))


def loaded(model: Any) -> None:
    model.load_state_dict({name: torch.randn_like(each) for name, each in model.state_dict().items()}, assign=True)


def test_the_model_asks_for_its_own_graphs(gpu: Played) -> None:
    """Weights in place, replaced and loaded: each call is of those that are there."""
    weights, biases = [torch.randn(8, 8) for _ in range(2)], [torch.randn(8) for _ in range(2)]
    for graphs, wanted in ((True, "product"), (False, "one call")):
        model = StrassenMLP.of(weights, biases, level=0, inner="sgemm", graphs=graphs)
        plain = nn.Sequential(*model)
        x = torch.randn(4, 8)
        with torch.no_grad():
            for change in (nn.Module.eval, doubled, another_weight, another_bias, loaded):
                change(model)
                gpu.ran.clear()
                found = model(x)
                assert torch.equal(found, plain(x)) and gpu.ran == [wanted] * 2
                assert model(x).data_ptr() != found.data_ptr()


def mixed() -> tuple[tuple[Layer, ...], list[Way], list[Right]]:
    chain = layers(4)
    ways = [PLAIN, Way("sgemm", 1, "strassen", True), PLAIN, PLAIN]
    rights = [Right(each.weight, True) for each in chain]
    rights[1] = prepare_right(rights[1], ways[1])
    return chain, ways, rights


def test_among_layers_with_levels_too(gpu: Played) -> None:
    chain, ways, rights = mixed()
    x = torch.randn(4, 8)
    wanted = x
    for layer in chain:
        wanted = layer.plain(wanted)
    made = ChainRun(chain, ways, rights, x, eager=False)
    for _ in range(2):
        assert torch.allclose(made(x), wanted, rtol=1e-3, atol=1e-3)
    assert gpu.ran == ["product"] * 6 and {shape.turns for shape in fastest_layer.TIMES} == {3}
    gpu.ran.clear()
    ChainRun(chain, ways, rights, x)(x)
    assert gpu.ran == ["one call"] * 3, "launched one by one, the host would decide"


def test_a_step_made_inside_a_capture_is_not_kept(gpu: Played) -> None:
    chain, ways, rights = mixed()
    x = torch.randn(4, 8)
    made = ChainRun(chain, ways, rights, x, eager=False)
    gpu.capturing = True
    made(x)
    assert gpu.ran == ["one call"] * 3
    gpu.capturing = False
    made(x)
    assert gpu.ran[3:] == ["product"] * 3


def test_on_a_cpu_there_is_one_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastest_layer, "_tried", lambda *_: pytest.fail("nothing is tried"))
    for eager in (False, True):
        run(layers(), eager=eager)


def test_what_is_small_or_no_plain_tensor_is_not_tried() -> None:
    class OnGpu(torch.Tensor):
        is_cuda = True

    x, small, large = torch.ones(1, 1), Layer(torch.ones(4, 4)), Layer(torch.empty(1).expand(4096, 4096))
    asked = fastest_layer._worth_trying
    assert not asked(x, large, False) and not asked(x.as_subclass(OnGpu), large, False)
    gpu_tensor: Any = SimpleNamespace(is_cuda=True)
    assert not asked(gpu_tensor, small, True) and not asked(gpu_tensor, large, False), "nor what stands for a tensor"


def test_the_margins() -> None:
    assert Times(1e-3, LEAST_GAIN * 1e-3 * 0.99).product_pays(eager=True)
    assert not Times(1e-3, LEAST_GAIN * 1e-3).product_pays(eager=False)
    assert not Times(1e-3, HOST_S * 0.99).product_pays(eager=True)
    assert Times(1e-3, HOST_S).product_pays(eager=True)


@pytest.mark.parametrize(("bias", "relu", "dtype", "wanted"), [
    (True, True, torch.float32, ["bias_relu"]), (True, False, torch.bfloat16, ["bias"]),
    (False, True, torch.float32, ["relu"]), (False, False, torch.float32, []), (False, False, torch.float16, []),
    (True, True, torch.float16, ["torch"]),
])  # fmt: skip
def test_what_is_behind_the_product(
    bias: bool, relu: bool, dtype: torch.dtype, wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def prepared_here(operation: str, y: torch.Tensor, b: torch.Tensor | None = None) -> Callable[[], None]:
        assert (b is None) == (operation == "relu")
        made.append(operation)
        return lambda: None

    def product(blas: object, x: torch.Tensor, w: torch.Tensor, out: torch.Tensor, **options: Any) -> Any:
        assert options["among"] == [w] and blas == (0, 7)
        return lambda: torch.mm(x, w.t(), out=out)

    monkeypatch.setattr("brrr.kernels.bias_relu.prepared_here", prepared_here)
    monkeypatch.setattr("brrr.gpu.cublas.blas_on", lambda *place: place)
    monkeypatch.setattr("brrr.gpu.cublas_lt.fastest_product", product)
    monkeypatch.setattr(fastest_layer, "_stream", lambda x: 7)
    monkeypatch.setattr(fastest_layer, "activate", lambda *_: made.append("torch"))
    layer = Layer(torch.randn(3, 8, dtype=dtype), torch.randn(3, dtype=dtype) if bias else None, relu)
    x, out = torch.randn(4, 8, dtype=dtype), torch.full((4, 3), math.nan, dtype=dtype)
    on_gpu: Any = SimpleNamespace(device=SimpleNamespace(index=0), t=x.t)
    monkeypatch.setattr(torch, "mm", lambda left, right, out: out.copy_(x @ right))
    fastest_layer.product_and_kernel(on_gpu, layer, out, False, [layer])()
    assert made == wanted and torch.equal(out, x @ layer.weight.t())


@pytest.mark.parametrize(("operation", "b"), [("bias_relu", torch.ones(8)), ("relu", None)])
def test_the_kernel_goes_to_other_streams_by_another_library(
    operation: Any, b: torch.Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where PyCUDA does not take the stream, the same code with the same arguments; where neither can, it says so."""
    launched: list[tuple[Any, ...]] = []

    class Launch:
        def __init__(self, function: str, grid: Any, block: Any, values: Any) -> None:
            self.what = function, grid, block, [each.value for each in values]

        def __call__(self, stream: int) -> None:
            launched.append((*self.what, stream))

    def refused(*_: object) -> None:
        raise UnavailableError("another stream is current")

    monkeypatch.setattr(bias_relu, "prepared", refused)
    monkeypatch.setattr(bias_relu, "check", lambda *_: None)
    monkeypatch.setattr(bias_relu, "function", lambda source, name, index: name)
    monkeypatch.setattr(bias_relu, "PreparedLaunch", Launch)
    monkeypatch.setattr(bias_relu, "raw_stream", lambda index: 11)
    lying = torch.ones(4, 8)
    y: Any = SimpleNamespace(
        shape=lying.shape, device=SimpleNamespace(index=0), dtype=lying.dtype, numel=lying.numel,
        data_ptr=lambda: 4096, element_size=lying.element_size,
    )  # fmt: skip
    bias_relu.prepared_here(operation, y, b)()
    address = None if b is None else b.data_ptr()
    ((name, grid, block, values, stream),) = launched
    assert (name, grid, block, stream) == (f"brrr_{operation}_float32", (1, 4, 1), (32, 1, 1), 11)
    assert values == [4096, address, 4, 8, 1]

    def missing(*_: object) -> None:
        raise ImportError("no module named cuda")

    monkeypatch.setattr(bias_relu, "function", missing)
    with pytest.raises(UnavailableError, match="cuda-bindings is not here"):
        bias_relu.prepared_here(operation, y, b)
