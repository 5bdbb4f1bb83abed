"""StrassenMLP, StrassenLinear and fuse: drop-ins for torch's modules, on the CPU."""

import copy
import io
import warnings
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from brrr.strassen import Implementation, StrassenMLP, fuse, operators
from brrr.strassen.chain_run import ChainRun
from brrr.strassen.execution import prepare_right
from brrr.strassen.layers import MOST, Formatted, Layer, parts_of, planned
from brrr.strassen.network import StrassenLinear
from brrr.strassen.operands import Right
from brrr.strassen.request import Limits
from tests.refusals import refused

FORMS = ["strassen", "winograd"]


def sequential(*sizes: int, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    modules: list[nn.Module] = []
    for k, n in pairwise(sizes):
        modules += [nn.Linear(k, n, dtype=dtype), nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def leveled(model: nn.Module, level: int = 1, **options: Any) -> Any:
    return fuse(model, level=level, form=options.pop("form", "strassen"), **options)


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(16, 16), (32, 64, 32), (7, 33, 5, 50), (1, 1, 1)])
def test_a_fused_network_is_the_network(sizes: tuple[int, ...], level: int, form: str) -> None:
    model = sequential(*sizes)
    fused = leveled(copy.deepcopy(model), level, form=form)
    with torch.no_grad():
        for rows in ((1,), (4,), (17,), (4,), (30,), (), (3, 5), (0,)):
            x = torch.randn(*rows, sizes[0], dtype=torch.float64)
            given = x.clone()
            assert torch.allclose(fused(x), model(x), atol=1e-10)
            assert torch.equal(x, given)


@pytest.mark.parametrize(("dtype", "inner", "limit"), [
    (torch.float32, "sgemm", 1e-5), (torch.float32, "fp16x3", 1e-5), (torch.float32, "bf16", 5e-2),
    (torch.bfloat16, "bf16", 5e-2),
])  # fmt: skip
@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_inner_product(dtype: torch.dtype, inner: str, limit: float, level: int) -> None:
    model = sequential(48, 64, 40, 24, dtype=dtype)
    fused = fuse(model, level=level, inner=inner)
    exact = copy.deepcopy(model).double()
    x = torch.randn(20, 48, dtype=dtype)
    with torch.no_grad():
        expected = exact(x.double())
        found = fused(x)
    assert found.dtype == dtype
    assert float((found.double() - expected).norm() / expected.norm()) < limit * 2**level


def test_layers_of_different_levels_in_one_chain() -> None:
    """Whatever the next layer is: the same level, another, none, or a split product."""
    layers = [Layer(torch.randn(24, 24), torch.randn(24)) for _ in range(6)]
    implementations = [
        Implementation("sgemm", 1, "strassen", True), Implementation("sgemm", 2, "winograd", True),
        Implementation("sgemm"),
        Implementation("fp16x3", 1, "strassen", True), Implementation("sgemm", 1, "winograd", True),
        Implementation("fp16x3", 0, None, True),
    ]  # fmt: skip
    x = torch.randn(9, 24)
    rights = [prepare_right(Right(each.weight, True), way) for each, way in zip(layers, implementations, strict=True)]
    run = ChainRun(tuple(layers), implementations, rights, x)
    expected = x.double()
    for layer in layers:
        expected = torch.relu(expected @ layer.weight.double().t() + layer.bias.double())  # type: ignore[union-attr]
    for _ in range(2):
        assert float((run(x) - expected).norm() / expected.norm()) < 1e-5
    kept = [torch.empty(9, 24) for _ in layers]
    ChainRun(tuple(layers), implementations, rights, x, kept=kept)(x, kept[-1])
    assert torch.allclose(kept[0], layers[0].plain(x), atol=1e-3) and torch.allclose(kept[-1], run(x), atol=1e-3)


def test_no_bias_and_no_relu_and_something_between() -> None:
    model = nn.Sequential(
        nn.Linear(16, 16, bias=False), nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.5), nn.Linear(32, 8), nn.ReLU(),
        nn.ReLU(), nn.LayerNorm(8), nn.ReLU(),
    ).double().eval()  # fmt: skip
    assert [len(part) if isinstance(part, tuple) else type(part).__name__ for part in parts_of(model)] == [
        2, "GELU", "Dropout", 1, "ReLU", "LayerNorm", "ReLU",
    ]  # fmt: skip
    x = torch.randn(6, 16, dtype=torch.float64)
    assert torch.allclose(leveled(copy.deepcopy(model))(x), model(x), atol=1e-10)


# --- as torch's modules -----------------------------------------------------------------------------------------------


def test_names_parameters_and_copies() -> None:
    model = sequential(16, 24, 8)
    before = dict(model.named_parameters())
    fused = leveled(model)
    assert isinstance(fused, StrassenMLP) and list(fused.state_dict()) == list(before)
    assert all(fused.get_parameter(name) is each for name, each in before.items())
    x = torch.randn(4, 16, dtype=torch.float64)
    with torch.no_grad():
        expected = fused(x)
        assert torch.equal(copy.deepcopy(fused)(x), expected)
        file = io.BytesIO()
        torch.save(fused, file)
        file.seek(0)
        assert torch.equal(torch.load(file, weights_only=False)(x), expected)


