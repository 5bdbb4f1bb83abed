"""A GPU that is played, on a clock that is played: a stream, its queue, events, profiler, graphs, the probe's kernels.

What a kernel takes is known to the nanosecond, so what `measure` finds can be held against the truth, without a GPU.
"""

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from played_clock import Clock

from brrr.gpu import probe
from brrr.timing import calibration, device_times, gate, graph_times

CAPTURE = "CUDA refused: a capture is under way"
STREAM, RELAXED = 7, 2
"""Torch's stream as the driver knows it, and a mode of capturing."""
KEPT = (
    gate.gate_of, gate.eviction_of, calibration.calibration, calibration._settled_yardstick, graph_times.side_stream,
)  # fmt: skip
"""What is kept for the process."""


@dataclass
class Event:
    """An event of torch's, in nanoseconds of the device."""

    gpu: "Gpu"
    at_ns: float = 0.0

    def record(self) -> None:
        self.gpu.enqueue("event", self)

    def elapsed_time(self, other: "Event") -> float:
        return (other.at_ns - self.at_ns) * 1e-6


@dataclass
class Work:
    """A kernel or a copy: its name and how long it takes, more behind an emptied cache."""

    name: str
    seconds: float
    cold_s: float
    kind: str = "KERNEL"


@dataclass
class Gpu:
    """The device; times in seconds. A stream's kernels lie `gap_s` apart, a graph's `graph_gap_s`."""

    clock: Clock
    issue_s: float = 2e-6
    lead_s: float = 0.8e-6
    """From an event to the start of the kernel behind it; `cold_lead_s` more behind an emptied cache."""
    cold_lead_s: float = 0.5e-6
    drain_s: float = 0.4e-6
    """From a kernel's end to the event behind it."""
    gap_s: float = 1.1e-6
    graph_gap_s: float = 0.26e-6
    first_graphs: int = 0
    """So many graphs of a process run with gaps of `first_graphs_gap_s`."""
    first_graphs_gap_s: float = 0.09e-6
    depth: int = 1020
    clock_hz: float = 1.98e9
    yardstick_s: float = calibration.ASSUMED_OWN_S["hot"]
    cold_yardstick_s: float = calibration.ASSUMED_OWN_S["cold"]
    profiles: bool = True
    profiled: float = 1.0
    """So many times as long all takes under the profiler."""
    empty_sessions: int = 0
    """So many of the profiler's sessions find nothing, as one does while the last is still detaching."""
    power_w: float | None = 500.0
    processes: int | None = 1
    reasons: frozenset[str] = frozenset()
    highest_hz: float | None = 1.98e9
    free_ns: float = 0.0
    pending: list[tuple[str, Any, int]] = field(default_factory=list)
    session: list[Any] | None = None
    host_calls: list[str] = field(default_factory=list)
    capturing: list[Work] | None = None
    spoiled: bool = False
    graphs: int = 0
    evicted: bool = False
    evictions: int = 0
    behind: str = "event"
    alive: int = 0
    """Graphs that were made and not destroyed."""
    launched: list[tuple[Any, ...]] = field(default_factory=list)
    """The probe's kernels: name, grid, block, arguments."""

    # -- what a test's function does ----------------------------------------------------------------------------------

    def kernel(self, seconds: float, name: str = "work", cold_s: float | None = None, kind: str = "KERNEL") -> None:
        """Launch a kernel that takes so long."""
        self.enqueue("work", Work(name, seconds, 1.5 * seconds if cold_s is None else cold_s, kind))

    def copy(self, seconds: float) -> None:
        """Launch a copy."""
        self.kernel(seconds, "Memcpy DtoD", kind="MEMCPY")

    def synchronize(self) -> None:
        """Wait for all that was issued."""
        if self.capturing is not None:
            self.spoiled = True
            raise RuntimeError(CAPTURE)
        if self.session is not None:
            self.host_calls.append("cudaStreamSynchronize")
        self._run()
        self.clock.now_ns = max(self.clock.now_ns, round(self.free_ns))

    # -- the stream ---------------------------------------------------------------------------------------------------

    def enqueue(self, kind: str, what: Any) -> None:
        if kind != "event":
            self.clock.go_on(self.issue_s)
        if self.capturing is not None:
            if kind == "work":
                self.capturing.append(what)
            return
        self.pending.append((kind, what, self.clock.now_ns))
        if sum(each[0] != "event" for each in self.pending) > self.depth:
            self._run()  # the queue is full: the launch waits for room, and the gate for the host
            self.clock.now_ns = max(self.clock.now_ns, round(self.free_ns))

    def _run(self) -> None:
        pending, self.pending = self.pending, []
        for kind, what, issued_ns in pending:
            self.free_ns = max(self.free_ns, issued_ns)
            getattr(self, f"_{kind}")(what)

    def _event(self, event: Event) -> None:
        self.free_ns += self.drain_s * 1e9 * (self.behind != "event")
        event.at_ns, self.behind = self.free_ns, "event"

    def _work(self, work: Work) -> None:
        lead_s = self.lead_s if self.behind == "event" else self.gap_s
        self._take(work, lead_s + self.cold_lead_s * self.evicted)

    def _take(self, work: Work, lead_s: float) -> None:
        start = self.free_ns + lead_s * 1e9
        self.free_ns = start + (work.cold_s if self.evicted else work.seconds) * 1e9
        self._note(work.name, start)
        self.behind, self.evicted = "work", work.name.startswith("brrr_marker") and self.evicted

    def _note(self, name: str, start: float) -> None:
        if self.session is not None:
            self.session.append((name, round(self.profiled * start), round(self.profiled * self.free_ns)))

    def _graph(self, graph: tuple[list[Work], float]) -> None:
        works, gap_s = graph
        for at, work in enumerate(works):
            self._take(work, gap_s if at else self.lead_s)

    def _gate(self, args: tuple[int, int, int, int]) -> None:
        opened, gave_up, ticket, timeout_ns = args
        start = self.free_ns
        read = ctypes.c_uint32.from_address(opened).value
        late = read < ticket or self.clock.now_ns - start > timeout_ns
        if late:
            ctypes.c_uint32.from_address(gave_up).value = ticket
        self.free_ns = start + timeout_ns if late else max(start, self.clock.now_ns)
        self._note("brrr_gate", start)
        self.behind = "work"

    def _evict(self, _: Any) -> None:
        self._note("brrr_evict_write", self.free_ns)
        self.free_ns += 1e4
        self.behind, self.evicted = "work", True
        self.evictions += 1

    # -- what brrr.timing asks for ------------------------------------------------------------------------------------

    def probe_kernel(self, name: str) -> Callable[..., None]:
        def launch(grid: Any, block: Any, *args: tuple[Any, Any]) -> None:
            values = tuple(value for value, _ in args)
            self.launched.append((name, grid, block, values))
            if name == "brrr_gate":
                self.enqueue("gate", values)
            elif name == "brrr_evict_read":
                self.enqueue("evict", values)
            elif name == "brrr_spin":
                start = self.clock.now_ns
                out = (ctypes.c_int64 * 3).from_address(values[1])
                out[:] = start, start + values[0], round(values[0] * 1e-9 * self.clock_hz)
                self.clock.go_on(values[0] * 1e-9)
            elif name == "brrr_yardstick":
                self.kernel(self.yardstick_s, name, self.cold_yardstick_s)
            elif name == "brrr_marker":
                self.kernel(0.0, name, 0.0)

        return launch

    def profile(self, **_: Any) -> Any:
        """As torch.profiler.profile."""
        gpu = self

        class Session:
            def __enter__(self) -> Any:
                if not gpu.profiles:
                    raise RuntimeError("CUPTI is forbidden here\nand more")
                gpu.session, gpu.host_calls = [], []
                return self

            def __exit__(self, *_: object) -> None:
                found, gpu.session = gpu.session or [], None
                if gpu.empty_sessions:
                    gpu.empty_sessions, found = gpu.empty_sessions - 1, []
                events = [played_event("CUDA", *each) for each in found]
                events += [played_event("CPU", name, 0, 1) for name in gpu.host_calls]
                self.profiler = SimpleNamespace(kineto_results=SimpleNamespace(events=lambda: events))

        return Session()

    @contextmanager
    def on_stream(self, _: Any) -> Iterator[None]:
        """As torch.cuda.stream: there is one."""
        yield

    def capture(self, stream: int, mode: int) -> tuple[int]:
        assert (stream, mode) == (STREAM, RELAXED)
        self.synchronize()
        self.capturing = []
        return (0,)

    def captured(self, stream: int) -> tuple[int, list[Work]]:
        assert stream == STREAM
        found, self.capturing = self.capturing or [], None
        if self.spoiled:
            self.spoiled = False
            return 900, []
        self.alive += 1
        return 0, found

    def instantiate(self, works: list[Work], _: int) -> tuple[int, Any]:
        self.graphs, self.alive = self.graphs + 1, self.alive + 1
        return 0, (works, self.first_graphs_gap_s if self.graphs <= self.first_graphs else self.graph_gap_s)

    def launch_graph(self, graph: Any, stream: int) -> tuple[int]:
        assert stream == STREAM
        self.enqueue("graph", graph)
        return (0,)

    def destroy(self, _: Any) -> tuple[int]:
        self.alive -= 1
        return (0,)

    def driver(self) -> Any:
        """As cuda.bindings.driver, as far as graphs go."""
        kind = lambda node: SimpleNamespace(name=f"CU_GRAPH_NODE_TYPE_{node.kind}")  # noqa: E731
        return SimpleNamespace(
            CUstreamCaptureMode=SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=RELAXED),
            cuStreamBeginCapture=self.capture,
            cuStreamEndCapture=self.captured,
            cuGraphGetNodes=lambda graph, count: (0, graph[:count], len(graph)),
            cuGraphNodeGetType=lambda node: (0, kind(node)),
            cuGraphInstantiate=self.instantiate,
            cuGraphLaunch=self.launch_graph,
            cuGraphExecDestroy=self.destroy,
            cuGraphDestroy=self.destroy,
        )


