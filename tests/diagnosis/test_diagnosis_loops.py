"""Python's loops over what could be one call, drawn from a seed, beside programs whose equal calls could not be one."""

import random
import re
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from traces import gains

from brrr.diagnosis.diagnosing import diagnose, of_run
from brrr.diagnosis.lineage import at_once
from brrr.diagnosis.live import Run, _traced
from brrr.diagnosis.report import Diagnosis
from brrr.roofline.device_model import model_of

Step = Callable[[], object]
On = Callable[[torch.Tensor], torch.Tensor]

STEPS, TIMES = 3, 3


@pytest.fixture(autouse=True)
def seeded(one_thread: None) -> None:
    """Small calls wait for no other threads, which a busy machine may not run."""
    torch.manual_seed(0)


def diagnosed(step: Step) -> Diagnosis:
    """Judged by what was recorded alone, the fastest of some times: a step takes as long as under the profiler."""
    step()
    trace, taken_s = min((_traced(step, STEPS, "cpu") for _ in range(TIMES)), key=lambda recorded: recorded[1])
    run = Run(taken_s / STEPS, taken_s / STEPS, trace, STEPS, taken_s, at_once(step))
    return of_run(run, model_of("datasheet:cpu"), False)


# ---- loops over elements, rows and columns -------------------------------------------------------------------------


ON_EACH: dict[str, On] = {
    "twice and one": lambda x: x * 2 + 1, "relu": torch.relu, "tanh": torch.tanh, "clamp": lambda x: x.clamp(0, 1),
    "two in turn": lambda x: (x - 0.5).abs(), "power": lambda x: x**3, "to double": lambda x: x.double() * 2,
}  # fmt: skip


def elements(on: On, n: int) -> Step:
    x = torch.rand(n)

    def step() -> torch.Tensor:
        y = torch.empty(n)
        for i in range(n):
            y[i] = on(x[i])
        return y

    return step


def rows(on: On, n: int) -> Step:
    x = torch.rand(n, 12)
    return lambda: torch.stack([on(row) for row in x])


def in_place(on: On, n: int) -> Step:
    x = torch.rand(n, 5)

    def step() -> None:
        for i in range(n):
            x[i] = on(x[i])

    return step


def summed(on: On, n: int) -> Step:
    x = torch.rand(n)

    def step() -> torch.Tensor:
        total = torch.zeros(())
        for i in range(n):
            total = total + on(x[i])
        return total

    return step


def chunks(on: On, n: int) -> Step:
    x = torch.rand(2 * n, 3)
    return lambda: torch.cat([on(x[at : at + 2]) for at in range(0, 2 * n, 2)])


LOOPS = [elements, rows, in_place, summed, chunks]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_a_loop_over_slices_is_batched_whatever_it_does_to_each(loop: Callable[[On, int], Step]) -> None:
    draw = random.Random(loop.__name__)
    name, n = draw.choice(list(ON_EACH)), draw.randrange(32, 96, 4)
    found = diagnosed(loop(ON_EACH[name], n))
    assert "batched" in gains(found) and "larger batch" not in gains(found), (name, n, found.details())
    (batched,) = [each for each in found.remedies if each.name == "batched"]
    assert batched.gain > 1.2 and "on one slice after another" in batched.why


# ---- what needs another, or is no slice of the same ----------------------------------------------------------------


def scan() -> torch.Tensor:
    x, y = torch.rand(64), torch.zeros(65)
    for i in range(64):
        y[i + 1] = y[i] * 0.5 + x[i] * y[i]
    return y


def smoothed_in_place() -> torch.Tensor:
    x = torch.rand(64)
    for i in range(1, 63):
        x[i] = (x[i - 1] + x[i + 1]) * 0.5
    return x


def of_elements(x: torch.Tensor) -> torch.Tensor:
    h = torch.zeros(())
    for each in x:
        h = torch.tanh(h * 0.5 + each)
    return h


def recurrent(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Each of its products needs the last one; a bias of each step's own is added to it."""
    h, out = torch.zeros(3, 8), []
    for each in x:
        h = torch.tanh(each + h @ weight)
        out.append(h * torch.sigmoid(h))
    return torch.stack(out)


class Sliced(nn.Module):
    """A block that works on two halves of what comes in, as gates and rotary embeddings do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.linear(x).chunk(2, -1)
        return x + torch.cat([torch.sigmoid(left) * right, x[..., :8] * 0.5], -1)


class Packed(nn.Module):
    """Attention by hand: queries, keys and values in one product, of which each layer takes slices."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 16)).unbind(-2)
        return x + self.out(torch.softmax(q @ k.mT / 4, -1) @ v)


def trained(model: nn.Module, x: torch.Tensor) -> Step:
    """A training step whose optimiser is a loop over the parameters by name."""
    parameters = dict(model.named_parameters())
    moments = {name: torch.zeros_like(each) for name, each in parameters.items()}

    def step() -> None:
        model(x).square().sum().backward()
        with torch.no_grad():
            for name, each in parameters.items():
                assert each.grad is not None
                moments[name].mul_(0.9).add_(each.grad, alpha=0.1)
                each.mul_(1 - 1e-4)
                each -= 1e-6 * moments[name]
                each.grad = None

    return step


def layers(block: Callable[[], nn.Module], count: int = 24) -> nn.Module:
    return nn.Sequential(*[block() for _ in range(count)])


def residual() -> nn.Module:
    return nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())


