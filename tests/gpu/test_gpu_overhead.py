"""Lesson 03 on a real GPU: the hand-launched kernel, every rung of the ladder, the exercise; no assertion on speed."""

import importlib.util

import pytest
import torch

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.core.measurement import Value
from brrr.kernels import relu
from brrr_course.experiments import experiment
from brrr_course.lessons.checking import check
from brrr_course.lessons.exercises.lesson_03 import chatty
from tests.gpu.measuring import timed

PYCUDA = importlib.util.find_spec("pycuda") is not None
needs_pycuda = pytest.mark.skipif(not PYCUDA, reason="PyCUDA is not here")


# ---------------------------------------------------------------- the kernel


def launched(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    relu.prepared_launch(x, out)()
    return out


@needs_pycuda
@pytest.mark.parametrize("count", [1, 3, 4, 1023, 1025, 2**20 + 3])
def test_the_kernel_is_torchs_relu_to_the_bit(count: int) -> None:
    x = torch.randn(count, device="cuda")
    guarded = torch.full((count + 8,), 7.0, device="cuda")
    out = launched(x, guarded[:count])
    assert torch.equal(out, torch.relu(x))
    assert bool((guarded[count:] == 7).all()), "the kernel wrote behind its end"


@needs_pycuda
def test_numbers_that_are_none_and_those_without_end() -> None:
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, -1e-45, 1e-45], device="cuda")
    found = launched(x, torch.empty_like(x))
    assert torch.equal(found.isnan(), x.isnan()) and torch.equal(found[1:], torch.relu(x)[1:])


@needs_pycuda
def test_in_place_and_on_torchs_own_stream() -> None:
    """Work queued by torch before and after must be in order with the kernel, without any waiting between them."""
    for _ in range(20):
        x = torch.randn(2**20, device="cuda")
        expected = torch.relu(x * 2) + 1
        y = x * 2
        launched(y, y)
        assert torch.equal(y + 1, expected)


@needs_pycuda
def test_tensors_that_it_cannot_take() -> None:
    x = torch.zeros(16, device="cuda")
    for source, out in ((x.half(), x), (x[::2], x[:8]), (x[1:], x[1:]), (x, x[:8]), (x[:0], x[:0]), (x, x.cpu())):
        with pytest.raises(ArgumentError, match=r"relu: (x|out) is "):
            launched(source, out)


@needs_pycuda
def test_pycuda_refuses_another_stream() -> None:
    x = torch.zeros(16, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()), pytest.raises(UnavailableError, match="default stream and"):
        launched(x, x)
    torch.cuda.synchronize()
    assert torch.equal(launched(x, x), x)


# ---------------------------------------------------------------- the experiments


def test_one_kernel_for_each_operator_of_the_script() -> None:
    """The script's fuser is off: else it would do less than the other rungs."""
    point: dict[str, Value] = {"elements": 1024, "operators": 16}
    for variant, run in timed(experiment("host_cost"), point, ["script", "module", "graph"], budget_s=0.03).items():
        assert run.measurement.kernels == 16, f"{variant}: {run.measurement.details()}"


# ---------------------------------------------------------------- the exercise


def test_the_chatty_loop_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRRR_SOURCE", "cuda")

    def quiet(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)

    mark = check("03-chatty", quiet=quiet)
    print(mark)
    assert mark.right
    assert check("03-chatty", quiet=chatty).status == "wrong"
    on_cpu = check("03-chatty", quiet=lambda x: quiet(x.cpu()))
    assert on_cpu.status == "wrong" and "on cpu" in on_cpu.text
