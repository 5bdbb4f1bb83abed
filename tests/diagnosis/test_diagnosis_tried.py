"""Trials: from the same state, held against the program's own difference, put back, and over when their time is."""

import functools
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
import torch
from torch import nn

import brrr
from brrr.diagnosis import diagnosing, trials
from brrr.diagnosis.evidence import Remedy
from brrr.diagnosis.report import Tried

quick = functools.partial(brrr.diagnose, device="cpu", budget_s=0.02)
Applied = Callable[..., Any]
X = torch.randn(1000)


@contextmanager
def other(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Any]:
    """A remedy that runs the step as it is."""
    yield lambda: fn(*args, **kwargs)


def tried(step: Any, *names: str, by: Mapping[str, Applied] | None = None, longest_s: float = 20.0) -> list[Tried]:
    """These remedies, or those that are applied by something else than theirs."""
    found = replace(quick(step), remedies=tuple(Remedy(name, 2.0, "why.") for name in names or by or ()))
    with pytest.MonkeyPatch.context() as patch:
        if by is not None:
            patch.setattr(trials, "_APPLY", by)
        return list(trials.tried(found, step, (), {}, False, "cpu", 0.02, longest_s))


def gives(run: Callable[[], Any]) -> Applied:
    """A remedy that runs this in the step's place."""

    @contextmanager
    def apply(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Any]:
        yield run

    return apply


def test_a_remedy_is_measured_beside_the_step() -> None:
    (found,) = tried(lambda: X * 2, by={"fusion": other})
    assert found.gain is not None and found.low <= found.gain <= found.high and found.change == 0.0
    assert "measured gain" in str(found)


@pytest.mark.parametrize(("result", "change", "said"), [
    (torch.full((1000,), 1.5), 0.5, "differs by 5.0e-01"),
    (torch.full((1000,), float("nan")), float("inf"), "differs by inf"), (torch.ones(7), None, "no result"),
])  # fmt: skip
def test_another_result_is_refused_with_its_difference(result: torch.Tensor, change: float | None, said: str) -> None:
    (found,) = tried(lambda: torch.ones(1000), by={"fusion": gives(lambda: result)})
    assert found.gain is None and said in str(found) and found.change == (change and pytest.approx(change))


def test_a_remedy_that_fails_is_told_and_what_needs_the_author_too() -> None:
    def fails() -> None:
        raise RuntimeError("out of memory\nand more")

    first, second = tried(lambda: X * 2, "fusion", "pinned memory", by={"fusion": gives(fails)})
    assert str(first) == "fusion: failed: RuntimeError: out of memory" and "change of the program" in str(second)


# --- from the same state ----------------------------------------------------------------------------------------------


class Cache:
    """What a step keeps; wherever a program may keep something is in tests/counting/test_counting_state.py."""

    def __init__(self) -> None:
        self.keys: torch.Tensor | None = None
        self.layers: list[torch.Tensor] = []
        self.seen = 0


def test_what_a_step_keeps_is_put_back_between_trials() -> None:
    cache = Cache()

    def step() -> torch.Tensor:
        cache.keys = torch.ones(4) if cache.keys is None else torch.cat([cache.keys, torch.ones(4)])
        cache.layers.append(cache.keys)
        cache.seen += 1
        return torch.stack([cache.keys.sum() + len(cache.layers), torch.tensor(float(cache.seen))])

    (found,) = tried(step, by={"fusion": other})
    assert found.gain is not None and found.change == 0.0, found
    assert vars(cache) == vars(Cache())


def trained(*parts: nn.Module) -> Callable[[], None]:
    """A step that returns nothing: its parameters are compared."""
    model, x = nn.Sequential(nn.Linear(16, 16), *parts), torch.randn(8, 16)
    optimiser = torch.optim.Adam(model.parameters())

    def step() -> None:
        optimiser.zero_grad()
        model(x).square().mean().backward()
        optimiser.step()

    return step


@contextmanager
def spoiled(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Any]:
    """One that trains with other numbers."""
    (model,) = [cell.cell_contents for cell in fn.__closure__ if isinstance(cell.cell_contents, nn.Module)]

    def step() -> None:
        fn()
        with torch.no_grad():
            model[0].weight.mul_(2)

    yield step


@contextmanager
def redrawn(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Any]:
    """One that draws other random numbers, as a compiler does."""

    def step() -> Any:
        torch.rand(7)
        return fn()

    yield step


DROPPED = nn.Dropout(0.5)


@pytest.mark.parametrize(
    ("step", "apply", "right"),
    [(trained(nn.BatchNorm1d(16)), other, True), (trained(nn.BatchNorm1d(16)), spoiled, False),
     (lambda: DROPPED(X), redrawn, True), (lambda: X * 2, redrawn, True)],
    ids=["batch norm", "spoiled", "dropout", "not random"],
)  # fmt: skip
def test_a_result_may_differ_as_far_as_the_programs_own(step: Any, apply: Applied, right: bool) -> None:
    (found,) = tried(step, by={"fusion": apply})
    assert (found.gain is not None) == right, found
    assert ("two runs of the step itself" in str(found)) == (found.change is not None and found.change > 0.5 and right)


# --- remedies for what a step closes over -----------------------------------------------------------------------------


def test_a_closures_images_and_weights_are_turned_and_put_back() -> None:
    model, x = nn.Conv2d(8, 8, 3), torch.randn(2, 8, 16, 16)
    seen = StringIO()  # a list of the step's own would be put back, too
    model.weight.grad = gradient = torch.ones_like(model.weight)

    def step() -> torch.Tensor:
        seen.write(f"{x.stride()[1]} {model.weight.dtype}\n")
        return model(x)

    last, short = tried(step, "channels last", "lower precision")
    assert last.gain is not None and short.gain is not None, (last, short)
    assert {*seen.getvalue().split("\n")} == {"256 torch.float32", "1 torch.float32", "256 torch.bfloat16", ""}
    assert x.stride() == (2048, 256, 16, 1) and model.weight.dtype == torch.float32 and model.weight.grad is gradient


