"""What of CUDA Graph capture can be said without a GPU: its refusals."""

import sys
import warnings
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from brrr.core.errors import CaptureError, UnavailableError
from brrr.running import graphs
from brrr.running.graphs import _refusal, capture
from brrr.timing.graph_times import raw_capture
from tests.refusals import refused


@pytest.mark.skipif(torch.cuda.is_available(), reason="the message for a machine without a GPU")
def test_without_a_gpu_it_says_what_is_shown_instead() -> None:
    with pytest.raises(UnavailableError, match=r"needs an NVIDIA GPU.*recordings"):
        capture(lambda: None)


@pytest.mark.parametrize(("arguments", "options", "argument"), [
    ((3,), {}, "fn"), ((torch.relu, torch.ones(2)), {}, "inputs[0]"), ((torch.relu, [1.0]), {}, "inputs[0]"),
    ((torch.relu,), {"warmup": 0}, "warmup"), ((torch.relu,), {"warmup": True}, "warmup"),
])  # fmt: skip
def test_arguments_that_cannot_be_used_are_named(arguments: Any, options: Any, argument: str) -> None:
    with refused(argument):
        capture(*arguments, **options)


@pytest.mark.parametrize(
    ("torch_says", "we_say"),
    [
        ("called a synchronizing CUDA operation", "waits for the GPU"),
        ("CUDA error: operation not permitted when stream is capturing", "waits for the GPU"),
        ("Offset increment outside graph capture encountered unexpectedly.", "random numbers"),
        ("CUDA out of memory.", "memory does not suffice"),
        ("something else altogether", "something else altogether"),
    ],
)
def test_a_refusal_says_why_and_keeps_the_first_words(torch_says: str, we_say: str) -> None:
    error = _refusal(torch.relu, RuntimeError(torch_says + "\nmore lines"))
    assert isinstance(error, CaptureError)
    assert we_say in str(error) and torch_says in str(error) and "more lines" not in str(error)
    assert "relu" in str(error)


class Driver:
    """A driver that notes which captures begin and end; `refuses` is the status of the end."""

    def __init__(self, refuses: int = 0) -> None:
        self.asked: list[str] = []
        self.refuses = refuses
        self.CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)

    def cuStreamBeginCapture(self, stream: int, mode: int) -> tuple[int]:
        self.asked.append(f"begin {stream}")
        return (0,)

    def cuStreamEndCapture(self, stream: int) -> tuple[int, str]:
        self.asked.append(f"end {stream}")
        return self.refuses, "the graph"


def _with(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    bindings = ModuleType("cuda.bindings")
    bindings.driver = driver  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    return SimpleNamespace(cuda_stream=7)


def test_a_capture_ends_whatever_happens_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    fine, broken, refusing = Driver(), Driver(), Driver(refuses=901)
    with raw_capture(_with(fine, monkeypatch)) as ended:
        assert ended == []
    assert ended == ["the graph"]
    with pytest.raises(ZeroDivisionError), raw_capture(_with(broken, monkeypatch)):
        raise ZeroDivisionError
    with pytest.raises(UnavailableError, match="CUDA refused the capture"), raw_capture(_with(refusing, monkeypatch)):
        pass
    assert all(each.asked == ["begin 7", "end 7"] for each in (fine, broken, refusing))


def test_torch_s_notice_of_its_own_check_is_kept_quiet_and_the_function_s_warnings_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modes: list[Any] = []

    def set_mode(mode: Any) -> None:
        warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=2)
        modes.append(mode)

    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: set_mode(mode) if not modes else None)
    monkeypatch.setattr(graphs, "_nodes_of", lambda call: 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graphs._rehearse(lambda: warnings.warn("mine", stacklevel=1), ())
    assert modes == ["error"] and [str(each.message) for each in caught] == ["mine"]
