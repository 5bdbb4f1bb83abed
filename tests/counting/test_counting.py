"""`brrr.cost`: text, descriptions, storages, what it leaves alone, and its errors."""

import gc
import resource
import sys
from collections.abc import Callable
from types import FrameType

import numpy as np
import pytest
import torch
from torch import nn

from brrr.core.errors import ArgumentError, TraceError, UnavailableError
from brrr.counting.description import Description, array
from brrr.counting.mode import CostMode
from brrr.counting.tracing import cost
from brrr.counting.traffic import region_of, union_bytes
from tests.refusals import refused, values


def test_details_group_equal_calls() -> None:
    text = cost(lambda x: (x.cos().cos()[1:] + torch.rand(999)).sort(), array(1000)).details().splitlines()
    assert text[0].startswith("at least ") and "fused 16 kB" in text[1]
    assert text[4].split() == ["2", "aten.cos", "pointwise", "float32", "(1000,)", "2", "kFLOP", "8", "kB", "8", "kB"]
    assert [line.split()[-1] for line in text[-3:]] == ["B", "aten.rand", "aten.sort"]


def test_a_description_takes_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = cost(lambda x: (x * 2).sum(), array(2**33))
    grown_bytes = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert found.bytes == 4 * 2**33 + 4
    assert grown_bytes < 200e6 < found.eager_bytes


def test_description() -> None:
    described = array((4, 6), torch.bfloat16)
    assert (described.shape, described.dtype, described.numel, described.nbytes) == ((4, 6), "bfloat16", 24, 48)
    assert array(5) == Description((5,)) and array([np.int64(2), 3], "fp16").dtype == "float16"
    assert repr(array(2**28, requires_grad=True)).startswith("array((268435456,), 'float32', requires_grad=True): 1.07")


@pytest.mark.parametrize(
    ("argument", "value"), values({"shape": [0, (3, 0), 2.5, "8", -4], "dtype": ["float31", None]})
)
def test_a_description_that_cannot_be(argument: str, value: object) -> None:
    with refused(argument):
        array(**{"shape": 8, argument: value})  # type: ignore[arg-type]


def test_regions() -> None:
    x = torch.empty(8, 6)
    left, right = x.chunk(2, dim=1)
    assert union_bytes([region_of(left), region_of(right)]) == x.nbytes
    assert union_bytes([region_of(left), region_of(left.t())]) == left.nbytes
    assert union_bytes([region_of(x), region_of(left), region_of(x[3])]) == x.nbytes
    assert union_bytes([region_of(x[0]), region_of(x[5])]) == 48
    assert region_of(x.view(48).unfold(0, 6, 1)).bytes == x.nbytes
    assert region_of(x[2:4, 1]).bytes == 8
    assert union_bytes([]) == 0


def test_views_of_one_given_storage_count_once() -> None:
    both = cost(lambda x, y: x + y, *torch.empty(2, 100).unbind())
    assert both.bytes == 4 * 300
    x = torch.empty(100)
    assert cost(lambda x, y: x + y, x, x.view(10, 10).view(100)).bytes == 4 * 200
    assert cost(lambda y: x + y, x).bytes == 4 * 200  # once given, once held


def test_a_list_and_a_dictionary_of_inputs() -> None:
    found = cost(lambda p, q: p[0] + q["b"], [array(10)], {"b": array(10)})
    assert (found.flop, found.bytes) == (10, 120)


def test_written_inputs_count_as_results() -> None:
    kept = torch.zeros(100)
    found = cost(lambda x: kept.add_(x), array(100))
    assert found.bytes == 4 * 300  # both read, one written
    found = cost(lambda x: x.add_(1).mul(2), array(100))
    assert (found.bytes, found.eager_bytes) == (4 * 300, 4 * 400)


def test_working_set_is_what_lives_at_once() -> None:
    chain = cost(lambda x: x.cos().cos().cos().cos(), array(1000))
    assert chain.working_set_bytes == 4 * 3000  # the input, one intermediate, its successor
    kept = cost(lambda x: x.cos().cos().cos().cos(), array(1000, requires_grad=True), backward=True)
    assert kept.working_set_bytes > chain.working_set_bytes


