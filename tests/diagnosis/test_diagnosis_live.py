"""A live diagnosis on the CPU: parts add up, all state is as before, odd programs work, remedies are checked."""

import copy
import functools
import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
import torch
from torch import nn

import brrr
from brrr.core.errors import ArgumentError, UnavailableError
from brrr.diagnosis import diagnosing, live
from brrr.diagnosis.diagnosing import without_profiler
from brrr.diagnosis.remedies import Remedy
from brrr.diagnosis.split import Split

quick = functools.partial(brrr.diagnose, device="cpu", budget_s=0.02)


class Odd(nn.Module):
    """Dropout, a batch norm, an operation in place, a dictionary of inputs, a tuple of results."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer, self.drop = nn.BatchNorm1d(32), nn.Linear(32, 32), nn.Dropout(0.5)

    def forward(self, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, int]:
        x = self.drop(self.layer(self.norm(inputs["x"])))
        x.add_(1.0)
        return x, x.shape[0]


def test_parts_add_up_to_the_whole_and_modules_are_named() -> None:
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
    found = quick(model, torch.randn(64, 256), backward=True)
    assert sum(found.parts.values()) == pytest.approx(found.step_s, rel=0.03)
    assert {"Sequential.0", "Sequential.2"} <= {line.name for line in found.modules}
    products = sum(line.flop for line in found.operators if line.name.startswith(("mm", "addmm"))) / found.steps
    assert products == pytest.approx(5 * 2 * 64 * 256 * 512, rel=0.02), "two forward, three backward"
    assert found.distortion is not None and found.distortion > 0 and found.source == "live"


def test_the_model_is_as_it_was() -> None:
    torch.manual_seed(3)
    model = Odd()
    inputs = {"x": torch.randn(16, 32)}
    model.layer.weight.grad = torch.full_like(model.layer.weight, 7.0)
    model.drop.eval()
    before, kept = copy.deepcopy(model.state_dict()), inputs["x"].clone()
    numbers = torch.get_rng_state()
    quick(model, inputs, backward=True)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(model.layer.weight.grad, torch.full((32, 32), 7.0)) and model.layer.bias.grad is None
    assert torch.equal(torch.get_rng_state(), numbers) and torch.equal(inputs["x"], kept)
    assert model.training and not model.drop.training
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


def test_a_training_step_leaves_its_optimiser_alone() -> None:
    model = nn.Linear(16, 16)
    optimiser = torch.optim.Adam(model.parameters())
    x = torch.randn(8, 16)

    def step() -> torch.Tensor:
        optimiser.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimiser.step()
        return loss

    step()
    weights, state = model.weight.detach().clone(), copy.deepcopy(optimiser.state_dict())
    tensors = [each for values in optimiser.state.values() for each in values.values()]
    found = quick(step)
    assert torch.equal(model.weight, weights)
    after = [each for values in optimiser.state.values() for each in values.values()]
    assert all(one is other for one, other in zip(tensors, after, strict=True)), "it stays in its tensors"
    moved = optimiser.state_dict()["state"][0]
    assert all(torch.equal(moved[name], value) for name, value in state["state"][0].items())
    assert any(line.name.startswith(("_foreach", "addcdiv", "lerp", "sqrt")) for line in found.operators)


def trained(model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    model(torch.ones(2, 4)).sum().backward()
    optimiser.step()


MODELS = [nn.Linear(4, 4)]
OPTIMISERS = {"one": torch.optim.SGD(MODELS[0].parameters(), lr=0.1)}


def by_globals() -> None:
    trained(MODELS[0], OPTIMISERS["one"])


def by_default(*, model: nn.Module = MODELS[0], optimiser: Any = OPTIMISERS["one"]) -> None:
    trained(model, optimiser)


@pytest.mark.parametrize("step", [by_globals, by_default])
def test_wherever_a_model_is_held_it_is_put_back(step: Callable[[], None]) -> None:
    """Other places are in tests/counting/test_counting_state.py."""
    before = MODELS[0].weight.detach().clone()
    quick(step)
    assert torch.equal(MODELS[0].weight, before) and MODELS[0].weight.grad is None


@pytest.mark.filterwarnings("ignore:Detected call of")
def test_random_numbers_schedules_and_buffers_are_put_back() -> None:
    model = nn.Linear(4, 4)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 1)
    model.register_buffer("count", torch.zeros(()))
    generator = torch.Generator().manual_seed(3)

    def step() -> torch.Tensor:
        schedule.step()
        model.count = model.count + 1
        return torch.randn(8, generator=generator) + torch.randn(8) + model(torch.ones(4)).sum() + random.random()

    states = torch.get_rng_state(), generator.get_state(), random.getstate(), schedule.last_epoch
    quick(step)
    assert torch.equal(torch.get_rng_state(), states[0]) and torch.equal(generator.get_state(), states[1])
    assert (random.getstate(), schedule.last_epoch) == states[2:] and model.count == 0


def test_what_an_optimiser_and_a_scaler_make_in_their_first_step_is_gone() -> None:
    model, scaler = nn.Linear(4, 4), torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
    optimiser = torch.optim.Adam(model.parameters())

    def step() -> None:
        scaler.scale(model(torch.ones(2, 4)).sum()).backward()
        scaler.step(optimiser)
        scaler.update()

    scaler.scale(torch.ones(()))  # it makes its tensor when it is first asked
    before = copy.deepcopy(scaler.state_dict())
    quick(step)
    assert not optimiser.state and scaler.state_dict() == before
    optimiser.param_groups[0]["lr"] = 0.5
    quick(lambda: (optimiser.param_groups[0].update(lr=0.25), torch.ones(64, 64) + 1))
    assert optimiser.param_groups[0]["lr"] == 0.5


def test_arguments_that_cannot_be_written_are_left_alone() -> None:
    """An expanded tensor, one made in inference mode, and one that a graph of the user's still needs."""
    model, x = nn.Linear(64, 64), torch.randn(32, 64)
    quick(lambda a: a * 2, torch.randn(1, 64).expand(32, 64))
    with torch.inference_mode():
        made = torch.randn(32, 64)
    quick(torch.relu, made)
    kept = model(x).pow(2).sum()
    quick(model, x)
    kept.backward()
    with pytest.raises(ArgumentError, match="call it once first"):
        quick(nn.LazyLinear(8), x)


