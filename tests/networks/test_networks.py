"""The textbook network: its cost, its ways on the CPU, and how the best of them is chosen."""

import math
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

import brrr
from brrr.core.errors import ArgumentError, DeviceMemoryError, UnavailableError
from brrr.networks import (
    IMPLEMENTATIONS,
    Network,
    Weights,
    autotuning,
    best,
    launched_implementations,
    torch_implementations,
)
from brrr.networks.autotuning import Best
from brrr.networks.implementations import NetworkImplementation
from brrr.networks.network_time import BARRIER_S, megakernel_period
from brrr.networks.prepared import Prepared, captured
from brrr.roofline.device_model import LAUNCH_S
from brrr.roofline.peak import Curve, Peak
from brrr.roofline.peaks import MissingPeakError, Peaks
from brrr.strassen import StrassenMLP, plan
from tests.refusals import refused, values

CPU_WAYS = [name for name, way in IMPLEMENTATIONS.items() if "cpu" in way.devices]
SIZES = [(1, 1, 1), (1, 4, 64), (3, 2, 7), (8, 5, 33), (2, 1, 128)]


# --- what it is -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("layers", "batch", "hidden"), [(1, 4, 64), (2, 1, 128), (3, 7, 5), (8, 16, 256)])
def test_its_cost_is_what_the_module_counts(layers: int, batch: int, hidden: int, dtype: str) -> None:
    network = Network(layers, batch, hidden, dtype)
    weights = Weights.random(network, "cpu")
    assert brrr.cost(torch_implementations.sequential(weights), weights.x) == network.cost


@pytest.mark.parametrize(
    ("argument", "value"), values({"layers": [0], "batch": [2.5], "hidden": [True, 2**31], "dtype": ["float64"]})
)
def test_what_is_no_network(argument: str, value: Any) -> None:
    with refused(argument, value):
        Network(**{"layers": 2, "batch": 2, "hidden": 8, argument: value})
    with refused("tf32", True):
        Network(2, 2, 8, "bfloat16", tf32=True)


def peaks(memory: float, matmul: float, kind: str = "fp32") -> Peaks:
    rate, flops = Peak(memory, memory, memory, "B/s"), Peak(matmul, matmul, matmul, "FLOP/s")
    curves = {"copy": Curve("working_set_bytes", ((1e9, rate),)), f"matmul.{kind}": Curve("size", ((4096.0, flops),))}
    return Peaks("Some GPU", "cuda", "2026-01-01", curves=curves)


def test_the_floor_is_memory_or_arithmetic() -> None:
    small, large = Network(8, 2, 4096), Network(8, 128, 4096)
    assert small.floor_s(peaks(4e12, 5e13)) == pytest.approx(small.cost.bytes / 4e12)
    assert large.floor_s(peaks(4e12, 5e13)) == pytest.approx(large.cost.flop / 5e13)
    tf32 = replace(large, tf32=True)
    assert tf32.floor_s(peaks(4e12, 4e14, "tf32")) == pytest.approx(
        max(large.cost.flop / 4e14, large.cost.bytes / 4e12)
    )
    with pytest.raises(MissingPeakError):
        tf32.floor_s(peaks(4e12, 5e13))


# --- its numbers ------------------------------------------------------------------------------------------------------


def test_activations_neither_vanish_nor_blow_up() -> None:
    weights = Weights.random(Network(32, 16, 256), "cpu", seed=0)
    assert 0.5 < float(weights.reference().square().mean().sqrt()) < 5


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("spoil", ["bias", "relu", "layer", "nan", "shape"])
def test_the_check_can_fail(spoil: str, dtype: str) -> None:
    weights = Weights.random(Network(8, 16, 128, dtype), "cpu")
    fine = weights.reference()
    biases = [*weights.biases[:4], torch.zeros_like(weights.biases[4]), *weights.biases[5:]]
    wrong = {
        "bias": lambda: replace(weights, biases=biases).reference(),
        "relu": lambda: fine - 0.1 * (fine == 0),
        "layer": lambda: weights.x.double(),
        "nan": lambda: torch.where(fine == fine.max(), math.nan, fine),
        "shape": lambda: fine[:8],
    }[spoil]()
    assert weights.error(fine) == 0 and not weights.error(wrong) <= weights.tolerance


