"""PersistentRNN on a GPU: results and gradients against float64, on any size, in a graph; what it refuses; no hang."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.kernels.recurrent import PersistentRNN, layer, running
from brrr.kernels.recurrent.plan import plans, shortlist
from brrr.kernels.recurrent.running import chip_of, chosen, run_forward
from brrr.running.graphs import capture
from tests.gpu.measuring import aside
from tests.refusals import refused

LIMITS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
SIZES = [(1, 1), (7, 3), (100, 5), (257, 24), (768, 64), (1024, 4)]
CELLS = ["rnn_tanh", "rnn_relu", "lstm"]
PLANS = 6


@pytest.fixture(autouse=True)
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan expected to be fastest, without a trial: that compiles ten kernels, and any plan is right or wrong."""
    monkeypatch.setattr(running, "shortlist", lambda *given: shortlist(*given)[:1])


def module(cell: str, inputs: int, hidden: int, layers: int = 1, **options: Any) -> torch.nn.RNN | torch.nn.LSTM:
    if cell == "lstm":
        return torch.nn.LSTM(inputs, hidden, layers, device="cuda", **options)
    return torch.nn.RNN(inputs, hidden, layers, nonlinearity=cell[4:], device="cuda", **options)


def pair(cell: str, hidden: int, batch: int, dtype: torch.dtype, steps: int = 11, **options: Any) -> tuple[Any, ...]:
    """A module, the same in float64, and an input with its first state for each."""
    torch.manual_seed(hidden + batch)
    mine = module(cell, 13, hidden, 2, **options).to(dtype)
    exact = module(cell, 13, hidden, 2, **options).double()
    exact.load_state_dict({name: value.double() for name, value in mine.state_dict().items()})
    x = torch.randn(steps, batch, 13, device="cuda").to(dtype)
    states = [torch.randn(2, batch, hidden, device="cuda").to(dtype) for _ in range(2 if cell == "lstm" else 1)]
    return mine, exact, x, states


def given(states: list[torch.Tensor]) -> Any:
    return tuple(states) if len(states) == 2 else states[0]


def error(mine: torch.Tensor, exact: torch.Tensor) -> float:
    assert not mine.isnan().any()
    return float((mine.detach().double() - exact.detach()).norm() / exact.detach().norm().clamp_min(1e-30))


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("hidden", "batch"), SIZES)
def test_results_and_gradients(cell: str, hidden: int, batch: int, dtype: torch.dtype) -> None:
    mine, exact, x, states = pair(cell, hidden, batch, dtype)
    leaves = [x, *states]
    doubles = [each.double().requires_grad_() for each in leaves]
    for each in leaves:
        each.requires_grad_()
    net = PersistentRNN(mine, debug=True)
    y, last = net(x, given(states))
    expected, expected_last = exact(doubles[0], given(doubles[1:]))
    limit = LIMITS[dtype] * (5 if hidden == 1 else 1)  # a single unit's weights are up to 1, and its sums large
    assert error(y, expected) < limit
    ends, expected_ends = (each if isinstance(each, tuple) else (each,) for each in (last, expected_last))
    assert max(error(*both) for both in zip(ends, expected_ends, strict=True)) < limit
    with torch.no_grad():
        assert torch.equal(net(x, given(states))[0], y), "with and without what the gradient needs"
    if dtype is not torch.float32 and (cell == "rnn_relu" or hidden == 1):
        return  # a rounded sum near zero falls on the other side of the kink; a single number may be all rounding
    weight = torch.randn_like(y)
    loss = (y * weight).sum() + sum(end.sum() for end in ends)
    exact_loss = (expected * weight.double()).sum() + sum(end.sum() for end in expected_ends)
    loss.backward()
    exact_loss.backward()
    grads = [(a.grad, b.grad) for a, b in zip(leaves, doubles, strict=True)]
    grads += [(a.grad, b.grad) for a, b in zip(mine.parameters(), exact.parameters(), strict=True)]
    assert max(error(*both) for both in grads) < 3 * limit


