"""What is not measured is refused: tensors that nothing waits for, a GPU that fails. A machine may not tell all."""

import re
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import brrr
from brrr import gpu
from brrr.core.errors import ArgumentError, UnavailableError
from brrr.diagnosis.timed import timed
from brrr.gpu import device
from brrr.timing import elsewhere, sampler
from brrr.timing.elsewhere import MOST, tensors_in
from brrr_course.sources import record

BUDGET_S = 0.01
PLENTY_S = 0.5
"""For calls that are refused before anything is measured: a first call is slow on a busy machine."""

CALLS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "measure": partial(brrr.measure, budget_s=PLENTY_S),
    "measure on a CPU": partial(brrr.measure, device="cpu", budget_s=PLENTY_S),
    "measure_together": lambda fn: brrr.measure_together([lambda: sum(range(9)), fn], budget_s=PLENTY_S),
    "trace": partial(brrr.trace, calls=3),
    "diagnose": partial(brrr.diagnose, budget_s=PLENTY_S),
    "brrr time": partial(timed, budget_s=PLENTY_S),  # what `%brrr` and `brrr time` call
}


class Holder:
    """An object with a tensor that no argument shows."""

    def __init__(self, kept: Any) -> None:
        self.kept = {"deep": [(kept,)]}

    def __call__(self) -> Any:
        return torch.relu(self.kept["deep"][0][0])


def in_a_closure(x: torch.Tensor) -> Callable[[], Any]:
    return lambda: torch.relu(x)


def in_a_module(x: torch.Tensor) -> Callable[[], Any]:
    layer = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(x.device)
    return lambda: layer(torch.empty(2, 8, device=x.device))


def without_a_result(x: torch.Tensor) -> Callable[[], Any]:
    def step() -> None:
        x.add_(1)

    return step


def with_gradients(x: torch.Tensor) -> Callable[[], Any]:
    layer = nn.Linear(8, 8, device=x.device)

    def step() -> None:
        layer(torch.ones(2, 8, device=x.device)).sum().backward()

    return step


def compiled(x: torch.Tensor) -> Callable[[], Any]:
    return partial(torch.compile(lambda y: torch.relu(y) + 1, backend="eager"), x)


def beside_the_cpu_s(x: torch.Tensor) -> Callable[[], Any]:
    own = torch.ones(8)
    return lambda: {"own": own + 1, "theirs": [x * 2]}


HIDING = [
    in_a_closure, in_a_module, without_a_result, with_gradients, compiled, beside_the_cpu_s,
    Holder, partial(partial, torch.relu),
]  # fmt: skip


def names(value: Any) -> str:
    return getattr(value, "__name__", "a partial")


DRAWN = Random(0).sample([(call, hide) for call in CALLS for hide in HIDING], 24)


@pytest.mark.filterwarnings("ignore:diagnose. not all is as it was")  # nothing on meta can be compared
@pytest.mark.parametrize(("call", "hide"), DRAWN, ids=lambda each: each if isinstance(each, str) else names(each))
def test_tensors_that_nothing_waits_for_are_refused(call: str, hide: Callable[[Any], Callable[[], Any]]) -> None:
    """`meta` is no accelerator: torch has it everywhere, and it computes nothing."""
    with pytest.raises(ArgumentError, match=r"tensors on meta.* brrr measures on a CPU or an accelerator") as caught:
        CALLS[call](hide(torch.ones(8, device="meta")))
    assert caught.value.call == ("measure" if call == "brrr time" else call.split(" ")[0])


@pytest.mark.parametrize("hide", HIDING, ids=names)
def test_tensors_on_the_cpu_are_measured(hide: Callable[[Any], Callable[[], Any]]) -> None:
    assert brrr.measure(hide(torch.ones(8)), budget_s=BUDGET_S).latency_s is not None


def test_one_call_too_slow_to_be_looked_at_is_known_by_its_result() -> None:
    def slow() -> torch.Tensor:
        torch.ones(400, 400) @ torch.ones(400, 400)
        return torch.ones(8, device="meta")

    with pytest.raises(ArgumentError, match="tensors on meta"):
        brrr.measure(slow, budget_s=1e-9)