@pytest.mark.parametrize("layers", [1, 8, 24])
def test_tf32_that_drops_bits_passes_and_half_as_many_bits_do_not(layers: int) -> None:
    """Matrix units may cut operands to TF32's 10 bits instead of rounding them; the errors then add up over layers."""
    weights = Weights.random(Network(layers, 16, 256, tf32=True), "cpu")

    def run(dropped: int) -> torch.Tensor:
        y = weights.x
        for w, b in zip(weights.weights, weights.biases, strict=True):
            left, right = ((each.view(torch.int32) & -(1 << dropped)).view(torch.float32) for each in (y, w))
            y = (left @ right.t() + b).relu()
        return y

    assert 3e-4 * layers**0.5 < weights.error(run(13)) <= weights.tolerance < weights.error(run(16))


def test_a_result_of_nothing_but_zeros() -> None:
    weights = Weights(Network(1, 1, 1), [torch.ones(1, 1)], [-torch.ones(1)], torch.ones(1, 1))
    assert weights.error(torch.zeros(1, 1)) == 0
    assert weights.error(torch.ones(1, 1)) == math.inf and math.isnan(weights.error(torch.full((1, 1), math.nan)))


@pytest.mark.parametrize(("argument", "value"), values({
    "weights": [[], [torch.ones(4, 3, 1).squeeze(-1).t()[:3, :3], torch.ones(3, 3)], [1, 2]],
    "biases": [[torch.ones(3), torch.ones(4)]], "x": [torch.ones(2, 3, dtype=torch.float64)],
}))  # fmt: skip
def test_numbers_that_do_not_fit(argument: str, value: Any) -> None:
    given: dict[str, Any] = {"weights": [torch.ones(3, 3)] * 2, "biases": [torch.ones(3)] * 2, "x": torch.ones(2, 3)}
    with refused(argument):
        Weights(Network(2, 2, 3), **{**given, argument: value})


def test_a_network_too_large_for_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> torch.Tensor:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    monkeypatch.setattr(torch, "randn", full)
    with pytest.raises(DeviceMemoryError, match="8 layers of 4096"):
        Weights.random(Network(8, 2, 4096), "cpu")


# --- its ways ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [name for name in CPU_WAYS if name != "compile"])
def test_each_way_is_right(name: str, size: tuple[int, int, int], dtype: str) -> None:
    torch.manual_seed(0)  # where one number is the whole result it may be near zero, and nothing but rounding
    network = Network(*size, dtype)
    weights = Weights.random(network, "cpu", seed=0)
    assert IMPLEMENTATIONS[name].why_not(network, "cpu") is None
    with IMPLEMENTATIONS[name].build(weights) as prepared:
        assert weights.error(prepared.run()) <= weights.tolerance
        weights.x.copy_(torch.randn_like(weights.x))
        given = weights.x.clone()
        assert weights.error(prepared.run()) <= weights.tolerance, "it must read x anew"
        assert torch.equal(weights.x, given), "the input is not overwritten"
        assert not prepared.run().requires_grad