def test_what_cannot_be_applied_says_what_to_do() -> None:
    double, plain = torch.randn(8, 8).double(), torch.randn(8, 8).int()
    last, gaps = tried(lambda: plain * 2, "channels last", "contiguous")
    assert "pass the module and its inputs" in str(last) and "not applied" in str(gaps)
    (cores,) = tried(lambda: double @ double, "tensor cores")
    assert "automatic mixed precision changes nothing here" in str(cores)
    model = nn.Linear(4, 4)
    optimiser = torch.optim.AdamW(model.parameters())
    (graph,) = tried(lambda: (model(torch.ones(4)).sum().backward(), optimiser.step())[0], "cuda graph")
    assert str(graph).endswith("make it AdamW(..., capturable=True)") and "not applied" in str(graph)


# --- an end -----------------------------------------------------------------------------------------------------------


@contextmanager
def endless(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Any]:
    while True:
        with suppress(Exception):
            time.sleep(0.01)
    yield fn


@contextmanager
def cancelled(fn: Any, args: Any, kwargs: Any, backward: bool, device: str) -> Iterator[Any]:
    raise KeyboardInterrupt  # a signal would be lost where a shell has turned interrupts off
    yield fn


@pytest.mark.parametrize(("apply", "said"), [(endless, "0.5 s were over"), (cancelled, "cancelled")])
def test_trials_end_in_time_and_on_request(apply: Applied, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    handler = signal.getsignal(signal.SIGALRM)
    first, second, third = tried(
        lambda: X * 2, by={"fusion": other, "cuda graph": apply, "contiguous": other}, longest_s=0.5
    )
    assert first.gain is not None and str(second) == f"cuda graph: not tried to the end: {said}"
    assert third.said == second.said and signal.getsignal(signal.SIGALRM) is handler
    shown = capsys.readouterr().err
    assert "[#--] trying fusion, " in shown and "[##-] trying cuda graph, " in shown and "Ctrl-C ends it" in shown


@pytest.mark.parametrize(("dtype", "taken"), [(torch.bfloat16, True), (torch.float32, False)])
def test_what_rounds_elsewhere_may_differ_by_its_types_rounding(dtype: torch.dtype, taken: bool) -> None:
    x = torch.randn(64, 64, dtype=dtype)
    two_further = gives(lambda: x * 2 * 1.0156)  # in bfloat16
    (found,) = tried(lambda: x * 2, by={"fusion": two_further})
    assert (found.gain is not None) == taken and ("refused" in found.said) != taken


@pytest.mark.parametrize(
    ("products", "name", "taken"),
    [
        ("tf32", "aten::mm float32", True),
        ("fp32", "aten::mm float32", False),
        ("", "aten::cudnn_convolution tf32", True),
    ],
)
def test_what_multiplies_in_a_shorter_type_may_differ_by_that_types_rounding(
    products: str, name: str, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "_APPLY", {"fusion": gives(lambda: X @ X * 1.002)})
    found = quick(lambda: X @ X)
    lines = tuple(replace(each, products=products, name=name) for each in found.operators)
    found = replace(found, remedies=(Remedy("fusion", 2.0, "why."),), operators=lines)
    (made,) = trials.tried(found, lambda: X @ X, (), {}, False, "cpu", 0.02, 20.0)
    assert (made.gain is not None) == taken and made.predicted == 2.0


@pytest.mark.parametrize(("gain", "kept"), [(0.4, False), (1.04, False), (1.06, True), (None, True)])
def test_what_its_trial_refutes_is_dropped(gain: float | None, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    helps = [Remedy("fusion", 1.5, "Why."), Remedy("larger batch", 1.2, "Why.")]
    monkeypatch.setattr(diagnosing, "remedies", lambda found: (helps, []))
    made = Tried("fusion", gain, gain, gain, 0.0, "", 2e-3, 1.5), Tried("larger batch", None, None, None, None)
    monkeypatch.setattr(trials, "tried", lambda *_: made)
    found = quick(lambda: X * 2, try_remedies=True)
    assert [each.name for each in found.remedies] == ["fusion"] * kept + ["larger batch"] and found.tried == made
    assert kept or f"Weighed and dropped: fusion ({'tried, ' * (gain == 0.4)}{gain:.3g}x)." in found.details()


def test_an_optimisers_moments_are_turned_with_its_images_weights() -> None:
    model, seen = nn.Conv2d(4, 4, 3), StringIO()  # a list would be put back
    optimiser = torch.optim.SGD(model.parameters(), momentum=0.9)
    image = torch.randn(2, 4, 8, 8)

    def step() -> torch.Tensor:
        (loss := model(image).square().mean()).backward()
        optimiser.step()
        moments = (values["momentum_buffer"] for values in optimiser.state.values())
        seen.writelines(
            "01"[each.is_contiguous(memory_format=torch.channels_last)] for each in moments if each.dim() > 1
        )
        return loss

    step()
    (last,) = tried(step, "channels last")
    assert last.gain is not None and seen.getvalue()[0] == "0" and "1" in seen.getvalue()
    step()
    assert seen.getvalue()[-1] == "0", "they lie as they did"


def test_what_is_compiled_comes_last_and_takes_no_time_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "_compiled", endless)
    by = {"fusion": endless, "contiguous": other}
    first, second, third = tried(lambda: X * 2, *by, "larger batch", by=by, longest_s=0.5)
    assert first.said.endswith("0.5 s were over") and second.gain is not None and third.said == trials.NOT_SAFE