def test_what_cannot_be_put_back_is_told_and_the_rest_is_put_back() -> None:
    class Refuses(type):
        def __setattr__(cls, name: str, value: Any) -> None:
            raise RuntimeError("mine cannot")

    class Kept(metaclass=Refuses):
        calls = 0

    model = nn.Linear(4, 4)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.weight.detach().clone()

    def step() -> None:
        type.__setattr__(Kept, "calls", Kept.calls + 1)
        trained(model, optimiser)

    with pytest.warns(UserWarning, match="not all is as it was: mine cannot"):
        quick(step)
    assert torch.equal(model.weight, before)


def test_a_librarys_own_operator_is_not_lost() -> None:
    """A convolution's work is done by an operator of oneDNN's, whose FLOP nobody knows."""
    found = quick(nn.Conv2d(16, 16, 3), torch.randn(4, 16, 32, 32))
    line = next(line for line in found.operators if "convolution" in line.name)
    assert line.time_s > 0.5 * sum(each.time_s for each in found.operators) and line.flop_per_s < 2e12


@pytest.mark.parametrize("busy", [True, False])
def test_a_busy_machine_is_told_as_the_timer_tells_it(busy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brrr.timing.sampler.crowded", lambda *_: busy)
    found = quick(torch.relu, torch.ones(64))
    assert ("busy-cpu" in found.flags) == ("busy-cpu: other programs left hardly a core idle." in str(found)) == busy


def test_the_operators_stand_under_the_roof() -> None:
    found = quick(nn.Linear(256, 256), torch.randn(64, 256))
    assert "addmm float32" in found.roofline().alt and found.roofline().png.startswith(b"\x89PNG")
    policies = ("default-src", "base-uri", "form-action")
    assert all(f"{name} 'none'" in found.to_html().partition("<title>")[0] for name in policies)
    assert "data:image/png" in found.to_html() and "addmm float32" in found._repr_html_()
    assert found.peak_share is not None and "utilisation" in found.details() and "profiler" in found.details()


@pytest.mark.usefixtures("one_thread")
def test_anomaly_detection_is_found() -> None:
    layer, x = nn.Linear(64, 64), torch.randn(8, 64)

    def step() -> None:
        with torch.autograd.set_detect_anomaly(True):
            layer(x).sum().backward()

    assert "debugging off" in [each.name for each in quick(step).remedies]


@pytest.mark.parametrize(
    ("call", "message"),
    [(lambda: quick(7), "a callable or a module"),
     (lambda: brrr.diagnose(torch.relu, torch.ones(2), device="tpu"), "device"),
     (lambda: quick(torch.relu, torch.ones(4), backward=True), "whose results have gradients"),
     (lambda: quick(lambda: sum(range(10))), "no operator ran")],
)  # fmt: skip
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_a_keyword_of_both_is_refused_and_can_be_given() -> None:
    def scaled(x: torch.Tensor, backward: bool = False, device: str = "none", budget_s: int = 2) -> torch.Tensor:
        assert device in ("none", "mine")
        return x * budget_s

    x = torch.ones(64)
    for option in ({"backward": True}, {"device": "cpu"}, {"budget_s": 0.02}):
        with pytest.raises(ArgumentError, match=rf"{next(iter(option))} is .*functools.partial\(fn"):
            brrr.diagnose(scaled, x, **option)
    assert quick(functools.partial(scaled, device="mine", budget_s=3), x).regime
    assert quick(lambda: scaled(x, device="mine")).regime


def test_a_long_step_is_run_a_few_times_and_it_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = StringIO()  # a list would be put back

    def step() -> torch.Tensor:
        calls.write("x")
        time.sleep(0.06)
        return torch.ones(8) * 2

    monkeypatch.setattr(live, "LONG_S", 0.05)
    monkeypatch.setattr(live, "TRACE_S", 0.05)
    most = 2 + live.REPEATS  # with the one that tells what it runs, where this process has compiled anything before
    assert quick(step).steps == 1 and 1 < calls.tell() <= most
    said = capsys.readouterr().err
    assert "diagnose: a step takes" in said and f"some {live.REPEATS} times more" in said
    quick(torch.relu, torch.ones(8))
    assert not capsys.readouterr().err


def test_what_the_function_raises_is_raised_and_all_is_put_back() -> None:
    model = nn.Linear(4, 4)
    before = model.weight.detach().clone()

    def step() -> None:
        with torch.no_grad():
            model.weight.zero_()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        quick(step)
    assert torch.equal(model.weight, before)


def test_another_profiler_is_a_clear_error() -> None:
    with torch.profiler.profile(), pytest.raises(UnavailableError, match="another session"):
        quick(torch.relu, torch.ones(8))


def test_the_profilers_time_is_not_the_models() -> None:
    found = without_profiler(Split(3.0, 1.0, 0.25, {"Python": 1.0, "launch": 0.75}, {"Python": 3.0}), 2.0, 1.5)
    assert found.host_s == {"Python": 1.5}
    assert (found.busy_s, found.transfer_s) == (1.0, 0.25)
    assert sum(found.idle_s.values()) == pytest.approx(0.75) and found.idle_s["Python"] == pytest.approx(3 / 7)
    shorter = without_profiler(Split(3.0, 2.0, 0.0, {"Python": 1.0}, {}), 1.5, 1.5)
    longer = without_profiler(Split(3.0, 2.7, 0.0, {"Python": 0.3}, {}), 3.3, 1.5)
    assert longer.busy_s == pytest.approx(2.97) and longer.idle_s["Python"] == pytest.approx(0.33)
    assert shorter.busy_s + sum(shorter.idle_s.values()) == pytest.approx(1.5)


def test_a_step_is_drawn_as_a_timeline() -> None:
    found = quick(nn.Linear(64, 64), torch.ones(8, 64))
    assert found.timeline is not None and found.timeline.lanes == ("python", "operator")
    assert any(span.name == "linear" for span in found.timeline.spans)
    assert found.timeline.period_s == pytest.approx(found.step_s)
    assert "A timeline with the lanes" in found.to_html() and "timeline" in json.loads(found.to_json())


def test_what_is_computed_again_counts_for_the_hardware_alone() -> None:
    from torch.utils.checkpoint import checkpoint

    model, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), torch.randn(32, 64, requires_grad=True)
    plain = quick(model, x, backward=True)
    again = quick(lambda x: checkpoint(model, x, use_reentrant=False), x, backward=True)
    assert plain.peak_share is not None and plain.model_share == plain.peak_share
    assert again.peak_share is not None and again.model_share is not None
    assert again.model_share / again.peak_share == pytest.approx(3 / 4, abs=0.03)
    assert "MFU" in again.details() and "MFU" not in plain.details()