def test_the_compiled_way_is_right_however_many_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch gives up on a function after eight kinds of input; each network is a function of its own.

    That is decided before any back end writes code, so that the quickest one will do.
    """
    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda call, mode=None, **options: plain(call, backend="eager", **options))
    with torch._dynamo.config.patch(recompile_limit=1):
        for hidden in (16, 24):
            network = Network(1, 3, hidden)
            weights = Weights.random(network, "cpu")
            prepared = IMPLEMENTATIONS["compile"].build(weights)
            assert weights.error(prepared.run()) <= weights.tolerance
            prepared.close()


def test_what_torch_refuses_to_compile_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Any:
        return lambda x: (_ for _ in ()).throw(RuntimeError("no C++ compiler\nmore"))

    monkeypatch.setattr(torch, "compile", broken)
    network = Network(1, 2, 8)
    with pytest.raises(UnavailableError, match=r"torch.compile does not work here \(RuntimeError: no C\+\+ compiler\)"):
        IMPLEMENTATIONS["compile"].build(Weights.random(network, "cpu"))


@pytest.mark.parametrize("layers", [1, 2, 3, 8])
def test_no_layer_writes_where_it_reads(layers: int) -> None:
    weights = Weights.random(Network(layers, 2, 4), "cpu")
    sources, targets = torch_implementations.buffers(weights)
    assert len(sources) == len(targets) == layers and sources[0] is weights.x
    assert all(source.data_ptr() != target.data_ptr() for source, target in zip(sources, targets, strict=True))
    assert all(after is before for after, before in zip(sources[1:], targets[:-1], strict=True))


def test_why_not() -> None:
    network = Network(2, 2, 8)
    assert IMPLEMENTATIONS["graph"].why_not(network, "cpu") == "graph: runs on an NVIDIA GPU only"
    assert IMPLEMENTATIONS["module"].why_not(network, torch.device("cpu")) is None
    assert IMPLEMENTATIONS["module"].why_not(replace(network, tf32=True), "cpu") == "module: TF32 is a format of GPUs"
    with refused("device", "tpu"):
        IMPLEMENTATIONS["module"].why_not(network, "tpu")
    with pytest.raises(UnavailableError, match="graph: runs on an NVIDIA GPU only"):
        IMPLEMENTATIONS["graph"].build(Weights.random(network, "cpu"))


def test_without_a_gpu_every_way_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brrr.gpu.device.cuda_problem", lambda: "there is no NVIDIA GPU")
    for name, way in IMPLEMENTATIONS.items():
        assert way.why_not(Network(2, 2, 8), "cuda") == f"{name}: it needs an NVIDIA GPU, and there is no NVIDIA GPU"


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(weights: Weights) -> Any:
        raise ModuleNotFoundError("No module named 'triton'", name="triton")

    monkeypatch.setattr(torch_implementations, "module", make)
    network = Network(1, 2, 8)
    with pytest.raises(UnavailableError, match=r"module needs triton, which is not installed: pip install"):
        IMPLEMENTATIONS["module"].build(Weights.random(network, "cpu"))


def test_strassens_products_are_run_where_they_gain_and_not_built_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = Weights.random(Network(1, 2, 8), "cpu")
    with pytest.raises(UnavailableError, match="no other product than sgemm is predicted to gain for 1 layer of 8"):
        launched_implementations.strassen(weights)
    with pytest.raises(UnavailableError, match="float32 alone"):
        launched_implementations.accurate(Weights.random(Network(1, 2, 8, "bfloat16"), "cpu"))
    monkeypatch.setattr(StrassenMLP, "explain", lambda *_: [plan(8192, 8192, 8192, accuracy="fp32", device="h200")])
    for made in (launched_implementations.strassen, launched_implementations.accurate):
        assert weights.error(made(weights)()) <= weights.tolerance


def test_a_graphs_memory_goes_back_when_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made and captured on one stream, by a maker that the same way has without a graph."""
    done: list[Any] = []
    stream = types.SimpleNamespace(wait_stream=lambda other: done.append("waits"))
    held = types.SimpleNamespace(
        replay=lambda: done.append("replays"), graph=types.SimpleNamespace(reset=lambda: done.append("reset")), output=1
    )

    def shared(index: int | None) -> Any:
        return types.SimpleNamespace(torch=stream)

    def capture(run: Any, stream: Any) -> Any:
        done.append((run, stream))
        return held

    @contextmanager
    def on(given: Any) -> Iterator[None]:
        done.append(given)
        yield

    monkeypatch.setattr("brrr.gpu.launching.shared_stream", shared)
    monkeypatch.setattr("brrr.running.graphs.capture", capture)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: done.append("synchronised"))
    weights = Weights.random(Network(1, 2, 8), "cpu")
    with captured(lambda given: given.reference, weights) as prepared:
        prepared.run()
    assert done == ["waits", stream, (weights.reference, stream), "replays", "synchronised", "reset"]
    assert held.output is None
    with pytest.raises(UnavailableError, match="closed"):
        prepared.run()


# --- the best of them -------------------------------------------------------------------------------------------------


def test_a_megakernel_goes_by_an_h200s_plans_or_by_what_is_assumed() -> None:
    assert megakernel_period(Network(1, 2, 64), "h200") == (LAUNCH_S["megakernel"], False), "the host launches it"
    period_s, assumed = megakernel_period(Network(64, 2, 64), "datasheet:a100")
    assert assumed and period_s > 64 * BARRIER_S


