"""The ladder of recurrent networks on a CPU: rungs against float64, what is refused, and streams as they are played."""

from typing import ClassVar

import pytest
import torch

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.networks.recurrent import LOOPS, NEED_A_GPU, RUNGS, StepLoop, checked, compiled, rung
from tests.refusals import refused

HERE = [name for name in RUNGS if name not in NEED_A_GPU]


@pytest.mark.parametrize("kind", [torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize(("steps", "batch", "inputs", "hidden"), [(1, 1, 1, 1), (5, 3, 7, 9), (6, 13, 8, 33)])
def test_every_rung_computes_the_module(
    kind: type, layers: int, steps: int, batch: int, inputs: int, hidden: int
) -> None:
    module, x = kind(inputs, hidden, layers), torch.randn(steps, batch, inputs)
    exact = kind(inputs, hidden, layers).double()
    exact.load_state_dict({name: value.double() for name, value in module.state_dict().items()})
    expected = exact(x.double())[0]
    for name in HERE:
        run = rung(name, module, x)
        for _ in range(2):  # the second call finds what the first left
            assert (run().double() - expected).abs().max() < 1e-5, name
        assert not run().requires_grad, name


@pytest.mark.parametrize("name", NEED_A_GPU)
def test_what_needs_a_gpu_says_so(name: str) -> None:
    with pytest.raises(UnavailableError, match=f"{name}: .* need a GPU, and x is on cpu"):
        rung(name, torch.nn.GRU(2, 3), torch.zeros(4, 1, 2))


@pytest.mark.parametrize(("module", "x", "told"), [
    (torch.nn.Linear(2, 2), torch.zeros(4, 1, 2), "module is"),
    (torch.nn.RNN(2, 3, nonlinearity="relu"), torch.zeros(4, 1, 2), "module is"),
    (torch.nn.LSTM(2, 3, bidirectional=True), torch.zeros(4, 1, 2), "one direction"),
    (torch.nn.LSTM(2, 3, batch_first=True), torch.zeros(4, 1, 2), "steps first"),
    (torch.nn.LSTM(2, 3), torch.zeros(4, 1, 3), "x is"),
    (torch.nn.LSTM(2, 3), torch.zeros(0, 1, 2), "x is"),
    (torch.nn.LSTM(2, 3), torch.zeros(4, 1, 2).double(), "as the module"),
])  # fmt: skip
def test_what_no_rung_runs_is_refused(module: torch.nn.Module, x: torch.Tensor, told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        rung("naive", module, x)  # type: ignore[arg-type]


def test_an_unknown_rung_and_a_batch_with_nothing_to_pad() -> None:
    with refused("name", "fastest"):
        rung("fastest", torch.nn.GRU(2, 3), torch.zeros(4, 1, 2))
    with pytest.raises(ArgumentError, match="nothing to pad"):
        rung("cudnn-padded", torch.nn.GRU(2, 3), torch.zeros(4, 16, 2))


@pytest.mark.parametrize("name", ["naive", "combined"])
def test_a_loop_neither_reads_nor_writes_what_its_last_call_made(name: str) -> None:
    """A CUDA Graph that did would write to memory that is somebody else's by then."""
    module, x = torch.nn.LSTM(3, 4, 2), torch.randn(5, 2, 3)
    loop = StepLoop(checked(module, x), x, LOOPS[name])
    with torch.no_grad():
        expected, left = loop().clone(), list(loop.cell)
        for cell in left:
            cell.fill_(float("nan"))
        assert torch.equal(loop(), expected)
    assert all(bool(cell.isnan().all()) for cell in left)


def test_every_network_is_compiled_however_many_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs: list[object] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        graphs.append(graph)
        return graph.forward

    made = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **_: made(f, backend=backend, dynamic=False))
    for hidden in range(2, 12):  # torch gives up on a function after eight
        module, x = torch.nn.LSTM(3, hidden), torch.randn(2, 2, 3)
        compiled(checked(module, x), x)
        assert len(graphs) == hidden - 1


class Queue:
    """A stream that only knows what has been done before what it is given next."""

    current: ClassVar[list["Queue"]] = []

    def __init__(self) -> None:
        self.done: set[tuple[str, int, int]] = set()

    def wait_stream(self, other: "Queue") -> None:
        self.done |= other.done

    def __enter__(self) -> None:
        self.current.append(self)

    def __exit__(self, *_: object) -> None:
        self.current.pop()


@pytest.mark.parametrize("name", ["transposed", "inputs2", "wavefront"])
@pytest.mark.parametrize(("layers", "steps"), [(1, 3), (2, 4), (4, 9)])
def test_streams_wait_for_what_they_need_and_for_no_more(
    name: str, layers: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OnGpu(torch.Tensor):
        is_cuda = True

    def made(layer: int, block: range) -> None:
        own, wave = Queue.current[-1].done, name == "wavefront"
        assert not layer or all(("step", layer - 1, step) in own for step in block), "its inputs"
        assert not wave or ("step", layer - 1, block.stop) not in own, (
            "no step of the layer below that it has no use for"
        )
        assert ("step", layer, 0) not in own, "it runs ahead of the steps"
        own |= {("input", layer, step) for step in block}

    def stepped(layer: int, step: int) -> None:
        own = Queue.current[-1].done
        assert ("input", layer, step) in own and (not step or ("step", layer, step - 1) in own)
        own.add(("step", layer, step))

    monkeypatch.setattr(torch.cuda, "Stream", Queue)
    monkeypatch.setattr(torch.cuda, "stream", lambda queue: queue)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: Queue.current[-1])
    monkeypatch.setattr(StepLoop, "_launches", lambda *_: None)
    x = torch.randn(steps, 2, 3)
    loop = StepLoop(checked(torch.nn.LSTM(3, 4, layers), x), x.as_subclass(OnGpu), LOOPS[name])
    monkeypatch.setattr(loop, "_input", made)
    monkeypatch.setattr(loop, "_step", stepped)
    with (start := Queue()):
        loop()
    assert {("step", layer, step) for layer in range(layers) for step in range(steps)} <= start.done