@pytest.mark.parametrize(
    ("gpu", "makes", "tensors", "where"),
    [(False, 0, True, "cpu"), (True, 0, True, "cpu"), (True, 1, True, "cuda"), (True, 0, False, "cuda")],
    ids=["no GPU", "all on the CPU", "copied to the GPU", "nothing to see"],
)
def test_a_step_is_diagnosed_where_it_works(
    gpu: bool, makes: int, tensors: bool, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, x = [0], torch.ones(4)

    def step(*_: torch.Tensor) -> None:
        made[0] += makes

    monkeypatch.setattr(live, "gpu_here", lambda: "cuda" if gpu else None)
    monkeypatch.setattr(live, "processor_for", lambda *_: "cuda")
    monkeypatch.setattr(live, "_made_on_gpu", lambda: made[0])
    assert live.device_of(step, (x,) if tensors else ()) == where


def test_a_cpu_keeps_the_remedies_that_of_gpus_only_cuda_has(monkeypatch: pytest.MonkeyPatch) -> None:
    real, strassen = diagnosing.of_run, Remedy("strassen", 1.5, "its products are large")
    monkeypatch.setattr(diagnosing, "of_run", lambda *given: replace(real(*given), remedies=(strassen,)))
    assert brrr.diagnose(lambda: torch.ones(8).relu(), device="cpu", budget_s=0.02).remedies == (strassen,)
