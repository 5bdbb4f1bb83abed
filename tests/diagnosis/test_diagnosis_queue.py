"""Recordings that begin while the device has a queue: what it still does, and what waits for it, is no host's fault."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from brrr.diagnosis.diagnosing import diagnose_trace
from brrr.diagnosis.report import Diagnosis
from brrr.tracing.events import Event
from brrr.tracing.trace_file import broken, left_over

GEMM = "sm90_xmma_gemm_f32f32_tf32f32_f32"
MAKERS = {"cuda": ("cudaLaunchKernel", "cuda_runtime", "NVIDIA H200"),
          "hip": ("hipExtModuleLaunchKernel", "hip_runtime", "AMD Instinct MI300X"),
          "graph": ("cudaGraphLaunch", "cuda_runtime", "NVIDIA H200")}  # fmt: skip

Raw = dict[str, Any]


class Recorded:
    """Steps of products of 240 µs each, which the host issues in a tenth of the time, on one stream or two by turns.

    The device runs `late` µs behind the host; then it may be busy with kernels whose launches nobody recorded.
    """

    def __init__(
        self, late: float, *, steps: int = 3, kernels: int = 40, streams: int = 1, maker: str = "cuda"
    ) -> None:
        self.late, self.kernels, self.streams, self.events = late, kernels, streams, []  # type: float, int, int, list[Raw]
        self.launch, self.category, self.board = MAKERS[maker]
        self.apart, self.length, self.once = 24.0 if maker != "graph" else 0.0, 240.0 * kernels, maker == "graph"
        for step in range(steps):
            self._step(step)

    def _step(self, step: int) -> None:
        began, first = 1000 + self.length * step, 1 + self.kernels * step
        self.add("user_annotation", f"ProfilerStep#{step}", began, self.length, {})
        for each in range(self.kernels):
            now, number = began + self.apart * each, first if self.once else first + each
            if each == 0 or not self.once:
                self.add("cpu_op", "aten::mm", now, 18, {"Input Dims": 2 * [[4096, 4096]], "Input type": 2 * ["float"]})
                self.add(self.category, self.launch, now + 8, 5, {"correlation": number})
            self.kernel(number, began + self.late + 240 * each, 240.0, each)

    def kernel(self, number: int, start: float, took: float, turn: int = 0) -> None:
        where = {"device": 0, "stream": 7 + turn % self.streams, "correlation": number, "grid": [1000, 1, 1]}
        self.add("kernel", GEMM, start, took, where)

    def left(self, share: float = 1.0) -> "Recorded":
        """With what the device still does until its own work begins: for the last part of that time."""
        first, end = int(self.late * (1 - share) / 240), int(self.late / 240)
        for each in range(first, end):
            self.kernel(10_000 + each, 1000 + self.late - 240 * (end - each), 240.0, each)
        return self

    def add(self, category: str, name: str, start: float, took: float, args: Raw) -> None:
        self.events.append({"ph": "X", "cat": category, "name": name, "ts": start, "dur": took, "pid": 1, "tid": 1,
                            "args": args})  # fmt: skip

    def diagnosed(self, folder: Path, marks: bool = True) -> Diagnosis:
        kept = [each for each in self.events if marks or each["cat"] != "user_annotation"]
        board = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": self.board}]}
        path = folder / "trace.json"
        path.write_text(json.dumps({**board, "traceEvents": kept}), encoding="utf-8")
        return diagnose_trace(path)


def overhead(found: Diagnosis) -> float:
    return found.parts.get("overhead", 0.0) / found.step_s


def hosts(found: Diagnosis) -> set[str]:
    return {each.name for each in found.remedies} & {"cuda graph", "larger batch", "no synchronisation"}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("seed", range(4))
def test_what_was_left_over_from_before_is_not_lost(maker: str, seed: int, tmp_path: Path) -> None:
    """Of a part of a step or of several, on one stream or two, with marked steps and without."""
    draw = random.Random(f"{maker} {seed}")
    steps, streams, marks = draw.randint(1, 4), draw.choice([1, 2]), draw.random() < 0.7
    late, share = 240.0 * draw.randint(20, 80), draw.choice([1.0, 0.6])
    drawn = Recorded(late, steps=steps, streams=streams, maker=maker)
    alone = drawn.diagnosed(tmp_path, marks)
    cut = drawn.left(share).diagnosed(tmp_path, marks)
    assert not cut.problems and cut.regime == alone.regime and overhead(cut) < 0.01 and not hosts(cut), cut.details()
    assert cut.regime in ("compute", "unknown") and (cut.regime == "compute" or maker == "hip"), cut.details()
    assert cut.steps == (steps if marks else 1) and any("before the first step" in each for each in cut.notes)


@pytest.mark.parametrize("late", [300.0, 1000.0, 8000.0])
def test_a_launch_that_waits_is_no_idle_time(late: float, tmp_path: Path) -> None:
    found = Recorded(late, steps=1).diagnosed(tmp_path)
    assert found.regime == "compute" and overhead(found) < 0.02 and not hosts(found), found.details()
    assert sum(found.parts.values()) == pytest.approx(found.step_s, rel=1e-6)


@pytest.mark.parametrize("maker", ["cuda", "hip"])
@pytest.mark.parametrize("way", [2.0, 6.0, 40.0])
def test_a_loop_in_which_the_device_waits_is_still_overhead(maker: str, way: float, tmp_path: Path) -> None:
    """Kernels of 4 µs, each `way` behind its launch, of which a few are left over at the beginning."""
    made = Recorded(0.0, steps=0, maker=maker)
    for each in range(200):
        now = 1000 + 60.0 * each
        made.add("cpu_op", "aten::relu", now, 15, {"Input Dims": [[64, 64]], "Input type": ["float"]})
        made.add(made.category, made.launch, now + 8, 4, {"correlation": 1 + each})
        made.kernel(1 + each, now + 8 + way, 4.0)
    for each in range(5):
        made.kernel(1000 + each, 960 + 5.0 * each, 4.0)
    found = made.diagnosed(tmp_path)
    assert found.regime == "overhead" and "cuda graph" in hosts(found) and not found.problems, found.details()
    assert overhead(found) > 0.9


def test_a_gap_in_which_nothing_was_launched_is_the_hosts(tmp_path: Path) -> None:
    """Behind the queue the host does something else for as long as the device has worked."""
    made = Recorded(4000.0, steps=1)
    end = 1000 + 4000.0 + made.length
    made.add("cpu_op", "aten::mm", 2 * end, 18, {"Input Dims": 2 * [[4096, 4096]], "Input type": 2 * ["float"]})
    made.add(made.category, made.launch, 2 * end + 8, 5, {"correlation": 500})
    made.kernel(500, 2 * end + 14, 240.0)
    found = made.diagnosed(tmp_path, marks=False)
    assert found.parts["overhead"] == pytest.approx(end * 1e-6, rel=0.01) and found.regime == "overhead"


def test_what_was_launched_before_the_marked_steps_is_no_work_of_theirs(tmp_path: Path) -> None:
    """Three steps are recorded, and the last one marked: a step more is in the queue than the device has done."""
    made = Recorded(9600.0)
    made.events = [each for each in made.events if each["name"] not in ("ProfilerStep#0", "ProfilerStep#1")]
    found = made.diagnosed(tmp_path)
    (line,) = found.operators
    assert (line.calls, found.regime) == (40, "compute") and overhead(found) < 0.01, found.details()


# ---- what is lost in the middle is lost ----------------------------------------------------------------------------


def of_launches(count: int, lost: range, rest_ns: int, streams: int = 1) -> list[Event]:
    """Kernels of 10 µs with a rest behind each, and their launches but for the lost ones."""
    found = []
    for each in range(count):
        now = (10_000 + rest_ns) * each
        if each not in lost:
            found.append(Event("cudaLaunchKernel", "runtime", now - 9_000, now - 6_000, correlation=1 + each))
        found.append(Event("k", "kernel", now, now + 10_000, stream=each % streams, correlation=1 + each))
    return sorted(found, key=lambda each: each.start_ns)


@pytest.mark.parametrize("streams", [1, 2])
def test_launches_that_are_lost_in_the_middle_break_a_trace(streams: int) -> None:
    draw = random.Random(streams)
    for _ in range(20):
        first = draw.randrange(2, 60)
        events = of_launches(100, range(first, first + draw.randrange(30, 40)), draw.choice([0, 20_000]), streams)
        assert any("has no launch" in each for each in broken(events)) and not left_over(events)


def test_a_device_that_rests_has_no_queue() -> None:
    """The launches of the first third are missing: it is left over where the device goes from one to the next."""
    without_rest, with_rest = (of_launches(90, range(30), rest_ns) for rest_ns in (1_000, 40_000))
    assert not broken(without_rest) and len(left_over(without_rest)) == 30
    assert "33% of the device's work has no launch" in broken(with_rest)[0] and not left_over(with_rest)