@pytest.mark.parametrize(("cell", "hidden", "dtype"), [
    ("rnn_tanh", 1792, torch.float32), ("rnn_tanh", 2560, torch.float16), ("rnn_tanh", 2560, torch.bfloat16),
    ("lstm", 1280, torch.float32),
])  # fmt: skip
def test_the_largest_that_it_must_hold(cell: str, hidden: int, dtype: torch.dtype) -> None:
    if chip_of(0).multiprocessors < 132:
        pytest.skip("written for a GPU with 132 multiprocessors")
    mine, exact, x, states = pair(cell, hidden, 3, dtype)
    with torch.no_grad():
        assert (
            error(
                PersistentRNN(mine, choose=False)(x, given(states))[0],
                exact(x.double(), given([s.double() for s in states]))[0],
            )
            < 5e-3
        )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("cell", ["rnn_tanh", "lstm"])
@pytest.mark.parametrize("batch", [1, 5, 33])
def test_plans_of_all_kinds_compute_the_same(cell: str, batch: int, dtype: str) -> None:
    hidden, gates = 256, 4 if cell == "lstm" else 1
    kind = getattr(torch, dtype)
    weight = (torch.randn(gates * hidden, hidden, device="cuda") / 16).to(kind)
    inputs = torch.randn(9, batch, gates * hidden, device="cuda").to(kind)
    listed = list(plans(cell, hidden, batch, dtype, chip_of(0)))
    first, *others = listed[:: -(-len(listed) // PLANS)]  # each is a kernel to compile
    expected = run_forward(first, weight, inputs.clone(), None, None, debug=True)[0].double()
    for made in others:
        found = run_forward(made, weight, inputs.clone(), None, None, debug=True)[0]
        assert error(found, expected) < LIMITS[kind], made


def test_a_plan_is_chosen_by_trial_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "shortlist", shortlist)
    made = chosen("rnn_relu", 200, 2, "float32", 0)
    assert made in shortlist("rnn_relu", 200, 2, "float32", chip_of(0))
    assert chosen("rnn_relu", 200, 2, "float32", 0) is made
    assert chosen("rnn_relu", 200, 2, "float32", 0, backward=True).backward


def test_shapes_as_the_module_takes_them() -> None:
    for options in ({"batch_first": True}, {"bias": False}, {}):
        mine, exact, x, _ = pair("lstm", 40, 6, torch.float32, **options)
        with torch.no_grad():
            (y, ends), (expected, expected_ends) = PersistentRNN(mine, choose=False)(x), exact(x.double())
        assert error(y, expected) < 1e-5
        assert all(a.shape == b.shape and error(a, b) < 1e-5 for a, b in zip(ends, expected_ends, strict=True))
    mine, exact, x, _ = pair("rnn_tanh", 40, 6, torch.float32)
    with torch.no_grad():
        (y, end), (expected, expected_end) = PersistentRNN(mine, choose=False)(x[:, 0]), exact(x[:, 0].double())
    assert y.shape == expected.shape and end.shape == expected_end.shape and error(y, expected) < 1e-5


def test_a_graph_another_stream_and_the_same_again() -> None:
    mine, _, x, _ = pair("lstm", 300, 7, torch.float32)
    net = PersistentRNN(mine, choose=False)
    with torch.no_grad():
        y = net(x)[0]
        assert all(torch.equal(net(x)[0], y) for _ in range(20))
        replay = capture(lambda: net(x)[0])
        assert torch.equal(replay(), y)
        with aside():
            again = net(x)[0]
        assert torch.equal(again, y)


@pytest.mark.parametrize("dtype", LIMITS)
def test_nan_reaches_its_own_sample_and_no_block_waits_for_ever(dtype: torch.dtype) -> None:
    mine, _, x, _ = pair("rnn_relu", 64, 4, dtype)
    x[3, 2] = float("nan")
    with torch.no_grad():
        y = PersistentRNN(mine, debug=True)(x)[0]
        assert y[3:, 2].isnan().all() and not y[:3].isnan().any() and not y[:, (0, 1, 3)].isnan().any()
        empty = torch.full((2, 4, 64), -1, dtype=torch.int32, device="cuda").view(torch.float32)  # the pattern itself
        if dtype is torch.float32:
            assert PersistentRNN(mine, debug=True)(x, empty)[0].isnan().all()


def test_a_block_that_is_missing_is_told_in_a_debug_build(monkeypatch: pytest.MonkeyPatch) -> None:
    made = chosen("rnn_tanh", 512, 1, "float32", 0)
    monkeypatch.setattr(running, "WATCH", 1 << 12)
    weight, inputs = torch.randn(512, 512, device="cuda"), torch.randn(5, 1, 512, device="cuda")
    prepared = running._prepared(made, False, 1 << 12, 0)
    prepared.config.gridDimX = made.blocks - 1
    with pytest.raises(UnavailableError, match="results that never came"):
        run_forward(made, weight, inputs, None, None, debug=True)
    running._prepared.cache_clear()
    assert not run_forward(made, weight, inputs, None, None, debug=True)[0].isnan().any(), "the GPU is usable"


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="this machine has one GPU")
def test_a_layer_on_another_gpu_than_the_current_one() -> None:
    mine, exact, x, _ = pair("lstm", 64, 3, torch.float32)
    expected = exact(x.double())[0]
    with torch.no_grad():
        assert error(PersistentRNN(mine.to("cuda:1"), choose=False)(x.to("cuda:1"))[0].to("cuda:0"), expected) < 1e-5