def test_other_weights_another_type() -> None:
    model, other = sequential(16, 24, 8), sequential(16, 24, 8)
    first, last = other[0], other[2]
    assert isinstance(first, nn.Linear) and isinstance(last, nn.Linear)
    fused = leveled(copy.deepcopy(model))
    x = torch.randn(4, 16, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(fused(x), model(x), atol=1e-10)
        fused.load_state_dict(other.state_dict())
        assert torch.allclose(fused(x), other(x), atol=1e-10), "weights are made ready anew"
        fused[0].weight.mul_(2.0)
        first.weight.mul_(2.0)
        fused[2].bias = nn.Parameter(last.bias + 1)
        last.bias.add_(1)
        assert torch.allclose(fused(x), other(x), atol=1e-10)
        assert torch.allclose(fused.float()(x.float()), other.float()(x.float()), atol=1e-4)
        with pytest.raises(RuntimeError, match="dtype"):
            fused(x)  # torch's own message


def test_modes_may_change_from_call_to_call() -> None:
    model = sequential(16, 24, 8)
    fused, x = leveled(copy.deepcopy(model)), torch.randn(4, 16, dtype=torch.float64)
    for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad, torch.inference_mode, torch.no_grad):
        with mode():
            assert torch.allclose(fused(x), model(x), atol=1e-10)
    with torch.inference_mode():
        frozen = torch.randn(4, 16, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(fused(frozen), model(frozen), atol=1e-10)


def test_weights_are_made_ready_once() -> None:
    formatted, layer, way = Formatted(), Layer(torch.randn(8, 8)), Implementation("sgemm", 1, "strassen", True)
    first = formatted(0, layer, way)
    assert formatted(0, layer, way) is first and formatted(1, layer, way) is not first
    for level in (2, 3):
        formatted(0, layer, Implementation("sgemm", level, "strassen", True))
    assert formatted(0, layer, way) is not first, f"only {MOST} are kept"
    with torch.inference_mode():
        frozen = Layer(torch.randn(8, 8))
        assert formatted(2, frozen, way) is formatted(2, frozen, way)


def test_hooks_and_subclasses_stay_as_they_are() -> None:
    class Own(nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(8, 8), Own(8, 8), nn.ReLU(), nn.Linear(8, 8))
    seen: list[int] = []
    model[3].register_forward_hook(lambda *_: seen.append(1))
    fused = fuse(model, level=1, inner="sgemm")
    fused(torch.randn(2, 8))
    assert seen == [1] and type(fused[1]) is Own  # type: ignore[index]
    hooked = nn.Sequential(nn.Linear(8, 8))
    hooked.register_forward_hook(lambda *_: None)
    assert type(fuse(hooked)) is nn.Sequential


def test_models_of_other_shapes() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 4)))
            self.again = self.one

        def forward(self, x: torch.Tensor) -> Any:
            return self.two(torch.relu(self.again(self.one(x))))

    net = Net().double()
    plain, x = copy.deepcopy(net), torch.randn(3, 8, dtype=torch.float64)
    fused = leveled(net)
    assert fused is net and isinstance(net.one, StrassenLinear) and net.again is net.one
    assert isinstance(net.two, StrassenMLP) and isinstance(net.two[1], StrassenMLP)
    assert list(net.state_dict()) == list(plain.state_dict())
    assert torch.allclose(net(x), plain(x), atol=1e-10)
    assert isinstance(leveled(nn.Linear(4, 4)), StrassenLinear)


def test_a_module_that_is_there_twice() -> None:
    linear, relu = nn.Linear(8, 8).double(), nn.ReLU()
    model = nn.Sequential(linear, relu, linear, relu)
    x = torch.randn(3, 8, dtype=torch.float64)
    expected = model(x)
    fused = leveled(model)
    assert len(fused) == 4 and torch.allclose(fused(x), expected, atol=1e-10)


def test_a_network_of_given_weights() -> None:
    weights, biases = [torch.randn(8, 6), torch.randn(4, 8)], [torch.randn(8), None]
    model = StrassenMLP.of(weights, biases, level=1, inner="sgemm")
    assert model[0].weight.data_ptr() == weights[0].data_ptr()  # type: ignore[operator]
    y = torch.relu(torch.relu(torch.ones(2, 6) @ weights[0].t() + biases[0]) @ weights[1].t())  # type: ignore[operator]
    assert torch.allclose(model(torch.ones(2, 6)), y, atol=1e-4)
    assert len(StrassenMLP.of(weights, biases, relu_last=False)) == 3


@pytest.mark.parametrize(("call", "argument", "value"), [
    (lambda: fuse([nn.Linear(2, 2)]), "model", "list"),  # type: ignore[arg-type]
    (lambda: fuse(nn.Linear(2, 2), level=5), "level", 5),
    (lambda: fuse(nn.Linear(2, 2), inner="fp12"), "inner", "fp12"),
    (lambda: StrassenMLP(nn.Linear(2, 2), accuracy="best"), "accuracy", "best"),
    (lambda: StrassenMLP.of([], []), "biases", "0 of them"),
    (lambda: Limits(form="other").checked(), "form", "other"),
])  # fmt: skip
def test_what_is_refused(call: Any, argument: str, value: Any) -> None:
    with refused(argument, value):
        call()