def played_event(device: str, name: str, start: int, end: int, correlation: int = 1) -> Any:
    """An event as the profiler tells it."""
    told = {"device_type": device, "name": name, "start_ns": start, "duration_ns": end - start,
            "correlation_id": correlation, "device_resource_id": 7}  # fmt: skip
    return SimpleNamespace(**{key: lambda value=value: value for key, value in told.items()})


def play_gpu(gpu: Gpu, patch: pytest.MonkeyPatch) -> Gpu:
    """Torch and brrr see this GPU from now on."""
    stream = SimpleNamespace(synchronize=gpu.synchronize, cuda_stream=STREAM, wait_stream=lambda other: None)
    zeros = torch.zeros
    for name, found in {
        "is_available": lambda: True, "current_device": lambda: 0, "current_stream": lambda: stream,
        "Event": lambda **_: Event(gpu), "Stream": lambda _: stream,
        "stream": gpu.on_stream, "memory_allocated": lambda: 0, "memory_reserved": lambda: 0,
        "mem_get_info": lambda: (1 << 36, 1 << 37),
        "get_device_properties": lambda *_: SimpleNamespace(multi_processor_count=132, L2_cache_size=50_000),
    }.items():  # fmt: skip
        patch.setattr(torch.cuda, name, found)
    for name, found in {"synchronize": lambda _=0: gpu.synchronize(), "current_device_index": lambda: 0}.items():
        patch.setattr(torch.accelerator, name, found)
    patch.setattr(torch, "zeros", lambda *size, dtype=None, **_: zeros(*size, dtype=dtype))
    patch.setattr(torch.profiler, "profile", gpu.profile)
    patch.setattr(torch._C._autograd, "DeviceType", SimpleNamespace(CUDA="CUDA"))
    patch.setattr("brrr.gpu.device.cuda_problem", lambda: None)
    patch.setattr("brrr.gpu.device.this_device", lambda *_: SimpleNamespace(name="a played GPU"))
    for module in (gate, calibration):
        patch.setattr(module, "probe_kernel", gpu.probe_kernel)
    for name, found in {
        "power_w": lambda: gpu.power_w, "compute_processes": lambda: gpu.processes,
        "max_sm_clock_hz": lambda: gpu.highest_hz, "throttle_reasons": lambda: gpu.reasons,
    }.items():  # fmt: skip
        patch.setattr(probe, name, found)
    bindings = ModuleType("cuda.bindings")
    bindings.driver = gpu.driver()  # type: ignore[attr-defined]
    patch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    patch.setitem(sys.modules, "cuda.bindings", bindings)
    assert device_times.probe is probe
    forget()
    return gpu


def forget() -> None:
    """What was kept for the process is another device's."""
    for each in KEPT:
        each.cache_clear()