@pytest.mark.parametrize(
    ("place", "kinds", "refused"),
    [
        ("cuda", {"cuda", "cpu"}, ""), ("cuda", {"cuda"}, ""), ("cpu", {"cpu"}, ""), ("cpu", set(), ""),
        ("cpu", {"cuda", "cpu"}, "tensors on cuda.*device='cuda' measures there"),
        ("cuda", {"mps", "cuda"}, "tensors on mps'.* device='mps' measures there"),
        ("cpu", {"xpu", "mps"}, "tensors on mps, xpu"), ("cuda", {"cpu", "xpu"}, "tensors on xpu"),
    ],
)  # fmt: skip
def test_a_gpu_s_work_may_lie_on_the_cpu_too(
    place: str, kinds: set[str], refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [SimpleNamespace(device=SimpleNamespace(type=kind)) for kind in kinds]
    monkeypatch.setattr(elsewhere, "tensors_in", lambda _: held)
    if not refused:
        elsewhere.refuse_elsewhere("measure", place)
        return
    with pytest.raises(ArgumentError, match=refused):
        elsewhere.refuse_elsewhere("measure", place)


def test_no_call_runs_under_a_mode_and_what_is_compiled_stays_compiled() -> None:
    """Under a mode torch runs what is compiled as it is written, and later calls of it too, in some of its versions."""
    ran, modes = list[str](), list[int]()

    def backend(graph: Any, example: Any) -> Any:
        return lambda *given: (ran.append("compiled"), graph.forward(*given))[1]

    fast = torch.compile(lambda x: torch.relu(x) * 2, backend=backend)

    def step() -> torch.Tensor:
        modes.append(torch._C._len_torch_dispatch_stack())
        return fast(torch.ones(8))  # type: ignore[no-any-return]

    step()
    brrr.measure(step, budget_s=PLENTY_S / 10)
    assert len(ran) == len(modes) > 10 and not any(modes)


def test_a_description_lies_nowhere_and_a_long_result_is_not_read_to_its_end() -> None:
    with FakeTensorMode():
        described = torch.ones(8, device="cuda")
    held = described, [torch.ones(1)] * 3, [*map(torch.ones, [1] * MOST), torch.ones(1, device="meta")]
    assert described.device.type == "cuda" and {each.device.type for each in tensors_in(held)} == {"cpu"}
    layer = nn.Linear(8, 8)
    assert brrr.measure(lambda: brrr.cost(layer, torch.ones(2, 8)), budget_s=BUDGET_S).latency_s is not None


def test_what_only_a_module_of_the_function_s_holds_is_not_the_function_s() -> None:
    others = types.ModuleType("others")
    others.x = torch.ones(8, device="meta")  # type: ignore[attr-defined]
    others.relu = torch.relu  # type: ignore[attr-defined]
    x = torch.ones(8)
    assert brrr.measure(lambda: others.relu(x), budget_s=BUDGET_S).latency_s is not None


def test_an_error_comes_as_it_is() -> None:
    def fails() -> None:
        torch.ones(2) + torch.ones(3)

    with pytest.raises(RuntimeError, match="must match"):
        brrr.measure(fails, budget_s=BUDGET_S)


# ----------------------------------------------------------------------------------------------------------------------
# Another maker's GPU, and one too old for its torch


def as_rocm(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.version, "cuda", None)
    return "a first addition on it fails"


def as_too_old(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (6, 1))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA GeForce GTX 1070")
    monkeypatch.setattr(device, "arch_list", lambda torch: ["sm_75", "sm_90", "compute_90"])
    return "CUDA does not work here: .*GTX 1070 has compute capability 6.1, too old for torch"


UNASKED: dict[str, Callable[[], Any]] = {
    **{name: partial(call, lambda: torch.ones(2) + 1) for name, call in CALLS.items() if "CPU" not in name},
    "calibrate": partial(brrr.calibrate, quick=True),
}


@pytest.mark.parametrize("dress", [as_rocm, as_too_old])
@pytest.mark.parametrize("call", ["measure", "measure_together", "trace", "brrr time", "calibrate", "diagnose"])
def test_a_gpu_that_is_not_measured_is_refused_unasked_too(
    call: str, dress: Callable[[pytest.MonkeyPatch], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    why = dress(monkeypatch)
    with pytest.raises(UnavailableError, match=f"device is None, but .*{why}") as caught:
        UNASKED[call]()
    assert "cpu'" in str(caught.value), "it says what to do"
    assert brrr.measure(lambda: torch.ones(2) + 1, device="cpu", budget_s=BUDGET_S).span_s is None


@pytest.mark.parametrize("dress", [as_rocm, as_too_old])
def test_record_refuses_it_too(
    dress: Callable[[pytest.MonkeyPatch], str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    why = dress(monkeypatch)
    assert record.main(["adds", "--plan"]) == 2
    said = capsys.readouterr().err
    assert re.search(why, said) and "`--device cpu`" in said


def test_where_torch_has_no_gpu_the_cpu_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.version, "cuda", None)
    assert device.processor_for("calibrate") == "cpu"
    assert brrr.measure(lambda: torch.ones(2) + 1, budget_s=BUDGET_S).span_s is None


# ----------------------------------------------------------------------------------------------------------------------
# A machine that does not tell how busy it is


def without_proc(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(folder))


def with_an_empty_stat(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "stat").write_text("")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(folder))


def where_it_is_denied(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def denied(*args: Any) -> Any:
        raise psutil.AccessDenied(1)

    for name in ("cpu_times", "virtual_memory", "Process"):
        monkeypatch.setattr(psutil, name, denied)


@pytest.mark.parametrize("hide", [without_proc, with_an_empty_stat, where_it_is_denied])
def test_without_proc_busyness_is_unknown(
    hide: Callable[[pytest.MonkeyPatch, Path], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as hidden:
        hide(hidden, tmp_path)
        before = sampler.cpu_seconds()
        assert not sampler.crowded(before, sampler.cpu_seconds())
        found = brrr.measure(lambda: sorted(range(999)), device="cpu", budget_s=BUDGET_S)
        held, free = gpu.used_bytes("cpu"), gpu.free_bytes("cpu")
    assert found.latency_s is not None and "busy-cpu" not in found.flags
    assert held >= 0 and free > 2**40