# --- layers that are torch's ------------------------------------------------------------------------------------------


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of torch's operators as they are called from now on."""
    seen: list[str] = []

    def noting(name: str) -> Any:
        operator = getattr(torch, name)

        def call(*given: Any, **options: Any) -> Any:
            seen.append(name)
            return operator(*given, **options)

        return call

    for name in ("addmm", "mm"):
        monkeypatch.setattr(torch, name, noting(name))
    return seen


@pytest.mark.usefixtures("own_precision")
@pytest.mark.parametrize("precision", ["highest", "medium"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_classical_layer_is_torchs_in_full_precision(bias: bool, precision: str) -> None:
    plain = nn.Sequential(nn.Linear(33, 7, bias=bias), nn.ReLU(), nn.Linear(7, 5, bias=bias)).requires_grad_(False)
    fused, x = fuse(copy.deepcopy(plain), level=0, inner="sgemm"), torch.randn(2, 17, 33)
    expected, given = plain(x), x.clone()
    torch.set_float32_matmul_precision(precision)
    try:
        found = fused(x)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert torch.allclose(found, expected, rtol=1e-6, atol=1e-6) and torch.equal(x, given)
    assert found.data_ptr() != fused(x).data_ptr(), "a result is its caller's"


def test_what_was_found_to_be_torchs_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fused, x = fuse(sequential(16, 24, dtype=torch.float32)), torch.randn(4, 16)
    leveled_, large = fuse(sequential(16, 24, dtype=torch.float32), level=1), torch.randn(9, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for model in (fused, leveled_):
            model(x)
    fused(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fused(large)
    asked: list[int] = []
    original = operators.Runners.chosen
    monkeypatch.setattr(operators.Runners, "chosen", lambda *given, **more: asked.append(1) or original(*given, **more))
    fused(x)
    assert not asked
    for call in (lambda: fused(large), lambda: leveled_(x), lambda: leveled_(x), lambda: torch.no_grad()(fused)(x)):
        asked.clear()
        call()
        assert asked


def test_rows_are_planned_by_powers_of_two_and_once() -> None:
    planned.cache_clear()
    fused = fuse(sequential(16, 24), level=1, form="strassen")
    for rows in (17, 18, 31, 32, 63, 1):
        fused(torch.randn(rows, 16, dtype=torch.float64)).sum().backward()
    assert planned.cache_info().misses == 3, "of 16, 32 and 1"


def test_a_classical_layer_among_others_writes_into_its_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = tuple(Layer(torch.randn(8, 8), torch.randn(8)) for _ in range(3))
    implementations = [Implementation("sgemm"), Implementation("sgemm", 1, "strassen", True), Implementation("tf32")]
    rights = [Right(each.weight, True) for each in layers]
    rights[1] = prepare_right(rights[1], implementations[1])
    x, out = torch.randn(3, 8), torch.full((3, 8), float("nan"))
    run = ChainRun(layers, implementations, rights, x)
    seen = calls_of(monkeypatch)
    assert run(x, out) is out
    assert seen == ["addmm", "addmm"]
    assert torch.allclose(out, layers[2].plain(layers[1].plain(layers[0].plain(x))), rtol=1e-4, atol=1e-3)


def test_torchs_transforms_see_torchs_modules() -> None:
    fused = fuse(nn.Sequential(nn.Linear(4, 3), nn.ReLU()).requires_grad_(False))
    x = torch.randn(5, 2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.allclose(torch.vmap(fused)(x), fused(x), atol=1e-6)
    gradient = torch.func.grad(lambda given: fused(given).sum())(x)
    assert gradient.shape == x.shape and gradient.any()


@pytest.mark.parametrize(
    ("rows", "hidden"), [(1, 4096), (2, 512), (4, 2048), (8, 256), (15, 4096), (64, 512), (64, 4096)]
)
def test_few_rows_are_left_to_the_librarys_product(rows: int, hidden: int) -> None:
    """Where the weights are most of the bytes, as measured: neither levels nor split products."""
    for limits in (Limits(1e-5, inner="sgemm"), Limits("fp32"), Limits()):
        (plan,) = planned(((hidden, hidden),), rows, "float32", "h200", limits)
        assert plan.implementation.name == "sgemm" and plan.why


def test_few_rows_where_something_else_was_asked_for() -> None:
    def name(rows: int, **options: Any) -> str:
        return planned(((4096, 4096),), rows, "float32", "h200", Limits(**options))[0].implementation.name

    assert name(2, level=1, form="strassen", inner="sgemm") == "sgemm-strassen-1-prepared"
    assert name(2, inner="fp16x3") == "fp16x3-prepared"
    assert name(64, accuracy="fp32") == "sgemm" and name(128, accuracy="fp32") == "fp16x3-prepared", "where it gains"
    assert not name(2, accuracy="tf32").count("strassen")
    assert name(4096, accuracy=1e-5, inner="sgemm").count("strassen")