TOKENS = (4, 6, 16)
HEALTHY: dict[str, Callable[[], Step]] = {
    "scan": lambda: scan, "in place": lambda: smoothed_in_place,
    "recurrence of elements": lambda: partial(of_elements, torch.rand(64)),
    "RNN": lambda: partial(recurrent, torch.rand(8, 8) / 8, torch.rand(40, 3, 8)),
    "LSTM": lambda: partial(nn.LSTM(8, 8, 2), torch.rand(40, 3, 8)),
    "slices, trained": lambda: trained(layers(Sliced), torch.rand(4, 16)),
    "attention, trained": lambda: trained(layers(Packed, 17), torch.rand(TOKENS)),
    "convolutions, trained": lambda: trained(layers(residual, 18), torch.rand(2, 4, 6, 6)),
    "MLP": lambda: trained(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), torch.rand(4, 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_what_needs_another_or_another_memory_is_not_batched(name: str) -> None:
    """Layers alike, recurrences, and optimisers by hand, in which many equal calls wait for none: but for no slices."""
    found = diagnosed(HEALTHY[name]())
    assert "batched" not in gains(found) and "keep on device" not in gains(found), found.details()


def stacked(weights: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    for each in weights:
        h = h @ each
    return h


def hoisted(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Of each step's two products, that of the input waits for none."""
    h = torch.zeros(4, 64)
    for each in x:
        h = torch.tanh(each @ weight + h @ weight)
    return h


@pytest.mark.parametrize(("step", "independent"), [
    (HEALTHY["RNN"](), False), (partial(stacked, torch.randn(32, 64, 64) / 8, torch.randn(4, 64)), False),
    (partial(hoisted, torch.randn(64, 64) / 8, torch.randn(32, 4, 64)), True),
])  # fmt: skip
def test_products_in_a_loop_are_batched_where_none_needs_another(step: Step, independent: bool) -> None:
    found = diagnosed(step)
    (why,) = [each.why for each in (*found.remedies, *found.dropped) if each.name == "batched"]
    assert ("each needs an earlier one" in why) != independent and (independent or "batched" not in gains(found))


def test_a_small_network_still_takes_a_larger_batch() -> None:
    found = diagnosed(partial(layers(lambda: nn.Linear(4, 4), 8), torch.rand(4, 4)))
    assert "larger batch" in gains(found), found.details()


def test_an_optimiser_by_hand_takes_one_call_for_all_parameters() -> None:
    """Sixteen parameters, and five calls for each; what torch calls inside of these counts too."""
    found = diagnosed(trained(layers(lambda: nn.Linear(4, 4), 8), torch.rand(4, 4)))
    (fused,) = [each for each in (*found.remedies, *found.dropped) if each.name == "fused optimiser"]
    (calls,) = re.findall(r"The optimiser makes (\d+) calls a step, tensor by tensor", fused.why)
    assert fused.gain > 1 and int(calls) >= 80


@pytest.mark.parametrize("loop", [elements, rows, chunks], ids=lambda loop: loop.__name__)
def test_a_program_that_runs_is_followed_where_it_slices(loop: Callable[[On, int], Step]) -> None:
    found = diagnose(loop(torch.tanh, 80), device="cpu", budget_s=0.02)
    assert "batched" in gains(found) and "larger batch" not in gains(found), found.details()


@pytest.mark.parametrize("count", [2, 5, 9])
def test_a_few_turns_are_a_loop_where_they_take_the_time(count: int) -> None:
    """As of images one by one: each pair of turns that becomes one gains, and what it gains decides."""
    weights, x = [torch.rand(size, size - 1) for size in range(16, 8, -1)], torch.rand(count, 4, 16)

    def network(h: torch.Tensor) -> torch.Tensor:
        for weight in weights:
            h = torch.relu(h @ weight)
        return h

    found = diagnosed(lambda: torch.stack([network(each) for each in x]))
    (batched,) = [each for each in found.remedies if each.name == "batched"]
    assert 1.1 <= batched.gain <= count and f"called {count} times" in batched.why, found.details()


def test_what_is_compiled_is_still_compiled_when_it_was_diagnosed() -> None:
    """Followed under a mode, torch would run it as written from then on."""
    ran: list[int] = []

    def backend(graph: torch.fx.GraphModule, example: object) -> Callable[..., object]:
        return lambda *given: (ran.append(1), graph.forward(*given))[1]

    call, x = torch.compile(lambda row: torch.relu(row) * 2, backend=backend), torch.rand(32, 8)
    step = lambda: [call(row) for row in x]  # noqa: E731
    diagnose(step, device="cpu", budget_s=0.02)
    before = len(ran)
    step()
    assert len(ran) == before + 32


# ---- tensors of Python's numbers -----------------------------------------------------------------------------------


def listed(rows: int, columns: int) -> list[list[float]]:
    return [[float(i * j) for i in range(columns)] for j in range(rows)]


LINEAR = nn.Linear(100, 10)
MADE: dict[str, Callable[[list[list[float]]], torch.Tensor]] = {
    "tensor": torch.tensor, "as_tensor": torch.as_tensor, "of a type": lambda of: torch.tensor(of, dtype=torch.float64),
    "new_tensor": LINEAR.weight.new_tensor, "legacy": torch.FloatTensor,
    "row by row": lambda of: torch.stack([torch.tensor(each) for each in of]),
    "by NumPy": lambda of: torch.from_numpy(np.array(of, dtype=np.float32)),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_what_makes_a_tensor_of_numbers_grows_with_them(name: str) -> None:
    """No larger batch spares the host that, which takes nearly all of the time; a tensor that is kept does."""
    numbers = listed(60, 100)
    found = diagnosed(lambda: LINEAR(MADE[name](numbers).float()))
    assert "larger batch" not in gains(found), found.details()
    assert ("keep on device" in gains(found)) == (name != "by NumPy"), found.details()


def test_a_number_is_no_list_of_them() -> None:
    found = diagnosed(lambda: LINEAR(torch.ones(4, 100)).relu() * torch.tensor(2.0))
    assert "larger batch" in gains(found), found.details()