def test_best_on_a_cpu() -> None:
    with best(2, 3, 16, device="cpu") as network:
        x = torch.randn(3, 16)
        given = x.clone()
        weights = replace(network.weights, x=x)
        assert weights.error(network(x)) <= weights.tolerance and torch.equal(x, given)
        assert network.implementation in CPU_WAYS and network.implementation != "compile"
        assert network.why.startswith(f"measured: {network.implementation} ") and network.implementation in repr(
            network
        )
        assert torch.equal(network.run(), network(x))
    with pytest.raises(UnavailableError, match="closed"):
        network.run()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: best(0, 2, 8), ArgumentError, "layers is 0"),
        (lambda: best(1, 2, 8, "int8"), ArgumentError, "dtype is 'int8'"),
        (lambda: best(1, 2, 8, device="tpu"), ArgumentError, "device is 'tpu'"),
        (lambda: best(1, 2, 8, weights=[1]), ArgumentError, "weights is 'list'"),  # type: ignore[arg-type]
        (lambda: best(1, 2, 8, tf32=True, device="cpu"), UnavailableError, "TF32 is a format of GPUs"),
        (lambda: best(1, 2, 8, weights=Weights.random(Network(1, 2, 4), "cpu")), ArgumentError, "1 layer of 4"),
        (lambda: best(1, 2, 8, device="cuda", weights=Weights.random(Network(1, 2, 8), "cpu")), ArgumentError, "cpu"),
    ],
)
def test_what_best_refuses(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "x", [[1.0], torch.ones(3, 8), torch.ones(2, 8, dtype=torch.float64), torch.ones(2, 8, device="meta")], ids=str
)
def test_what_the_best_network_refuses(x: Any) -> None:
    weights = Weights.random(Network(1, 2, 8), "cpu")
    network = Best(weights, "module", "", IMPLEMENTATIONS["module"].build(weights))
    with refused("x"):
        network(x)


def played_ways(monkeypatch: pytest.MonkeyPatch, runs: dict[str, Any]) -> list[str]:
    """Ways of these names that run these functions of the weights; the list gets the names of those closed."""
    closed: list[str] = []

    class Played(NetworkImplementation):
        def build(self, weights: Weights) -> Prepared:
            return Prepared(lambda: runs[self.name](weights), lambda: closed.append(self.name))

    monkeypatch.setattr(autotuning, "IMPLEMENTATIONS", {name: Played(name, "", ("cpu",)) for name in runs})
    return closed


def fine(weights: Weights) -> torch.Tensor:
    return weights.reference().float()


def test_a_way_that_is_wrong_is_never_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = played_ways(monkeypatch, {"wrong": lambda weights: weights.x, "right": fine})
    with best(2, 3, 16, device="cpu") as network:
        assert network.implementation == "right" and closed == ["wrong"]
    assert closed == ["wrong", "right"]


def test_nothing_works(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = played_ways(monkeypatch, {"one": lambda weights: weights.x, "two": lambda weights: weights.x})
    with pytest.raises(UnavailableError, match=r"one gives a wrong result .* two gives a wrong result"):
        best(2, 3, 16, device="cpu")
    assert closed == ["one", "two"], "as soon as they are found out"


def test_losers_are_closed_and_the_winner_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = played_ways(monkeypatch, dict.fromkeys(("one", "two", "three"), fine))
    with best(2, 3, 16, device="cpu") as network:
        assert sorted([*closed, network.implementation]) == ["one", "three", "two"]
        network.run()


def test_an_interruption_closes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def interrupted(weights: Weights) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return fine(weights)

    closed = played_ways(monkeypatch, {"one": fine, "two": interrupted})
    with pytest.raises(KeyboardInterrupt):
        best(2, 3, 16, device="cpu")
    assert sorted(closed) == ["one", "two"]


def test_the_only_way_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotuning, "_measured", None)
    played_ways(monkeypatch, {"only": fine})
    with best(2, 3, 16, device="cpu") as network:
        assert (network.implementation, network.why) == ("only", "the only way here")


def test_the_quickest_is_kept_and_what_takes_minutes_to_build_is_only_tried_if_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slow(weights: Weights) -> torch.Tensor:
        time.sleep(0.005)
        return fine(weights)

    def slower(weights: Weights) -> torch.Tensor:
        time.sleep(0.02)
        return fine(weights)

    for patient, way in ((False, "slow"), (True, "quick")):
        closed = played_ways(monkeypatch, {"slow": slow, "slower": slower, "quick": fine})
        played = {
            name: replace(each, slow_to_build=name == "quick") for name, each in autotuning.IMPLEMENTATIONS.items()
        }
        monkeypatch.setattr(autotuning, "IMPLEMENTATIONS", played)
        with best(2, 3, 16, device="cpu", patient=patient) as network:
            assert network.implementation == way and network.why.startswith(f"measured: {way} ")
            assert sorted(closed) == (["slow", "slower"] if patient else ["slower"])
