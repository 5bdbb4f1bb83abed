"""`matmul` and fused networks under torch.compile, torch.export, autocast and torch.func, on the CPU."""

import copy
import io
import shutil
from typing import Any

import pytest
import torch
from torch import nn

from brrr.core.errors import ArgumentError
from brrr.strassen import explain, fuse, matmul, multiply, operators
from brrr.strassen.multiply import operator
from brrr.strassen.network import StrassenLinear
from brrr.strassen.request import NOTHING, SHORT, Limits

LEVELED: dict[str, Any] = {"level": 1, "form": "winograd"}


def compiled_ways(*options: dict[str, Any]) -> list[Any]:
    """Every options traced whole; one by inductor, to which all are one operator with other arguments."""
    return [*((each, "aot_eager") for each in options), *([(LEVELED, "inductor")] if shutil.which("g++") else [])]


@pytest.fixture(autouse=True)
def _nothing_compiled() -> None:
    torch._dynamo.reset()


def pair(dtype: torch.dtype, transposed: bool, learns: bool) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = torch.randn(7, 5, dtype=dtype), torch.randn(5, 9, dtype=dtype)
    if transposed:
        b = b.t().contiguous().t()
    return a.requires_grad_(learns), b.requires_grad_(learns)


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("limits", [NOTHING, Limits(level=1, form="strassen"), Limits("bf16")], ids=str)
def test_the_product_is_an_operator(limits: Limits, dtype: torch.dtype, transposed: bool, learns: bool) -> None:
    found = torch.library.opcheck(operator, (*pair(dtype, transposed, learns), *limits.typed))
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize(
    ("options", "backend"),
    compiled_ways({}, LEVELED, {"accuracy": 1e-4}, {"accuracy": "tf32", "inner": ["sgemm", "bf16"]}),
)
def test_a_compiled_product_is_the_product(options: dict[str, Any], backend: str) -> None:
    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(matmul(a, b, **options))

    a, b = pair(torch.float32, True, True)
    found, wanted = torch.compile(product, backend=backend, fullgraph=True)(a, b), product(a, b)
    assert torch.equal(found, wanted)
    for one, two in zip(*(torch.autograd.grad(y.square().sum(), (a, b)) for y in (found, wanted)), strict=True):
        assert torch.allclose(one, two, rtol=1e-5, atol=1e-5)


def test_numbers_of_rows_that_change() -> None:
    compiled = torch.compile(lambda a, b: matmul(a, b, **LEVELED), backend="aot_eager", fullgraph=True)
    counted = torch._dynamo.testing.CompileCounter()
    also = torch.compile(lambda a, b: matmul(a, b, **LEVELED), backend=counted, fullgraph=True)
    b = torch.randn(5, 9)
    for rows in (7, 12, 33):
        a = torch.randn(rows, 5)
        torch._dynamo.mark_dynamic(a, 0)
        assert torch.equal(compiled(a, b), matmul(a, b, **LEVELED)) and also(a, b).shape == (rows, 9)
    assert counted.frame_count == 1


def test_out_is_compiled_too() -> None:
    a, b, out = torch.randn(7, 5), torch.randn(5, 9), torch.empty(7, 9)
    into = torch.compile(lambda a, out: matmul(a, b, **LEVELED, out=out), backend="aot_eager", fullgraph=True)
    assert into(a, out) is out and torch.allclose(out, a @ b, atol=1e-5)
    with pytest.raises(ArgumentError, match=r"out is 'torch.float32 \(7, 8\)"):  # outside a whole graph, torch's own is
        torch.compile(lambda a, out: matmul(a, b, out=out), backend="aot_eager")(a, torch.empty(7, 8))


@pytest.mark.parametrize("options", [{"level": 9}, {"inner": "dgemm"}])
def test_what_is_refused_is_refused_while_compiling(options: dict[str, Any]) -> None:
    compiled = torch.compile(lambda a, b: matmul(a, b, **options), backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception, match=f"{next(iter(options))} is "):
        compiled(torch.ones(4, 6), torch.ones(6, 5))