def test_what_it_refuses() -> None:
    net = PersistentRNN(module("lstm", 8, 16))
    for x, told in (
        (torch.zeros(0, 2, 8, device="cuda"), "x is"), (torch.zeros(3, 0, 8, device="cuda"), "x is"),
        (torch.zeros(3, 2, 9, device="cuda"), "x is"), (torch.zeros(3, 2, 8, device="cuda").double(), "one type of"),
        (torch.zeros(3, 2, 8, device="cuda").half(), "one type of"), ([1.0], "x is"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=told):
            net(x)
    with pytest.raises(ArgumentError, match="state"):
        net(torch.zeros(3, 2, 8, device="cuda"), torch.zeros(1, 2, 16, device="cuda"))
    with pytest.raises(ArgumentError, match="state, c"):
        net(
            torch.zeros(3, 2, 8, device="cuda"),
            (torch.zeros(1, 2, 16, device="cuda"), torch.zeros(1, 3, 16, device="cuda")),
        )
    large = PersistentRNN(module("lstm", 8, 4096))
    with refused("hidden_size", 4096), torch.no_grad():
        large(torch.zeros(3, 2, 8, device="cuda"))


def test_inputs_that_are_not_contiguous() -> None:
    mine, exact, _x, _ = pair("lstm", 64, 4, torch.float32)
    wide = torch.randn(11, 4, 26, device="cuda")[..., ::2]
    state = torch.randn(64, 2, 4, device="cuda").permute(1, 2, 0)
    with torch.no_grad():
        y = PersistentRNN(mine, choose=False)(wide, (state, state))[0]
        assert error(y, exact(wide.double(), (state.double().contiguous(),) * 2)[0]) < 1e-5


@pytest.mark.parametrize("cudnn_ms", [0.0, 1e9])
def test_the_faster_of_cudnn_and_the_one_launch_computes_what_has_no_gradients(
    cudnn_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, exact, x, states = pair("lstm", 64, 4, torch.float32)
    net, taken, timed = PersistentRNN(mine), [], []
    for name in ("_one_launch", "_by_cudnn"):
        way = getattr(net, name)
        monkeypatch.setattr(net, name, lambda *given, name=name, way=way: (taken.append(name), way(*given))[1])

    def told(run: Callable[[], object]) -> float:
        timed.append(run())
        return 1.0 if len(timed) == 1 else cudnn_ms

    monkeypatch.setattr(layer, "event_ms", told)
    state = tuple(each.permute(2, 1, 0).contiguous().permute(2, 1, 0) for each in states)
    expected = exact(x.double(), tuple(each.double().contiguous() for each in state))[0]
    with torch.no_grad():
        for _ in range(3):
            assert error(net(x, state)[0], expected) < 1e-5
    assert len(timed) == 2 and taken[2:] == ["_by_cudnn" if cudnn_ms < 1 else "_one_launch"] * 3
    taken.clear()
    net(x)[0].sum().backward()
    assert taken == ["_one_launch"], "with gradients nothing is chosen"
    always = PersistentRNN(mine, choose=False)
    with torch.no_grad():
        always(x)
    assert not always._won
