"""The played accelerator itself: it computes what the CPU does, and its work ends when it is said to."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from tests.on_played import ROOT, environment, there
from tests.played_clock import Clock


@contextmanager
def played(**settings: Any) -> Iterator[tuple[Any, Any, Clock]]:
    """Torch, the device with these settings, and the clock that both it and this test look at."""
    import torch

    from tests import played

    with patch.object(played, "time", Clock(1e-6)) as clock, played.as_new(**settings) as device:
        clock.go_on(1.0)
        yield torch, device, clock


@there
def test_a_call_returns_before_its_work_ends() -> None:
    with played(launch_s=5.0) as (torch, _, clock):
        x = torch.zeros(3, device="played").add(1)  # zeros fills: two calls that take time
        assert clock.now_ns < 1.1e9 and not torch.accelerator.current_stream().query()
        torch.accelerator.synchronize()
        assert 11.0e9 <= clock.now_ns < 11.1e9 and torch.accelerator.current_stream().query()
        assert x.sum().item() == 3.0 and clock.now_ns >= 16.0e9
        x.to("cpu", non_blocking=True)
        assert clock.now_ns < 22e9
        x.cpu()
        assert clock.now_ns > 31e9


@there
def test_arithmetic_and_bytes_take_their_time() -> None:
    with played(launch_s=0.0, bytes_per_s=1e3, flop_per_s=1e9) as (torch, _, _):
        events = [torch.Event(enable_timing=True) for _ in range(3)]
        a, out = torch.empty(10, 20, device="played"), torch.empty(10, 10, device="played")
        events[0].record()
        torch.mm(a, a.t(), out=out)
        events[1].record()
        torch.accelerator.synchronize()
        assert events[0].elapsed_time(events[1]) == pytest.approx(2000.0, rel=0.01)  # two operands' bytes and result's
        with patch.object(torch.played.DEVICE, "flop_per_s", 1e3):
            events[1].record()
            torch.mm(a, a.t(), out=out)
            events[2].record()
        with pytest.raises(RuntimeError, match="completed"):
            events[1].elapsed_time(events[2])
        events[2].synchronize()
        assert events[1].elapsed_time(events[2]) == pytest.approx(4000.0, rel=0.01)  # 2·10·20·10 operations


@there
def test_streams_overlap_unless_one_waits() -> None:
    with played(launch_s=5.0) as (torch, _, clock):
        first, second = torch.Stream("played"), torch.Stream("played")
        x = torch.empty(3, device="played")
        for stream in (first, second):
            with stream:
                assert torch.accelerator.current_stream() == stream
                x.add(1)
        torch.accelerator.synchronize()
        assert clock.now_ns < 6.1e9
        with first:
            x.add(1)
        second.wait_stream(first)
        with second:
            x.add(1)
        first.synchronize()
        assert clock.now_ns < 11.1e9
        second.synchronize()
        assert 16e9 <= clock.now_ns < 16.1e9


@there
def test_memory_ends() -> None:
    import torch

    with played(memory_bytes=torch.accelerator.memory_allocated() + 1000):
        held = torch.ones(200, device="played")
        assert torch.accelerator.get_memory_info()[0] == torch.played.mem_get_info()[0] == 200
        more = (held.exp, held.nonzero, lambda: torch.empty(2**50, device="played"))  # the last is no CPU's either
        for too_large in more:
            with pytest.raises(torch.OutOfMemoryError, match="played out of memory"):
                too_large()
        del held, too_large, more
        assert torch.accelerator.get_memory_info()[0] == 1000
        assert torch.accelerator.max_memory_allocated() >= torch.accelerator.memory_allocated() + 800


def change_views(torch: Any, x: Any) -> Any:
    x = x.detach().clone()
    x.transpose(0, 1)[1:, 0].mul_(2)
    x[0].copy_(x[1].expand(2, 4, 5)[0])
    x[x > 0.5] = 0.0
    return x.reshape(-1)[3:17].flip(0)


def recur(torch: Any, x: Any) -> Any:
    torch.manual_seed(1)
    layer = torch.nn.LSTM(5, 3, 2).to(x.device)
    layer(x)[0].square().sum().backward()
    return torch.cat([x.grad, layer(x)[0].repeat(1, 1, 2)[:, :, :5].detach()])


@pytest.mark.parametrize("program", [change_views, recur])
@there
def test_results_are_the_cpu_s(program: Callable[..., Any]) -> None:
    import torch

    x = torch.randn(2, 4, 5)
    own, cpu = (program(torch, x.to(device).requires_grad_()) for device in ("played", "cpu"))
    assert own.device.type == "played"
    torch.testing.assert_close(own.cpu(), cpu)


@there
def test_events_go_wrong() -> None:
    for fault, sign in (("negative events", -1), ("zero events", 0)):
        with played(faults={fault}) as (torch, _, _):
            start, end = (torch.Event(enable_timing=True) for _ in range(2))
            start.record()
            torch.zeros(3, device="played")
            end.record()
            end.synchronize()
            assert (start.elapsed_time(end) > 0) - (start.elapsed_time(end) < 0) == sign


@there
def test_what_is_not_there_raises() -> None:
    import torch

    for fault, calls in {
        "failing": [torch.accelerator.synchronize, torch.zeros(1, device="played").item],
        "no streams": [torch.accelerator.current_stream, lambda: torch.Stream("played")],
        "no memory": [torch.accelerator.get_memory_info, torch.played.mem_get_info],
        "no events": [lambda: torch.Event("played").elapsed_time(torch.Event("played"))],
    }.items():
        with played(faults={fault}):
            for call in calls:
                with pytest.raises((RuntimeError, NotImplementedError), match="played: "):
                    call()


@there
def is_wrong() -> None:
    import torch

    assert torch.zeros(1, device="played"), "nothing"


def test_a_failure_there_is_one_here() -> None:
    with pytest.raises(AssertionError, match="nothing"):
        is_wrong()


def test_a_program_has_it_and_what_it_starts() -> None:
    asks = "import torch; print(torch.accelerator.current_accelerator(), flush=True); torch.accelerator.synchronize()"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {asks!r}])"
    command, faulty = [sys.executable, str(ROOT / "tests" / "on_played.py"), "-c", starts], environment("failing")
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=faulty)
    assert ran.stdout == "played\n" and "played: what waits raises" in ran.stderr