def test_autocast_casts_as_torch_does() -> None:
    a, b = pair(torch.float32, False, True)
    compiled = torch.compile(lambda a, b: matmul(a, b), backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        wanted = a @ b
        for found in (matmul(a, b), matmul(a.bfloat16(), b), compiled(a, b)):
            assert found.dtype == torch.bfloat16 and torch.equal(found, wanted)
        assert matmul(a, b, inner="sgemm").dtype == torch.float32
    (gradient,) = torch.autograd.grad(wanted.sum(), a)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(torch.autograd.grad(matmul(a, b, level=0).sum(), a)[0], gradient)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_transforms() -> None:
    a, b = torch.randn(3, 7, 5), torch.randn(5, 9)
    assert torch.allclose(torch.vmap(lambda each: matmul(each, b, **LEVELED))(a), a @ b, atol=1e-5)
    gradient = torch.func.grad(lambda each: matmul(each, b, **LEVELED).sum())
    wanted = b.sum(1).expand(3, 7, 5)
    assert torch.allclose(gradient(a[0]), wanted[0], atol=1e-5)
    assert torch.allclose(torch.vmap(gradient)(a), wanted, atol=1e-5)


# --- networks ---------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    """Two chains, a Linear by itself, and what is neither."""

    def __init__(self) -> None:
        super().__init__()
        self.chains = nn.Sequential(
            nn.Linear(9, 12), nn.ReLU(), nn.Linear(12, 8, bias=False), nn.GELU(), nn.Linear(8, 8), nn.ReLU()
        )
        self.last = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.tanh(self.last(self.chains(x)))


def nets(**options: Any) -> tuple[Any, Any]:
    """A fused network and the same of torch's modules."""
    plain = Net()
    return fuse(copy.deepcopy(plain), **options), plain


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("level", [0, 1])
def test_layers_are_operators(level: int, dtype: torch.dtype, learns: bool) -> None:
    x, *tensors = (torch.randn(size, dtype=dtype).requires_grad_(learns) for size in ((5, 9), (7, 9), (7,), (3, 7)))
    asked = Limits(level=level, form="strassen").typed
    for each in (x, torch.randn(9, 5, dtype=dtype).t().requires_grad_(learns)):
        found = torch.library.opcheck(operators.operator, (each, tensors, "br ", *asked, False, -1, 0, learns))
        assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize(("options", "backend"), compiled_ways({}, LEVELED, {"level": 0, "inner": "fp16x3"}))
def test_a_compiled_network_is_the_network(options: dict[str, Any], backend: str) -> None:
    fused, plain = nets(**options)
    assert isinstance(fused.last, StrassenLinear)
    compiled = torch.compile(fused, backend=backend, fullgraph=True)
    for rows in (5, 6) if backend == "aot_eager" else (5,):  # another number is traced anew, and compiled alike
        x = torch.randn(2, rows, 9)
        results = []
        for model in (compiled, fused, plain):
            y = model(x)
            y.square().sum().backward()
            named = model._orig_mod if model is compiled else model
            results.append([y.detach(), *(each.grad for each in named.parameters())])
            named.zero_grad()
        for found, eager, wanted in zip(*results, strict=True):
            assert torch.allclose(found, eager, atol=1e-6) and torch.allclose(found, wanted, atol=1e-5)
        with torch.no_grad():
            assert torch.allclose(compiled(x), plain(x), atol=1e-5)
    assert torch._dynamo.explain(fused)(x).graph_break_count == 0
    assert [name.removeprefix("_orig_mod.") for name in compiled.state_dict()] == list(plain.state_dict())


def test_a_compiled_network_sees_other_weights_and_rows() -> None:
    fused, plain = nets(level=1, form="strassen")
    counted = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(fused, backend=counted, fullgraph=True)
    with torch.no_grad():
        for rows in (4, 9, 20):
            x = torch.randn(rows, 9)
            torch._dynamo.mark_dynamic(x, 0)
            assert torch.allclose(compiled(x), plain(x), atol=1e-5)
        for model in (fused, plain):
            model.chains[0].weight.copy_(torch.ones(12, 9))
        assert torch.allclose(compiled(x), plain(x), atol=1e-5)
    assert counted.frame_count == 1
    assert len(fused.chains._runners._formatted._kept), "weights were made ready where the module keeps them"


def test_an_exported_network() -> None:
    torch.backends.cudnn.allow_tf32 = True  # torch.export reads cuDNN's two settings as one: they must not differ
    fused, plain = nets(level=1, form="strassen")
    x = torch.randn(6, 9)
    program = torch.export.export(fused, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=64)},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for found in (program.module(), torch.export.load(file).module()):
        for rows in (6, 17):
            x = torch.randn(rows, 9)
            assert torch.allclose(found(x), plain(x), atol=1e-5)
    assert list(program.state_dict) == list(plain.state_dict())


def test_a_compiled_network_under_autocast() -> None:
    fused, plain = nets(level=1, form="strassen")
    x = torch.randn(5, 9)
    compiled = torch.compile(fused, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, eager, wanted = compiled(x), fused(x), plain(x)
    assert found.dtype == torch.bfloat16 and torch.equal(eager, wanted) and torch.allclose(found, wanted, atol=2e-2)


# --- short products ---------------------------------------------------------------------------------------------------


def test_a_short_product_is_torchs_at_once_and_a_longer_one_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    multiply._PLAIN_CALLS.clear()
    a, b = torch.randn(260, 255), torch.randn(255, 257)
    for few in (0, SHORT):
        monkeypatch.setattr(multiply, "SHORT", few)
        matmul(a, b)
        with monkeypatch.context() as patch:
            patch.setattr(multiply, "checked_product", lambda *_: pytest.fail("it is checked once"))
            assert torch.equal(matmul(a.clone(), b), a @ b)
        multiply._PLAIN_CALLS.clear()


def test_a_small_operand_is_multiplied_as_it_lies() -> None:
    assert "So small an operand" in explain(torch.ones(4001, 15), torch.ones(15, 4001)).why


def test_what_is_not_alike_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    multiply._PLAIN_CALLS.clear()
    a, b = pair(torch.float32, False, False)
    for wrong in (b.double(), b.t(), [1.0]):
        for _ in range(2):
            matmul(a, b)
            with pytest.raises(ArgumentError):
                matmul(a, wrong)  # type: ignore[arg-type]
    seen: list[int] = []
    original = multiply.checked_product
    monkeypatch.setattr(multiply, "checked_product", lambda *given: seen.append(1) or original(*given))
    matmul(a, b)
    assert not seen
    for call in (
        lambda: matmul(a, b, level=1), lambda: matmul(a, b, accuracy=1e-3), lambda: matmul(a, b, out=torch.empty(7, 9)),
    ):  # fmt: skip
        seen.clear()
        call()
        assert seen == [1]
    with pytest.raises(ArgumentError):
        matmul(a.detach(), b, level=False)


@pytest.mark.usefixtures("own_precision")
def test_a_short_product_is_in_full_precision() -> None:
    a, b = torch.randn(16, 64), torch.randn(64, 16)
    wanted = matmul(a, b)
    torch.set_float32_matmul_precision("medium")
    assert torch.equal(matmul(a, b), wanted)