def test_compiled_and_scripted_functions_count_as_written() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x.sin().sin()

    plain = cost(twice, array(64))
    assert cost(torch.compile(twice), array(64)).eager_bytes == plain.eager_bytes
    assert cost(torch.jit.script(twice), array(64)).eager_bytes == plain.eager_bytes


def test_a_device_that_is_not_there() -> None:
    assert cost(torch.relu, array(8, device="cpu")).flop == 8
    with refused("device", "gpu"):
        cost(torch.relu, array(8, device="gpu"))
    if not torch.cuda.is_available():
        with pytest.raises(UnavailableError, match="no GPU here"):
            cost(torch.relu, array(8, device="cuda"))


def test_cost_mode_over_a_real_run() -> None:
    x = torch.randn(100)
    with CostMode() as counting:
        y = x.exp() * 2
        (y + 1).sum()
    assert (counting.cost(y).flop, counting.cost(y).bytes) == (200 + 100 + 99, 800)
    assert counting.cost().bytes == 800  # y is the one that is alive
    assert torch.equal(y, x.exp() * 2)


def branch(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x * 2
    return -x


LIMITS = {
    "branch": branch,
    "item": lambda x: x * x.sum().item(),
    "numpy": lambda x: torch.from_numpy(np.sin(x.numpy())),
    "tolist": lambda x: torch.tensor(x.tolist()),
    "mask": lambda x: x[x > 0],
    "address": lambda x: x.data_ptr(),
}


@pytest.mark.parametrize("name", LIMITS)
def test_what_needs_values_is_no_trace(name: str) -> None:
    with pytest.raises(TraceError, match=r"test_counting.py:\d+ .* run=True"):
        cost(LIMITS[name], array(8))


def test_a_seed_has_no_value_and_needs_none_but_other_random_numbers_do() -> None:
    """Torch draws one for the state of cuDNN's dropout."""

    def drawn(like: torch.Tensor) -> torch.Tensor:
        return torch.empty((), dtype=torch.int64, device=like.device).random_()

    def seeded(x: torch.Tensor) -> torch.Tensor:
        assert isinstance(drawn(x).item(), int)
        return x * 2

    assert cost(seeded, array(8)).flop == cost(seeded, torch.ones(8), run=True).flop == 8
    for number in (lambda x: drawn(x) % 2, lambda x: torch.randint(5, ()), lambda x: torch.rand(())):
        with pytest.raises(TraceError):
            cost(lambda x, number=number: x * number(x).item(), array(8))


def test_a_number_that_the_callable_holds_is_read() -> None:
    """As an optimizer reads its count of steps, which lies on the CPU."""
    parameters = [torch.randn(20, 10), torch.randn(10)]
    for each in parameters:
        each.grad = torch.randn_like(each)
    adam = torch.optim.Adam(parameters, foreach=True)
    adam.step()
    before = [each.clone() for each in parameters]
    assert cost(adam.step).flop > 5 * 210
    assert all(map(torch.equal, parameters, before)) and torch.tensor(3.0).item() == 3


def test_run_computes_once_on_real_tensors() -> None:
    assert cost(branch, torch.ones(8), run=True).flop == 7 + 1 + 8
    assert cost(LIMITS["mask"], torch.ones(8), run=True).bytes == 64
    with pytest.raises(ArgumentError, match="run=True computes"):
        cost(branch, array(8), run=True)


def test_an_error_of_the_callable_passes_unchanged() -> None:
    with pytest.raises(ZeroDivisionError):
        cost(lambda x: x / (1 // 0), array(8))
    with pytest.raises(RuntimeError, match="reduction dim") as caught:
        cost(lambda x: x @ x, array((3, 4)))
    assert not isinstance(caught.value, TraceError)


@pytest.mark.parametrize("call", [
    lambda: cost(3), lambda: cost(torch.add, array(3), torch.empty(0, 3)), lambda: cost(torch.sin, np.ones(3)),
    lambda: cost(torch.sin, array(8), backward=True), lambda: array(8, "int64", requires_grad=True),
])  # fmt: skip
def test_arguments_that_have_no_cost(call: Callable[[], object]) -> None:
    with pytest.raises(ArgumentError):
        call()
    with pytest.raises(TraceError, match="layout"):
        cost(lambda x: torch.sparse.mm(x, x), torch.eye(4).to_sparse(), run=True)


# Python beside the operators


def spread(x: torch.Tensor, wide: bool = False, deep: bool = False) -> torch.Tensor:
    """Where Python 3.11 and later ones tell lines in other numbers: a condition over several, a loop in one."""
    for _ in range(3):
        if not (wide or deep  # as torch's modules ask for their hooks
                or deep or wide
                or x.dim()):  # fmt: skip
            return x
    return x + len([each + 1 for each in range(2)])


class Twice(nn.Module):
    """Python, operators and a module of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x + self.inner(x)
        return x


def test_lines_of_python_are_counted_alike_on_real_tensors() -> None:
    module, x = Twice(), torch.rand(3, 4)
    assert 50 < cost(module, x).lines < 200
    assert cost(lambda: torch.relu(x)).lines == 1
    assert cost(module, x, run=True).lines == cost(module, x).lines


class Finalized:
    """A cycle that the garbage collector takes apart, with lines of Python."""

    def __init__(self) -> None:
        self.own = self

    def __del__(self) -> None:
        self.own = None
        self.own = None


def test_lines_of_the_garbage_collector_count_as_nothing() -> None:
    def spread_out(x: torch.Tensor, collect: Callable[[], object]) -> torch.Tensor:
        Finalized()
        collect()
        return x + 1

    def beside(phase: str, info: object) -> None:
        """As hypothesis keeps one."""

    gc.callbacks.append(beside)
    kept, swept = (cost(spread_out, array(3), each).lines for each in (int, gc.collect))
    gc.callbacks.remove(beside)
    assert kept == swept


def test_lines_are_the_same_in_every_python() -> None:
    """Three turns of a condition's three lines, four of the loop's own, two of a loop in one line."""
    assert cost(spread, array(8)).lines == 15


def test_a_debugger_is_left_alone() -> None:
    seen: list[str] = []

    def debugger(frame: FrameType, event: str, value: object) -> None:
        seen.append(event)

    sys.settrace(debugger)
    try:
        lines = cost(lambda x: x * 2, array(8)).lines
        kept = sys.gettrace() is debugger
    finally:
        sys.settrace(None)
    assert lines == 0 and kept and seen


def test_an_error_ends_the_count() -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        raise ValueError(x.shape)

    with pytest.raises(ValueError, match="8"):
        cost(wrong, array(8))
    assert sys.gettrace() is None


def test_a_backward_of_the_callables_own_is_one() -> None:
    module, x = nn.Linear(4, 4), torch.rand(3, 4)

    def step() -> torch.Tensor:
        loss = module(x).square().sum()
        loss.backward()
        return loss

    found = cost(step)
    assert found.gradients == 2 and module.weight.grad is None
    assert cost(module, array((3, 4), requires_grad=True), backward=True).gradients == 3
    names = {each.name for each in found.operators if each.backward}
    assert "aten.mm" in names and "aten.addmm" not in names
    assert cost(module, x).gradients == 0


def test_lines_are_the_same_once_something_was_compiled() -> None:
    """Torch then puts a frame of its compiler's around an optimizer's step, as around every mode."""
    kept = [torch.rand(4, requires_grad=True) for _ in range(3)]
    for each in kept:
        each.grad = torch.ones(4)
    optimizer = torch.optim.SGD(kept, lr=0.1, momentum=0.9)
    optimizer.step()
    before = cost(optimizer.step).lines
    torch.compile(lambda x: x.sin() + 1, backend="eager")(torch.rand(3))
    assert cost(optimizer.step).lines == before > 100
